; The function that kernels call for `print` (`printing.py`).

@print_line = external global i8

declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_WriteUnraisable(ptr)

; Calls the Python function `print_line`. Its exception, which a signal handler may have raised, is stored in the
; launch's record (unless %record is null) and stops the kernel. The kernel checks for signals at its next poll.
define void @weft_print(ptr %format, ptr %values, ptr %record) {
entry:
  %state = call i32 @PyGILState_Ensure()
  %arguments = alloca [2 x ptr], align 8
  %second.at = getelementptr ptr, ptr %arguments, i64 1
  %first = call ptr @PyLong_FromVoidPtr(ptr %format)
  %second = call ptr @PyLong_FromVoidPtr(ptr %values)
  store ptr %first, ptr %arguments, align 8
  store ptr %second, ptr %second.at, align 8
  %result = call ptr @PyObject_Vectorcall(ptr @print_line, ptr %arguments, i64 2, ptr null)
  call void @Py_DecRef(ptr %first)
  call void @Py_DecRef(ptr %second)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %failed, label %printed
printed:
  call void @Py_DecRef(ptr %result)
  br label %next
failed:
  %recorded = icmp ne ptr %record, null
  br i1 %recorded, label %look, label %show
look:
  %stop.at = getelementptr i64, ptr %record, i64 ${STOP}
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %show, label %keep
keep:
  %type = getelementptr i64, ptr %record, i64 ${TYPE}
  %value = getelementptr i64, ptr %record, i64 ${VALUE}
  %traceback = getelementptr i64, ptr %record, i64 ${TRACEBACK}
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  br label %next
show:
  call void @PyErr_WriteUnraisable(ptr null)
  br label %next
next:
  %without = icmp eq ptr %record, null
  br i1 %without, label %done, label %poll
poll:
  %shared.at = getelementptr i64, ptr %record, i64 ${SHARED}
  %shared = load ptr, ptr %shared.at, align 8
  %alone = icmp eq ptr %shared, null
  br i1 %alone, label %done, label %soon
soon:
  %next.at = getelementptr i64, ptr %shared, i64 ${NEXT}
  store i64 0, ptr %next.at, align 8
  br label %done
done:
  call void @PyGILState_Release(i32 %state)
  ret void
}
