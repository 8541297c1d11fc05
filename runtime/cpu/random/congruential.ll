; Linear congruential generators of 128 bits: PCG64 and PCG64DXSM (O'Neill 2014, "PCG: a family of simple fast
; space-efficient statistically good algorithms"). An output function takes 64 bits of each state.

declare i64 @llvm.fshr.i64(i64, i64, i64)
declare <${LANES} x i64> @llvm.fshr.v${LANES}i64(<${LANES} x i64>, <${LANES} x i64>, <${LANES} x i64>)

define internal i128 @step(i128 %state, i128 %increment) alwaysinline {
  %product = mul i128 %state, ${MULTIPLIER}
  %next = add i128 %product, %increment
  ret i128 %next
}

define internal i64 @output(i128 %state, i128 %increment) alwaysinline {
  %upper = lshr i128 %state, 64
  %high = trunc i128 %upper to i64
  %low = trunc i128 %state to i64
${OUTPUT}
  ret i64 %bits
}

; Returns the state after a number of steps (Brown 1994, "Random number generation with arbitrary strides").
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


; The first step of a state: state(n) = state + distance(n) * difference, where distance(n) = 1 + a + ... + a^(n - 1) for
; the multiplier a. The states of a block thus do not depend on each other.
define internal i128 @difference(i128 %state, i128 %increment) alwaysinline {
  %next = call i128 @step(i128 %state, i128 %increment)
  %difference = sub i128 %next, %state
  ret i128 %difference
}

; The state `count` steps later, for at most ${DISTANCES} steps. `distances` holds the low words of distance(1) to
; distance(${DISTANCES}), and then their high words.
define internal i128 @after(i128 %state, i128 %difference, i64 %count, ptr %distances) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %some
some:
  %index = sub i64 %count, 1
  %low.at = getelementptr i64, ptr %distances, i64 %index
  %high.at = getelementptr i64, ptr %low.at, i64 ${DISTANCES}
  %low = load i64, ptr %low.at
  %high = load i64, ptr %high.at
  %low.wide = zext i64 %low to i128
  %high.wide = zext i64 %high to i128
  %high.placed = shl i128 %high.wide, 64
  %distance = or i128 %high.placed, %low.wide
  %way = mul i128 %distance, %difference
  %there = add i128 %state, %way
  br label %done
done:
  %result = phi i128 [ %state, %entry ], [ %there, %some ]
  ret i128 %result
}

; Computes the outputs of steps index + 1 to index + ${LANES} from a state, whose words are in the lanes of the
; arguments.
define internal <${LANES} x i64> @outputs(i64 %index, <${LANES} x i64> %state.low, <${LANES} x i64> %state.high, <${LANES} x i64> %low, <${LANES} x i64> %high, ptr %distances) alwaysinline {
  %half = call <${LANES} x i64> @splat(i64 32)
  %mask = call <${LANES} x i64> @splat(i64 4294967295)
  %g.low.at = getelementptr i64, ptr %distances, i64 %index
  %g.high.at = getelementptr i64, ptr %g.low.at, i64 ${DISTANCES}
  %g.low = load <${LANES} x i64>, ptr %g.low.at, align 8
  %g.high = load <${LANES} x i64>, ptr %g.high.at, align 8
  ; the high word of the product of the low words, from products of 32-bit halves
  %a0 = and <${LANES} x i64> %g.low, %mask
  %a1 = lshr <${LANES} x i64> %g.low, %half
  %b0 = and <${LANES} x i64> %low, %mask
  %b1 = lshr <${LANES} x i64> %low, %half
  %p00 = mul <${LANES} x i64> %a0, %b0
  %p01 = mul <${LANES} x i64> %a0, %b1
  %p10 = mul <${LANES} x i64> %a1, %b0
  %p11 = mul <${LANES} x i64> %a1, %b1
  %p00.high = lshr <${LANES} x i64> %p00, %half
  %middle = add <${LANES} x i64> %p10, %p00.high
  %middle.low = and <${LANES} x i64> %middle, %mask
  %other = add <${LANES} x i64> %p01, %middle.low
  %middle.high = lshr <${LANES} x i64> %middle, %half
  %other.high = lshr <${LANES} x i64> %other, %half
  %carried = add <${LANES} x i64> %p11, %middle.high
  %upper = add <${LANES} x i64> %carried, %other.high
  %other.placed = shl <${LANES} x i64> %other, %half
  %p00.low = and <${LANES} x i64> %p00, %mask
  %product.low = or <${LANES} x i64> %other.placed, %p00.low
  %cross0 = mul <${LANES} x i64> %g.high, %low
  %cross1 = mul <${LANES} x i64> %g.low, %high
  %cross = add <${LANES} x i64> %cross0, %cross1
  %product.high = add <${LANES} x i64> %upper, %cross
  %there.low = add <${LANES} x i64> %product.low, %state.low
  %over = icmp ult <${LANES} x i64> %there.low, %product.low
  %carry = zext <${LANES} x i1> %over to <${LANES} x i64>
  %sum = add <${LANES} x i64> %product.high, %state.high
  %there.high = add <${LANES} x i64> %sum, %carry
${OUTPUTS}
  ret <${LANES} x i64> %bits
}

; Computes the outputs of at least `count` steps.
define internal void @write_outputs(ptr %out, i128 %state, i128 %difference, i64 %count, ptr %distances) noinline {
entry:
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
  %index = phi i64 [ 0, %entry ], [ %index.next, %body ]
  %left = icmp slt i64 %index, %count
  br i1 %left, label %body, label %done
body:
  %bits = call <${LANES} x i64> @outputs(i64 %index, <${LANES} x i64> %state.low, <${LANES} x i64> %state.high, <${LANES} x i64> %low, <${LANES} x i64> %high, ptr %distances)
  %at = getelementptr i64, ptr %out, i64 %index
  store <${LANES} x i64> %bits, ptr %at, align 8
  %index.next = add i64 %index, ${LANES}
  br label %look
done:
  ret void
}
