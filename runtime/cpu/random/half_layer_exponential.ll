; An exponential variable: one bit is not used, 8 choose the layer, 23 the point.
define internal { i32, i32, float } @${NAME}.point(i32 %half, ptr %tables) alwaysinline {
  %upper = lshr i32 %half, 1
  %layer = and i32 %upper, 255
  %position = lshr i32 %half, 9
  %whole = sitofp i32 %position to float
  %unit.at = getelementptr [256 x float], ptr %tables, i64 1, i32 %layer
  %unit = load float, ptr %unit.at
  %value = fmul float %whole, %unit
  %result.0 = insertvalue { i32, i32, float } poison, i32 %layer, 0
  %result.1 = insertvalue { i32, i32, float } %result.0, i32 %position, 1
  %result = insertvalue { i32, i32, float } %result.1, float %value, 2
  ret { i32, i32, float } %result
}

; Returns whether a point lies below the density exp(-x).
define internal i1 @${NAME}.below(float %point, float %x) alwaysinline {
  %exponent = fneg float %x
  %density = call float @expf(float %exponent)
  %below = fcmp olt float %point, %density
  ret i1 %below
}

; The tail is an exponential variable that begins there.
define internal { float, i64 } @${NAME}.tail(ptr %bits, i128 %state, i128 %increment, i64 %first, i32 %position) {
  %unit = call float @${NAME}.unit(ptr %bits, i128 %state, i128 %increment, i64 %first)
  %less = fneg float %unit
  %log = call float @log1pf(float %less)
  %value = fsub float ${START}, %log
  %index = add i64 %first, 1
  %result.0 = insertvalue { float, i64 } poison, float %value, 0
  %result = insertvalue { float, i64 } %result.0, i64 %index, 1
  ret { float, i64 } %result
}
