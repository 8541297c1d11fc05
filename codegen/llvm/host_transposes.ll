; Copies a tile transposed, in blocks of ${LANES} by ${LANES}. The last blocks are shifted back to end at the tile's edge. A tile smaller
; than a block is copied element by element.
define internal void @${NAME}(ptr noalias %source, i64 %stride, i64 %rows, i64 %columns, ptr noalias %tile) #0 {
entry:
  %last_top = sub i64 %rows, ${LANES}
  %last_left = sub i64 %columns, ${LANES}
  %least = or i64 %last_top, %last_left
  %small = icmp slt i64 %least, 0
  br i1 %small, label %single_column, label %block_column
block_column:
  %left_wanted = phi i64 [ 0, %entry ], [ %left_next, %column_end ]
  %left_ends = icmp slt i64 %left_wanted, %last_left
  %left = select i1 %left_ends, i64 %left_wanted, i64 %last_left
  br label %block
block:
  %top_wanted = phi i64 [ 0, %block_column ], [ %top_next, %block ]
  %top_ends = icmp slt i64 %top_wanted, %last_top
  %top = select i1 %top_ends, i64 %top_wanted, i64 %last_top
${BLOCK}
  %top_next = add i64 %top_wanted, ${LANES}
  %more_rows = icmp slt i64 %top_next, %rows
  br i1 %more_rows, label %block, label %column_end
column_end:
  %left_next = add i64 %left_wanted, ${LANES}
  %more_columns = icmp slt i64 %left_next, %columns
  br i1 %more_columns, label %block_column, label %over
single_column:
  %c = phi i64 [ 0, %entry ], [ %c_next, %single_end ]
  %c_offset = mul i64 %c, %stride
  br label %single
single:
  %r = phi i64 [ 0, %single_column ], [ %r_next, %single ]
  %one_index = add i64 %c_offset, %r
  %one_from = getelementptr ${ELEMENT}, ptr %source, i64 %one_index
  %one = load ${ELEMENT}, ptr %one_from, align ${ALIGN}
  %r_line = mul i64 %r, ${SIZE}
  %one_slot = add i64 %r_line, %c
  %one_to = getelementptr ${ELEMENT}, ptr %tile, i64 %one_slot
  store ${ELEMENT} %one, ptr %one_to, align ${ALIGN}
  %r_next = add i64 %r, 1
  %more_r = icmp slt i64 %r_next, %rows
  br i1 %more_r, label %single, label %single_end
single_end:
  %c_next = add i64 %c, 1
  %more_c = icmp slt i64 %c_next, %columns
  br i1 %more_c, label %single_column, label %over
over:
  ret void
}
