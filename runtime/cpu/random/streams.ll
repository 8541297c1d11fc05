; Streams of random numbers, and kernels that read them.
;
; The words of a stream: the state, the increment, the scale and the location of its elements (for bounded integers, the
; size of the interval less one, and the first integer), its method, the number of blocks of its index, the threshold of
; words that are rejected, the number of elements in front of the stream, four words of these elements, a function of
; the elements (0: none) with three parameters, the bit generator, and the binary logarithm of the bytes of an element.
; Each number in [0, 1) takes one step. For each block of ${BLOCK} steps, an index contains the state at the block, the
; first element that begins in the block, and the step at which that element begins.

declare ptr @memcpy(ptr, ptr, i64)
declare float @expf(float)
declare float @log1pf(float)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
declare double @exp(double)
declare double @log(double)
declare double @log1p(double)
declare double @expm1(double)
declare double @pow(double, double)
declare double @llvm.sqrt.f64(double)

; The word number %k of a stream or of a function's slots: an integer, a 128-bit state or increment, a float or a pointer.
define internal i64 @integer_at(ptr %words, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %words, i64 %k
  %word = load i64, ptr %at
  ret i64 %word
}

define internal i128 @state_at(ptr %words, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %words, i64 %k
  %state = load i128, ptr %at, align 8
  ret i128 %state
}

define internal double @float_at(ptr %words, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %words, i64 %k
  %word = load double, ptr %at
  ret double %word
}

define internal ptr @pointer_at(ptr %words, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %words, i64 %k
  %word = load ptr, ptr %at
  ret ptr %word
}

; A float64 in [0, 1) of 53 bits.
define internal double @unit(i64 %bits) alwaysinline {
  %upper = lshr i64 %bits, 11
  %whole = sitofp i64 %upper to double
  %unit = fmul double %whole, 0x3CA0000000000000
  ret double %unit
}

define internal <${LANES} x i64> @splat(i64 %value) alwaysinline {
  %one = insertelement <${LANES} x i64> poison, i64 %value, i64 0
  %all = shufflevector <${LANES} x i64> %one, <${LANES} x i64> poison, <${LANES} x i32> zeroinitializer
  ret <${LANES} x i64> %all
}

${GENERATOR}

; Converts outputs to elements, and applies the scale and the location. Their number is a multiple of ${LANES}.
define internal void @units(ptr %memory, i64 %count, double %scale, double %loc) {
entry:
  %scale.one = insertelement <${LANES} x double> poison, double %scale, i64 0
  %scales = shufflevector <${LANES} x double> %scale.one, <${LANES} x double> poison, <${LANES} x i32> zeroinitializer
  %loc.one = insertelement <${LANES} x double> poison, double %loc, i64 0
  %locs = shufflevector <${LANES} x double> %loc.one, <${LANES} x double> poison, <${LANES} x i32> zeroinitializer
  br label %look
look:
  %index = phi i64 [ 0, %entry ], [ %index.next, %body ]
  %left = icmp slt i64 %index, %count
  br i1 %left, label %body, label %done
body:
  %at = getelementptr i64, ptr %memory, i64 %index
  %bits = load <${LANES} x i64>, ptr %at, align 8
  %upper = lshr <${LANES} x i64> %bits, splat (i64 11)
  %whole = uitofp <${LANES} x i64> %upper to <${LANES} x double>
  %unit = fmul <${LANES} x double> %whole, splat (double 0x3CA0000000000000)
  %scaled = fmul <${LANES} x double> %unit, %scales
  %shifted = fadd <${LANES} x double> %scaled, %locs
  store <${LANES} x double> %shifted, ptr %at, align 8
  %index.next = add i64 %index, ${LANES}
  br label %look
done:
  ret void
}

; Computes `count` elements from a state on.
define internal void @fill(ptr %out, i128 %begin, i128 %increment, i64 %count, double %scale, double %loc, ptr %distances) {
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
  call void @write_outputs(ptr %at, i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  call void @units(ptr %at, i64 ${BLOCK}, double %scale, double %loc)
  %state.next = call i128 @after(i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  %done.next = add i64 %done.count, ${BLOCK}
  br label %more
rest:
  call void @write_outputs(ptr %rest.memory, i128 %state, i128 %difference, i64 %left, ptr %distances)
  call void @units(ptr %rest.memory, i64 %left, double %scale, double %loc)
  %bytes = shl i64 %left, 3
  call ptr @memcpy(ptr %at, ptr %rest.memory, i64 %bytes)
  ret void
}

; Returns the last block of an index that begins with this element or an earlier one.
define internal i64 @find_block(ptr %stream, i64 %element) {
entry:
  %blocks = call i64 @integer_at(ptr %stream, i64 7)
  %records = getelementptr i64, ptr %stream, i64 ${HEAD}
  br label %search
search:
  %from = phi i64 [ 0, %entry ], [ %from.next, %halve ]
  %to = phi i64 [ %blocks, %entry ], [ %to.next, %halve ]
  %range = sub i64 %to, %from
  %several = icmp sgt i64 %range, 1
  br i1 %several, label %halve, label %done
halve:
  %half = lshr i64 %range, 1
  %middle = add i64 %from, %half
  %middle.at = getelementptr [4 x i64], ptr %records, i64 %middle, i64 2
  %middle.element = load i64, ptr %middle.at
  %right = icmp sle i64 %middle.element, %element
  %from.next = select i1 %right, i64 %middle, i64 %from
  %to.next = select i1 %right, i64 %to, i64 %middle
  br label %search
done:
  ret i64 %from
}

; Block k of an index.
define internal ptr @record(ptr %stream, i64 %k) alwaysinline {
  %records = getelementptr i64, ptr %stream, i64 ${HEAD}
  %record = getelementptr [4 x i64], ptr %records, i64 %k
  ret ptr %record
}

; Copies the elements of a range that are in the words of the stream. Returns the memory and the index behind them.
define internal { ptr, i64 } @front(ptr %out, ptr %stream, i64 %first, i64 %last) {
entry:
  %front = call i64 @integer_at(ptr %stream, i64 9)
  %width = call i64 @integer_at(ptr %stream, i64 19)
  %size = shl i64 1, %width
  %until = call i64 @llvm.smin.i64(i64 %front, i64 %last)
  br label %look
look:
  %index = phi i64 [ %first, %entry ], [ %index.next, %copy ]
  %at = phi ptr [ %out, %entry ], [ %at.next, %copy ]
  %left = icmp slt i64 %index, %until
  br i1 %left, label %copy, label %done
copy:
  %word_index = add i64 %index, 10
  %from = getelementptr i64, ptr %stream, i64 %word_index
  call ptr @memcpy(ptr %at, ptr %from, i64 %size)
  %at.next = getelementptr i8, ptr %at, i64 %size
  %index.next = add i64 %index, 1
  br label %look
done:
  %result.0 = insertvalue { ptr, i64 } poison, ptr %at, 0
  %result = insertvalue { ptr, i64 } %result.0, i64 %index, 1
  ret { ptr, i64 } %result
}

${METHODS}
define internal void @unit.range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %distances) {
  %base = load i128, ptr %stream, align 8
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %scale = call double @float_at(ptr %stream, i64 4)
  %loc = call double @float_at(ptr %stream, i64 5)
  %state = call i128 @advance(i128 %base, i128 %increment, i64 %first)
  %count = sub i64 %last, %first
  call void @fill(ptr %out, i128 %state, i128 %increment, i64 %count, double %scale, double %loc, ptr %distances)
  ret void
}

; Computes an element of a distribution from a standard element, by the functions that NumPy calls. The parameters of
; the last four distributions begin with the location.
define internal double @transformed(i64 %function, double %value, double %parameter, double %second, double %third) alwaysinline {
entry:
  switch i64 %function, label %lognormal [ i64 2, label %weibull
                                           i64 3, label %pareto
                                           i64 4, label %power
                                           i64 5, label %rayleigh
                                           i64 6, label %laplace
                                           i64 7, label %gumbel
                                           i64 8, label %logistic
                                           i64 9, label %triangular ]
lognormal:
  %exp = call double @exp(double %value)
  ret double %exp
weibull:
  %weibull.exponent = fdiv double 1.0, %parameter
  %weibull.value = call double @pow(double %value, double %weibull.exponent)
  ret double %weibull.value
pareto:
  %quotient = fdiv double %value, %parameter
  %pareto.value = call double @expm1(double %quotient)
  ret double %pareto.value
power:
  %opposite = fneg double %value
  %less = call double @expm1(double %opposite)
  %power.base = fneg double %less
  %power.exponent = fdiv double 1.0, %parameter
  %power.value = call double @pow(double %power.base, double %power.exponent)
  ret double %power.value
rayleigh:
  %twice = fmul double %value, 2.0
  %root = call double @llvm.sqrt.f64(double %twice)
  %rayleigh.value = fmul double %root, %parameter
  ret double %rayleigh.value
laplace:
  %upper = fcmp oge double %value, 0.5
  %from.two = fsub double 2.0, %value
  %reflected = fsub double %from.two, %value
  %doubled = fadd double %value, %value
  %side = select i1 %upper, double %reflected, double %doubled
  %side.log = call double @log(double %side)
  %side.scaled = fmul double %second, %side.log
  %laplace.less = fsub double %parameter, %side.scaled
  %laplace.more = fadd double %parameter, %side.scaled
  %laplace.value = select i1 %upper, double %laplace.less, double %laplace.more
  ret double %laplace.value
gumbel:
  %complement = fsub double 1.0, %value
  %inner = call double @log(double %complement)
  %inner.less = fneg double %inner
  %outer = call double @log(double %inner.less)
  %outer.scaled = fmul double %second, %outer
  %gumbel.value = fsub double %parameter, %outer.scaled
  ret double %gumbel.value
logistic:
  %other = fsub double 1.0, %value
  %odds = fdiv double %value, %other
  %odds.log = call double @log(double %odds)
  %odds.scaled = fmul double %second, %odds.log
  %logistic.value = fadd double %parameter, %odds.scaled
  ret double %logistic.value
triangular:                           ; the parameters are left, mode and right
  %base = fsub double %third, %parameter
  %left.base = fsub double %second, %parameter
  %ratio = fdiv double %left.base, %base
  %left.product = fmul double %left.base, %base
  %right.base = fsub double %third, %second
  %right.product = fmul double %right.base, %base
  %is.left = fcmp ole double %value, %ratio
  %rest = fsub double 1.0, %value
  %left.square = fmul double %value, %left.product
  %right.square = fmul double %rest, %right.product
  %square = select i1 %is.left, double %left.square, double %right.square
  %side.root = call double @llvm.sqrt.f64(double %square)
  %from.left = fadd double %parameter, %side.root
  %from.right = fsub double %third, %side.root
  %triangular.value = select i1 %is.left, double %from.left, double %from.right
  ret double %triangular.value
}

define internal void @transform(ptr %out, i64 %count, i64 %function, double %parameter, double %second, double %third) {
entry:
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %body, label %done
body:
  %at = getelementptr double, ptr %out, i64 %k
  %value = load double, ptr %at
  %found = call double @transformed(i64 %function, double %value, double %parameter, double %second, double %third)
  store double %found, ptr %at
  %k.next = add i64 %k, 1
  br label %look
done:
  ret void
}

; Computes the elements `first` to `last` of a stream. `room` tells whether memory in front of them may be written.
define void @weft_fill_range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %ziggurats, ptr %distances, i1 %room) {
entry:
  call void @draw_range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %ziggurats, ptr %distances, i1 %room)
  %function = call i64 @integer_at(ptr %stream, i64 14)
  %parameter = call double @float_at(ptr %stream, i64 15)
  %second = call double @float_at(ptr %stream, i64 16)
  %third = call double @float_at(ptr %stream, i64 17)
  %plain = icmp eq i64 %function, 0
  br i1 %plain, label %done, label %transformed
transformed:
  %count = sub i64 %last, %first
  call void @transform(ptr %out, i64 %count, i64 %function, double %parameter, double %second, double %third)
  br label %done
done:
  ret void
}

; Computes the same elements, without the function of the stream.
define internal void @draw_range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %ziggurats, ptr %distances, i1 %room) {
entry:
  %method = call i64 @integer_at(ptr %stream, i64 6)
  switch i64 %method, label %units [${CASES} ]
${RANGE}units:
  call void @unit.range(ptr %out, ptr %stream, i64 %first, i64 %last, ptr %distances)
  ret void
}

; Computes elements `begin` to `end` of an array. The slots are its memory, the stream, the tables of ziggurats, and the
; distances of `congruential.ll`.
define void @weft_draw_range(ptr %slots, i64 %begin, i64 %end) {
  %all = load ptr, ptr %slots
  %stream = call ptr @pointer_at(ptr %slots, i64 1)
  %ziggurats = call ptr @pointer_at(ptr %slots, i64 2)
  %distances = call ptr @pointer_at(ptr %slots, i64 3)
  %width = call i64 @integer_at(ptr %stream, i64 19)
  %offset = shl i64 %begin, %width
  %out = getelementptr i8, ptr %all, i64 %offset
  call void @weft_fill_range(ptr %out, ptr %stream, i64 %begin, i64 %end, ptr %ziggurats, ptr %distances, i1 false)
  ret void
}

define internal { i64, i64 } @count(ptr %stream, i64 %method, i128 %state, i128 %increment, i64 %first, ptr %ziggurats, ptr %distances) {
entry:
  switch i64 %method, label %none [${CASES} ]
${COUNT}none:
  unreachable
}

; The records of blocks `begin` to `end`, each as if an element began at its first step: its state, the number of elements
; that begin in it, and by how many steps the last one ends behind it. The slots are those of `weft_draw_range`.
define void @weft_index_blocks(ptr %slots, i64 %begin, i64 %end) {
entry:
  %stream = call ptr @pointer_at(ptr %slots, i64 1)
  %ziggurats = call ptr @pointer_at(ptr %slots, i64 2)
  %distances = call ptr @pointer_at(ptr %slots, i64 3)
  %base = load i128, ptr %stream, align 8
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %method = call i64 @integer_at(ptr %stream, i64 6)
  %steps = mul i64 %begin, ${BLOCK}
  %begin.state = call i128 @advance(i128 %base, i128 %increment, i64 %steps)
  br label %look
look:
  %k = phi i64 [ %begin, %entry ], [ %k.next, %block ]
  %state = phi i128 [ %begin.state, %entry ], [ %state.next, %block ]
  %left = icmp slt i64 %k, %end
  br i1 %left, label %block, label %done
block:
  %k.next = add i64 %k, 1
  %counted = call { i64, i64 } @count(ptr %stream, i64 %method, i128 %state, i128 %increment, i64 0, ptr %ziggurats, ptr %distances)
  %elements = extractvalue { i64, i64 } %counted, 0
  %over = extractvalue { i64, i64 } %counted, 1
  %record = call ptr @record(ptr %stream, i64 %k)
  store i128 %state, ptr %record, align 8
  %elements.at = getelementptr i64, ptr %record, i64 2
  store i64 %elements, ptr %elements.at
  %over.at = getelementptr i64, ptr %record, i64 3
  store i64 %over, ptr %over.at
  %difference = call i128 @difference(i128 %state, i128 %increment)
  %state.next = call i128 @after(i128 %state, i128 %difference, i64 ${BLOCK}, ptr %distances)
  br label %look
done:
  ret void
}

; Turns the records of blocks `begin` to `end` into an index. Blocks in which no element begins at the first step are
; counted again. Slots 4 and 5 are the number of elements in front of the block, and the step at which the first begins.
define void @weft_index_join(ptr %slots, i64 %begin, i64 %end) {
entry:
  %stream = call ptr @pointer_at(ptr %slots, i64 1)
  %ziggurats = call ptr @pointer_at(ptr %slots, i64 2)
  %distances = call ptr @pointer_at(ptr %slots, i64 3)
  %total.at = getelementptr i64, ptr %slots, i64 4
  %begin.total = load i64, ptr %total.at
  %offset.at = getelementptr i64, ptr %slots, i64 5
  %begin.offset = load i64, ptr %offset.at
  %increment = call i128 @state_at(ptr %stream, i64 2)
  %method = call i64 @integer_at(ptr %stream, i64 6)
  br label %look
look:
  %k = phi i64 [ %begin, %entry ], [ %k.next, %write ]
  %total = phi i64 [ %begin.total, %entry ], [ %total.next, %write ]
  %offset = phi i64 [ %begin.offset, %entry ], [ %over, %write ]
  %left = icmp slt i64 %k, %end
  br i1 %left, label %block, label %done
block:
  %k.next = add i64 %k, 1
  %record = call ptr @record(ptr %stream, i64 %k)
  %elements.at = getelementptr i64, ptr %record, i64 2
  %over.at = getelementptr i64, ptr %record, i64 3
  %right = icmp eq i64 %offset, 0
  br i1 %right, label %read, label %again
read:
  %read.elements = load i64, ptr %elements.at
  %read.over = load i64, ptr %over.at
  br label %write
again:
  %state = load i128, ptr %record, align 8
  %counted = call { i64, i64 } @count(ptr %stream, i64 %method, i128 %state, i128 %increment, i64 %offset, ptr %ziggurats, ptr %distances)
  %again.elements = extractvalue { i64, i64 } %counted, 0
  %again.over = extractvalue { i64, i64 } %counted, 1
  br label %write
write:
  %elements = phi i64 [ %read.elements, %read ], [ %again.elements, %again ]
  %over = phi i64 [ %read.over, %read ], [ %again.over, %again ]
  store i64 %total, ptr %elements.at
  store i64 %offset, ptr %over.at
  %total.next = add i64 %total, %elements
  br label %look
done:
  store i64 %total, ptr %total.at
  store i64 %offset, ptr %offset.at
  ret void
}

; Writes the state behind `end` elements of a stream with an index to slots 4 and 5. For methods that read words, slot 6
; tells whether half of a step is unused, and slot 7 contains this half.
define void @weft_index_end(ptr %slots, i64 %unused, i64 %end) {
  %stream = call ptr @pointer_at(ptr %slots, i64 1)
  %ziggurats = call ptr @pointer_at(ptr %slots, i64 2)
  %distances = call ptr @pointer_at(ptr %slots, i64 3)
  %method = call i64 @integer_at(ptr %stream, i64 6)
  switch i64 %method, label %none [${CASES} ]
${END}none:
  unreachable
}

; Runs a kernel that reads streams, over the indices `begin` to `end` of its outermost loop. Its operands are never in
; memory as a whole: before the kernel runs over a few indices, the elements that it reads for these indices are written
; to this thread's memory.
;
; The slots are the kernel, the number of its arguments, its arguments, the number of indices at a time, the number of
; streams, the memory of all threads, the bytes of a thread, one bit for each thread's memory that is in use, the bytes of
; a stream in a thread's memory, the tables of ziggurats, and for each stream: its argument, the elements per index, the
; number of elements, its address, and `weft_fill_range` and the distances of its bit generator.
define void @weft_drawn_kernel(ptr %slots, i64 %begin, i64 %end) {
entry:
  %entry.point = load ptr, ptr %slots
  %size = call i64 @integer_at(ptr %slots, i64 1)
  %given = call ptr @pointer_at(ptr %slots, i64 2)
  %few = call i64 @integer_at(ptr %slots, i64 3)
  %streams = call i64 @integer_at(ptr %slots, i64 4)
  %memory = call ptr @pointer_at(ptr %slots, i64 5)
  %bytes = call i64 @integer_at(ptr %slots, i64 6)
  %used.at = getelementptr i64, ptr %slots, i64 7
  %apart = call i64 @integer_at(ptr %slots, i64 8)
  %ziggurats = call ptr @pointer_at(ptr %slots, i64 9)
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
  %words = mul i64 %k, 6
  %argument.at = getelementptr i64, ptr %first.stream, i64 %words
  %argument = load i64, ptr %argument.at
  %each = call i64 @integer_at(ptr %argument.at, i64 1)
  %count = call i64 @integer_at(ptr %argument.at, i64 2)
  %source = call ptr @pointer_at(ptr %argument.at, i64 3)
  %fill = call ptr @pointer_at(ptr %argument.at, i64 4)
  %distances = call ptr @pointer_at(ptr %argument.at, i64 5)
  %first = mul i64 %from, %each
  %behind = mul i64 %to, %each
  %last = call i64 @llvm.smin.i64(i64 %behind, i64 %count)
  %part = mul i64 %k, %apart
  %front = getelementptr i8, ptr %scratch, i64 %part
  %out = getelementptr double, ptr %front, i64 ${BLOCK}
  call void %fill(ptr %out, ptr %source, i64 %first, i64 %last, ptr %ziggurats, ptr %distances, i1 true)
  ; element 0 would be here
  %width = call i64 @integer_at(ptr %source, i64 19)
  %first.bytes = shl i64 %first, %width
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

!0 = !{!"branch_weights", i32 99, i32 1}
