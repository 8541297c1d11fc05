; Slot functions of operators. Each calls the function of one operator: %own points to the operator's words, which are
; the function and the object to which it is bound, and the same for the reflected form.

define internal ptr @either(ptr %a, ptr %b, ptr %own) noinline nounwind {
  %given = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %given, i64 1
  %type.at = getelementptr i8, ptr %a, i64 ${TYPE}
  %type = load ptr, ptr %type.at
  %kind = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${KIND})
  %same = icmp eq ptr %type, %kind
  br i1 %same, label %forward, label %maybe
maybe:
  %is.subtype = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${IS_SUBTYPE})
  %below = call i32 %is.subtype(ptr %type, ptr %kind)
  %is.below = icmp ne i32 %below, 0
  br i1 %is.below, label %forward, label %reflected
reflected:
  store ptr %b, ptr %given
  store ptr %a, ptr %second
  %reflected.at = getelementptr ptr, ptr %own, i64 2
  %reflected.function = load ptr, ptr %reflected.at
  %reflected.bound.at = getelementptr ptr, ptr %own, i64 3
  %reflected.bound = load ptr, ptr %reflected.bound.at
  %turned = call ptr %reflected.function(ptr %reflected.bound, ptr %given, i64 2, ptr null)
  ret ptr %turned
forward:
  store ptr %a, ptr %given
  store ptr %b, ptr %second
  %function = load ptr, ptr %own
  %bound.at = getelementptr ptr, ptr %own, i64 1
  %bound = load ptr, ptr %bound.at
  %found = call ptr %function(ptr %bound, ptr %given, i64 2, ptr null)
  ret ptr %found
}

define internal ptr @first(ptr %a, ptr %b, ptr %own) noinline nounwind {
  %given = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %given, i64 1
  store ptr %a, ptr %given
  store ptr %b, ptr %second
  %function = load ptr, ptr %own
  %bound.at = getelementptr ptr, ptr %own, i64 1
  %bound = load ptr, ptr %bound.at
  %found = call ptr %function(ptr %bound, ptr %given, i64 2, ptr null)
  ret ptr %found
}

define internal i32 @set(ptr %a, ptr %b, ptr %c, ptr %own) noinline nounwind {
  %given = alloca [3 x ptr]
  %second = getelementptr ptr, ptr %given, i64 1
  %third = getelementptr ptr, ptr %given, i64 2
  store ptr %a, ptr %given
  store ptr %b, ptr %second
  store ptr %c, ptr %third
  %deletes = icmp eq ptr %c, null
  br i1 %deletes, label %delete, label %set
delete:
  %vectorcall = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${VECTORCALL})
  %deleter = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${DELETE})
  %gone = call ptr %vectorcall(ptr %deleter, ptr %given, i64 2, ptr null)
  br label %done
set:
  %function = load ptr, ptr %own
  %bound.at = getelementptr ptr, ptr %own, i64 1
  %bound = load ptr, ptr %bound.at
  %put = call ptr %function(ptr %bound, ptr %given, i64 3, ptr null)
  br label %done
done:
  %result = phi ptr [ %gone, %delete ], [ %put, %set ]
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %wrong, label %well
well:
  %release = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${RELEASE})
  call void %release(ptr %result)
  ret i32 0
wrong:
  ret i32 -1
}

; The arguments are a tuple and a dictionary. They are passed on as an array behind %a, which is on the stack if
; there are few. Keyword arguments need the third word: the object that Python calls with a dictionary.
define internal ptr @call(ptr %a, ptr %b, ptr %c, ptr %own) noinline nounwind {
  %count.at = getelementptr i8, ptr %b, i64 ${COUNT}
  %count = load i64, ptr %count.at
  %items = getelementptr i8, ptr %b, i64 ${ITEMS}
  %all = add i64 %count, 1
  %few = icmp slt i64 %all, ${ON_STACK}
  br i1 %few, label %stack, label %memory
stack:
  %here = alloca [${ON_STACK} x ptr]
  br label %take
memory:
  %bytes = mul i64 %all, 8
  %allocate = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${ALLOCATE})
  %there = call ptr %allocate(i64 %bytes)
  %none = icmp eq ptr %there, null
  br i1 %none, label %short, label %take
short:
  %no.memory = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${NO_MEMORY})
  %nothing = call ptr %no.memory()
  ret ptr null
take:
  %room = phi ptr [ %here, %stack ], [ %there, %memory ]
  store ptr %a, ptr %room
  br label %copy
copy:
  %k = phi i64 [ 0, %take ], [ %next, %item ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %item, label %go
item:
  %from = getelementptr ptr, ptr %items, i64 %k
  %value = load ptr, ptr %from
  %next = add i64 %k, 1
  %to = getelementptr ptr, ptr %room, i64 %next
  store ptr %value, ptr %to
  br label %copy
go:
  %plain = icmp eq ptr %c, null
  br i1 %plain, label %unnamed, label %named
unnamed:
  %function = load ptr, ptr %own
  %bound.at = getelementptr ptr, ptr %own, i64 1
  %bound = load ptr, ptr %bound.at
  %one = call ptr %function(ptr %bound, ptr %room, i64 %all, ptr null)
  br label %end
named:
  %with.dictionary = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${WITH_DICTIONARY})
  %object.at = getelementptr ptr, ptr %own, i64 2
  %object = load ptr, ptr %object.at
  %other = call ptr %with.dictionary(ptr %object, ptr %room, i64 %all, ptr %c)
  br label %end
end:
  %found = phi ptr [ %one, %unnamed ], [ %other, %named ]
  br i1 %few, label %done, label %free
free:
  %freeing = load ptr, ptr getelementptr inbounds (ptr, ptr @${TABLE}, i64 ${FREE})
  call void %freeing(ptr %room)
  br label %done
done:
  ret ptr %found
}
