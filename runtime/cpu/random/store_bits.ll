  store <${LANES} x i64> %bits, ptr %at, align 8
