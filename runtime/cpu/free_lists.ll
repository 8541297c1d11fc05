; The deallocator of a buffer: void keep(buffer). It keeps the buffer on its free list, or destroys it.
define void @${KEEP}(ptr %self) nounwind "no-builtins" {
entry:
  %free.list.at = getelementptr i8, ptr %self, i64 ${FREE_LIST}
  %free.list = load ptr, ptr %free.list.at
  %no.free.list = icmp eq ptr %free.list, null
  ; an interrupted allocation has no free list and no memory yet
  br i1 %no.free.list, label %leave, label %look
look:
  %store.at = getelementptr i64, ptr %free.list, i64 ${STORE}
  %store = load ptr, ptr %store.at
  %counts.at = getelementptr i64, ptr %store, i64 ${COUNTED}
  %counts = load ptr, ptr %counts.at
  %is_finalized.at = getelementptr i64, ptr %store, i64 ${IS_FINALIZED}
  %is_finalized = load ptr, ptr %is_finalized.at
  %untrack.at = getelementptr i64, ptr %store, i64 ${UNTRACK}
  %untrack = load ptr, ptr %untrack.at
  %clear_weak.at = getelementptr i64, ptr %store, i64 ${CLEAR_WEAK}
  %clear_weak = load ptr, ptr %clear_weak.at
  %finalize.at = getelementptr i64, ptr %store, i64 ${FINALIZE}
  %finalize = load ptr, ptr %finalize.at
  %free.at = getelementptr i64, ptr %store, i64 ${FREE}
  %free = load ptr, ptr %free.at
  %release.at = getelementptr i64, ptr %store, i64 ${RELEASE}
  %release = load ptr, ptr %release.at
  %lists = getelementptr i64, ptr %store, i64 ${LISTS}
  %expected.at = getelementptr i64, ptr %store, i64 ${EXPECTED}
  %expected.count = load i64, ptr %expected.at
  %slots.at = getelementptr i64, ptr %store, i64 ${SLOTS}
  %slots.count = load i64, ptr %slots.at
  %expected.words = mul i64 %expected.count, ${PAIR}
  %offsets = getelementptr i64, ptr %lists, i64 %expected.words
  %weak.offset.at = getelementptr i64, ptr %store, i64 ${WEAK}
  %weak.offset = load i64, ptr %weak.offset.at
  %weak.at = getelementptr i8, ptr %self, i64 %weak.offset
  %type.at = getelementptr i8, ptr %self, i64 ${TYPE}
  %type = load ptr, ptr %type.at
  %owner.offset.at = getelementptr i64, ptr %store, i64 ${OWNER}
  %owner.offset = load i64, ptr %owner.offset.at
  %owner.at = getelementptr i8, ptr %self, i64 %owner.offset
  %owner = load i64, ptr %owner.at
  %no.owner = icmp eq i64 %owner, 0
  ; an interrupted allocation has no memory to give back
  br i1 %no.owner, label %dead, label %whole

; Keep the buffer unless its free list is full or it was used unexpectedly.
whole:
  %closed.at = getelementptr i64, ptr %store, i64 ${CLOSED}
  %closed = load i64, ptr %closed.at
  %not.closed = icmp eq i64 %closed, 0
  br i1 %not.closed, label %open, label %let.go
open:
  %kept.at = getelementptr i64, ptr %counts, i64 ${KEPT}
  %kept = load i64, ptr %kept.at
  %size.at = getelementptr i64, ptr %free.list, i64 ${SIZE}
  %size = load i64, ptr %size.at
  %kept.then = add i64 %kept, %size
  %most.at = getelementptr i64, ptr %counts, i64 ${MOST}
  %most = load i64, ptr %most.at
  %full = icmp sgt i64 %kept.then, %most
  br i1 %full, label %let.go, label %expected
expected:
  %expected.k = phi i64 [ 0, %open ], [ %expected.next, %expected.end ]
  %expected.more = icmp slt i64 %expected.k, %expected.count
  br i1 %expected.more, label %expected.body, label %expected.done
expected.body:
  %pair.word = mul i64 %expected.k, ${PAIR}
  %pair = getelementptr i64, ptr %lists, i64 %pair.word
  %pair.offset = load i64, ptr %pair
  %found.at = getelementptr i8, ptr %self, i64 %pair.offset
  %found = load i64, ptr %found.at
  %pair.object.at = getelementptr i64, ptr %pair, i64 1
  %pair.object = load i64, ptr %pair.object.at
  %is.expected = icmp eq i64 %found, %pair.object
  br i1 %is.expected, label %expected.end, label %let.go
expected.end:
  %expected.next = add i64 %expected.k, 1
  br label %expected
expected.done:
  %finalized = call i32 %is_finalized(ptr %self)
  %not.finalized = icmp eq i32 %finalized, 0
  br i1 %not.finalized, label %keep, label %let.go

; Clear the references to the buffer, and put it on top of its free list.
keep:
  call void %untrack(ptr %self)
  %weak = load ptr, ptr %weak.at
  %no.weak = icmp eq ptr %weak, null
  br i1 %no.weak, label %keep.unseen, label %keep.seen
keep.seen:
  call void %clear_weak(ptr %self)
  br label %keep.unseen
keep.unseen:
  %unwritten.offset.at = getelementptr i64, ptr %store, i64 ${UNWRITTEN}
  %unwritten.offset = load i64, ptr %unwritten.offset.at
  %unwritten.at = getelementptr i8, ptr %self, i64 %unwritten.offset
  %unwritten = load ptr, ptr %unwritten.at
  store ptr null, ptr %unwritten.at
  call void %release(ptr %unwritten)
  %origin.offset.at = getelementptr i64, ptr %store, i64 ${ORIGIN}
  %origin.offset = load i64, ptr %origin.offset.at
  %origin.at = getelementptr i8, ptr %self, i64 %origin.offset
  %origin = load ptr, ptr %origin.at
  store ptr null, ptr %origin.at
  call void %release(ptr %origin)
  ; the next buffer of the list lies in the origin's slot
  %top.at = getelementptr i64, ptr %free.list, i64 ${TOP}
  %top = load ptr, ptr %top.at
  store ptr %top, ptr %origin.at
  store ptr %self, ptr %free.list
  ; (released objects may have changed the counter)
  %kept.before = load i64, ptr %kept.at
  %kept.after = add i64 %kept.before, %size
  store i64 %kept.after, ptr %kept.at
  call void %release(ptr %type)
  ret void

; Run __del__, then deallocate as Python does for a class with slots.
let.go:
  %resurrected = call i32 %finalize(ptr %self)
  %alive = icmp slt i32 %resurrected, 0
  br i1 %alive, label %leave, label %dead
dead:
  call void %untrack(ptr %self)
  %dead.weak = load ptr, ptr %weak.at
  %dead.no.weak = icmp eq ptr %dead.weak, null
  br i1 %dead.no.weak, label %slot, label %dead.seen
dead.seen:
  call void %clear_weak(ptr %self)
  br label %slot
; (the last slot keeps the store alive)
slot:
  %slot.k = phi i64 [ 0, %dead ], [ 0, %dead.seen ], [ %slot.next, %slot.body ]
  %slot.more = icmp slt i64 %slot.k, %slots.count
  br i1 %slot.more, label %slot.body, label %slot.done
slot.body:
  %slot.offset.at = getelementptr i64, ptr %offsets, i64 %slot.k
  %slot.offset = load i64, ptr %slot.offset.at
  %slot.at = getelementptr i8, ptr %self, i64 %slot.offset
  %slot.value = load ptr, ptr %slot.at
  store ptr null, ptr %slot.at
  call void %release(ptr %slot.value)
  %slot.next = add i64 %slot.k, 1
  br label %slot
slot.done:
  call void %free(ptr %self)
  call void %release(ptr %type)
  br label %leave

leave:
  ret void
}
