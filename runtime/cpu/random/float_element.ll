; A float32 in [0, 1) of 24 bits.
define internal { float, i1 } @${NAME}.element(i32 %word, i64 %most, i64 %low, i64 %threshold) alwaysinline {
  %upper = lshr i32 %word, 8
  %whole = sitofp i32 %upper to float
  %unit = fmul float %whole, 0x3E70000000000000
  %result.0 = insertvalue { float, i1 } poison, float %unit, 0
  %result = insertvalue { float, i1 } %result.0, i1 false, 1
  ret { float, i1 } %result
}
