"""Copies of array tiles in transposed order on the host CPU.

They read whole cache lines and transpose vectors in registers.

In: a `transposed` operation. Out: its tile, filled by a function in the LLVM module. There is one function per element
size and tile size.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.llvm.emit_text import Item, Writer, wide
from weft.runtime import read_llvm

MOST_LANES = 16  # maximum number of lanes of a vector, and of vectors that are in registers at once


def emit_transposed(emitter: Writer, operation: Operation, vector_bytes: int) -> None:
    """Emit code that copies a tile in transposed order. The result of `operation` is the pointer to the copy."""
    itemsize, size = operation.operands[0].element.itemsize, operation.attributes["size"]
    element = f"i{8 * itemsize}"
    name = f"transpose_{element}_{size}"
    lanes = min(MOST_LANES, size, vector_bytes // itemsize)
    emitter.declarations.setdefault(name, _function(name, element, lanes, size))
    tile = emitter.alloca(f"[{size * size} x {element}]", 64)
    source, *numbers = (emitter.scalar_of(v) for v in operation.operands)
    index, *rest = (emitter.widened(number) for number in numbers)
    start = emitter.line(f"getelementptr inbounds {element}, ptr {source}, i64 {index}")
    arguments = ", ".join(f"i64 {number}" for number in rest)
    emitter.do(f"call void @{name}(ptr {start}, {arguments}, ptr {tile})")
    emitter.set(operation, Item(tile))


def _transposing_shuffles(lanes: int, vector: str) -> tuple[list[str], list[str]]:
    """Return instructions that transpose a matrix, and the names of its new rows. The old rows are %in0, %in1 etc."""
    lines, names = [], [f"%in{k}" for k in range(lanes)]
    half = lanes // 2
    while half:
        for k in range(lanes):
            if k & half:
                continue
            pair = names[k], names[k + half]
            for index, offset in ((k, 0), (k + half, half)):
                order = [j + offset if not j & half else lanes + j - half + offset for j in range(lanes)]
                mask = ", ".join(f"i32 {j}" for j in order)
                names[index] = f"%t{half}.{index}"
                lines.append(
                    f"  {names[index]} = shufflevector {vector} {pair[0]}, {vector} {pair[1]}, <{lanes} x i32> <{mask}>"
                )
        half //= 2
    return lines, names


def _function(name: str, element: str, lanes: int, size: int) -> str:
    """Return the LLVM text of a function that copies a tile in transposed order.

    Its signature is ``void name(source, stride, rows, columns, tile)``.

    The function copies blocks of `lanes` by `lanes` elements. The last blocks are shifted back to end at the tile's
    edge, and overlap their neighbors. A tile that is smaller than a block is copied element by element.
    """
    vector, align = wide(element, lanes), int(element[1:]) // 8
    loads, stores = [], []
    for k in range(lanes):
        loads += [
            f"  %column{k} = add i64 %left, {k}",
            f"  %offset{k} = mul i64 %column{k}, %stride",
            f"  %index{k} = add i64 %offset{k}, %top",
            f"  %from{k} = getelementptr {element}, ptr %source, i64 %index{k}",
            f"  %in{k} = load {vector}, ptr %from{k}, align {align}",
        ]
        stores += [
            f"  %row{k} = add i64 %top, {k}",
            f"  %line{k} = mul i64 %row{k}, {size}",
            f"  %slot{k} = add i64 %line{k}, %left",
            f"  %to{k} = getelementptr {element}, ptr %tile, i64 %slot{k}",
        ]
    turned, names = _transposing_shuffles(lanes, vector)
    stores += [f"  store {vector} {names[k]}, ptr %to{k}, align {align}" for k in range(lanes)]
    return read_llvm(
        __file__,
        "host_transposes",
        NAME=name,
        ELEMENT=element,
        ALIGN=align,
        LANES=lanes,
        SIZE=size,
        BLOCK="\n".join([*loads, *turned, *stores]),
    )
