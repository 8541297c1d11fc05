; Draws from PCG64 (O'Neill 2014, "PCG: a family of simple fast space-efficient statistically good algorithms"): a
; 128-bit linear congruential generator, of which the output function takes 64 bits a step.
;
; The slots of a job, in words: where elements go, the steps of a block, the generator's state and increment (NumPy's
; memory), what blocks report, the tables of the method, and the scale and the place that elements get.
; A block reports its elements, its last step and the state there.

declare i64 @llvm.fshr.i64(i64, i64, i64)
declare ptr @memmove(ptr, ptr, i64)
${DECLARATIONS}

define internal i128 @step(i128 %state, i128 %increment) alwaysinline {
  %product = mul i128 %state, ${MULTIPLIER}
  %next = add i128 %product, %increment
  ret i128 %next
}

define internal i64 @output(i128 %state) alwaysinline {
  %upper = lshr i128 %state, 64
  %high = trunc i128 %upper to i64
  %low = trunc i128 %state to i64
  %both = xor i64 %high, %low
  %top = lshr i128 %state, 122
  %turns = trunc i128 %top to i64
  %bits = call i64 @llvm.fshr.i64(i64 %both, i64 %both, i64 %turns)
  ret i64 %bits
}

; A float64 in [0, 1) of 53 bits.
define internal double @unit(i64 %bits) alwaysinline {
  %upper = lshr i64 %bits, 11
  %whole = uitofp i64 %upper to double
  %unit = fmul double %whole, 0x3CA0000000000000
  ret double %unit
}

; The state a number of steps later (Brown 1994, "Random number generation with arbitrary strides").
define internal i128 @advance(i128 %state, i128 %increment, i64 %steps) {
entry:
  br label %bit
bit:
  %left = phi i64 [ %steps, %entry ], [ %rest, %square ]
  %product = phi i128 [ 1, %entry ], [ %product.next, %square ]
  %sum = phi i128 [ 0, %entry ], [ %sum.next, %square ]
  %factor = phi i128 [ ${MULTIPLIER}, %entry ], [ %factor.next, %square ]
  %term = phi i128 [ %increment, %entry ], [ %term.next, %square ]
  %over = icmp eq i64 %left, 0
  br i1 %over, label %done, label %square
square:
  %odd = trunc i64 %left to i1
  %product.further = mul i128 %product, %factor
  %sum.scaled = mul i128 %sum, %factor
  %sum.further = add i128 %sum.scaled, %term
  %product.next = select i1 %odd, i128 %product.further, i128 %product
  %sum.next = select i1 %odd, i128 %sum.further, i128 %sum
  %factor.more = add i128 %factor, 1
  %term.next = mul i128 %factor.more, %term
  %factor.next = mul i128 %factor, %factor
  %rest = lshr i64 %left, 1
  br label %bit
done:
  %scaled = mul i128 %product, %state
  %there = add i128 %scaled, %sum
  ret i128 %there
}

; One element by a method: the element, the state behind it, and the steps taken.
${SAMPLE}

; Elements until the step `last` is reached or there are `most`: how many, the state behind them, and the step.
define internal { i64, i128, i64 } @draw(ptr %slots, ptr %out, i128 %begin, i64 %first, i64 %last, i64 %most) {
entry:
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
  br label %more
more:
  %count = phi i64 [ 0, %entry ], [ %count.next, %element ]
  %state = phi i128 [ %begin, %entry ], [ %state.next, %element ]
  %step = phi i64 [ %first, %entry ], [ %step.next, %element ]
  %inside = icmp slt i64 %step, %last
  %few = icmp slt i64 %count, %most
  %goes.on = and i1 %inside, %few
  br i1 %goes.on, label %element, label %done
element:
  %drawn = call { double, i128, i64 } @sample(i128 %state, i128 %increment, ptr %tables)
  %value = extractvalue { double, i128, i64 } %drawn, 0
  %state.next = extractvalue { double, i128, i64 } %drawn, 1
  %steps = extractvalue { double, i128, i64 } %drawn, 2
  %scaled = fmul double %value, %scale
  %placed = fadd double %scaled, %place
  %at = getelementptr double, ptr %out, i64 %count
  store double %placed, ptr %at
  %step.next = add i64 %step, %steps
  %count.next = add i64 %count, 1
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
