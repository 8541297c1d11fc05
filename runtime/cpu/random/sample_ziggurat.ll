; Marsaglia and Tsang 2000, "The ziggurat method for generating random variables": 256 layers of equal area under the
; density. A layer's tables: the integer below which a point lies inside it, the width of a unit, and the density.

${LAYER}

; An element whose first point lies at the edge of its layer: it is in the tail, below the density, or drawn anew.
define internal { double, i128, i64 } @edge(i128 %first, i128 %increment, ptr %tables, i64 %first.bits) noinline cold {
entry:
  br label %try
try:
  %state = phi i128 [ %first, %entry ], [ %fresh, %anew ]
  %bits = phi i64 [ %first.bits, %entry ], [ %fresh.bits, %anew ]
  %steps = phi i64 [ 1, %entry ], [ %fresh.steps, %anew ]
  %found = call { i64, i64, double } @point(i64 %bits, ptr %tables)
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
  %far = call { double, i128, i64 } @tail(i128 %state, i128 %increment, i64 %place)
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
  %exact = call double @density(double %value)
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
