; A normal variable: 8 bits choose the layer, one the sign, 52 the point. Its density is exp(-x * x / 2).
define internal { i64, i64, double } @${NAME}.point(i64 %bits, ptr %tables) alwaysinline {
  %layer = and i64 %bits, 255
  %sign.bit = shl i64 %bits, 55
  %sign = and i64 %sign.bit, -9223372036854775808
  %upper = lshr i64 %bits, 9
  %position = and i64 %upper, 4503599627370495
  %whole = sitofp i64 %position to double
  %unit.at = getelementptr [256 x double], ptr %tables, i64 1, i64 %layer
  %unit = load double, ptr %unit.at
  %size = fmul double %whole, %unit
  %size.bits = bitcast double %size to i64
  %value.bits = xor i64 %size.bits, %sign
  %value = bitcast i64 %value.bits to double
  %result.0 = insertvalue { i64, i64, double } poison, i64 %layer, 0
  %result.1 = insertvalue { i64, i64, double } %result.0, i64 %position, 1
  %result = insertvalue { i64, i64, double } %result.1, double %value, 2
  ret { i64, i64, double } %result
}

define internal double @${NAME}.density(double %x) alwaysinline {
  %half = fmul double %x, -0.5
  %exponent = fmul double %half, %x
  %density = call double @exp(double %exponent)
  ret double %density
}

; Marsaglia 1964, "Generating a variable from the tail of the normal distribution".
define internal { double, i128, i64 } @${NAME}.tail(i128 %first, i128 %increment, i64 %position) {
entry:
  br label %try
try:
  %state = phi i128 [ %first, %entry ], [ %after, %try ]
  %steps = phi i64 [ 0, %entry ], [ %steps.next, %try ]
  %next = call i128 @step(i128 %state, i128 %increment)
  %bits = call i64 @output(i128 %next, i128 %increment)
  %one = call double @unit(i64 %bits)
  %after = call i128 @step(i128 %next, i128 %increment)
  %after.bits = call i64 @output(i128 %after, i128 %increment)
  %other = call double @unit(i64 %after.bits)
  %steps.next = add i64 %steps, 2
  %one.less = fneg double %one
  %one.log = call double @log1p(double %one.less)
  %x = fmul double %one.log, ${NEGATIVE_INVERSE}
  %other.less = fneg double %other
  %other.log = call double @log1p(double %other.less)
  %y = fneg double %other.log
  %twice = fadd double %y, %y
  %square = fmul double %x, %x
  %inside = fcmp ogt double %twice, %square
  br i1 %inside, label %done, label %try
done:
  %value = fadd double %x, ${START}
  %side = and i64 %position, 256
  %positive = icmp eq i64 %side, 0
  %opposite = fneg double %value
  %signed = select i1 %positive, double %value, double %opposite
  %result.0 = insertvalue { double, i128, i64 } poison, double %signed, 0
  %result.1 = insertvalue { double, i128, i64 } %result.0, i128 %after, 1
  %result = insertvalue { double, i128, i64 } %result.1, i64 %steps.next, 2
  ret { double, i128, i64 } %result
}

; Returns whether the point of output %k lies inside its layer. A limit is compared with all bits from the position on.
define internal i1 @${NAME}.inside(ptr %outputs, i64 %k, ptr %limits) alwaysinline {
  %bits = call i64 @integer_at(ptr %outputs, i64 %k)
  %layer = and i64 %bits, 255
  %limit = call i64 @integer_at(ptr %limits, i64 %layer)
  %position = shl i64 %bits, 3
  %inside = icmp ult i64 %position, %limit
  ret i1 %inside
}
