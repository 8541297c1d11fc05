; The entry function of a kernel whose threads are coroutines. The launch data follow the ${PARAMETERS} slots of the kernel's parameters.
define void @${NAME}(ptr noalias readonly %slots, i64 %begin, i64 %end) #0 {
entry:
  %arena = alloca ptr, align 8
  store ptr null, ptr %arena, align 8
  %own = getelementptr inbounds i64, ptr %slots, i64 ${PARAMETERS}
  %width.at = getelementptr inbounds i64, ptr %own, i64 3
  %height.at = getelementptr inbounds i64, ptr %own, i64 4
  %depth.at = getelementptr inbounds i64, ptr %own, i64 5
  %dynamic.at = getelementptr inbounds i64, ptr %own, i64 6
  %fault.at = getelementptr inbounds i64, ptr %own, i64 7
  %width = load i64, ptr %width.at, align 8
  %height = load i64, ptr %height.at, align 8
  %depth = load i64, ptr %depth.at, align 8
  %dynamic = load i64, ptr %dynamic.at, align 8
  %fault = load ptr, ptr %fault.at, align 8
  %plane = mul nuw nsw i64 %width, %height
  %count = mul nuw nsw i64 %plane, %depth
  %blocks = sub nsw i64 %end, %begin
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %prepare, label %out
prepare:
  %sets = select i1 ${COOPERATIVE}, i64 %blocks, i64 1
  %total = mul nuw nsw i64 %sets, %count
  %record.bytes = mul nuw nsw i64 %total, ${RECORD_BYTES}
  %records = call ptr @malloc(i64 %record.bytes)
  %shared.own = add nuw nsw i64 %dynamic, ${SHARED_BYTES}
  %shared.up = add nuw nsw i64 %shared.own, 63
  %shared.each = and i64 %shared.up, -64
  %shared.all = mul nuw nsw i64 %shared.each, %sets
  %shared.room = add nuw nsw i64 %shared.all, 64
  %shared = call ptr @malloc(i64 %shared.room)
  br label %create
create:
  %s = phi i64 [ 0, %prepare ], [ %s.next, %created ]
  %s.first = mul nuw nsw i64 %s, %count
  %s.begin = add nuw nsw i64 %begin, %s
  %s.behind = add nuw nsw i64 %s.begin, 1
  %s.end = select i1 ${COOPERATIVE}, i64 %s.behind, i64 %end
  %shared.at = mul nuw nsw i64 %s, %shared.each
  %shared.mine = getelementptr inbounds i8, ptr %shared, i64 %shared.at
  br label %start
start:
  %t = phi i64 [ 0, %create ], [ %t.next, %start ]
  %record_index = add nuw nsw i64 %s.first, %t
  %record = getelementptr inbounds %weft.thread, ptr %records, i64 %record_index
  %state.at = getelementptr inbounds %weft.thread, ptr %record, i32 0, i32 ${STATE}
  store i32 ${READY}, ptr %state.at, align 4
  %handle = call ptr @${NAME}__thread(ptr %slots, ptr %record, i64 %t, i64 %record_index, i64 %total, ptr %arena, ptr %shared.mine, i64 %s.begin, i64 %s.end)
  store ptr %handle, ptr %record, align 8
  %t.next = add nuw nsw i64 %t, 1
  %t.more = icmp slt i64 %t.next, %count
  br i1 %t.more, label %start, label %created
created:
  %s.next = add nuw nsw i64 %s, 1
  %s.more = icmp slt i64 %s.next, %sets
  br i1 %s.more, label %create, label %run
run:
  br i1 ${COOPERATIVE}, label %grid, label %one.by.one
grid:
  %fill.all = select i1 ${POISONED}, i64 %shared.all, i64 0
  call void @llvm.memset.p0.i64(ptr %shared, i8 ${POISON}, i64 %fill.all, i1 false)
  call void @weft_run_grid(ptr %records, i64 %count, i64 %sets, i64 %total, ptr %fault)
  br label %free
one.by.one:
  %fill = select i1 ${POISONED}, i64 %shared.each, i64 0
  call void @weft_run_blocks(ptr %records, i64 %count, i64 %begin, i64 %end, ptr %shared, i64 %fill, ptr %fault)
  br label %free
free:
  %frames = load ptr, ptr %arena, align 8
  call void @free(ptr %frames)
  call void @free(ptr %records)
  call void @free(ptr %shared)
  br label %out
out:
  ret void
}
