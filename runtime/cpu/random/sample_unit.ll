define internal { double, i128, i64 } @sample(i128 %state, i128 %increment, ptr %tables) alwaysinline {
  %next = call i128 @step(i128 %state, i128 %increment)
  %bits = call i64 @output(i128 %next)
  %unit = call double @unit(i64 %bits)
  %result.0 = insertvalue { double, i128, i64 } poison, double %unit, 0
  %result.1 = insertvalue { double, i128, i64 } %result.0, i128 %next, 1
  %result = insertvalue { double, i128, i64 } %result.1, i64 1, 2
  ret { double, i128, i64 } %result
}
