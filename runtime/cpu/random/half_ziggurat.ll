; The ziggurat method in float32: an element takes half of a step, rarely several halves. The low half precedes the
; high one. The tables have 32-bit words: limits, units and densities.

; Computes at most `most` elements that begin in a block, from the half `first` on. Returns the number of elements, and
; the half behind them.
define internal { i64, i64 } @${NAME}.draw(ptr %out, ptr %bits, i128 %state, i128 %increment, i64 %first, i64 %most, ptr %tables, ptr %distances) {
entry:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  call void @write_outputs(ptr %bits, i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %look
look:
  %index = phi i64 [ %first, %entry ], [ %index.next, %inside ], [ %index.edge, %outside ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %inside ], [ %count.next, %outside ]
  %within = icmp slt i64 %index, ${WORDS}
  %some = icmp slt i64 %count, %most
  %goes.on = and i1 %within, %some
  br i1 %goes.on, label %element, label %done
element:
  %half.at = getelementptr i32, ptr %bits, i64 %index
  %half = load i32, ptr %half.at
  %found = call { i32, i32, float } @${NAME}.point(i32 %half, ptr %tables)
  %layer = extractvalue { i32, i32, float } %found, 0
  %position = extractvalue { i32, i32, float } %found, 1
  %value = extractvalue { i32, i32, float } %found, 2
  %limit.at = getelementptr i32, ptr %tables, i32 %layer
  %limit = load i32, ptr %limit.at
  %is.inside = icmp ult i32 %position, %limit
  %at = getelementptr float, ptr %out, i64 %count
  %index.next = add i64 %index, 1
  %count.next = add i64 %count, 1
  br i1 %is.inside, label %inside, label %outside, !prof !0
inside:
  store float %value, ptr %at
  br label %look
outside:
  %other = call { float, i64 } @${NAME}.edge(ptr %bits, i128 %state, i128 %increment, i64 %index, ptr %tables)
  %other.value = extractvalue { float, i64 } %other, 0
  %index.edge = extractvalue { float, i64 } %other, 1
  store float %other.value, ptr %at
  br label %look
done:
  %result.0 = insertvalue { i64, i64 } poison, i64 %count, 0
  %result = insertvalue { i64, i64 } %result.0, i64 %index, 1
  ret { i64, i64 } %result
}

; Computes the elements that begin in a block, from the half `first` on, and the number of halves by which the last
; element ends behind the block.
define internal { i64, i64 } @${NAME}.count(i128 %state, i128 %increment, i64 %first, ptr %tables, ptr %distances) {
  %bits = alloca [${BLOCK} x i64], align 64
  %values = alloca [${WORDS} x float], align 64
  %drawn = call { i64, i64 } @${NAME}.draw(ptr %values, ptr %bits, i128 %state, i128 %increment, i64 %first, i64 ${WORDS}, ptr %tables, ptr %distances)
  %index = extractvalue { i64, i64 } %drawn, 1
  %over = sub i64 %index, ${WORDS}
  %result = insertvalue { i64, i64 } %drawn, i64 %over, 1
  ret { i64, i64 } %result
}

; Computes at most `most` elements that begin in the block of a record. Returns the number of elements.
define internal i64 @${NAME}.elements(ptr %out, ptr %bits, ptr %stream, ptr %record, i64 %most, ptr %tables, ptr %distances) alwaysinline {
  %state = load i128, ptr %record, align 8
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %offset = call i64 @integer_at(ptr %record, i64 3)
  %drawn = call { i64, i64 } @${NAME}.draw(ptr %out, ptr %bits, i128 %state, i128 %increment, i64 %offset, i64 %most, ptr %tables, ptr %distances)
  %count = extractvalue { i64, i64 } %drawn, 0
  ret i64 %count
}

; Writes the state behind `end` elements, as the function of the same name in `words.ll` does.
define internal void @${NAME}.end(ptr %slots, ptr %stream, i64 %end, ptr %tables, ptr %distances) {
  %bits = alloca [${BLOCK} x i64], align 64
  %values = alloca [${WORDS} x float], align 64
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %front = call i64 @integer_at(ptr %stream, i64 9)
  %behind = sub i64 %end, %front
  %last = sub i64 %behind, 1
  %k = call i64 @find_block(ptr %stream, i64 %last)
  %record = call ptr @record(ptr %stream, i64 %k)
  %block = load i128, ptr %record, align 8
  %element = call i64 @integer_at(ptr %record, i64 2)
  %offset = call i64 @integer_at(ptr %record, i64 3)
  %wanted = sub i64 %behind, %element
  %drawn = call { i64, i64 } @${NAME}.draw(ptr %values, ptr %bits, i128 %block, i128 %increment, i64 %offset, i64 %wanted, ptr %tables, ptr %distances)
  %index = extractvalue { i64, i64 } %drawn, 1
  %more = add i64 %index, 1
  %steps = lshr i64 %more, 1
  %state = call i128 @advance(i128 %block, i128 %increment, i64 %steps)
  %state.at = getelementptr i64, ptr %slots, i64 4
  store i128 %state, ptr %state.at, align 8
  %has = and i64 %index, 1
  %has.at = getelementptr i64, ptr %slots, i64 6
  store i64 %has, ptr %has.at
  %output = call i64 @output(i128 %state, i128 %increment)
  %high = lshr i64 %output, 32
  %high.at = getelementptr i64, ptr %slots, i64 7
  store i64 %high, ptr %high.at
  ret void
}
