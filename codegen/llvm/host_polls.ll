; Calls the function whose address is in the fault record, if there is one.
define internal void @weft_poll(ptr %fault) #9 {
entry:
  %at = getelementptr inbounds i64, ptr %fault, i64 ${POLL}
  %asked = load ptr, ptr %at, align 8
  %nobody = icmp eq ptr %asked, null
  br i1 %nobody, label %out, label %ask
ask:
  call void %asked(ptr %fault)
  br label %out
out:
  ret void
}
