; Returns the remainders of divisions, with the signs of the dividends. If a quotient is less than ${EXACT}, its integer part or the
; next integer is the integer part of the rounded quotient, and both remainders are exact. The C library computes the others.
define internal ${VECTOR} @${NAME}(${VECTOR} %x, ${VECTOR} %y) alwaysinline #0 {
entry:
  %a = call ${VECTOR} @llvm.fabs.${SUFFIX}(${VECTOR} %x)
  %b = call ${VECTOR} @llvm.fabs.${SUFFIX}(${VECTOR} %y)
  %quotient = fdiv ${VECTOR} %a, %b
  %whole = call ${VECTOR} @llvm.trunc.${SUFFIX}(${VECTOR} %quotient)
  %negative = fneg ${VECTOR} %whole
  %rest = call ${VECTOR} @llvm.fma.${SUFFIX}(${VECTOR} %negative, ${VECTOR} %b, ${VECTOR} %a)
  %next = fcmp olt ${VECTOR} %rest, zeroinitializer
  %raised = fadd ${VECTOR} %rest, %b
  %positive = select <${LANES} x i1> %next, ${VECTOR} %raised, ${VECTOR} %rest
  %less = fcmp olt ${VECTOR} %a, %b
  %magnitude = select <${LANES} x i1> %less, ${VECTOR} %a, ${VECTOR} %positive
  %found = call ${VECTOR} @llvm.copysign.${SUFFIX}(${VECTOR} %magnitude, ${VECTOR} %x)
  %exact = fcmp olt ${VECTOR} %quotient, splat (${KIND} ${EXACT})
  %bits = bitcast <${LANES} x i1> %exact to i${LANES}
  %all = icmp eq i${LANES} %bits, -1
  br i1 %all, label %over, label %lane
lane:
  %k = phi i32 [ 0, %entry ], [ %k.next, %lane.next ]
  %result = phi ${VECTOR} [ %found, %entry ], [ %result.next, %lane.next ]
  %k.exact = extractelement <${LANES} x i1> %exact, i32 %k
  br i1 %k.exact, label %lane.next, label %call
call:
  %k.x = extractelement ${VECTOR} %x, i32 %k
  %k.y = extractelement ${VECTOR} %y, i32 %k
  %k.rest = call ${KIND} @${SYMBOL}(${KIND} %k.x, ${KIND} %k.y)
  %replaced = insertelement ${VECTOR} %result, ${KIND} %k.rest, i32 %k
  br label %lane.next
lane.next:
  %result.next = phi ${VECTOR} [ %result, %lane ], [ %replaced, %call ]
  %k.next = add nuw nsw i32 %k, 1
  %more = icmp ult i32 %k.next, ${LANES}
  br i1 %more, label %lane, label %over
over:
  %remainder = phi ${VECTOR} [ %found, %entry ], [ %result.next, %lane.next ]
  ret ${VECTOR} %remainder
}
