; Bounded integers (Lemire 2019, "Fast random integer generation in an interval"). A number takes half of a step: first the
; low half, then the high one. A half is rejected if the low word of its product with the size of the range is below the
; threshold. Word 8 of a stream is the threshold, word 9 the count of the numbers in front of the stream, which follow.

; The numbers of all halves of a block, and whether a half is rejected.
define internal i1 @integers.values(ptr %out, ptr %bits, i64 %size, i64 %threshold, i64 %low) {
entry:
  %sizes = call <${LANES} x i64> @splat(i64 %size)
  %thresholds = call <${LANES} x i64> @splat(i64 %threshold)
  %lows = call <${LANES} x i64> @splat(i64 %low)
  br label %body
body:
  %index = phi i64 [ 0, %entry ], [ %index.next, %body ]
  %rejected = phi <${LANES} x i1> [ zeroinitializer, %entry ], [ %rejected.all, %body ]
  %at = getelementptr i64, ptr %bits, i64 %index
  %steps = load <${LANES} x i64>, ptr %at, align 64
  %first = and <${LANES} x i64> %steps, splat (i64 4294967295)
  %second = lshr <${LANES} x i64> %steps, splat (i64 32)
  %first.product = mul <${LANES} x i64> %first, %sizes
  %second.product = mul <${LANES} x i64> %second, %sizes
  %first.low = and <${LANES} x i64> %first.product, splat (i64 4294967295)
  %second.low = and <${LANES} x i64> %second.product, splat (i64 4294967295)
  %first.rejected = icmp ult <${LANES} x i64> %first.low, %thresholds
  %second.rejected = icmp ult <${LANES} x i64> %second.low, %thresholds
  %either = or <${LANES} x i1> %first.rejected, %second.rejected
  %rejected.all = or <${LANES} x i1> %rejected, %either
  %first.high = lshr <${LANES} x i64> %first.product, splat (i64 32)
  %second.high = lshr <${LANES} x i64> %second.product, splat (i64 32)
  %first.value = add <${LANES} x i64> %first.high, %lows
  %second.value = add <${LANES} x i64> %second.high, %lows
  %values = shufflevector <${LANES} x i64> %first.value, <${LANES} x i64> %second.value, <${PAIRS} x i32> ${ALTERNATING}
  %twice = shl i64 %index, 1
  %out.at = getelementptr i64, ptr %out, i64 %twice
  store <${PAIRS} x i64> %values, ptr %out.at, align 8
  %index.next = add i64 %index, ${LANES}
  %left = icmp slt i64 %index.next, ${BLOCK}
  br i1 %left, label %body, label %done
done:
  %some.bits = bitcast <${LANES} x i1> %rejected.all to i${LANES}
  %some = icmp ne i${LANES} %some.bits, 0
  ret i1 %some
}

; Moves the numbers of accepted halves to the front. Returns their count. The position among all halves of the one with
; index `wanted` is written to memory.
define internal i64 @integers.accepted(ptr %values, ptr %bits, i64 %size, i64 %threshold, i64 %wanted, ptr %position) {
entry:
  br label %look
look:
  %half = phi i64 [ 0, %entry ], [ %half.next, %next ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %next ]
  %left = icmp slt i64 %half, ${HALVES}
  br i1 %left, label %body, label %done
body:
  %half.next = add i64 %half, 1
  %at = getelementptr i32, ptr %bits, i64 %half
  %word = load i32, ptr %at
  %wide = zext i32 %word to i64
  %product = mul i64 %wide, %size
  %low = and i64 %product, 4294967295
  %accepted = icmp uge i64 %low, %threshold
  br i1 %accepted, label %accept, label %next
accept:
  %from = getelementptr i64, ptr %values, i64 %half
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %values, i64 %count
  store i64 %value, ptr %to
  %is.wanted = icmp eq i64 %count, %wanted
  %count.more = add i64 %count, 1
  br i1 %is.wanted, label %found, label %next
found:
  store i64 %half, ptr %position
  br label %next
next:
  %count.next = phi i64 [ %count, %body ], [ %count.more, %accept ], [ %count.more, %found ]
  br label %look
done:
  ret i64 %count
}

; The numbers of a block, their count, and the position of the half of the one with index `wanted`.
define internal { i64, i64 } @integers.block(ptr %values, ptr %bits, i128 %state, i128 %difference, ptr %stream, i64 %wanted, ptr %distances) {
entry:
  %position = alloca i64
  %size.at = getelementptr i64, ptr %stream, i64 4
  %size = load i64, ptr %size.at
  %low.at = getelementptr i64, ptr %stream, i64 5
  %low = load i64, ptr %low.at
  %threshold.at = getelementptr i64, ptr %stream, i64 8
  %threshold = load i64, ptr %threshold.at
  call void @write_outputs(ptr %bits, i128 %state, i128 %difference, ptr %distances)
  %some = call i1 @integers.values(ptr %values, ptr %bits, i64 %size, i64 %threshold, i64 %low)
  store i64 %wanted, ptr %position
  br i1 %some, label %rejected, label %done
rejected:
  %accepted = call i64 @integers.accepted(ptr %values, ptr %bits, i64 %size, i64 %threshold, i64 %wanted, ptr %position)
  br label %done
done:
  %count = phi i64 [ ${HALVES}, %entry ], [ %accepted, %rejected ]
  %half = load i64, ptr %position
  %result.0 = insertvalue { i64, i64 } poison, i64 %count, 0
  %result = insertvalue { i64, i64 } %result.0, i64 %half, 1
  ret { i64, i64 } %result
}

define internal { i64, i64 } @integers.count(ptr %stream, i128 %state, i128 %increment, ptr %distances) {
  %bits = alloca [${BLOCK} x i64], align 64
  %values = alloca [${HALVES} x i64], align 64
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %block = call { i64, i64 } @integers.block(ptr %values, ptr %bits, i128 %state, i128 %difference, ptr %stream, i64 0, ptr %distances)
  %result = insertvalue { i64, i64 } %block, i64 0, 1
  ret { i64, i64 } %result
}

; The elements `first` to `last` of a stream. Returns the position among all halves of a block of the last one, and the
; state at the block.
define internal { i64, i128 } @integers.range(ptr %out.given, ptr %stream, i64 %first.given, i64 %last.given, ptr %distances) {
entry:
  %bits = alloca [${BLOCK} x i64], align 64
  %values = alloca [${HALVES} x i64], align 64
  %increment.at = getelementptr i64, ptr %stream, i64 2
  %increment = load i128, ptr %increment.at, align 8
  %front.at = getelementptr i64, ptr %stream, i64 9
  %front = load i64, ptr %front.at
  br label %before
before:                               ; numbers in front of the stream
  %first.all = phi i64 [ %first.given, %entry ], [ %first.next, %copy ]
  %out = phi ptr [ %out.given, %entry ], [ %out.next, %copy ]
  %is.before = icmp slt i64 %first.all, %front
  %some = icmp slt i64 %first.all, %last.given
  %copies = and i1 %is.before, %some
  br i1 %copies, label %copy, label %stream.part
copy:
  %from = add i64 %first.all, 10
  %from.at = getelementptr i64, ptr %stream, i64 %from
  %number = load i64, ptr %from.at
  store i64 %number, ptr %out
  %out.next = getelementptr i64, ptr %out, i64 1
  %first.next = add i64 %first.all, 1
  br label %before
stream.part:
  %first = sub i64 %first.all, %front
  %last = sub i64 %last.given, %front
  %record.index = call i64 @find_block(ptr %stream, i64 %first)
  br label %block
block:
  %k = phi i64 [ %record.index, %stream.part ], [ %k.next, %write ]
  %begin = phi i64 [ %first, %stream.part ], [ %end, %write ]
  %half = phi i64 [ 0, %stream.part ], [ %half.next, %write ]
  %state.last = phi i128 [ 0, %stream.part ], [ %state, %write ]
  %left = icmp slt i64 %begin, %last
  br i1 %left, label %draw, label %done
draw:
  %k.next = add i64 %k, 1
  %word = mul i64 %k, 4
  %place = add i64 %word, ${HEAD}
  %record = getelementptr i64, ptr %stream, i64 %place
  %state = load i128, ptr %record, align 8
  %element.at = getelementptr i64, ptr %record, i64 2
  %element = load i64, ptr %element.at
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %skipped = sub i64 %begin, %element
  %until = sub i64 %last, %element
  %wanted = sub i64 %until, 1
  %drawn = call { i64, i64 } @integers.block(ptr %values, ptr %bits, i128 %state, i128 %difference, ptr %stream, i64 %wanted, ptr %distances)
  %count = extractvalue { i64, i64 } %drawn, 0
  %half.next = extractvalue { i64, i64 } %drawn, 1
  %stop = call i64 @llvm.smin.i64(i64 %count, i64 %until)
  %most = sub i64 %stop, %skipped
  %any = icmp sgt i64 %most, 0
  br i1 %any, label %some.elements, label %write
some.elements:
  %bytes = shl i64 %most, 3
  %source = getelementptr i64, ptr %values, i64 %skipped
  %passed = sub i64 %begin, %first
  %target = getelementptr i64, ptr %out, i64 %passed
  call ptr @memcpy(ptr %target, ptr %source, i64 %bytes)
  br label %write
write:
  %taken = phi i64 [ 0, %draw ], [ %most, %some.elements ]
  %end = add i64 %begin, %taken
  br label %block
done:
  %result.0 = insertvalue { i64, i128 } poison, i64 %half, 0
  %result = insertvalue { i64, i128 } %result.0, i128 %state.last, 1
  ret { i64, i128 } %result
}

; The state behind `end` elements, whether its high half is still to be used, and this half.
define internal void @integers.end(ptr %slots, ptr %stream, i64 %end, ptr %distances) {
  %memory = alloca [2 x i64], align 16
  %increment.at = getelementptr i64, ptr %stream, i64 2
  %increment = load i128, ptr %increment.at, align 8
  %last = sub i64 %end, 1
  %found = call { i64, i128 } @integers.range(ptr %memory, ptr %stream, i64 %last, i64 %end, ptr %distances)
  %half = extractvalue { i64, i128 } %found, 0
  %block = extractvalue { i64, i128 } %found, 1
  %difference = call i128 @difference(i128 %block, i128 %increment)
  %step = lshr i64 %half, 1
  %steps = add i64 %step, 1
  %state = call i128 @after(i128 %block, i128 %difference, i64 %steps, ptr %distances)
  %state.at = getelementptr i64, ptr %slots, i64 4
  store i128 %state, ptr %state.at, align 8
  %odd = and i64 %half, 1
  %has = xor i64 %odd, 1
  %has.at = getelementptr i64, ptr %slots, i64 6
  store i64 %has, ptr %has.at
  %bits = call i64 @output(i128 %state)
  %high = lshr i64 %bits, 32
  %high.at = getelementptr i64, ptr %slots, i64 7
  store i64 %high, ptr %high.at
  ret void
}
