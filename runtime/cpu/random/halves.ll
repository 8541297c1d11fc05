; float32 numbers in [0, 1) of 24 bits. A number takes half of a step: first the low half, then the high one.

define internal void @halves.floats(ptr %out, ptr %bits) {
entry:
  br label %body
body:
  %index = phi i64 [ 0, %entry ], [ %index.next, %body ]
  %at = getelementptr i32, ptr %bits, i64 %index
  %words = load <${PAIRS} x i32>, ptr %at, align 64
  %upper = lshr <${PAIRS} x i32> %words, splat (i32 8)
  %whole = sitofp <${PAIRS} x i32> %upper to <${PAIRS} x float>
  %unit = fmul <${PAIRS} x float> %whole, splat (float 0x3E70000000000000)
  %out.at = getelementptr float, ptr %out, i64 %index
  store <${PAIRS} x float> %unit, ptr %out.at, align 64
  %index.next = add i64 %index, ${PAIRS}
  %left = icmp slt i64 %index.next, ${HALVES}
  br i1 %left, label %body, label %done
done:
  ret void
}

; The elements `first` to `last` of a stream. Word 9 of the stream is 1 if its first element is in word 10.
define internal void @halves.range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %distances) {
entry:
  %bits = alloca [${BLOCK} x i64], align 64
  %floats = alloca [${HALVES} x float], align 64
  %base = load i128, ptr %stream, align 8
  %increment.at = getelementptr i64, ptr %stream, i64 2
  %increment = load i128, ptr %increment.at, align 8
  %front.at = getelementptr i64, ptr %stream, i64 9
  %front = load i64, ptr %front.at
  %is.first = icmp slt i64 %first, %front
  br i1 %is.first, label %copy, label %begin
copy:
  %number.at = getelementptr i64, ptr %stream, i64 10
  %number = load i32, ptr %number.at
  store i32 %number, ptr %out
  br label %begin
begin:
  %front.here = phi i64 [ 0, %entry ], [ 1, %copy ]
  %from = add i64 %first, %front.here
  %half = sub i64 %from, %front
  %step = lshr i64 %half, 1
  %odd = and i64 %half, 1
  %state.first = call i128 @advance(i128 %base, i128 %increment, i64 %step)
  br label %look
look:                                 ; the first element of a block is skipped if its half precedes those wanted
  %element = phi i64 [ %from, %begin ], [ %element.next, %block ]
  %skipped = phi i64 [ %odd, %begin ], [ 0, %block ]
  %state = phi i128 [ %state.first, %begin ], [ %state.next, %block ]
  %left = sub i64 %last, %element
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %block, label %done
block:
  %difference = call i128 @difference(i128 %state, i128 %increment)
  call void @write_outputs(ptr %bits, i128 %state, i128 %difference, ptr %distances)
  call void @halves.floats(ptr %floats, ptr %bits)
  %all = sub i64 ${HALVES}, %skipped
  %count = call i64 @llvm.smin.i64(i64 %all, i64 %left)
  %bytes = shl i64 %count, 2
  %source = getelementptr float, ptr %floats, i64 %skipped
  %passed = sub i64 %element, %first
  %target = getelementptr float, ptr %out, i64 %passed
  call ptr @memcpy(ptr %target, ptr %source, i64 %bytes)
  %element.next = add i64 %element, %count
  %state.next = call i128 @after(i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %look
done:
  ret void
}
