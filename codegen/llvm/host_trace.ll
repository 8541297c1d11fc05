; Appends an event of ${WIDTH} words to the log, and returns the address for its values.
define internal ptr @weft_trace_note(i64 %what, i64 %block, i64 %address) noinline nounwind {
entry:
  %used = load i64, ptr @weft_trace_log, align 8
  %limit.at = getelementptr inbounds i64, ptr @weft_trace_log, i64 1
  %limit = load i64, ptr %limit.at, align 8
  %full = icmp sgt i64 %used, %limit
  br i1 %full, label %empty, label %write
empty:
  call void @weft_trace_full()
  %fresh = load i64, ptr @weft_trace_log, align 8
  br label %write
write:
  %index = phi i64 [ %used, %entry ], [ %fresh, %empty ]
  %following = add nuw nsw i64 %index, ${WIDTH}
  store i64 %following, ptr @weft_trace_log, align 8
  %first = add nuw nsw i64 %index, 2
  %event = getelementptr inbounds i64, ptr @weft_trace_log, i64 %first
  store i64 %what, ptr %event, align 8
  %block.at = getelementptr inbounds i64, ptr %event, i64 1
  store i64 %block, ptr %block.at, align 8
  %address.at = getelementptr inbounds i64, ptr %event, i64 2
  store i64 %address, ptr %address.at, align 8
  %numbers = getelementptr inbounds i64, ptr %event, i64 3
  ret ptr %numbers
}
