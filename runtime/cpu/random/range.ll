; The elements `first` to `last` of a stream. The first ones may be in the words of the stream.
define internal void @${NAME}.range(ptr %out.given, ptr %stream, i64 %first.given, i64 %last.given, ${TABLES}ptr %distances) {
entry:
  %bits = alloca [${BLOCK} x i64], align 64
  %values = alloca [${COUNT} x ${TYPE}], align 64
  %front = call i64 @integer_at(ptr %stream, i64 9)
  %rest = call { ptr, i64 } @front(ptr %out.given, ptr %stream, i64 %first.given, i64 %last.given)
  %out = extractvalue { ptr, i64 } %rest, 0
  %first.all = extractvalue { ptr, i64 } %rest, 1
  %first = sub i64 %first.all, %front
  %last = sub i64 %last.given, %front
  %record.index = call i64 @find_block(ptr %stream, i64 %first)
  br label %block
block:
  %k = phi i64 [ %record.index, %entry ], [ %k.next, %draw ]
  %begin = phi i64 [ %first, %entry ], [ %end, %draw ]
  %left = icmp slt i64 %begin, %last
  br i1 %left, label %draw, label %done
draw:
  %k.next = add i64 %k, 1
  %record = call ptr @record(ptr %stream, i64 %k)
  %element = call i64 @integer_at(ptr %record, i64 2)
  %skipped = sub i64 %begin, %element
  %until = sub i64 %last, %element
  %count = call i64 @${NAME}.elements(ptr %values, ptr %bits, ptr %stream, ptr %record, i64 %until, ${TABLES}ptr %distances)
  %stop = call i64 @llvm.smin.i64(i64 %count, i64 %until)
  %some = sub i64 %stop, %skipped
  %taken = call i64 @llvm.smax.i64(i64 %some, i64 0)
  %bytes = mul i64 %taken, ${BYTES}
  %source = getelementptr ${TYPE}, ptr %values, i64 %skipped
  %passed = sub i64 %begin, %first
  %target = getelementptr ${TYPE}, ptr %out, i64 %passed
  call ptr @memcpy(ptr %target, ptr %source, i64 %bytes)
  %end = add i64 %begin, %taken
  br label %block
done:
  ret void
}
