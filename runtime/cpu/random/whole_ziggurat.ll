; The ziggurat method in float64: an element takes a step, rarely several steps.

; Returns whether the point of output %k lies inside its layer. A limit is compared with all bits from the position on.
define internal i1 @${NAME}.inside(ptr %outputs, i64 %k, ptr %limits) alwaysinline {
  %bits = call i64 @integer_at(ptr %outputs, i64 %k)
  %middle = lshr i64 %bits, ${LOW}
  %layer = and i64 %middle, 255
  %limit = call i64 @integer_at(ptr %limits, i64 %layer)
  %position = shl i64 %bits, ${HIGH}
  %inside = icmp ult i64 %position, %limit
  ret i1 %inside
}

; Writes element %k of an array, whose point lies inside its layer.
define internal void @${NAME}.put(ptr %out, ptr %outputs, i64 %k, double %scale, double %loc, ptr %tables) alwaysinline {
  %bits = call i64 @integer_at(ptr %outputs, i64 %k)
  %point = call { i64, i64, double } @${NAME}.point(i64 %bits, ptr %tables)
  %value = extractvalue { i64, i64, double } %point, 2
  %scaled = fmul double %value, %scale
  %shifted = fadd double %scaled, %loc
  %at = getelementptr double, ptr %out, i64 %k
  store double %shifted, ptr %at
  ret void
}

; `most` elements from a state on. Returns the state behind them.
define internal i128 @${NAME}.draw(ptr %out, i128 %begin, i128 %increment, i64 %most, double %scale, double %loc, ptr %tables, ptr %distances) {
entry:
  %buffer = alloca [${BLOCK} x i64], align 64
  %limits = getelementptr [256 x i64], ptr %tables, i64 3
  br label %block
block:
  %count = phi i64 [ 0, %entry ], [ %found, %leave ], [ %found.next, %beyond ]
  %state = phi i128 [ %begin, %entry ], [ %state.leave, %leave ], [ %state.edge, %beyond ]
  %goes.on = icmp slt i64 %count, %most
  br i1 %goes.on, label %write, label %done
write:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  call void @write_outputs(ptr %buffer, i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %look
look:                                 ; an element begins at step `index`
  %index = phi i64 [ 0, %write ], [ %index.four, %all.four ], [ %index.next, %inside ], [ %index.edge, %outside ]
  %found = phi i64 [ %count, %write ], [ %found.four, %all.four ], [ %found.next, %inside ], [ %found.next, %outside ]
  %bits = getelementptr i64, ptr %buffer, i64 %index
  %at = getelementptr double, ptr %out, i64 %found
  %index.four = add i64 %index, 4
  %found.four = add i64 %found, 4
  %within.four = icmp sle i64 %index.four, ${BLOCK}
  %room.four = icmp sle i64 %found.four, %most
  %has.four = and i1 %within.four, %room.four
  br i1 %has.four, label %four, label %single
four:                                 ; four elements at once, if all lie inside of their layers
  %inside.0 = call i1 @${NAME}.inside(ptr %bits, i64 0, ptr %limits)
  %inside.1 = call i1 @${NAME}.inside(ptr %bits, i64 1, ptr %limits)
  %inside.2 = call i1 @${NAME}.inside(ptr %bits, i64 2, ptr %limits)
  %inside.3 = call i1 @${NAME}.inside(ptr %bits, i64 3, ptr %limits)
  %inside.01 = and i1 %inside.0, %inside.1
  %inside.23 = and i1 %inside.2, %inside.3
  %inside.all = and i1 %inside.01, %inside.23
  br i1 %inside.all, label %all.four, label %element, !prof !0
all.four:
  call void @${NAME}.put(ptr %at, ptr %bits, i64 0, double %scale, double %loc, ptr %tables)
  call void @${NAME}.put(ptr %at, ptr %bits, i64 1, double %scale, double %loc, ptr %tables)
  call void @${NAME}.put(ptr %at, ptr %bits, i64 2, double %scale, double %loc, ptr %tables)
  call void @${NAME}.put(ptr %at, ptr %bits, i64 3, double %scale, double %loc, ptr %tables)
  br label %look
single:
  %within = icmp slt i64 %index, ${BLOCK}
  %some = icmp slt i64 %found, %most
  %again = and i1 %some, %within
  br i1 %again, label %element, label %leave
element:
  %is.inside = call i1 @${NAME}.inside(ptr %bits, i64 0, ptr %limits)
  %index.next = add i64 %index, 1
  %found.next = add i64 %found, 1
  br i1 %is.inside, label %inside, label %outside, !prof !0
inside:
  call void @${NAME}.put(ptr %at, ptr %bits, i64 0, double %scale, double %loc, ptr %tables)
  br label %look
outside:
  %other = call { double, i64 } @${NAME}.edge(ptr %buffer, i128 %state, i128 %increment, i64 %index, ptr %tables)
  %other.value = extractvalue { double, i64 } %other, 0
  %index.edge = extractvalue { double, i64 } %other, 1
  %other.scaled = fmul double %other.value, %scale
  %other.shifted = fadd double %other.scaled, %loc
  store double %other.shifted, ptr %at
  %still = icmp sle i64 %index.edge, ${BLOCK}
  br i1 %still, label %look, label %beyond
beyond:
  %state.edge = call i128 @advance(i128 %state, i128 %increment, i64 %index.edge)
  br label %block
leave:
  %state.leave = call i128 @after(i128 %state, i128 %difference, i64 %index, ptr %distances)
  br label %block
done:
  ret i128 %state
}

; Computes the elements that begin in a block of steps, from the step `first` on, and the number of steps by which the
; last element ends behind the block.
define internal { i64, i64 } @${NAME}.count(i128 %state, i128 %increment, i64 %first, ptr %tables, ptr %distances) {
entry:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %buffer = alloca [${BLOCK} x i64], align 64
  call void @write_outputs(ptr %buffer, i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  %limits = getelementptr [256 x i64], ptr %tables, i64 3
  br label %look
look:                                 ; an element begins at step `index`; the previous ones took `more` additional steps
  %index = phi i64 [ %first, %entry ], [ %index.four, %four ], [ %index.next, %element ], [ %index.edge, %outside ]
  %more = phi i64 [ %first, %entry ], [ %more, %four ], [ %more, %element ], [ %more.edge, %outside ]
  %bits = getelementptr i64, ptr %buffer, i64 %index
  %index.four = add i64 %index, 4
  %has.four = icmp sle i64 %index.four, ${BLOCK}
  br i1 %has.four, label %four, label %single
four:                                 ; four elements at once, if all lie inside of their layers
  %inside.0 = call i1 @${NAME}.inside(ptr %bits, i64 0, ptr %limits)
  %inside.1 = call i1 @${NAME}.inside(ptr %bits, i64 1, ptr %limits)
  %inside.2 = call i1 @${NAME}.inside(ptr %bits, i64 2, ptr %limits)
  %inside.3 = call i1 @${NAME}.inside(ptr %bits, i64 3, ptr %limits)
  %inside.01 = and i1 %inside.0, %inside.1
  %inside.23 = and i1 %inside.2, %inside.3
  %inside.all = and i1 %inside.01, %inside.23
  br i1 %inside.all, label %look, label %element, !prof !0
single:
  %some = icmp slt i64 %index, ${BLOCK}
  br i1 %some, label %element, label %done
element:
  %is.inside = call i1 @${NAME}.inside(ptr %bits, i64 0, ptr %limits)
  %index.next = add i64 %index, 1
  br i1 %is.inside, label %look, label %outside, !prof !0
outside:
  %other = call { double, i64 } @${NAME}.edge(ptr %buffer, i128 %state, i128 %increment, i64 %index, ptr %tables)
  %index.edge = extractvalue { double, i64 } %other, 1
  %additional = sub i64 %index.edge, %index.next
  %more.edge = add i64 %more, %additional
  br label %look
done:
  %found = sub i64 %index, %more
  %over = sub i64 %index, ${BLOCK}
  %result.0 = insertvalue { i64, i64 } poison, i64 %found, 0
  %result = insertvalue { i64, i64 } %result.0, i64 %over, 1
  ret { i64, i64 } %result
}

; Computes the elements `first` to `last` of a stream with an index. `room` tells whether memory in front of them may be
; written. Returns the state behind them.
define internal i128 @${NAME}.range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %tables, ptr %distances, i1 %room) {
entry:
  %unused = alloca [${BLOCK} x double], align 64
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %scale = call double @float_at(ptr %stream, i64 4)
  %loc = call double @float_at(ptr %stream, i64 5)
  %from = call i64 @find_block(ptr %stream, i64 %first)
  %record = call ptr @record(ptr %stream, i64 %from)
  %block = load i128, ptr %record, align 8
  %element = call i64 @integer_at(ptr %record, i64 2)
  %offset = call i64 @integer_at(ptr %record, i64 3)
  %difference = call i128 @difference(i128 %block, i128 %increment)
  %state = call i128 @after(i128 %block, i128 %difference, i64 %offset, ptr %distances)
  %skipped = sub i64 %first, %element
  %count = sub i64 %last, %first
  br i1 %room, label %together, label %apart
together:
  %most = add i64 %skipped, %count
  %back = sub i64 0, %skipped
  %front = getelementptr double, ptr %out, i64 %back
  %one = call i128 @${NAME}.draw(ptr %front, i128 %state, i128 %increment, i64 %most, double %scale, double %loc, ptr %tables, ptr %distances)
  ret i128 %one
apart:
  %there = call i128 @${NAME}.draw(ptr %unused, i128 %state, i128 %increment, i64 %skipped, double %scale, double %loc, ptr %tables, ptr %distances)
  %other = call i128 @${NAME}.draw(ptr %out, i128 %there, i128 %increment, i64 %count, double %scale, double %loc, ptr %tables, ptr %distances)
  ret i128 %other
}

; Writes the state behind `end` elements to slots 4 and 5.
define internal void @${NAME}.end(ptr %slots, ptr %stream, i64 %end, ptr %tables, ptr %distances) {
  %memory = alloca double, align 16
  %last = sub i64 %end, 1
  %state = call i128 @${NAME}.range(ptr %memory, ptr %stream, i64 %last, i64 %end, ptr %tables, ptr %distances, i1 false)
  %state.at = getelementptr i64, ptr %slots, i64 4
  store i128 %state, ptr %state.at, align 8
  ret void
}
