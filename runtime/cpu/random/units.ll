; Numbers of `random` and `uniform`, of which each takes one step, and kernels that read such numbers.

declare ptr @memcpy(ptr, ptr, i64)

${PCG64}

; `count` elements from a state on.
define internal void @fill(ptr %out, i128 %begin, i128 %increment, i64 %count, double %scale, double %place, ptr %distances) {
entry:
  %rest.memory = alloca [${BLOCK} x i64], align 64
  br label %more
more:
  %done.count = phi i64 [ 0, %entry ], [ %done.next, %whole ]
  %state = phi i128 [ %begin, %entry ], [ %state.next, %whole ]
  %left = sub i64 %count, %done.count
  %at = getelementptr double, ptr %out, i64 %done.count
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %is.whole = icmp sge i64 %left, ${BLOCK}
  br i1 %is.whole, label %whole, label %rest
whole:
  call void @block(ptr %at, i128 %state, i128 %difference, i64 ${BLOCK}, double %scale, double %place, ptr %distances)
  %state.next = call i128 @after(i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  %done.next = add i64 %done.count, ${BLOCK}
  br label %more
rest:
  call void @block(ptr %rest.memory, i128 %state, i128 %difference, i64 %left, double %scale, double %place, ptr %distances)
  %bytes = shl i64 %left, 3
  call ptr @memcpy(ptr %at, ptr %rest.memory, i64 %bytes)
  ret void
}

; The elements `first` to `last` of a stream. Its words: the state, the increment, the scale and the place.
define internal void @fill_range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %distances) {
  %base = load i128, ptr %stream, align 8
  %increment.at = getelementptr i64, ptr %stream, i64 2
  %increment = load i128, ptr %increment.at, align 8
  %scale.at = getelementptr i64, ptr %stream, i64 4
  %scale = load double, ptr %scale.at
  %place.at = getelementptr i64, ptr %stream, i64 5
  %place = load double, ptr %place.at
  %state = call i128 @advance(i128 %base, i128 %increment, i64 %first)
  %count = sub i64 %last, %first
  call void @fill(ptr %out, i128 %state, i128 %increment, i64 %count, double %scale, double %place, ptr %distances)
  ret void
}

; Elements `begin` to `end` of an array. The slots: its memory, the stream, and the distances of `pcg64.ll`.
define void @weft_draw_units(ptr %slots, i64 %begin, i64 %end) {
  %all = load ptr, ptr %slots
  %stream.at = getelementptr i64, ptr %slots, i64 1
  %stream = load ptr, ptr %stream.at
  %distances.at = getelementptr i64, ptr %slots, i64 2
  %distances = load ptr, ptr %distances.at
  %out = getelementptr double, ptr %all, i64 %begin
  call void @fill_range(ptr %out, ptr %stream, i64 %begin, i64 %end, ptr %distances)
  ret void
}

; A kernel that reads streams, over the indices `begin` to `end` of its outermost loop. Its operands are never in memory
; as a whole: before it runs over a few indices, the elements that it reads there are written to memory of this thread.
;
; The slots: the kernel, the number of its arguments, its arguments, the number of indices at a time, the number of
; streams, the memory of all threads, the bytes of a thread, one bit for each thread's memory that is in use, the
; distances of `pcg64.ll`, the bytes of a stream in a thread's memory, and for each stream: its argument, the elements per
; index, the number of elements, and its address.
define void @weft_drawn_kernel(ptr %slots, i64 %begin, i64 %end) {
entry:
  %entry.point = load ptr, ptr %slots
  %size.at = getelementptr i64, ptr %slots, i64 1
  %size = load i64, ptr %size.at
  %given.at = getelementptr i64, ptr %slots, i64 2
  %given = load ptr, ptr %given.at
  %few.at = getelementptr i64, ptr %slots, i64 3
  %few = load i64, ptr %few.at
  %streams.at = getelementptr i64, ptr %slots, i64 4
  %streams = load i64, ptr %streams.at
  %memory.at = getelementptr i64, ptr %slots, i64 5
  %memory = load ptr, ptr %memory.at
  %bytes.at = getelementptr i64, ptr %slots, i64 6
  %bytes = load i64, ptr %bytes.at
  %used.at = getelementptr i64, ptr %slots, i64 7
  %distances.at = getelementptr i64, ptr %slots, i64 8
  %distances = load ptr, ptr %distances.at
  %apart.at = getelementptr i64, ptr %slots, i64 9
  %apart = load i64, ptr %apart.at
  %first.stream = getelementptr i64, ptr %slots, i64 10
  %arguments = alloca i64, i64 %size, align 16
  %arguments.bytes = shl i64 %size, 3
  call ptr @memcpy(ptr %arguments, ptr %given, i64 %arguments.bytes)
  br label %claim
claim:
  %used = load atomic i64, ptr %used.at monotonic, align 8
  %unused = xor i64 %used, -1
  %which = call i64 @llvm.cttz.i64(i64 %unused, i1 false)
  %bit = shl i64 1, %which
  %taken = or i64 %used, %bit
  %swapped = cmpxchg ptr %used.at, i64 %used, i64 %taken acq_rel monotonic, align 8
  %mine = extractvalue { i64, i1 } %swapped, 1
  br i1 %mine, label %own, label %claim
own:
  %offset = mul i64 %which, %bytes
  %scratch = getelementptr i8, ptr %memory, i64 %offset
  br label %look
look:
  %from = phi i64 [ %begin, %own ], [ %to, %run ]
  %left = icmp slt i64 %from, %end
  br i1 %left, label %next, label %over
next:
  %further = add i64 %from, %few
  %to = call i64 @llvm.smin.i64(i64 %further, i64 %end)
  br label %stream
stream:
  %k = phi i64 [ 0, %next ], [ %k.next, %draw ]
  %more = icmp slt i64 %k, %streams
  br i1 %more, label %draw, label %run
draw:
  %k.next = add i64 %k, 1
  %words = shl i64 %k, 2
  %argument.at = getelementptr i64, ptr %first.stream, i64 %words
  %argument = load i64, ptr %argument.at
  %each.at = getelementptr i64, ptr %argument.at, i64 1
  %each = load i64, ptr %each.at
  %count.at = getelementptr i64, ptr %argument.at, i64 2
  %count = load i64, ptr %count.at
  %source.at = getelementptr i64, ptr %argument.at, i64 3
  %source = load ptr, ptr %source.at
  %first = mul i64 %from, %each
  %behind = mul i64 %to, %each
  %last = call i64 @llvm.smin.i64(i64 %behind, i64 %count)
  %part = mul i64 %k, %apart
  %out = getelementptr i8, ptr %scratch, i64 %part
  call void @fill_range(ptr %out, ptr %source, i64 %first, i64 %last, ptr %distances)
  ; element 0 would be here
  %first.bytes = shl i64 %first, 3
  %out.number = ptrtoint ptr %out to i64
  %origin = sub i64 %out.number, %first.bytes
  %slot = getelementptr i64, ptr %arguments, i64 %argument
  store i64 %origin, ptr %slot
  br label %stream
run:
  call void %entry.point(ptr %arguments, i64 %from, i64 %to)
  br label %look
over:
  %others = xor i64 %bit, -1
  atomicrmw and ptr %used.at, i64 %others acq_rel, align 8
  ret void
}

declare i64 @llvm.cttz.i64(i64, i1)
