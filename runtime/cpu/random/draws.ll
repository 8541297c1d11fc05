; Draws of a method whose elements take one step or, seldom, several.
;
; The slots of a job, in words: where elements go, the steps of a block, the generator's state and increment (NumPy's
; memory), what blocks report, the tables of the method, the scale and the place that elements get, the number of
; elements, and the distances of `pcg64.ll`. A block reports its elements, its last step and the state there.

declare ptr @memmove(ptr, ptr, i64)
declare double @exp(double)
declare double @log1p(double)

${PCG64}
${SAMPLE}

; Elements until the step `last` is reached or there are `most`: how many, the state behind them, and the step.
define internal { i64, i128, i64 } @draw(ptr %slots, ptr %out, i128 %begin, i64 %first, i64 %last, i64 %most) {
entry:
  %buffer = alloca [${BLOCK} x i64], align 64
  %generator.at = getelementptr i64, ptr %slots, i64 2
  %generator = load ptr, ptr %generator.at
  %increment.at = getelementptr i8, ptr %generator, i64 16
  %increment = load i128, ptr %increment.at, align 8
  %tables.at = getelementptr i64, ptr %slots, i64 4
  %tables = load ptr, ptr %tables.at
  %scale.at = getelementptr i64, ptr %slots, i64 5
  %scale = load double, ptr %scale.at
  %place.at = getelementptr i64, ptr %slots, i64 6
  %place = load double, ptr %place.at
  %distances.at = getelementptr i64, ptr %slots, i64 8
  %distances = load ptr, ptr %distances.at
  br label %more
more:
  %count = phi i64 [ 0, %entry ], [ %found, %through ], [ %found.next, %edge ]
  %state = phi i128 [ %begin, %entry ], [ %state.through, %through ], [ %state.edge, %edge ]
  %step = phi i64 [ %first, %entry ], [ %step.through, %through ], [ %step.edge, %edge ]
  %steps.left = sub i64 %last, %step
  %room = sub i64 %most, %count
  %fewer = call i64 @llvm.smin.i64(i64 %steps.left, i64 %room)
  %length = call i64 @llvm.smin.i64(i64 %fewer, i64 ${BLOCK})
  %goes.on = icmp sgt i64 %length, 0
  br i1 %goes.on, label %fill, label %done
fill:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  call void @block(ptr %buffer, i128 %state, i128 %difference, i64 %length, double 1.0, double -0.0, ptr %distances)
  br label %look
look:                                 ; an element begins at each step of the block, except within an element
  %index = phi i64 [ 0, %fill ], [ %index.next, %inside ], [ %index.edge, %outside ]
  %found = phi i64 [ %count, %fill ], [ %found.next, %inside ], [ %found.next, %outside ]
  %left = icmp slt i64 %index, %length
  br i1 %left, label %element, label %through
element:
  %bits.at = getelementptr i64, ptr %buffer, i64 %index
  %bits = load i64, ptr %bits.at
  %point = call { i64, i64, double } @point(i64 %bits, ptr %tables)
  %layer = extractvalue { i64, i64, double } %point, 0
  %lies = extractvalue { i64, i64, double } %point, 1
  %value = extractvalue { i64, i64, double } %point, 2
  %limit.at = getelementptr i64, ptr %tables, i64 %layer
  %limit = load i64, ptr %limit.at
  %at = getelementptr double, ptr %out, i64 %found
  %index.next = add i64 %index, 1
  %found.next = add i64 %found, 1
  %is.inside = icmp ult i64 %lies, %limit
  br i1 %is.inside, label %inside, label %outside, !prof !0
inside:
  %scaled = fmul double %value, %scale
  %placed = fadd double %scaled, %place
  store double %placed, ptr %at
  br label %look
outside:
  %state.first = call i128 @after(i128 %state, i128 %difference, i64 %index.next, ptr %distances)
  %other = call { double, i128, i64 } @edge(i128 %state.first, i128 %increment, ptr %tables, i64 %bits)
  %other.value = extractvalue { double, i128, i64 } %other, 0
  %state.edge = extractvalue { double, i128, i64 } %other, 1
  %steps = extractvalue { double, i128, i64 } %other, 2
  %other.scaled = fmul double %other.value, %scale
  %other.placed = fadd double %other.scaled, %place
  store double %other.placed, ptr %at
  %index.edge = add i64 %index, %steps
  %still = icmp slt i64 %index.edge, %length
  br i1 %still, label %look, label %edge
edge:                                 ; the element ends at the end of the block or behind it
  %step.edge = add i64 %step, %index.edge
  br label %more
through:
  %state.through = call i128 @after(i128 %state, i128 %difference, i64 %length, ptr %distances)
  %step.through = add i64 %step, %length
  br label %more
done:
  %result.0 = insertvalue { i64, i128, i64 } poison, i64 %count, 0
  %result.1 = insertvalue { i64, i128, i64 } %result.0, i128 %state, 1
  %result = insertvalue { i64, i128, i64 } %result.1, i64 %step, 2
  ret { i64, i128, i64 } %result
}

; The blocks `begin` to `end`, each as if an element began at its first step, and where elements lie if each takes one.
define void @weft_draw_blocks(ptr %slots, i64 %begin, i64 %end) {
entry:
  %out.all = load ptr, ptr %slots
  %length.at = getelementptr i64, ptr %slots, i64 1
  %length = load i64, ptr %length.at
  %generator.at = getelementptr i64, ptr %slots, i64 2
  %generator = load ptr, ptr %generator.at
  %base = load i128, ptr %generator, align 8
  %increment.at = getelementptr i8, ptr %generator, i64 16
  %increment = load i128, ptr %increment.at, align 8
  %reports.at = getelementptr i64, ptr %slots, i64 3
  %reports = load ptr, ptr %reports.at
  br label %block
block:
  %k = phi i64 [ %begin, %entry ], [ %k.next, %body ]
  %left = icmp slt i64 %k, %end
  br i1 %left, label %body, label %done
body:
  %k.next = add i64 %k, 1
  %first = mul i64 %k, %length
  %last = add i64 %first, %length
  %state = call i128 @advance(i128 %base, i128 %increment, i64 %first)
  %out = getelementptr double, ptr %out.all, i64 %first
  %drawn = call { i64, i128, i64 } @draw(ptr %slots, ptr %out, i128 %state, i64 %first, i64 %last, i64 %length)
  %report = getelementptr [4 x i64], ptr %reports, i64 %k
  %count = extractvalue { i64, i128, i64 } %drawn, 0
  store i64 %count, ptr %report
  %step = extractvalue { i64, i128, i64 } %drawn, 2
  %step.at = getelementptr i64, ptr %report, i64 1
  store i64 %step, ptr %step.at
  %behind = extractvalue { i64, i128, i64 } %drawn, 1
  %behind.at = getelementptr i64, ptr %report, i64 2
  store i128 %behind, ptr %behind.at, align 8
  br label %block
done:
  ret void
}

; Joins `blocks` blocks: their elements move together, and those of a block that began inside an element are drawn again.
; The generator is then behind the last, and slot 7 has the number of elements.
define void @weft_draw_join(ptr %slots, i64 %unused, i64 %blocks) {
entry:
  %out = load ptr, ptr %slots
  %length.at = getelementptr i64, ptr %slots, i64 1
  %length = load i64, ptr %length.at
  %generator.at = getelementptr i64, ptr %slots, i64 2
  %generator = load ptr, ptr %generator.at
  %base = load i128, ptr %generator, align 8
  %reports.at = getelementptr i64, ptr %slots, i64 3
  %reports = load ptr, ptr %reports.at
  br label %block
block:
  %k = phi i64 [ 0, %entry ], [ %k.next, %join ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %join ]
  %state = phi i128 [ %base, %entry ], [ %state.next, %join ]
  %step = phi i64 [ 0, %entry ], [ %step.next, %join ]
  %left = icmp slt i64 %k, %blocks
  br i1 %left, label %look, label %done
look:
  %k.next = add i64 %k, 1
  %first = mul i64 %k, %length
  %last = add i64 %first, %length
  %target = getelementptr double, ptr %out, i64 %total
  %right = icmp eq i64 %step, %first
  br i1 %right, label %move, label %again
move:
  %report = getelementptr [4 x i64], ptr %reports, i64 %k
  %moved = load i64, ptr %report
  %moved.step.at = getelementptr i64, ptr %report, i64 1
  %moved.step = load i64, ptr %moved.step.at
  %moved.state.at = getelementptr i64, ptr %report, i64 2
  %moved.state = load i128, ptr %moved.state.at, align 8
  %source = getelementptr double, ptr %out, i64 %first
  %bytes = shl i64 %moved, 3
  call ptr @memmove(ptr %target, ptr %source, i64 %bytes)
  br label %join
again:
  %drawn = call { i64, i128, i64 } @draw(ptr %slots, ptr %target, i128 %state, i64 %step, i64 %last, i64 %length)
  %again.count = extractvalue { i64, i128, i64 } %drawn, 0
  %again.state = extractvalue { i64, i128, i64 } %drawn, 1
  %again.step = extractvalue { i64, i128, i64 } %drawn, 2
  br label %join
join:
  %count = phi i64 [ %moved, %move ], [ %again.count, %again ]
  %state.next = phi i128 [ %moved.state, %move ], [ %again.state, %again ]
  %step.next = phi i64 [ %moved.step, %move ], [ %again.step, %again ]
  %total.next = add i64 %total, %count
  br label %block
done:
  store i128 %state, ptr %generator, align 8
  %total.at = getelementptr i64, ptr %slots, i64 7
  store i64 %total, ptr %total.at
  ret void
}

; `count` elements, one after the other.
define void @weft_draw_more(ptr %slots, i64 %unused, i64 %count) {
  %out = load ptr, ptr %slots
  %generator.at = getelementptr i64, ptr %slots, i64 2
  %generator = load ptr, ptr %generator.at
  %base = load i128, ptr %generator, align 8
  %drawn = call { i64, i128, i64 } @draw(ptr %slots, ptr %out, i128 %base, i64 0, i64 ${ENDLESS}, i64 %count)
  %state = extractvalue { i64, i128, i64 } %drawn, 1
  store i128 %state, ptr %generator, align 8
  ret void
}

!0 = !{!"branch_weights", i32 99, i32 1}
