; An exponential variable: ${LOW} low bits are not used, 8 choose the layer, the others the point.
define internal { ${WORD}, ${WORD}, ${TYPE} } @${NAME}.point(${WORD} %word, ptr %tables) alwaysinline {
  %middle = lshr ${WORD} %word, ${LOW}
  %layer = and ${WORD} %middle, 255
  %position = lshr ${WORD} %middle, 8
  %whole = sitofp ${WORD} %position to ${TYPE}
  %unit.at = getelementptr [256 x ${TYPE}], ptr %tables, i64 1, ${WORD} %layer
  %unit = load ${TYPE}, ptr %unit.at
  %value = fmul ${TYPE} %whole, %unit
  %result.0 = insertvalue { ${WORD}, ${WORD}, ${TYPE} } poison, ${WORD} %layer, 0
  %result.1 = insertvalue { ${WORD}, ${WORD}, ${TYPE} } %result.0, ${WORD} %position, 1
  %result = insertvalue { ${WORD}, ${WORD}, ${TYPE} } %result.1, ${TYPE} %value, 2
  ret { ${WORD}, ${WORD}, ${TYPE} } %result
}

; Returns whether a point lies below the density exp(-x).
define internal i1 @${NAME}.below(${TYPE} %point, ${TYPE} %x) alwaysinline {
  %exponent = fneg ${TYPE} %x
  %density = call ${TYPE} @exp${SUFFIX}(${TYPE} %exponent)
  %below = fcmp olt ${TYPE} %point, %density
  ret i1 %below
}

; The tail is an exponential variable that begins there.
define internal { ${TYPE}, i64 } @${NAME}.tail(ptr %bits, i128 %state, i128 %increment, i64 %first, ${WORD} %position) {
  %unit = call ${TYPE} @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %first)
  %less = fneg ${TYPE} %unit
  %log = call ${TYPE} @log1p${SUFFIX}(${TYPE} %less)
  %value = fsub ${TYPE} ${START}, %log
  %index = add i64 %first, 1
  %result.0 = insertvalue { ${TYPE}, i64 } poison, ${TYPE} %value, 0
  %result = insertvalue { ${TYPE}, i64 } %result.0, i64 %index, 1
  ret { ${TYPE}, i64 } %result
}
