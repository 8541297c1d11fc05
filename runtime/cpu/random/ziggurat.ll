; Marsaglia and Tsang 2000, "The ziggurat method for generating random variables": 256 layers of equal area under the
; density. A layer's tables: the integer below which a point lies inside it, the width of a unit, and the density.

${LAYER}

; Whether each of these points lies at the edge of its layer.
define internal <${LANES} x i1> @${NAME}.edges(<${LANES} x i64> %bits, ptr %tables) alwaysinline {
  %split = call { <${LANES} x i64>, <${LANES} x i64> } @${NAME}.split(<${LANES} x i64> %bits)
  %layers = extractvalue { <${LANES} x i64>, <${LANES} x i64> } %split, 0
  %places = extractvalue { <${LANES} x i64>, <${LANES} x i64> } %split, 1
  %limits.at = getelementptr i64, ptr %tables, <${LANES} x i64> %layers
  %limit = call <${LANES} x i64> @llvm.masked.gather.v${LANES}i64.v${LANES}p0(<${LANES} x ptr> %limits.at, i32 8, <${LANES} x i1> splat (i1 true), <${LANES} x i64> poison)
  %edges = icmp uge <${LANES} x i64> %places, %limit
  ret <${LANES} x i1> %edges
}

; Whether each of these points lies at the edge of its layer, and otherwise the element.
define internal { <${LANES} x i1>, <${LANES} x double> } @${NAME}.points(<${LANES} x i64> %bits, ptr %tables) alwaysinline {
  %split = call { <${LANES} x i64>, <${LANES} x i64> } @${NAME}.split(<${LANES} x i64> %bits)
  %layers = extractvalue { <${LANES} x i64>, <${LANES} x i64> } %split, 0
  %places = extractvalue { <${LANES} x i64>, <${LANES} x i64> } %split, 1
  %units = getelementptr [256 x double], ptr %tables, i64 1
  %units.at = getelementptr double, ptr %units, <${LANES} x i64> %layers
  %unit = call <${LANES} x double> @llvm.masked.gather.v${LANES}f64.v${LANES}p0(<${LANES} x ptr> %units.at, i32 8, <${LANES} x i1> splat (i1 true), <${LANES} x double> poison)
  %edges = call <${LANES} x i1> @${NAME}.edges(<${LANES} x i64> %bits, ptr %tables)
  %whole = sitofp <${LANES} x i64> %places to <${LANES} x double>
  %size = fmul <${LANES} x double> %whole, %unit
  %values = call <${LANES} x double> @${NAME}.signed(<${LANES} x i64> %bits, <${LANES} x double> %size)
  %result.0 = insertvalue { <${LANES} x i1>, <${LANES} x double> } poison, <${LANES} x i1> %edges, 0
  %result = insertvalue { <${LANES} x i1>, <${LANES} x double> } %result.0, <${LANES} x double> %values, 1
  ret { <${LANES} x i1>, <${LANES} x double> } %result
}

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
  %place = extractvalue { i64, i64, double } %found, 1
  %value = extractvalue { i64, i64, double } %found, 2
  %limit.at = getelementptr i64, ptr %tables, i64 %layer
  %limit = load i64, ptr %limit.at
  %inside = icmp ult i64 %place, %limit
  br i1 %inside, label %accept, label %outside
outside:
  %lowest = icmp eq i64 %layer, 0
  br i1 %lowest, label %tail, label %wedge
tail:
  %far = call { double, i128, i64 } @${NAME}.tail(i128 %state, i128 %increment, i64 %place)
  %far.value = extractvalue { double, i128, i64 } %far, 0
  %far.state = extractvalue { double, i128, i64 } %far, 1
  %far.steps = extractvalue { double, i128, i64 } %far, 2
  %far.all = add i64 %steps, %far.steps
  br label %return
wedge:
  %next = call i128 @step(i128 %state, i128 %increment)
  %next.bits = call i64 @output(i128 %next)
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
  %fresh.bits = call i64 @output(i128 %fresh)
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
define internal i128 @${NAME}.draw(ptr %out, i128 %begin, i128 %increment, i64 %most, double %scale, double %place, ptr %tables, ptr %distances) {
entry:
  %scales = call <${LANES} x double> @spread(double %scale)
  %places = call <${LANES} x double> @spread(double %place)
  %lanes = alloca [${LANES} x double], align 64
  br label %block
block:                                ; the steps from a state on, as many as there are distances
  %count = phi i64 [ 0, %entry ], [ %found, %leave ], [ %found.edge, %outside ]
  %state = phi i128 [ %begin, %entry ], [ %state.leave, %leave ], [ %state.edge, %outside ]
  %goes.on = icmp slt i64 %count, %most
  br i1 %goes.on, label %split, label %done
split:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %s0 = trunc i128 %state to i64
  %s.upper = lshr i128 %state, 64
  %s1 = trunc i128 %s.upper to i64
  %d0 = trunc i128 %difference to i64
  %d.upper = lshr i128 %difference, 64
  %d1 = trunc i128 %d.upper to i64
  %state.low = call <${LANES} x i64> @splat(i64 %s0)
  %state.high = call <${LANES} x i64> @splat(i64 %s1)
  %low = call <${LANES} x i64> @splat(i64 %d0)
  %high = call <${LANES} x i64> @splat(i64 %d1)
  br label %look
look:                                 ; an element begins at step `index`
  %index = phi i64 [ 0, %split ], [ %index.whole, %inside ], [ %index.part, %part ], [ %index.edge, %outside ]
  %found = phi i64 [ %count, %split ], [ %found.whole, %inside ], [ %found.part, %part ], [ %found.edge, %outside ]
  %valid = sub i64 %most, %found
  %some = icmp sgt i64 %valid, 0
  %within = icmp slt i64 %index, ${BLOCK}
  %again = and i1 %some, %within
  br i1 %again, label %vector, label %leave
vector:
  %bits = call <${LANES} x i64> @outputs(i64 %index, <${LANES} x i64> %state.low, <${LANES} x i64> %state.high, <${LANES} x i64> %low, <${LANES} x i64> %high, ptr %distances)
  %points = call { <${LANES} x i1>, <${LANES} x double> } @${NAME}.points(<${LANES} x i64> %bits, ptr %tables)
  %edges = extractvalue { <${LANES} x i1>, <${LANES} x double> } %points, 0
  %values = extractvalue { <${LANES} x i1>, <${LANES} x double> } %points, 1
  %edges.bits = bitcast <${LANES} x i1> %edges to i${LANES}
  %edges.word = zext i${LANES} %edges.bits to i64
  %scaled = fmul <${LANES} x double> %values, %scales
  %placed = fadd <${LANES} x double> %scaled, %places
  %at = getelementptr double, ptr %out, i64 %found
  %is.whole = icmp sge i64 %valid, ${LANES}
  br i1 %is.whole, label %whole, label %rest
whole:
  store <${LANES} x double> %placed, ptr %at, align 8
  %none = icmp eq i64 %edges.word, 0
  br i1 %none, label %inside, label %edge.whole
inside:
  %index.whole = add i64 %index, ${LANES}
  %found.whole = add i64 %found, ${LANES}
  br label %look
rest:                                 ; fewer elements than lanes
  store <${LANES} x double> %placed, ptr %lanes, align 64
  %stop = shl i64 -1, %valid
  %stops = or i64 %edges.word, %stop
  %kept = call i64 @llvm.cttz.i64(i64 %stops, i1 true)
  %bytes = shl i64 %kept, 3
  call ptr @memcpy(ptr %at, ptr %lanes, i64 %bytes)
  %all = icmp eq i64 %kept, %valid
  br i1 %all, label %part, label %edge
part:
  %index.part = add i64 %index, %kept
  %found.part = add i64 %found, %kept
  br label %look
edge.whole:
  %before = call i64 @llvm.cttz.i64(i64 %edges.word, i1 true)
  br label %edge
edge:                                 ; the element in this lane takes several steps
  %lane = phi i64 [ %kept, %rest ], [ %before, %edge.whole ]
  %index.lane = add i64 %index, %lane
  %index.first = add i64 %index.lane, 1
  %found.lane = add i64 %found, %lane
  %bits.first = extractelement <${LANES} x i64> %bits, i64 %lane
  %state.first = call i128 @after(i128 %state, i128 %difference, i64 %index.first, ptr %distances)
  %other = call { double, i128, i64 } @${NAME}.edge(i128 %state.first, i128 %increment, ptr %tables, i64 %bits.first)
  %other.value = extractvalue { double, i128, i64 } %other, 0
  %state.edge = extractvalue { double, i128, i64 } %other, 1
  %steps = extractvalue { double, i128, i64 } %other, 2
  %other.scaled = fmul double %other.value, %scale
  %other.placed = fadd double %other.scaled, %place
  %other.at = getelementptr double, ptr %out, i64 %found.lane
  store double %other.placed, ptr %other.at
  %index.edge = add i64 %index.lane, %steps
  %found.edge = add i64 %found.lane, 1
  br label %outside
outside:
  %still = icmp sle i64 %index.edge, ${BLOCK}
  br i1 %still, label %look, label %block
leave:
  %state.leave = call i128 @after(i128 %state, i128 %difference, i64 %index, ptr %distances)
  br label %block
done:
  ret i128 %state
}

; The elements that begin in a block of steps, from the step `first` on, and the number of steps by which the last ends
; behind the block.
define internal { i64, i64 } @${NAME}.count(i128 %state, i128 %increment, i64 %first, ptr %tables, ptr %distances) {
entry:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %s0 = trunc i128 %state to i64
  %s.upper = lshr i128 %state, 64
  %s1 = trunc i128 %s.upper to i64
  %d0 = trunc i128 %difference to i64
  %d.upper = lshr i128 %difference, 64
  %d1 = trunc i128 %d.upper to i64
  %state.low = call <${LANES} x i64> @splat(i64 %s0)
  %state.high = call <${LANES} x i64> @splat(i64 %s1)
  %low = call <${LANES} x i64> @splat(i64 %d0)
  %high = call <${LANES} x i64> @splat(i64 %d1)
  br label %look
look:
  %index = phi i64 [ %first, %entry ], [ %index.whole, %whole.block ], [ %index.inside, %inside ], [ %index.edge, %edge ]
  %found = phi i64 [ 0, %entry ], [ %found.whole, %whole.block ], [ %found.inside, %inside ], [ %found.edge, %edge ]
  %left = sub i64 ${BLOCK}, %index
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %vector, label %done
vector:
  %bits = call <${LANES} x i64> @outputs(i64 %index, <${LANES} x i64> %state.low, <${LANES} x i64> %state.high, <${LANES} x i64> %low, <${LANES} x i64> %high, ptr %distances)
  %edges = call <${LANES} x i1> @${NAME}.edges(<${LANES} x i64> %bits, ptr %tables)
  %edges.bits = bitcast <${LANES} x i1> %edges to i${LANES}
  %edges.all = zext i${LANES} %edges.bits to i64
  %none = icmp eq i64 %edges.all, 0
  %whole = icmp sge i64 %left, ${LANES}
  %quick = and i1 %none, %whole
  br i1 %quick, label %whole.block, label %slow
whole.block:                          ; (the next vector does not wait for these comparisons)
  %index.whole = add i64 %index, ${LANES}
  %found.whole = add i64 %found, ${LANES}
  br label %look
slow:
  %valid = call i64 @llvm.smin.i64(i64 %left, i64 ${LANES})
  %stop = shl i64 -1, %valid
  %stops = or i64 %edges.all, %stop
  %lane = call i64 @llvm.cttz.i64(i64 %stops, i1 true)
  %index.inside = add i64 %index, %lane
  %found.inside = add i64 %found, %lane
  %all = icmp eq i64 %lane, %valid
  br i1 %all, label %inside, label %edge
inside:
  br label %look
edge:
  %bits.first = extractelement <${LANES} x i64> %bits, i64 %lane
  %index.first = add i64 %index.inside, 1
  %state.first = call i128 @after(i128 %state, i128 %difference, i64 %index.first, ptr %distances)
  %other = call { double, i128, i64 } @${NAME}.edge(i128 %state.first, i128 %increment, ptr %tables, i64 %bits.first)
  %steps = extractvalue { double, i128, i64 } %other, 2
  %index.edge = add i64 %index.inside, %steps
  %found.edge = add i64 %found.inside, 1
  br label %look
done:
  %over = sub i64 %index, ${BLOCK}
  %result.0 = insertvalue { i64, i64 } poison, i64 %found, 0
  %result = insertvalue { i64, i64 } %result.0, i64 %over, 1
  ret { i64, i64 } %result
}

; The elements `first` to `last` of a stream with an index. `room` says that memory in front of them may be written.
; Returns the state behind them.
define internal i128 @${NAME}.range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %tables, ptr %distances, i1 %room) {
entry:
  %unused = alloca [${BLOCK} x double], align 64
  %increment.at = getelementptr i64, ptr %stream, i64 2
  %increment = load i128, ptr %increment.at, align 8
  %scale.at = getelementptr i64, ptr %stream, i64 4
  %scale = load double, ptr %scale.at
  %place.at = getelementptr i64, ptr %stream, i64 5
  %place = load double, ptr %place.at
  %blocks.at = getelementptr i64, ptr %stream, i64 7
  %blocks = load i64, ptr %blocks.at
  %records = getelementptr i64, ptr %stream, i64 ${HEAD}
  br label %search
search:                               ; the last block that begins with this element or an earlier one
  %from = phi i64 [ 0, %entry ], [ %from.next, %halve ]
  %to = phi i64 [ %blocks, %entry ], [ %to.next, %halve ]
  %range = sub i64 %to, %from
  %several = icmp sgt i64 %range, 1
  br i1 %several, label %halve, label %begin
halve:
  %half = lshr i64 %range, 1
  %middle = add i64 %from, %half
  %middle.at = getelementptr [4 x i64], ptr %records, i64 %middle, i64 2
  %middle.element = load i64, ptr %middle.at
  %right = icmp sle i64 %middle.element, %first
  %from.next = select i1 %right, i64 %middle, i64 %from
  %to.next = select i1 %right, i64 %to, i64 %middle
  br label %search
begin:
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
  %one = call i128 @${NAME}.draw(ptr %front, i128 %state, i128 %increment, i64 %most, double %scale, double %place, ptr %tables, ptr %distances)
  ret i128 %one
apart:
  %there = call i128 @${NAME}.draw(ptr %unused, i128 %state, i128 %increment, i64 %skipped, double %scale, double %place, ptr %tables, ptr %distances)
  %other = call i128 @${NAME}.draw(ptr %out, i128 %there, i128 %increment, i64 %count, double %scale, double %place, ptr %tables, ptr %distances)
  ret i128 %other
}
