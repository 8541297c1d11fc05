; A normal variable: 8 bits choose the layer, one the sign, 23 the point.
define internal { i32, i32, float } @${NAME}.point(i32 %half, ptr %tables) alwaysinline {
  %layer = and i32 %half, 255
  %sign.bit = shl i32 %half, 23
  %sign = and i32 %sign.bit, -2147483648
  %position = lshr i32 %half, 9
  %whole = sitofp i32 %position to float
  %unit.at = getelementptr [256 x float], ptr %tables, i64 1, i32 %layer
  %unit = load float, ptr %unit.at
  %size = fmul float %whole, %unit
  %size.bits = bitcast float %size to i32
  %value.bits = xor i32 %size.bits, %sign
  %value = bitcast i32 %value.bits to float
  %result.0 = insertvalue { i32, i32, float } poison, i32 %layer, 0
  %result.1 = insertvalue { i32, i32, float } %result.0, i32 %position, 1
  %result = insertvalue { i32, i32, float } %result.1, float %value, 2
  ret { i32, i32, float } %result
}

; Returns whether a point lies below the density exp(-x * x / 2), which NumPy computes in float64.
define internal i1 @${NAME}.below(float %point, float %x) alwaysinline {
  %wide = fpext float %x to double
  %half = fmul double %wide, -0.5
  %exponent = fmul double %half, %wide
  %density = call double @exp(double %exponent)
  %point.wide = fpext float %point to double
  %below = fcmp olt double %point.wide, %density
  ret i1 %below
}

; Marsaglia 1964, "Generating a variable from the tail of the normal distribution".
define internal { float, i64 } @${NAME}.tail(ptr %bits, i128 %state, i128 %increment, i64 %first, i32 %position) {
entry:
  br label %try
try:
  %index = phi i64 [ %first, %entry ], [ %index.next, %try ]
  %one = call float @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %index)
  %second = add i64 %index, 1
  %other = call float @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %second)
  %index.next = add i64 %index, 2
  %one.less = fneg float %one
  %one.log = call float @log1pf(float %one.less)
  %x = fmul float %one.log, ${NEGATIVE_INVERSE}
  %other.less = fneg float %other
  %other.log = call float @log1pf(float %other.less)
  %y = fneg float %other.log
  %twice = fadd float %y, %y
  %square = fmul float %x, %x
  %inside = fcmp ogt float %twice, %square
  br i1 %inside, label %done, label %try
done:
  %value = fadd float %x, ${START}
  %side = and i32 %position, 256
  %positive = icmp eq i32 %side, 0
  %opposite = fneg float %value
  %signed = select i1 %positive, float %value, float %opposite
  %result.0 = insertvalue { float, i64 } poison, float %signed, 0
  %result = insertvalue { float, i64 } %result.0, i64 %index.next, 1
  ret { float, i64 } %result
}
