; A normal variable: 8 bits choose the layer, one the sign, 52 or 23 the point.
define internal { ${WORD}, ${WORD}, ${TYPE} } @${NAME}.point(${WORD} %word, ptr %tables) alwaysinline {
  %layer = and ${WORD} %word, 255
  %sign.bit = shl ${WORD} %word, ${SIGN_SHIFT}
  %sign = and ${WORD} %sign.bit, ${SIGN}
  %upper = lshr ${WORD} %word, 9
  %position = and ${WORD} %upper, ${POSITION}
  %whole = sitofp ${WORD} %position to ${TYPE}
  %unit.at = getelementptr [256 x ${TYPE}], ptr %tables, i64 1, ${WORD} %layer
  %unit = load ${TYPE}, ptr %unit.at
  %size = fmul ${TYPE} %whole, %unit
  %size.bits = bitcast ${TYPE} %size to ${WORD}
  %value.bits = xor ${WORD} %size.bits, %sign
  %value = bitcast ${WORD} %value.bits to ${TYPE}
  %result.0 = insertvalue { ${WORD}, ${WORD}, ${TYPE} } poison, ${WORD} %layer, 0
  %result.1 = insertvalue { ${WORD}, ${WORD}, ${TYPE} } %result.0, ${WORD} %position, 1
  %result = insertvalue { ${WORD}, ${WORD}, ${TYPE} } %result.1, ${TYPE} %value, 2
  ret { ${WORD}, ${WORD}, ${TYPE} } %result
}

; Returns whether a point lies below the density exp(-x * x / 2), which NumPy computes in float64.
define internal i1 @${NAME}.below(${TYPE} %point, ${TYPE} %x) alwaysinline {
  %wide = ${WIDE_X}
  %half = fmul double %wide, -0.5
  %exponent = fmul double %half, %wide
  %density = call double @exp(double %exponent)
  %point.wide = ${WIDE_POINT}
  %below = fcmp olt double %point.wide, %density
  ret i1 %below
}

; Marsaglia 1964, "Generating a variable from the tail of the normal distribution".
define internal { ${TYPE}, i64 } @${NAME}.tail(ptr %bits, i128 %state, i128 %increment, i64 %first, ${WORD} %position) {
entry:
  br label %try
try:
  %index = phi i64 [ %first, %entry ], [ %index.next, %try ]
  %one = call ${TYPE} @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %index)
  %second = add i64 %index, 1
  %other = call ${TYPE} @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %second)
  %index.next = add i64 %index, 2
  %one.less = fneg ${TYPE} %one
  %one.log = call ${TYPE} @log1p${SUFFIX}(${TYPE} %one.less)
  %x = fmul ${TYPE} %one.log, ${NEGATIVE_INVERSE}
  %other.less = fneg ${TYPE} %other
  %other.log = call ${TYPE} @log1p${SUFFIX}(${TYPE} %other.less)
  %y = fneg ${TYPE} %other.log
  %twice = fadd ${TYPE} %y, %y
  %square = fmul ${TYPE} %x, %x
  %inside = fcmp ogt ${TYPE} %twice, %square
  br i1 %inside, label %done, label %try
done:
  %value = fadd ${TYPE} %x, ${START}
  %side = and ${WORD} %position, 256
  %positive = icmp eq ${WORD} %side, 0
  %opposite = fneg ${TYPE} %value
  %signed = select i1 %positive, ${TYPE} %value, ${TYPE} %opposite
  %result.0 = insertvalue { ${TYPE}, i64 } poison, ${TYPE} %signed, 0
  %result = insertvalue { ${TYPE}, i64 } %result.0, i64 %index.next, 1
  ret { ${TYPE}, i64 } %result
}
