; The scheduler of threads that are coroutines. host_scheduler.py defines the fields and states of a thread's record.

; Returns the index of the warp or lane that runs as number %k of %count.
define internal i64 @weft_which(i64 %k, i64 %count) alwaysinline nounwind {
entry:
  %behind = sub i64 %count, %k
  %last = sub i64 %behind, 1
  %which = select i1 ${BACKWARD}, i64 %last, i64 %k
  ret i64 %which
}

; Releases the lanes of a warp that no longer need to wait. Returns whether there were any.
define internal i1 @weft_release_warp(ptr %warp, i32 %lanes) #3 {
entry:
  br label %scan
scan:                                 ; find the lanes that have not ended
  %k = phi i32 [ 0, %entry ], [ %k.next, %scan ]
  %alive = phi i32 [ 0, %entry ], [ %alive.next, %scan ]
  %k.state.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${STATE}
  %k.state = load i32, ptr %k.state.at, align 4
  %k.lives = icmp ne i32 %k.state, ${ENDED}
  %k.wide = zext i1 %k.lives to i32
  %k.bit = shl i32 %k.wide, %k
  %alive.next = or i32 %alive, %k.bit
  %k.next = add nuw nsw i32 %k, 1
  %k.more = icmp slt i32 %k.next, %lanes
  br i1 %k.more, label %scan, label %each
each:                                 ; visit each lane that waits for other lanes of its warp
  %i = phi i32 [ 0, %scan ], [ %i.next, %each.next ]
  %moved = phi i1 [ false, %scan ], [ %moved.next, %each.next ]
  %i.in = icmp slt i32 %i, %lanes
  br i1 %i.in, label %look, label %judge
look:
  %i.state.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %i, i32 ${STATE}
  %i.state = load i32, ptr %i.state.at, align 4
  %i.waits = icmp eq i32 %i.state, ${WARP}
  br i1 %i.waits, label %gather, label %each.next
gather:
  %i.mask.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %i, i32 ${MASK}
  %mask = load i32, ptr %i.mask.at, align 4
  %needed = and i32 %mask, %alive.next
  %group = call i32 @weft_group(ptr %warp, i32 %lanes, i32 %i, i32 ${WARP})
  %others = xor i32 %group, -1
  %missing = and i32 %needed, %others
  %whole = icmp eq i32 %missing, 0
  br i1 %whole, label %release, label %each.next
release:
  call void @weft_release_group(ptr %warp, i32 %lanes, i32 %group)
  br label %each.next
each.next:
  %moved.next = phi i1 [ %moved, %look ], [ %moved, %gather ], [ true, %release ]
  %i.next = add nuw nsw i32 %i, 1
  br label %each
judge:
  br i1 %moved, label %yes, label %active
active:                               ; no other lane can run: release a lane that waits in `active_mask`, and its group
  %a = phi i32 [ 0, %judge ], [ %a.next, %active.next ]
  %a.in = icmp slt i32 %a, %lanes
  br i1 %a.in, label %active.look, label %no
active.look:
  %a.state.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %a, i32 ${STATE}
  %a.state = load i32, ptr %a.state.at, align 4
  %a.asks = icmp eq i32 %a.state, ${ACTIVE}
  br i1 %a.asks, label %active.release, label %active.next
active.next:
  %a.next = add nuw nsw i32 %a, 1
  br label %active
active.release:
  %together = call i32 @weft_group(ptr %warp, i32 %lanes, i32 %a, i32 ${ACTIVE})
  call void @weft_release_group(ptr %warp, i32 %lanes, i32 %together)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Returns the mask of the lanes that wait in the state %state, at the same site and with the same mask as the lane %one.
define internal i32 @weft_group(ptr %warp, i32 %lanes, i32 %one, i32 %state) #3 {
entry:
  %site.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %one, i32 ${SITE}
  %site = load i32, ptr %site.at, align 4
  %mask.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %one, i32 ${MASK}
  %mask = load i32, ptr %mask.at, align 4
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k.next, %loop ]
  %group = phi i32 [ 0, %entry ], [ %group.next, %loop ]
  %k.state.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${STATE}
  %k.state = load i32, ptr %k.state.at, align 4
  %k.site.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${SITE}
  %k.site = load i32, ptr %k.site.at, align 4
  %k.mask.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${MASK}
  %k.mask = load i32, ptr %k.mask.at, align 4
  %same.state = icmp eq i32 %k.state, %state
  %same.site = icmp eq i32 %k.site, %site
  %same.mask = icmp eq i32 %k.mask, %mask
  %both = and i1 %same.state, %same.site
  %all = and i1 %both, %same.mask
  %wide = zext i1 %all to i32
  %bit = shl i32 %wide, %k
  %group.next = or i32 %group, %bit
  %k.next = add nuw nsw i32 %k, 1
  %more = icmp slt i32 %k.next, %lanes
  br i1 %more, label %loop, label %out
out:
  ret i32 %group.next
}

; Releases a group of lanes. Stores the mask of the group and the ballot in the record of each lane, and copies its contribution there.
define internal void @weft_release_group(ptr %warp, i32 %lanes, i32 %group) #3 {
entry:
  br label %count
count:
  %c = phi i32 [ 0, %entry ], [ %c.next, %count ]
  %ballot = phi i32 [ 0, %entry ], [ %ballot.next, %count ]
  %mail.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %c, i32 ${MAIL}
  %mail = load i64, ptr %mail.at, align 8
  %low = trunc i64 %mail to i32
  %one = and i32 %low, 1
  %bit = shl i32 %one, %c
  %ballot.next = or i32 %ballot, %bit
  %c.next = add nuw nsw i32 %c, 1
  %c.more = icmp slt i32 %c.next, %lanes
  br i1 %c.more, label %count, label %tell
tell:
  %votes = and i32 %ballot.next, %group
  br label %each
each:
  %k = phi i32 [ 0, %tell ], [ %k.next, %next ]
  %shifted = lshr i32 %group, %k
  %in = trunc i32 %shifted to i1
  br i1 %in, label %release, label %next
release:
  %k.mail.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${MAIL}
  %k.mail = load i64, ptr %k.mail.at, align 8
  %copy.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${COPY}
  store i64 %k.mail, ptr %copy.at, align 8
  %members.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${MEMBERS}
  store i32 %group, ptr %members.at, align 4
  %ballot.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${BALLOT}
  store i32 %votes, ptr %ballot.at, align 4
  %state.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${STATE}
  store i32 ${READY}, ptr %state.at, align 4
  br label %next
next:
  %k.next = add nuw nsw i32 %k, 1
  %more = icmp slt i32 %k.next, %lanes
  br i1 %more, label %each, label %out
out:
  ret void
}

; Releases all threads in the state %state, and stores %members and %ballot in their records.
define internal void @weft_release_all(ptr %threads, i64 %count, i32 %state, i32 %members, i32 %ballot) #3 {
entry:
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %state.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %k, i32 ${STATE}
  %k.state = load i32, ptr %state.at, align 4
  %waits = icmp eq i32 %k.state, %state
  br i1 %waits, label %release, label %next
release:
  store i32 ${READY}, ptr %state.at, align 4
  %members.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %k, i32 ${MEMBERS}
  store i32 %members, ptr %members.at, align 4
  %ballot.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %k, i32 ${BALLOT}
  store i32 %ballot, ptr %ballot.at, align 4
  br label %next
next:
  %k.next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %each, label %out
out:
  ret void
}

; Runs the threads of a block until none can continue. Returns 0 if all have ended, 1 if the others wait for the grid, and 2 for a
; deadlock.
define internal i32 @weft_run_block(ptr %threads, i64 %count) #3 {
entry:
  %count.up = add i64 %count, 31
  %warps.all = lshr i64 %count.up, 5
  br label %warps
warps:                                ; run each warp until all its lanes wait for the block, or for lanes that wait for it
  %turn = phi i64 [ 0, %entry ], [ 0, %open ], [ %turn.next, %warp.next ]
  %which = call i64 @weft_which(i64 %turn, i64 %warps.all)
  %first = shl i64 %which, 5
  %warp = getelementptr inbounds %weft.thread, ptr %threads, i64 %first
  %left = sub i64 %count, %first
  %few = icmp slt i64 %left, 32
  %lanes.wide = select i1 %few, i64 %left, i64 32
  %lanes = trunc i64 %lanes.wide to i32
  br label %lane
lane:
  %k = phi i32 [ 0, %warps ], [ 0, %warp.release ], [ %k.next, %lane.next ]
  %k.wide = zext i32 %k to i64
  %l = call i64 @weft_which(i64 %k.wide, i64 %lanes.wide)
  %state.at = getelementptr inbounds %weft.thread, ptr %warp, i64 %l, i32 ${STATE}
  %state = load i32, ptr %state.at, align 4
  %ready = icmp eq i32 %state, ${READY}
  br i1 %ready, label %resume, label %lane.next
resume:
  %handle.at = getelementptr inbounds %weft.thread, ptr %warp, i64 %l, i32 ${HANDLE}
  %handle = load ptr, ptr %handle.at, align 8
  call void @llvm.coro.resume(ptr %handle)
  br label %lane.next
lane.next:
  %k.next = add nuw nsw i32 %k, 1
  %k.more = icmp slt i32 %k.next, %lanes
  br i1 %k.more, label %lane, label %warp.release
warp.release:
  %moved = call i1 @weft_release_warp(ptr %warp, i32 %lanes)
  br i1 %moved, label %lane, label %warp.next
warp.next:
  %turn.next = add nuw nsw i64 %turn, 1
  %more = icmp slt i64 %turn.next, %warps.all
  br i1 %more, label %warps, label %tally
tally:                                ; count the threads in each state, and test whether all of them wait at the same barrier
  %t = phi i64 [ 0, %warp.next ], [ %t.next, %tally ]
  %ended = phi i32 [ 0, %warp.next ], [ %ended.next, %tally ]
  %barred = phi i32 [ 0, %warp.next ], [ %barred.next, %tally ]
  %gridded = phi i32 [ 0, %warp.next ], [ %gridded.next, %tally ]
  %votes = phi i32 [ 0, %warp.next ], [ %votes.next, %tally ]
  %site = phi i32 [ -1, %warp.next ], [ %site.next, %tally ]
  %mixed = phi i1 [ false, %warp.next ], [ %mixed.next, %tally ]
  %t.state.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %t, i32 ${STATE}
  %t.state = load i32, ptr %t.state.at, align 4
  %t.site.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %t, i32 ${SITE}
  %t.site = load i32, ptr %t.site.at, align 4
  %t.mail.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %t, i32 ${MAIL}
  %t.mail = load i64, ptr %t.mail.at, align 8
  %is.ended = icmp eq i32 %t.state, ${ENDED}
  %is.barred = icmp eq i32 %t.state, ${BARRIER}
  %is.gridded = icmp eq i32 %t.state, ${GRID}
  %ended.one = zext i1 %is.ended to i32
  %barred.one = zext i1 %is.barred to i32
  %gridded.one = zext i1 %is.gridded to i32
  %ended.next = add i32 %ended, %ended.one
  %barred.next = add i32 %barred, %barred.one
  %gridded.next = add i32 %gridded, %gridded.one
  %t.low = trunc i64 %t.mail to i32
  %t.vote = and i32 %t.low, 1
  %t.counts = select i1 %is.barred, i32 %t.vote, i32 0
  %votes.next = add i32 %votes, %t.counts
  %waits = or i1 %is.barred, %is.gridded
  %unset = icmp eq i32 %site, -1
  %fresh = and i1 %waits, %unset
  %site.next = select i1 %fresh, i32 %t.site, i32 %site
  %differs = icmp ne i32 %t.site, %site.next
  %wrong = and i1 %waits, %differs
  %mixed.next = or i1 %mixed, %wrong
  %t.next = add nuw nsw i64 %t, 1
  %t.more = icmp slt i64 %t.next, %count
  br i1 %t.more, label %tally, label %judge
judge:
  %all = trunc i64 %count to i32
  %waiting = add i32 %barred.next, %gridded.next
  %known = add i32 %waiting, %ended.next
  %stuck.lanes = icmp ne i32 %known, %all
  %stuck = or i1 %stuck.lanes, %mixed.next
  br i1 %stuck, label %deadlock, label %alike
alike:
  %barriers = icmp ne i32 %barred.next, 0
  br i1 %barriers, label %open, label %rest
open:
  call void @weft_release_all(ptr %threads, i64 %count, i32 ${BARRIER}, i32 %barred.next, i32 %votes.next)
  br label %warps
rest:
  %for.grid = icmp ne i32 %gridded.next, 0
  %result = zext i1 %for.grid to i32
  ret i32 %result
deadlock:
  ret i32 2
}

; Writes two threads to the fault record: the first that has not ended, and the first that waits at another site (-1: none).
define internal void @weft_tell_deadlock(ptr %fault, ptr %threads, i64 %count, i64 %block) #3 {
entry:
  %claim = cmpxchg ptr %fault, i64 0, i64 1 seq_cst seq_cst, align 8
  %mine = extractvalue { i64, i1 } %claim, 1
  br i1 %mine, label %scan, label %out
scan:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %one = phi i64 [ -1, %entry ], [ %one.next, %next ]
  %one.site = phi i32 [ -1, %entry ], [ %one.site.next, %next ]
  %two = phi i64 [ -1, %entry ], [ %two.next, %next ]
  %two.site = phi i32 [ -1, %entry ], [ %two.site.next, %next ]
  %state.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %k, i32 ${STATE}
  %state = load i32, ptr %state.at, align 4
  %site.at = getelementptr inbounds %weft.thread, ptr %threads, i64 %k, i32 ${SITE}
  %site = load i32, ptr %site.at, align 4
  %waits = icmp ne i32 %state, ${ENDED}
  br i1 %waits, label %note, label %next
note:
  %no.one = icmp eq i64 %one, -1
  %no.two = icmp eq i64 %two, -1
  %other = icmp ne i32 %site, %one.site
  %have.one = xor i1 %no.one, true
  %second.new = and i1 %no.two, %other
  %second = and i1 %second.new, %have.one
  %one.noted = select i1 %no.one, i64 %k, i64 %one
  %one.site.noted = select i1 %no.one, i32 %site, i32 %one.site
  %two.noted = select i1 %second, i64 %k, i64 %two
  %two.site.noted = select i1 %second, i32 %site, i32 %two.site
  br label %next
next:
  %one.next = phi i64 [ %one, %scan ], [ %one.noted, %note ]
  %one.site.next = phi i32 [ %one.site, %scan ], [ %one.site.noted, %note ]
  %two.next = phi i64 [ %two, %scan ], [ %two.noted, %note ]
  %two.site.next = phi i32 [ %two.site, %scan ], [ %two.site.noted, %note ]
  %k.next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %scan, label %write
write:
  %at.1 = getelementptr inbounds i64, ptr %fault, i64 1
  store i64 %block, ptr %at.1, align 8
  %at.2 = getelementptr inbounds i64, ptr %fault, i64 2
  store i64 %one.next, ptr %at.2, align 8
  %at.3 = getelementptr inbounds i64, ptr %fault, i64 3
  %one.wide = sext i32 %one.site.next to i64
  store i64 %one.wide, ptr %at.3, align 8
  %at.4 = getelementptr inbounds i64, ptr %fault, i64 4
  store i64 %two.next, ptr %at.4, align 8
  %at.5 = getelementptr inbounds i64, ptr %fault, i64 5
  %two.wide = sext i32 %two.site.next to i64
  store i64 %two.wide, ptr %at.5, align 8
  br label %out
out:
  ret void
}

; Returns the mask of the lanes in %members that contributed the bits %bits.
define internal i32 @weft_match(ptr %warp, i32 %members, i64 %bits) #3 {
entry:
  br label %each
each:
  %k = phi i32 [ 0, %entry ], [ %k.next, %next ]
  %found = phi i32 [ 0, %entry ], [ %found.next, %next ]
  %shifted = lshr i32 %members, %k
  %in = trunc i32 %shifted to i1
  br i1 %in, label %compare, label %next
compare:
  %copy.at = getelementptr inbounds %weft.thread, ptr %warp, i32 %k, i32 ${COPY}
  %copy = load i64, ptr %copy.at, align 8
  %same = icmp eq i64 %copy, %bits
  %wide = zext i1 %same to i32
  %bit = shl i32 %wide, %k
  %with = or i32 %found, %bit
  br label %next
next:
  %found.next = phi i32 [ %found, %each ], [ %with, %compare ]
  %k.next = add nuw nsw i32 %k, 1
  %more = icmp slt i32 %k.next, 32
  br i1 %more, label %each, label %out
out:
  ret i32 %found.next
}

; Runs blocks one after another with one set of coroutines. The first %fill bytes of shared memory are set to ${POISON} before each block.
define internal void @weft_run_blocks(ptr %records, i64 %count, i64 %begin, i64 %end, ptr %shared, i64 %fill, ptr %fault) #3 {
entry:
  br label %block
block:
  %b = phi i64 [ %begin, %entry ], [ %b.next, %block.next ]
  call void @llvm.memset.p0.i64(ptr %shared, i8 ${POISON}, i64 %fill, i1 false)
  %how = call i32 @weft_run_block(ptr %records, i64 %count)
  %fine = icmp eq i32 %how, 0
  br i1 %fine, label %block.next, label %stuck
block.next:
  call void @weft_release_all(ptr %records, i64 %count, i32 ${ENDED}, i32 0, i32 0)
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp slt i64 %b.next, %end
  br i1 %b.more, label %block, label %out
stuck:
  call void @weft_tell_deadlock(ptr %fault, ptr %records, i64 %count, i64 %b)
  br label %out
out:
  ret void
}

; Runs the blocks of a cooperative kernel, each with its own coroutines. Threads that wait for the grid are released when all blocks wait.
define internal void @weft_run_grid(ptr %records, i64 %count, i64 %sets, i64 %total, ptr %fault) #3 {
entry:
  br label %turn
turn:
  br label %block
block:
  %b = phi i64 [ 0, %turn ], [ %b.next, %block.next ]
  %waiting = phi i32 [ 0, %turn ], [ %waiting.next, %block.next ]
  %b.first = mul nuw nsw i64 %b, %count
  %b.threads = getelementptr inbounds %weft.thread, ptr %records, i64 %b.first
  %how = call i32 @weft_run_block(ptr %b.threads, i64 %count)
  %fine = icmp ne i32 %how, 2
  br i1 %fine, label %block.next, label %stuck
block.next:
  %waiting.next = or i32 %waiting, %how
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp slt i64 %b.next, %sets
  br i1 %b.more, label %block, label %whole
whole:
  %again = icmp ne i32 %waiting.next, 0
  br i1 %again, label %open, label %out
open:
  call void @weft_release_all(ptr %records, i64 %total, i32 ${GRID}, i32 0, i32 0)
  br label %turn
stuck:
  call void @weft_tell_deadlock(ptr %fault, ptr %b.threads, i64 %count, i64 %b)
  br label %out
out:
  ret void
}

declare token @llvm.coro.id(i32, ptr readnone, ptr readonly captures(none), ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr writeonly)
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare noalias ptr @malloc(i64)
declare void @free(ptr)

; Optimize for size: these loops are short, and unrolling or vectorizing them would cost compile time.
attributes #3 = { noinline nounwind optsize }
