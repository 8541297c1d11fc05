  ; float64 in [0, 1) of 53 bits, scaled and placed
  %eleven = call <${LANES} x i64> @splat(i64 11)
  %upper = lshr <${LANES} x i64> %bits, %eleven
  %whole = uitofp <${LANES} x i64> %upper to <${LANES} x double>
  %ulp.one = insertelement <${LANES} x double> poison, double 0x3CA0000000000000, i64 0
  %ulp = shufflevector <${LANES} x double> %ulp.one, <${LANES} x double> poison, <${LANES} x i32> zeroinitializer
  %unit = fmul <${LANES} x double> %whole, %ulp
  %scaled = fmul <${LANES} x double> %unit, %scales
  %placed = fadd <${LANES} x double> %scaled, %places
  store <${LANES} x double> %placed, ptr %at, align 8
