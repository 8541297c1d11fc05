; An exponential variable: 3 bits are not used, 8 choose the layer, 53 the point. Its density is exp(-x).
define internal { i64, i64, double } @${NAME}.point(i64 %bits, ptr %tables) alwaysinline {
  %middle = lshr i64 %bits, 3
  %layer = and i64 %middle, 255
  %position = lshr i64 %bits, 11
  %whole = sitofp i64 %position to double
  %unit.at = getelementptr [256 x double], ptr %tables, i64 1, i64 %layer
  %unit = load double, ptr %unit.at
  %value = fmul double %whole, %unit
  %result.0 = insertvalue { i64, i64, double } poison, i64 %layer, 0
  %result.1 = insertvalue { i64, i64, double } %result.0, i64 %position, 1
  %result = insertvalue { i64, i64, double } %result.1, double %value, 2
  ret { i64, i64, double } %result
}

define internal double @${NAME}.density(double %x) alwaysinline {
  %exponent = fneg double %x
  %density = call double @exp(double %exponent)
  ret double %density
}

; The tail is an exponential variable that begins there.
define internal { double, i128, i64 } @${NAME}.tail(i128 %first, i128 %increment, i64 %position) {
  %next = call i128 @step(i128 %first, i128 %increment)
  %bits = call i64 @output(i128 %next, i128 %increment)
  %unit = call double @unit(i64 %bits)
  %less = fneg double %unit
  %log = call double @log1p(double %less)
  %value = fsub double ${START}, %log
  %result.0 = insertvalue { double, i128, i64 } poison, double %value, 0
  %result.1 = insertvalue { double, i128, i64 } %result.0, i128 %next, 1
  %result = insertvalue { double, i128, i64 } %result.1, i64 1, 2
  ret { double, i128, i64 } %result
}

; Returns whether the point of output %k lies inside its layer. A limit is compared with all bits from the position on.
define internal i1 @${NAME}.inside(ptr %outputs, i64 %k, ptr %limits) alwaysinline {
  %bits = call i64 @integer_at(ptr %outputs, i64 %k)
  %middle = lshr i64 %bits, 3
  %layer = and i64 %middle, 255
  %limit = call i64 @integer_at(ptr %limits, i64 %layer)
  %inside = icmp ult i64 %bits, %limit
  ret i1 %inside
}
