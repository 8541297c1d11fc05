; Lemire 2019, "Fast random integer generation in an interval": the high part of the product of a word and the size of the
; interval. A word is rejected if the low part is below the threshold.
define internal { ${TYPE}, i1 } @${NAME}.element(${WORD} %word, i64 %most, i64 %low, i64 %threshold) alwaysinline {
  %wide = zext ${WORD} %word to ${WIDE}
  %most.word = ${MOST}
  %most.wide = zext ${WORD} %most.word to ${WIDE}
  %size = add ${WIDE} %most.wide, 1
  %product = mul ${WIDE} %wide, %size
  %rest = trunc ${WIDE} %product to ${WORD}
  %threshold.word = ${THRESHOLD}
  %rejects = icmp ult ${WORD} %rest, %threshold.word
  %high = lshr ${WIDE} %product, ${BITS}
  %offset = ${OFFSET}
  %low.typed = ${LOW}
  %value = add ${TYPE} %offset, %low.typed
  %result.0 = insertvalue { ${TYPE}, i1 } poison, ${TYPE} %value, 0
  %result = insertvalue { ${TYPE}, i1 } %result.0, i1 %rejects, 1
  ret { ${TYPE}, i1 } %result
}
