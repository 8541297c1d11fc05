; A float64 in (0, 1) of 53 bits. A word that gives 0 is rejected.
define internal { double, i1 } @${NAME}.element(i64 %word, i64 %most, i64 %low, i64 %threshold) alwaysinline {
  %unit = call double @unit(i64 %word)
  %rejects = fcmp oeq double %unit, 0.0
  %result.0 = insertvalue { double, i1 } poison, double %unit, 0
  %result = insertvalue { double, i1 } %result.0, i1 %rejects, 1
  ret { double, i1 } %result
}
