; A script's version of a NumPy function (`native_script.py`). The pointer %words is the builtin's table of 64-bit words:
; addresses of functions of Python's C API and of objects, and numbers.

define internal ptr @word(ptr %words, i64 %k) alwaysinline {
  %at = getelementptr ptr, ptr %words, i64 %k
  %word = load ptr, ptr %at
  ret ptr %word
}

; Return the number of elements of a NumPy array.
define internal i64 @size(ptr %array) alwaysinline {
enter:
  %axes.at = getelementptr i8, ptr %array, i64 ${AXES}
  %axes = load i32, ptr %axes.at
  %lengths.at = getelementptr i8, ptr %array, i64 ${LENGTHS}
  %lengths = load ptr, ptr %lengths.at
  br label %loop
loop:
  %k = phi i32 [ 0, %enter ], [ %k.next, %body ]
  %size = phi i64 [ 1, %enter ], [ %size.next, %body ]
  %more = icmp slt i32 %k, %axes
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %lengths, i32 %k
  %length = load i64, ptr %at
  %size.next = mul i64 %size, %length
  %k.next = add i32 %k, 1
  br label %loop
done:
  ret i64 %size
}

; Return whether the square of an array's number of elements is within the limit.
define internal i1 @few(i64 %size, i64 %limit) alwaysinline {
  %sane = icmp ult i64 %size, ${MOST}
  %square = mul i64 %size, %size
  %small = icmp sle i64 %square, %limit
  %both = and i1 %sane, %small
  ret i1 %both
}

; Return whether an argument is small. %product is the product of the lengths so far, and %leaves the number of items in
; sequences so far. A range has at most as many elements as its ends imply.
define internal i1 @judge(ptr %x, ptr %words, i1 %creates, ptr %product, ptr %leaves) noinline {
enter:
  %overflow = alloca i32
  %limit.at = call ptr @word(ptr %words, i64 ${LIMIT})
  %limit = load i64, ptr %limit.at
  %type.at = getelementptr i8, ptr %x, i64 ${TYPE}
  %type = load ptr, ptr %type.at
  %float = call ptr @word(ptr %words, i64 ${FLOAT})
  %is.float = icmp eq ptr %type, %float
  %is.plain = icmp ugt i1 %is.float, %creates
  br i1 %is.plain, label %yes, label %not.float
not.float:
  %ndarray = call ptr @word(ptr %words, i64 ${NDARRAY})
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %array, label %not.array
array:
  %size = call i64 @size(ptr %x)
  %computes = call ptr @word(ptr %words, i64 ${COMPUTES})
  %wide = icmp ne ptr %computes, null
  %within = icmp sle i64 %size, %limit
  %left.to.numpy = and i1 %wide, %within
  %small = call i1 @few(i64 %size, i64 %limit)
  %fine.size = or i1 %left.to.numpy, %small
  %array.alike = call ptr @word(ptr %words, i64 ${ALIKE})
  %bounded = icmp ne ptr %array.alike, null
  %repeated = and i1 %bounded, %fine.size
  br i1 %repeated, label %multiply, label %decided
decided:
  ret i1 %fine.size
not.array:
  %int = call ptr @word(ptr %words, i64 ${INT})
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %whole, label %other
whole:
  br i1 %creates, label %length, label %yes
length:
  store i32 0, ptr %overflow
  %as.long = call ptr @word(ptr %words, i64 ${PYLONG_ASLONGLONGANDOVERFLOW})
  %value = call i64 %as.long(ptr %x, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %sane = icmp ult i64 %value, ${MOST}
  %good = and i1 %fits, %sane
  br i1 %good, label %multiply, label %no
multiply:
  %factor = phi i64 [ %value, %length ], [ %size, %array ]
  %zero = icmp eq i64 %factor, 0
  %at.least = select i1 %zero, i64 1, i64 %factor
  %before = load i64, ptr %product
  %area = mul i64 %before, %at.least
  %further = icmp ugt i64 %before, %at.least
  %furthest = select i1 %further, i64 %before, i64 %at.least
  %alike = call ptr @word(ptr %words, i64 ${ALIKE})
  %is.range = icmp eq ptr %alike, inttoptr (i64 ${RANGE} to ptr)
  %after = select i1 %is.range, i64 %furthest, i64 %area
  store i64 %after, ptr %product
  %few = call i1 @few(i64 %after, i64 %limit)
  %can.grow = icmp ne ptr %alike, null
  %little = icmp sle i64 %after, %limit
  %grows = and i1 %can.grow, %little
  %in.bound = or i1 %few, %grows
  ret i1 %in.bound
other:
  %flags.of = call ptr @word(ptr %words, i64 ${PYTYPE_GETFLAGS})
  %flags = call i64 %flags.of(ptr %type)
  %tuple.flag = and i64 %flags, ${TUPLE}
  %list.flag = and i64 %flags, ${LIST}
  %is.tuple = icmp ne i64 %tuple.flag, 0
  %is.list = icmp ne i64 %list.flag, 0
  %is.sequence = or i1 %is.tuple, %is.list
  br i1 %is.sequence, label %sequence, label %look
look:
  %plain = call ptr @word(ptr %words, i64 ${PLAIN})
  %lengths = call ptr @word(ptr %words, i64 ${PLAIN_LENGTHS})
  %table = select i1 %creates, ptr %lengths, ptr %plain
  %get = call ptr @word(ptr %words, i64 ${PYDICT_GETITEMWITHERROR})
  %found = call ptr %get(ptr %table, ptr %type)
  %there = icmp ne ptr %found, null
  ret i1 %there
sequence:
  %tuple.size = call ptr @word(ptr %words, i64 ${PYTUPLE_SIZE})
  %list.size = call ptr @word(ptr %words, i64 ${PYLIST_SIZE})
  %size.of = select i1 %is.tuple, ptr %tuple.size, ptr %list.size
  %tuple.item = call ptr @word(ptr %words, i64 ${PYTUPLE_GETITEM})
  %list.item = call ptr @word(ptr %words, i64 ${PYLIST_GETITEM})
  %item.of = select i1 %is.tuple, ptr %tuple.item, ptr %list.item
  %count = call i64 %size.of(ptr %x)
  %leaves.before = load i64, ptr %leaves
  %leaves.after = add i64 %leaves.before, %count
  store i64 %leaves.after, ptr %leaves
  %short = call i1 @few(i64 %leaves.after, i64 %limit)
  br i1 %short, label %loop, label %no
loop:
  %k = phi i64 [ 0, %sequence ], [ %k.next, %item.good ]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %item, label %yes
item:
  %y = call ptr %item.of(ptr %x, i64 %k)
  %fine = call i1 @judge(ptr %y, ptr %words, i1 %creates, ptr %product, ptr %leaves)
  br i1 %fine, label %item.good, label %no
item.good:
  %k.next = add i64 %k, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Return whether one of the first items of a list or a tuple is a weft array.
define internal i1 @holds(ptr %x, ptr %type, ptr %words) alwaysinline {
enter:
  %flags.of = call ptr @word(ptr %words, i64 ${PYTYPE_GETFLAGS})
  %flags = call i64 %flags.of(ptr %type)
  %tuple.flag = and i64 %flags, ${TUPLE}
  %list.flag = and i64 %flags, ${LIST}
  %is.tuple = icmp ne i64 %tuple.flag, 0
  %is.list = icmp ne i64 %list.flag, 0
  %is.sequence = or i1 %is.tuple, %is.list
  br i1 %is.sequence, label %sequence, label %no
sequence:
  %tuple.size = call ptr @word(ptr %words, i64 ${PYTUPLE_SIZE})
  %list.size = call ptr @word(ptr %words, i64 ${PYLIST_SIZE})
  %size.of = select i1 %is.tuple, ptr %tuple.size, ptr %list.size
  %tuple.item = call ptr @word(ptr %words, i64 ${PYTUPLE_GETITEM})
  %list.item = call ptr @word(ptr %words, i64 ${PYLIST_GETITEM})
  %item.of = select i1 %is.tuple, ptr %tuple.item, ptr %list.item
  %array = call ptr @word(ptr %words, i64 ${ARRAY})
  %count = call i64 %size.of(ptr %x)
  %long = icmp sgt i64 %count, ${FIRST_ITEMS}
  %most = select i1 %long, i64 ${FIRST_ITEMS}, i64 %count
  br label %loop
loop:
  %k = phi i64 [ 0, %sequence ], [ %k.next, %item ]
  %left = icmp slt i64 %k, %most
  br i1 %left, label %item, label %no
item:
  %y = call ptr %item.of(ptr %x, i64 %k)
  %type.at = getelementptr i8, ptr %y, i64 ${TYPE}
  %item.type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %item.type, %array
  %k.next = add i64 %k, 1
  br i1 %is.array, label %yes, label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

define ptr @${NAME}(ptr %self, ptr %given, i64 %count, ptr %names) nounwind "no-builtins" {
entry:
  %words = getelementptr i8, ptr %self, i64 ${TABLE}
  %word.Array = call ptr @word(ptr %words, i64 ${ARRAY})
  %word.Scalar = call ptr @word(ptr %words, i64 ${SCALAR})
  %word.PyObject_Vectorcall = call ptr @word(ptr %words, i64 ${PYOBJECT_VECTORCALL})
  %word.PyTuple_Size = call ptr @word(ptr %words, i64 ${PYTUPLE_SIZE})
  %word.Py_DecRef = call ptr @word(ptr %words, i64 ${PY_DECREF})
  %word.function = call ptr @word(ptr %words, i64 ${FUNCTION})
  %word.kind = call ptr @word(ptr %words, i64 ${KIND})
  %word.limit = call ptr @word(ptr %words, i64 ${LIMIT})
  %word.method = call ptr @word(ptr %words, i64 ${METHOD})
  %word.ndarray = call ptr @word(ptr %words, i64 ${NDARRAY})
  %word.axis = call ptr @word(ptr %words, i64 ${AXIS})
  %word.most = call ptr @word(ptr %words, i64 ${MOST_POSITIONAL})
  %word.numpys.method = call ptr @word(ptr %words, i64 ${NUMPYS_METHOD})
  %word.own = call ptr @word(ptr %words, i64 ${OWN})
  %word.slow = call ptr @word(ptr %words, i64 ${SLOW})
  %word.take = call ptr @word(ptr %words, i64 ${TAKE})
  %product = alloca i64
  %leaves = alloca i64
  %held = alloca ptr
  store i64 1, ptr %product
  store i64 0, ptr %leaves
  %kind = ptrtoint ptr %word.kind to i64
  %limit = load i64, ptr %word.limit
  %creates = icmp eq i64 %kind, ${CREATE}
  %writes = icmp eq i64 %kind, ${WRITE}
  %draws = icmp eq i64 %kind, ${DRAW}
  %on = icmp sgt i64 %limit, 0
  br i1 %on, label %named, label %slow
named:
  %has.names = icmp ne ptr %names, null
  br i1 %has.names, label %count.names, label %begin
count.names:
  %more = call i64 %word.PyTuple_Size(ptr %names)
  br label %begin
begin:
  %options = phi i64 [ 0, %named ], [ %more, %count.names ]
  %total = add i64 %count, %options
  br label %argument
argument:
  %k = phi i64 [ 0, %begin ], [ %k.next, %next ]
  %left = icmp slt i64 %k, %total
  br i1 %left, label %look, label %call
look:
  %at = getelementptr ptr, ptr %given, i64 %k
  %x = load ptr, ptr %at
  %type.at = getelementptr i8, ptr %x, i64 ${TYPE}
  %type = load ptr, ptr %type.at
  %is.whole = icmp eq ptr %type, %word.Array
  %is.scalar = icmp eq ptr %type, %word.Scalar
  %is.own = or i1 %is.whole, %is.scalar
  br i1 %is.own, label %own.array, label %not.own
own.array:
  %later = icmp sgt i64 %k, 0
  %no.target = or i1 %is.scalar, %later
  %elsewhere = and i1 %writes, %no.target
  br i1 %elsewhere, label %slow, label %own
not.own:
  %holds = call i1 @holds(ptr %x, ptr %type, ptr %words)
  %effects = or i1 %writes, %creates
  %others = or i1 %effects, %draws
  %joins = icmp ugt i1 %holds, %others
  br i1 %joins, label %own, label %not.joined
not.joined:
  %good = call i1 @judge(ptr %x, ptr %words, i1 %creates, ptr %product, ptr %leaves)
  br i1 %good, label %next, label %slow
next:
  %k.next = add i64 %k, 1
  br label %argument
call:
  ; The equivalent method of an array takes less time. Both agree about the keyword `axis`.
  %most = ptrtoint ptr %word.most to i64
  %beyond = sub i64 %count, 1
  %agree = icmp ult i64 %beyond, %most
  br i1 %agree, label %first.type, label %apply
first.type:
  %first.x = load ptr, ptr %given
  %first.type.at = getelementptr i8, ptr %first.x, i64 ${TYPE}
  %first.kind = load ptr, ptr %first.type.at
  %first.array = icmp eq ptr %first.kind, %word.ndarray
  br i1 %has.names, label %one.name, label %choose
one.name:
  %single = icmp eq i64 %options, 1
  %name.at = getelementptr i8, ptr %names, i64 ${TUPLE_ITEMS}
  %name = load ptr, ptr %name.at
  %is.axis = icmp eq ptr %name, %word.axis
  %axis.only = and i1 %single, %is.axis
  br label %choose
choose:
  %plain = phi i1 [ true, %first.type ], [ %axis.only, %one.name ]
  %usable = and i1 %first.array, %plain
  %chosen = select i1 %usable, ptr %word.numpys.method, ptr %word.function
  br label %apply
apply:
  %applied = phi ptr [ %word.function, %call ], [ %chosen, %choose ]
  %result = call ptr %word.PyObject_Vectorcall(ptr %applied, ptr %given, i64 %count, ptr %names)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %return, label %made
made:
  %result.type.at = getelementptr i8, ptr %result, i64 ${TYPE}
  %result.type = load ptr, ptr %result.type.at
  %is.array = icmp eq ptr %result.type, %word.ndarray
  br i1 %is.array, label %array, label %return
array:
  switch i64 %kind, label %new [ i64 ${VIEW}, label %return i64 ${WRITE}, label %return ]
new:
  %size = call i64 @size(ptr %result)
  %computes = icmp eq i64 %kind, ${COMPUTE}
  %within = icmp sle i64 %size, %limit
  %few = call i1 @few(i64 %size, i64 %limit)
  %stays = select i1 %computes, i1 %within, i1 %few
  br i1 %stays, label %return, label %adopt
adopt:
  ; A new array in C order becomes the memory of a weft array if the CPU is this process's only device.
  %medium = icmp sle i64 %size, %limit
  %base.at = getelementptr i8, ptr %result, i64 ${BASE}
  %base = load ptr, ptr %base.at
  %owned = icmp eq ptr %base, null
  %flags.at = getelementptr i8, ptr %result, i64 ${FLAGS}
  %flags = load i32, ptr %flags.at
  %c.order = and i32 %flags, ${C_ORDER}
  %ordered = icmp ne i32 %c.order, 0
  %dtype.at = getelementptr i8, ptr %result, i64 ${DTYPE}
  %dtype = load ptr, ptr %dtype.at
  %number.at = getelementptr i8, ptr %dtype, i64 ${NUMBER}
  %number = load i32, ptr %number.at
  %numeric = icmp ult i32 %number, 64
  %number.wide = zext i32 %number to i64
  %number.bit = and i64 %number.wide, 63
  %common.shifted = lshr i64 ${COMMON}, %number.bit
  %common.bit = trunc i64 %common.shifted to i1
  %byte.order.at = getelementptr i8, ptr %dtype, i64 ${ORDER}
  %byte.order = load i8, ptr %byte.order.at
  %native = icmp ne i8 %byte.order, ${OTHER_ORDER}
  %word.several = call ptr @word(ptr %words, i64 ${SEVERAL})
  %word.false = call ptr @word(ptr %words, i64 ${FALSE})
  %PyList_GetItem = call ptr @word(ptr %words, i64 ${PYLIST_GETITEM})
  %several = call ptr %PyList_GetItem(ptr %word.several, i64 0)
  %alone = icmp eq ptr %several, %word.false
  %adopt.1 = and i1 %medium, %owned
  %adopt.2 = and i1 %adopt.1, %ordered
  %adopt.3 = and i1 %adopt.2, %numeric
  %adopt.4 = and i1 %adopt.3, %common.bit
  %adopt.5 = and i1 %adopt.4, %native
  %adopted = and i1 %adopt.5, %alone
  br i1 %adopted, label %allocate, label %take
allocate:
  %PyType_GenericAlloc = call ptr @word(ptr %words, i64 ${PYTYPE_GENERICALLOC})
  %array.new = call ptr %PyType_GenericAlloc(ptr %word.Array, i64 0)
  %unallocated = icmp eq ptr %array.new, null
  br i1 %unallocated, label %drop, label %fill
drop:
  call void %word.Py_DecRef(ptr %result)
  ret ptr null
fill:
  %word.cpu = call ptr @word(ptr %words, i64 ${CPU})
  %word.None = call ptr @word(ptr %words, i64 ${NONE})
  %Py_IncRef = call ptr @word(ptr %words, i64 ${PY_INCREF})
  call void %Py_IncRef(ptr %word.cpu)
  call void %Py_IncRef(ptr %word.None)
  %values.at = getelementptr i8, ptr %array.new, i64 ${VALUES_SLOT}
  store ptr %result, ptr %values.at
  %device.at = getelementptr i8, ptr %array.new, i64 ${DEVICE_SLOT}
  store ptr %word.cpu, ptr %device.at
  %view.at = getelementptr i8, ptr %array.new, i64 ${VIEW_SLOT}
  store ptr %word.None, ptr %view.at
  ret ptr %array.new
take:
  store ptr %result, ptr %held
  %taken = call ptr %word.PyObject_Vectorcall(ptr %word.take, ptr %held, i64 1, ptr null)
  call void %word.Py_DecRef(ptr %result)
  ret ptr %taken
return:
  ret ptr %result
own:
  ; (a list of arrays has no such method, and a scalar may have a different one)
  %is.array.own = phi i1 [ %is.whole, %own.array ], [ false, %not.own ]
  %is.first = icmp eq i64 %k, 0
  %is.positional = icmp sgt i64 %count, 0
  %is.positional.first = and i1 %is.first, %is.positional
  %first = and i1 %is.positional.first, %is.array.own
  %owner = select i1 %first, ptr %word.method, ptr %word.own
  %owns = call ptr %word.PyObject_Vectorcall(ptr %owner, ptr %given, i64 %count, ptr %names)
  ret ptr %owns
slow:
  %slows = call ptr %word.PyObject_Vectorcall(ptr %word.slow, ptr %given, i64 %count, ptr %names)
  ret ptr %slows
}
