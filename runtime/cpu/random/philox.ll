; Philox4x64-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): four outputs are a function of a
; counter and a key. A state is the position of an output: the counter, and in its last two bits the index of the output.
; The increment of a stream is the key. Only counters of fewer than 126 bits are supported.

define internal i128 @step(i128 %state, i128 %key) alwaysinline {
  %next = add i128 %state, 1
  ret i128 %next
}

; Returns the state after a number of steps.
define internal i128 @advance(i128 %state, i128 %key, i64 %steps) alwaysinline {
  %wide = zext i64 %steps to i128
  %there = add i128 %state, %wide
  ret i128 %there
}

define internal i128 @difference(i128 %state, i128 %key) alwaysinline {
  ret i128 %key
}

define internal i128 @after(i128 %state, i128 %key, i64 %count, ptr %unused) alwaysinline {
  %there = call i128 @advance(i128 %state, i128 %key, i64 %count)
  ret i128 %there
}

; Returns the four outputs of a counter.
define internal <4 x i64> @bijection(i128 %counter, i128 %key) alwaysinline {
entry:
  %low = trunc i128 %counter to i64
  %upper = lshr i128 %counter, 64
  %high = trunc i128 %upper to i64
  %key.low = trunc i128 %key to i64
  %key.upper = lshr i128 %key, 64
  %key.high = trunc i128 %key.upper to i64
  br label %round
round:
  %k = phi i64 [ 0, %entry ], [ %k.next, %round ]
  %a = phi i64 [ %low, %entry ], [ %a.next, %round ]
  %b = phi i64 [ %high, %entry ], [ %second.low, %round ]
  %c = phi i64 [ 0, %entry ], [ %c.next, %round ]
  %d = phi i64 [ 0, %entry ], [ %first.low, %round ]
  %x = phi i64 [ %key.low, %entry ], [ %x.next, %round ]
  %y = phi i64 [ %key.high, %entry ], [ %y.next, %round ]
  %a.wide = zext i64 %a to i128
  %c.wide = zext i64 %c to i128
  %first = mul i128 %a.wide, ${FIRST}
  %second = mul i128 %c.wide, ${SECOND}
  %first.low = trunc i128 %first to i64
  %first.upper = lshr i128 %first, 64
  %first.high = trunc i128 %first.upper to i64
  %second.low = trunc i128 %second to i64
  %second.upper = lshr i128 %second, 64
  %second.high = trunc i128 %second.upper to i64
  %b.mixed = xor i64 %second.high, %b
  %a.next = xor i64 %b.mixed, %x
  %d.mixed = xor i64 %first.high, %d
  %c.next = xor i64 %d.mixed, %y
  %x.next = add i64 %x, ${FIRST_WEYL}
  %y.next = add i64 %y, ${SECOND_WEYL}
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, ${ROUNDS}
  br i1 %more, label %round, label %done
done:
  %v0 = insertelement <4 x i64> poison, i64 %a.next, i64 0
  %v1 = insertelement <4 x i64> %v0, i64 %second.low, i64 1
  %v2 = insertelement <4 x i64> %v1, i64 %c.next, i64 2
  %v3 = insertelement <4 x i64> %v2, i64 %first.low, i64 3
  ret <4 x i64> %v3
}

define internal i64 @output(i128 %state, i128 %key) noinline {
  %counter = lshr i128 %state, 2
  %all = call <4 x i64> @bijection(i128 %counter, i128 %key)
  %low = trunc i128 %state to i64
  %index = and i64 %low, 3
  %bits = extractelement <4 x i64> %all, i64 %index
  ret i64 %bits
}

; Returns the outputs of `count` steps, at most ${BLOCK}.
define internal void @write_outputs(ptr %out, i128 %state, i128 %key, i64 %count, ptr %unused) noinline {
entry:
  %memory = alloca [${ROOM} x i64], align 64
  %next = add i128 %state, 1
  %counter = lshr i128 %next, 2
  %low = trunc i128 %next to i64
  %skipped = and i64 %low, 3
  %until = add i64 %skipped, %count
  br label %look
look:
  %index = phi i64 [ 0, %entry ], [ %index.next, %body ]
  %left = icmp slt i64 %index, %until
  br i1 %left, label %body, label %done
body:
  %further = lshr i64 %index, 2
  %further.wide = zext i64 %further to i128
  %here = add i128 %counter, %further.wide
  %all = call <4 x i64> @bijection(i128 %here, i128 %key)
  %at = getelementptr i64, ptr %memory, i64 %index
  store <4 x i64> %all, ptr %at, align 32
  %index.next = add i64 %index, 4
  br label %look
done:
  %from = getelementptr i64, ptr %memory, i64 %skipped
  %bytes = shl i64 %count, 3
  call ptr @memcpy(ptr %out, ptr %from, i64 %bytes)
  ret void
}
