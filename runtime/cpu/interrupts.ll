; Ctrl-C in explicit kernels: interrupts.py and fault_words.py describe the records and define the words.

declare i64 @pthread_self()
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)

; Runs pending signal handlers on the main thread and returns whether one raised.
define internal i1 @look(ptr %record) noinline {
entry:
  %time = alloca [2 x i64], align 8
  %shared.at = getelementptr i64, ptr %record, i64 ${SHARED}
  %shared = load ptr, ptr %shared.at, align 8
  %main = load i64, ptr %shared, align 8
  %me = call i64 @pthread_self()
  %mine = icmp eq i64 %me, %main
  br i1 %mine, label %clock, label %no
clock:
  call i32 @clock_gettime(i32 ${CLOCK}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at, align 8
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  %next.at = getelementptr i64, ptr %shared, i64 ${NEXT}
  %next = load i64, ptr %next.at, align 8
  %due = icmp sge i64 %now, %next
  br i1 %due, label %signals, label %no
signals:
  %later = add i64 %now, ${INTERVAL}
  store i64 %later, ptr %next.at, align 8
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %some = icmp ne i32 %raised, 0
  br i1 %some, label %keep, label %release
keep:
  %type = getelementptr i64, ptr %record, i64 ${TYPE}
  %value = getelementptr i64, ptr %record, i64 ${VALUE}
  %traceback = getelementptr i64, ptr %record, i64 ${TRACEBACK}
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  br label %release
release:
  call void @PyGILState_Release(i32 %state)
  br i1 %some, label %stop, label %no
stop:
  %stop.at = getelementptr i64, ptr %record, i64 ${STOP}
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  ret i1 true
no:
  ret i1 false
}

; The interrupt poll, which kernels call periodically: leaves the kernel if it must stop.
define void @weft_asked(ptr %record) {
entry:
  %stop.at = getelementptr i64, ptr %record, i64 ${STOP}
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %go, label %ask
ask:
  %raised = call i1 @look(ptr %record)
  br i1 %raised, label %go, label %on
go:
  %key = call i32 @key(ptr %record)
  %jump_buffer = call ptr @pthread_getspecific(i32 %key)
  call void @longjmp(ptr %jump_buffer, i32 1)
  unreachable
on:
  ret void
}

define internal i32 @key(ptr %record) {
entry:
  %shared.at = getelementptr i64, ptr %record, i64 ${SHARED}
  %shared = load ptr, ptr %shared.at, align 8
  %key.at = getelementptr i64, ptr %shared, i64 ${KEY}
  %key = load i64, ptr %key.at, align 8
  %short = trunc i64 %key to i32
  ret i32 %short
}

; The function that a thread calls while it waits for the pool's workers. Its arguments are an entry and its slots.
define void @weft_tick(ptr %called, ptr %slots) {
entry:
  %ours = icmp eq ptr %called, @weft_guard
  br i1 %ours, label %ask, label %out
ask:
  %record.at = getelementptr i64, ptr %slots, i64 1
  %record = load ptr, ptr %record.at, align 8
  call i1 @look(ptr %record)
  br label %out
out:
  ret void
}

; An entry that runs a kernel's entry and is the target of its longjmp.
define void @weft_guard(ptr %slots, i64 %begin, i64 %end) {
entry:
  %jump_buffer = alloca [${JUMP_BUFFER_BYTES} x i8], align 64
  %function = load ptr, ptr %slots, align 8
  %record.at = getelementptr i64, ptr %slots, i64 1
  %record = load ptr, ptr %record.at, align 8
  %own = getelementptr i64, ptr %slots, i64 2
  %stop.at = getelementptr i64, ptr %record, i64 ${STOP}
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %out, label %later
later:
  %begins = icmp eq i64 %begin, 0
  br i1 %begins, label %set, label %look
look:
  %raised = call i1 @look(ptr %record)
  br i1 %raised, label %out, label %set
set:
  %key = call i32 @key(ptr %record)
  %before = call ptr @pthread_getspecific(i32 %key)
  %jumped = call i32 @_setjmp(ptr %jump_buffer) returns_twice
  %first = icmp eq i32 %jumped, 0
  br i1 %first, label %run, label %over
run:
  call i32 @pthread_setspecific(i32 %key, ptr %jump_buffer)
  call void %function(ptr %own, i64 %begin, i64 %end)
  br label %over
over:
  call i32 @pthread_setspecific(i32 %key, ptr %before)
  br label %out
out:
  ret void
}
