; Marsaglia and Tsang 2000, "The ziggurat method for generating random variables": 256 layers of equal area under the
; density. A layer's tables: the integer below which a point lies inside it, the width of a unit, and the density.

; A word of the outputs from a state on. The first ${WORDS} words are in memory. The low words of an output come first.
define internal ${WORD} @${NAME}.word(ptr %bits, i128 %state, i128 %increment, i64 %index) {
entry:
  %is.near = icmp slt i64 %index, ${WORDS}
  br i1 %is.near, label %near, label %far
near:
  %at = getelementptr ${WORD}, ptr %bits, i64 %index
  %near.word = load ${WORD}, ptr %at
  ret ${WORD} %near.word
far:
  %bit = mul i64 %index, ${BITS}
  %step = lshr i64 %bit, 6
  %steps = add i64 %step, 1
  %there = call i128 @advance(i128 %state, i128 %increment, i64 %steps)
  %output = call i64 @output(i128 %there, i128 %increment)
  %shift = and i64 %bit, 63
  %shifted = lshr i64 %output, %shift
  %far.word = ${SHIFTED}
  ret ${WORD} %far.word
}

; A number in [0, 1) from a word.
define internal ${TYPE} @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %index) {
  %word = call ${WORD} @${NAME}.word(ptr %bits, i128 %state, i128 %increment, i64 %index)
  %upper = lshr ${WORD} %word, ${UNUSED}
  %whole = sitofp ${WORD} %upper to ${TYPE}
  %unit = fmul ${TYPE} %whole, ${UNIT}
  ret ${TYPE} %unit
}

${LAYER}

; An element whose word at `first` gives a point at the edge of its layer: it is in the tail, below the density, or drawn
; anew. Returns the element, and the index of the word behind it.
define internal { ${TYPE}, i64 } @${NAME}.edge(ptr %bits, i128 %state, i128 %increment, i64 %first, ptr %tables) noinline cold {
entry:
  br label %try
try:
  %index = phi i64 [ %first, %entry ], [ %index.fresh, %wedge ]
  %word = call ${WORD} @${NAME}.word(ptr %bits, i128 %state, i128 %increment, i64 %index)
  %index.next = add i64 %index, 1
  %found = call { ${WORD}, ${WORD}, ${TYPE} } @${NAME}.point(${WORD} %word, ptr %tables)
  %layer = extractvalue { ${WORD}, ${WORD}, ${TYPE} } %found, 0
  %position = extractvalue { ${WORD}, ${WORD}, ${TYPE} } %found, 1
  %value = extractvalue { ${WORD}, ${WORD}, ${TYPE} } %found, 2
  %limit.at = getelementptr ${WORD}, ptr %tables, ${WORD} %layer
  %limit = load ${WORD}, ptr %limit.at
  %inside = icmp ult ${WORD} %position, %limit
  br i1 %inside, label %accept, label %outside
outside:
  %lowest = icmp eq ${WORD} %layer, 0
  br i1 %lowest, label %tail, label %wedge
tail:
  %far = call { ${TYPE}, i64 } @${NAME}.tail(ptr %bits, i128 %state, i128 %increment, i64 %index.next, ${WORD} %position)
  ret { ${TYPE}, i64 } %far
wedge:
  %height = call ${TYPE} @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %index.next)
  %index.fresh = add i64 %index.next, 1
  %density.at = getelementptr [256 x ${TYPE}], ptr %tables, i64 2, ${WORD} %layer
  %density = load ${TYPE}, ptr %density.at
  %above.at = getelementptr ${TYPE}, ptr %density.at, i64 -1
  %above = load ${TYPE}, ptr %above.at
  %range = fsub ${TYPE} %above, %density
  %part = fmul ${TYPE} %range, %height
  %point = fadd ${TYPE} %part, %density
  %below = call i1 @${NAME}.below(${TYPE} %point, ${TYPE} %value)
  br i1 %below, label %accept, label %try
accept:
  %accept.index = phi i64 [ %index.next, %try ], [ %index.fresh, %wedge ]
  %result.0 = insertvalue { ${TYPE}, i64 } poison, ${TYPE} %value, 0
  %result = insertvalue { ${TYPE}, i64 } %result.0, i64 %accept.index, 1
  ret { ${TYPE}, i64 } %result
}
