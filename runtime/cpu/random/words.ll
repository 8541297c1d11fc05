; Elements of type ${TYPE}, each from the next ${WORD} of the outputs in memory order. Some words may be rejected.

${ELEMENT}

; Computes the elements of all words of a block. Returns the number of elements. If words are rejected, the accepted
; words precede the rejected words in memory.
define internal i64 @${NAME}.block(ptr %out, ptr %bits, i128 %state, i128 %increment, ptr %stream, ptr %distances) {
entry:
  %most = call i64 @integer_at(ptr %stream, i64 4)
  %low = call i64 @integer_at(ptr %stream, i64 5)
  %threshold = call i64 @integer_at(ptr %stream, i64 8)
  %difference = call i128 @difference(i128 %state, i128 %increment)
  call void @write_outputs(ptr %bits, i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %body
body:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %rejected = phi i1 [ false, %entry ], [ %rejected.next, %body ]
  %word.at = getelementptr ${WORD}, ptr %bits, i64 %k
  %word = load ${WORD}, ptr %word.at
  %found = call { ${TYPE}, i1 } @${NAME}.element(${WORD} %word, i64 %most, i64 %low, i64 %threshold)
  %value = extractvalue { ${TYPE}, i1 } %found, 0
  %rejects = extractvalue { ${TYPE}, i1 } %found, 1
  %value.at = getelementptr ${TYPE}, ptr %out, i64 %k
  store ${TYPE} %value, ptr %value.at
  %rejected.next = or i1 %rejected, %rejects
  %k.next = add i64 %k, 1
  %left = icmp slt i64 %k.next, ${COUNT}
  br i1 %left, label %body, label %written
written:
  br i1 %rejected.next, label %again, label %done
again:
  %j = phi i64 [ 0, %written ], [ %j.next, %again ]
  %count = phi i64 [ 0, %written ], [ %count.next, %again ]
  %again.at = getelementptr ${WORD}, ptr %bits, i64 %j
  %again.word = load ${WORD}, ptr %again.at
  %again.found = call { ${TYPE}, i1 } @${NAME}.element(${WORD} %again.word, i64 %most, i64 %low, i64 %threshold)
  %again.value = extractvalue { ${TYPE}, i1 } %again.found, 0
  %again.rejects = extractvalue { ${TYPE}, i1 } %again.found, 1
  %to = getelementptr ${TYPE}, ptr %out, i64 %count
  store ${TYPE} %again.value, ptr %to
  %accepts = xor i1 %again.rejects, true
  %one = zext i1 %accepts to i64
  %count.next = add i64 %count, %one
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, ${COUNT}
  br i1 %more, label %again, label %done
done:
  %result = phi i64 [ ${COUNT}, %written ], [ %count.next, %again ]
  ret i64 %result
}

define internal { i64, i64 } @${NAME}.count(ptr %stream, i128 %state, i128 %increment, ptr %distances) {
entry:
  %bits = alloca [${BLOCK} x i64], align 64
  %values = alloca [${COUNT} x ${TYPE}], align 64
  %threshold = call i64 @integer_at(ptr %stream, i64 8)
  %accepts.all = icmp eq i64 %threshold, 0
  br i1 %accepts.all, label %done, label %draw
draw:
  %drawn = call i64 @${NAME}.block(ptr %values, ptr %bits, i128 %state, i128 %increment, ptr %stream, ptr %distances)
  br label %done
done:
  %count = phi i64 [ ${COUNT}, %entry ], [ %drawn, %draw ]
  %result.0 = insertvalue { i64, i64 } poison, i64 %count, 0
  %result = insertvalue { i64, i64 } %result.0, i64 0, 1
  ret { i64, i64 } %result
}

; Computes the elements of the block of a record. Returns the number of elements.
define internal i64 @${NAME}.elements(ptr %out, ptr %bits, ptr %stream, ptr %record, i64 %unused, ptr %distances) alwaysinline {
  %state = load i128, ptr %record, align 8
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %count = call i64 @${NAME}.block(ptr %out, ptr %bits, i128 %state, i128 %increment, ptr %stream, ptr %distances)
  ret i64 %count
}

; Writes the state behind `end` elements to slots 4 and 5. Slot 6 tells whether the high half of the last step is
; unused, and slot 7 contains this half.
define internal void @${NAME}.end(ptr %slots, ptr %stream, i64 %end, ptr %distances) {
entry:
  %bits = alloca [${BLOCK} x i64], align 64
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %most = call i64 @integer_at(ptr %stream, i64 4)
  %low = call i64 @integer_at(ptr %stream, i64 5)
  %threshold = call i64 @integer_at(ptr %stream, i64 8)
  %front = call i64 @integer_at(ptr %stream, i64 9)
  %behind = sub i64 %end, %front
  %last = sub i64 %behind, 1
  %k = call i64 @find_block(ptr %stream, i64 %last)
  %record = call ptr @record(ptr %stream, i64 %k)
  %block = load i128, ptr %record, align 8
  %element = call i64 @integer_at(ptr %record, i64 2)
  %wanted = sub i64 %behind, %element
  %difference = call i128 @difference(i128 %block, i128 %increment)
  call void @write_outputs(ptr %bits, i128 %block, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %look
look:
  %j = phi i64 [ 0, %entry ], [ %j.next, %look ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %look ]
  %word.at = getelementptr ${WORD}, ptr %bits, i64 %j
  %word = load ${WORD}, ptr %word.at
  %found = call { ${TYPE}, i1 } @${NAME}.element(${WORD} %word, i64 %most, i64 %low, i64 %threshold)
  %rejects = extractvalue { ${TYPE}, i1 } %found, 1
  %accepts = xor i1 %rejects, true
  %one = zext i1 %accepts to i64
  %count.next = add i64 %count, %one
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %count.next, %wanted
  br i1 %more, label %look, label %done
done:
  %bit = mul i64 %j, ${BITS}
  %step = lshr i64 %bit, 6
  %steps = add i64 %step, 1
  %state = call i128 @after(i128 %block, i128 %difference, i64 %steps, ptr %distances)
  %state.at = getelementptr i64, ptr %slots, i64 4
  store i128 %state, ptr %state.at, align 8
  %half = lshr i64 %bit, 5
  %odd = and i64 %half, 1
  %has = xor i64 %odd, 1
  %has.at = getelementptr i64, ptr %slots, i64 6
  store i64 %has, ptr %has.at
  %output = call i64 @integer_at(ptr %bits, i64 %step)
  %high = lshr i64 %output, 32
  %high.at = getelementptr i64, ptr %slots, i64 7
  store i64 %high, ptr %high.at
  ret void
}
