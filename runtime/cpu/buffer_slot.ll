; The slot function for buffers. It passes requests for buffers on to the NumPy array in a slot, for instances of one
; class whose device is the given object. It counts these requests, and marks the instances as exported.
@${TABLE} = external global [${WORDS} x ptr]

define i32 @${NAME}(ptr %array, ptr %view, i32 %flags) nounwind {
  %kind = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${KIND})
  %device = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${DEVICE})
  %type.at = getelementptr i8, ptr %array, i64 ${TYPE}
  %type = load ptr, ptr %type.at
  %own.at = getelementptr i8, ptr %array, i64 ${OWN}
  %own = load ptr, ptr %own.at
  %exported.at = getelementptr i8, ptr %array, i64 ${EXPORTED}
  %exported = load ptr, ptr %exported.at
  %values.at = getelementptr i8, ptr %array, i64 ${VALUES}
  %values = load ptr, ptr %values.at
  %same = icmp eq ptr %type, %kind
  %here = icmp eq ptr %own, %device
  %some = icmp ne ptr %values, null
  %both = and i1 %same, %here
  %all = and i1 %both, %some
  br i1 %all, label %forward, label %other
forward:
  %counter = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${COUNTER})
  %count = load i64, ptr %counter
  %more = add i64 %count, 1
  store i64 %more, ptr %counter
  %first = icmp eq ptr %exported, null
  br i1 %first, label %mark, label %ask
mark:
  %true = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${TRUE})
  %hold = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${HOLD})
  call void %hold(ptr %true)
  store ptr %true, ptr %exported.at
  br label %ask
ask:
  %get = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${GET})
  %done = tail call i32 %get(ptr %values, ptr %view, i32 %flags)
  ret i32 %done
other:
  %before = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${BEFORE})
  %found = tail call i32 %before(ptr %array, ptr %view, i32 %flags)
  ret i32 %found
}
