; Marsaglia and Tsang 2000, "The ziggurat method for generating random variables": 256 layers of equal area under the
; density. A layer's tables: the integer below which a point lies inside it, the width of a unit, and the density.

${LAYER}

; An element whose first point lies at the edge of its layer: it is in the tail, below the density, or drawn anew.
define internal { double, i128, i64 } @${NAME}.edge(i128 %first, i128 %increment, ptr %tables, i64 %first.bits) noinline cold {
entry:
  br label %try
try:
  %state = phi i128 [ %first, %entry ], [ %fresh, %anew ]
  %bits = phi i64 [ %first.bits, %entry ], [ %fresh.bits, %anew ]
  %steps = phi i64 [ 1, %entry ], [ %fresh.steps, %anew ]
  %found = call { i64, i64, double } @${NAME}.point(i64 %bits, ptr %tables)
  %layer = extractvalue { i64, i64, double } %found, 0
  %position = extractvalue { i64, i64, double } %found, 1
  %value = extractvalue { i64, i64, double } %found, 2
  %limit.at = getelementptr i64, ptr %tables, i64 %layer
  %limit = load i64, ptr %limit.at
  %inside = icmp ult i64 %position, %limit
  br i1 %inside, label %accept, label %outside
outside:
  %lowest = icmp eq i64 %layer, 0
  br i1 %lowest, label %tail, label %wedge
tail:
  %far = call { double, i128, i64 } @${NAME}.tail(i128 %state, i128 %increment, i64 %position)
  %far.value = extractvalue { double, i128, i64 } %far, 0
  %far.state = extractvalue { double, i128, i64 } %far, 1
  %far.steps = extractvalue { double, i128, i64 } %far, 2
  %far.all = add i64 %steps, %far.steps
  br label %return
wedge:
  %next = call i128 @step(i128 %state, i128 %increment)
  %next.bits = call i64 @output(i128 %next, i128 %increment)
  %height = call double @unit(i64 %next.bits)
  %next.steps = add i64 %steps, 1
  %density.at = getelementptr [256 x double], ptr %tables, i64 2, i64 %layer
  %density = load double, ptr %density.at
  %above.at = getelementptr double, ptr %density.at, i64 -1
  %above = load double, ptr %above.at
  %range = fsub double %above, %density
  %part = fmul double %range, %height
  %point = fadd double %part, %density
  %exact = call double @${NAME}.density(double %value)
  %below = fcmp olt double %point, %exact
  br i1 %below, label %accept, label %anew
anew:
  %fresh = call i128 @step(i128 %next, i128 %increment)
  %fresh.bits = call i64 @output(i128 %fresh, i128 %increment)
  %fresh.steps = add i64 %next.steps, 1
  br label %try
accept:
  %accept.state = phi i128 [ %state, %try ], [ %next, %wedge ]
  %accept.steps = phi i64 [ %steps, %try ], [ %next.steps, %wedge ]
  br label %return
return:
  %last.value = phi double [ %value, %accept ], [ %far.value, %tail ]
  %last.state = phi i128 [ %accept.state, %accept ], [ %far.state, %tail ]
  %last.steps = phi i64 [ %accept.steps, %accept ], [ %far.all, %tail ]
  %result.0 = insertvalue { double, i128, i64 } poison, double %last.value, 0
  %result.1 = insertvalue { double, i128, i64 } %result.0, i128 %last.state, 1
  %result = insertvalue { double, i128, i64 } %result.1, i64 %last.steps, 2
  ret { double, i128, i64 } %result
}

; `most` elements from a state on. Returns the state behind them.
define internal i128 @${NAME}.draw(ptr %out, i128 %begin, i128 %increment, i64 %most, double %scale, double %loc, ptr %tables, ptr %distances) {
entry:
  %buffer = alloca [${BLOCK} x i64], align 64
  %limits = getelementptr [256 x i64], ptr %tables, i64 3
  br label %block
block:
  %count = phi i64 [ 0, %entry ], [ %found, %leave ], [ %found.next, %behind ]
  %state = phi i128 [ %begin, %entry ], [ %state.leave, %leave ], [ %state.edge, %behind ]
  %goes.on = icmp slt i64 %count, %most
  br i1 %goes.on, label %write, label %done
write:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  call void @write_outputs(ptr %buffer, i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %look
look:                                 ; an element begins at step `index`
  %index = phi i64 [ 0, %write ], [ %index.four, %all.four ], [ %index.next, %inside ], [ %index.edge, %outside.again ]
  %found = phi i64 [ %count, %write ], [ %found.four, %all.four ], [ %found.next, %inside ], [ %found.next, %outside.again ]
  %bits.at = getelementptr i64, ptr %buffer, i64 %index
  %at = getelementptr double, ptr %out, i64 %found
  %index.four = add i64 %index, 4
  %found.four = add i64 %found, 4
  %within.four = icmp sle i64 %index.four, ${BLOCK}
  %room.four = icmp sle i64 %found.four, %most
  %has.four = and i1 %within.four, %room.four
  br i1 %has.four, label %four, label %single
four:                                 ; four elements at once, if all lie inside of their layers
  %bits.0.at = getelementptr i64, ptr %bits.at, i64 0
  %bits.0 = load i64, ptr %bits.0.at
  %inside.0 = call i1 @${NAME}.inside(i64 %bits.0, ptr %limits)
  %bits.1.at = getelementptr i64, ptr %bits.at, i64 1
  %bits.1 = load i64, ptr %bits.1.at
  %inside.1 = call i1 @${NAME}.inside(i64 %bits.1, ptr %limits)
  %bits.2.at = getelementptr i64, ptr %bits.at, i64 2
  %bits.2 = load i64, ptr %bits.2.at
  %inside.2 = call i1 @${NAME}.inside(i64 %bits.2, ptr %limits)
  %bits.3.at = getelementptr i64, ptr %bits.at, i64 3
  %bits.3 = load i64, ptr %bits.3.at
  %inside.3 = call i1 @${NAME}.inside(i64 %bits.3, ptr %limits)
  %inside.01 = and i1 %inside.0, %inside.1
  %inside.23 = and i1 %inside.2, %inside.3
  %inside.all = and i1 %inside.01, %inside.23
  br i1 %inside.all, label %all.four, label %element, !prof !0
all.four:
  %point.0 = call { i64, i64, double } @${NAME}.point(i64 %bits.0, ptr %tables)
  %value.0 = extractvalue { i64, i64, double } %point.0, 2
  %scaled.0 = fmul double %value.0, %scale
  %shifted.0 = fadd double %scaled.0, %loc
  %at.0 = getelementptr double, ptr %at, i64 0
  store double %shifted.0, ptr %at.0
  %point.1 = call { i64, i64, double } @${NAME}.point(i64 %bits.1, ptr %tables)
  %value.1 = extractvalue { i64, i64, double } %point.1, 2
  %scaled.1 = fmul double %value.1, %scale
  %shifted.1 = fadd double %scaled.1, %loc
  %at.1 = getelementptr double, ptr %at, i64 1
  store double %shifted.1, ptr %at.1
  %point.2 = call { i64, i64, double } @${NAME}.point(i64 %bits.2, ptr %tables)
  %value.2 = extractvalue { i64, i64, double } %point.2, 2
  %scaled.2 = fmul double %value.2, %scale
  %shifted.2 = fadd double %scaled.2, %loc
  %at.2 = getelementptr double, ptr %at, i64 2
  store double %shifted.2, ptr %at.2
  %point.3 = call { i64, i64, double } @${NAME}.point(i64 %bits.3, ptr %tables)
  %value.3 = extractvalue { i64, i64, double } %point.3, 2
  %scaled.3 = fmul double %value.3, %scale
  %shifted.3 = fadd double %scaled.3, %loc
  %at.3 = getelementptr double, ptr %at, i64 3
  store double %shifted.3, ptr %at.3
  br label %look
single:
  %within = icmp slt i64 %index, ${BLOCK}
  %some = icmp slt i64 %found, %most
  %again = and i1 %some, %within
  br i1 %again, label %element, label %leave
element:
  %bits = load i64, ptr %bits.at
  %is.inside = call i1 @${NAME}.inside(i64 %bits, ptr %limits)
  %index.next = add i64 %index, 1
  %found.next = add i64 %found, 1
  br i1 %is.inside, label %inside, label %outside, !prof !0
inside:
  %point = call { i64, i64, double } @${NAME}.point(i64 %bits, ptr %tables)
  %value = extractvalue { i64, i64, double } %point, 2
  %scaled = fmul double %value, %scale
  %shifted = fadd double %scaled, %loc
  store double %shifted, ptr %at
  br label %look
outside:
  %state.first = call i128 @after(i128 %state, i128 %difference, i64 %index.next, ptr %distances)
  %other = call { double, i128, i64 } @${NAME}.edge(i128 %state.first, i128 %increment, ptr %tables, i64 %bits)
  %other.value = extractvalue { double, i128, i64 } %other, 0
  %state.edge = extractvalue { double, i128, i64 } %other, 1
  %steps = extractvalue { double, i128, i64 } %other, 2
  %other.scaled = fmul double %other.value, %scale
  %other.shifted = fadd double %other.scaled, %loc
  store double %other.shifted, ptr %at
  %index.edge = add i64 %index, %steps
  %still = icmp slt i64 %index.edge, ${BLOCK}
  br i1 %still, label %outside.again, label %behind
outside.again:
  br label %look
behind:
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
  %index = phi i64 [ %first, %entry ], [ %index.four, %all.four ], [ %index.next, %inside ], [ %index.edge, %outside ]
  %more = phi i64 [ %first, %entry ], [ %more, %all.four ], [ %more, %inside ], [ %more.edge, %outside ]
  %bits.at = getelementptr i64, ptr %buffer, i64 %index
  %index.four = add i64 %index, 4
  %has.four = icmp sle i64 %index.four, ${BLOCK}
  br i1 %has.four, label %four, label %single
four:                                 ; four elements at once, if all lie inside of their layers
  %bits.0.at = getelementptr i64, ptr %bits.at, i64 0
  %bits.0 = load i64, ptr %bits.0.at
  %inside.0 = call i1 @${NAME}.inside(i64 %bits.0, ptr %limits)
  %bits.1.at = getelementptr i64, ptr %bits.at, i64 1
  %bits.1 = load i64, ptr %bits.1.at
  %inside.1 = call i1 @${NAME}.inside(i64 %bits.1, ptr %limits)
  %bits.2.at = getelementptr i64, ptr %bits.at, i64 2
  %bits.2 = load i64, ptr %bits.2.at
  %inside.2 = call i1 @${NAME}.inside(i64 %bits.2, ptr %limits)
  %bits.3.at = getelementptr i64, ptr %bits.at, i64 3
  %bits.3 = load i64, ptr %bits.3.at
  %inside.3 = call i1 @${NAME}.inside(i64 %bits.3, ptr %limits)
  %inside.01 = and i1 %inside.0, %inside.1
  %inside.23 = and i1 %inside.2, %inside.3
  %inside.all = and i1 %inside.01, %inside.23
  br i1 %inside.all, label %all.four, label %element, !prof !0
all.four:
  br label %look
single:
  %some = icmp slt i64 %index, ${BLOCK}
  br i1 %some, label %element, label %done
element:
  %bits = load i64, ptr %bits.at
  %is.inside = call i1 @${NAME}.inside(i64 %bits, ptr %limits)
  %index.next = add i64 %index, 1
  br i1 %is.inside, label %inside, label %outside, !prof !0
inside:
  br label %look
outside:
  %state.first = call i128 @after(i128 %state, i128 %difference, i64 %index.next, ptr %distances)
  %other = call { double, i128, i64 } @${NAME}.edge(i128 %state.first, i128 %increment, ptr %tables, i64 %bits)
  %steps = extractvalue { double, i128, i64 } %other, 2
  %index.edge = add i64 %index, %steps
  %more.steps = add i64 %more, %steps
  %more.edge = sub i64 %more.steps, 1
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
  %increment.at = getelementptr i64, ptr %stream, i64 2
  %increment = load i128, ptr %increment.at, align 8
  %scale.at = getelementptr i64, ptr %stream, i64 4
  %scale = load double, ptr %scale.at
  %loc.at = getelementptr i64, ptr %stream, i64 5
  %loc = load double, ptr %loc.at
  %records = getelementptr i64, ptr %stream, i64 ${HEAD}
  %from = call i64 @find_block(ptr %stream, i64 %first)
  %record = getelementptr [4 x i64], ptr %records, i64 %from
  %block = load i128, ptr %record, align 8
  %element.at = getelementptr i64, ptr %record, i64 2
  %element = load i64, ptr %element.at
  %offset.at = getelementptr i64, ptr %record, i64 3
  %offset = load i64, ptr %offset.at
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
