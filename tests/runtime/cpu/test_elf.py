"""Tests of the linker for object files, and of loading native code without LLVM."""

from __future__ import annotations

import ctypes
import platform
import struct
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from weft.codegen import KernelBuilder, compile_kernel, resolve_target
from weft.runtime.cpu import elf
from weft.runtime.cpu.loader import load_object
from weft.runtime.settings import usable_cores

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="objects of another form are linked by LLVM"
)
TAKES = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def compiled(text: str, triple: str | None = None) -> bytes:
    """Compile LLVM IR to an object file, and return its contents."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="default")
    return machine.emit_object(llvm.parse_assembly(text))


def address_of(function: object) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert found
    return found


def test_a_table_is_read_and_a_function_of_the_file_called() -> None:
    image = elf.link(
        compiled(
            """
            @table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
            define i64 @twice(i64 %x) noinline { %y = shl i64 %x, 1 ret i64 %y }
            define i64 @entry(i64 %k) {
              %p = getelementptr i64, ptr @table, i64 %k
              %v = load i64, ptr %p
              %r = call i64 @twice(i64 %v)
              ret i64 %r
            }
            """
        ),
        {},
    )
    entry = TAKES(image.symbols["entry"])
    assert [entry(k) for k in range(4)] == [6, 10, 14, 22]


def test_outside_functions_and_outside_memory() -> None:
    word = ctypes.c_int64(40)
    called = []

    @TAKES
    def outside(x: int) -> int:
        called.append(x)
        return x + 1

    text = """
        @word = external global i64
        declare i64 @outside(i64)
        define i64 @entry(i64 %x) {
          %held = load i64, ptr @word
          %sum = add i64 %held, %x
          %r = call i64 @outside(i64 %sum)
          store i64 %r, ptr @word
          ret i64 %r
        }
        """
    addresses = {"word": ctypes.addressof(word), "outside": address_of(outside)}
    image = elf.link(compiled(text), addresses)
    assert TAKES(image.symbols["entry"])(2) == 43
    assert called == [42] and word.value == 43


def test_a_jump_table() -> None:
    cases = "\n".join(f"c{k}: ret i64 {k * k * 7 + (k % 3)}" for k in range(12))
    arms = " ".join(f"i64 {k}, label %c{k}" for k in range(12))
    text = f"define i64 @entry(i64 %x) {{ switch i64 %x, label %none [ {arms} ]\n{cases}\nnone: ret i64 -1 }}"
    image = elf.link(compiled(text), {})
    entry = TAKES(image.symbols["entry"])
    assert [entry(k) for k in range(13)] == [k * k * 7 + (k % 3) for k in range(12)] + [-1]


def test_a_table_of_functions() -> None:
    functions = "\n".join(f"define internal i64 @f{k}(i64 %x) noinline {{ ret i64 {k * k * 7} }}" for k in range(12))
    arms = " ".join(f"i64 {k}, label %c{k}" for k in range(12))
    cases = "\n".join(f"c{k}: ret ptr @f{k}" for k in range(12))
    text = f"{functions}\ndefine ptr @entry(i64 %x) {{ switch i64 %x, label %none [ {arms} ]\n{cases}\nnone: ret ptr null }}"
    image = elf.link(compiled(text), {})
    found = TAKES(image.symbols["entry"])
    assert [TAKES(found(k))(0) for k in range(12)] == [k * k * 7 for k in range(12)] and not found(12)


@pytest.mark.parametrize(
    ("text", "triple"),
    [
        ("@held = global i64 3\ndefine i64 @entry(i64 %x) { store i64 %x, ptr @held ret i64 %x }", None),
        ("@held = thread_local global i64 3\ndefine ptr @entry(i64 %x) { ret ptr @held }", None),
        ("define i64 @entry(i64 %x) { ret i64 %x }", "aarch64-unknown-linux-gnu"),
        ("declare i64 @nowhere(i64)\ndefine i64 @entry(i64 %x) { %r = call i64 @nowhere(i64 %x) ret i64 %r }", None),
    ],
    ids=["memory that is written", "memory of a thread", "another machine", "a symbol that is not there"],
)
def test_refused(text: str, triple: str | None) -> None:
    with pytest.raises(elf.UnsupportedObjectError):
        elf.link(compiled(text, triple), {})


def test_cut_off_files_are_refused() -> None:
    whole = compiled("define i64 @entry(i64 %x) { ret i64 %x }")
    for length in range(0, len(whole) - 1, 16):
        with pytest.raises(elf.UnsupportedObjectError):
            elf.link(whole[:length], {})


def test_code_is_not_writable() -> None:
    image = elf.link(compiled("define i64 @entry(i64 %x) { ret i64 %x }"), {})
    start = image.symbols["entry"]
    lines = Path("/proc/self/maps").read_text().splitlines()
    fields = (line.split()[:2] for line in lines)
    (rights,) = [r for span, r in fields if int(span.split("-")[0], 16) <= start < int(span.split("-")[1], 16)]
    assert rights == "r-xp"


def test_kernels_load_without_llvm_and_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = KernelBuilder("tangent", np.int64)
    x, y = builder.pointer("x", np.float64), builder.pointer("y", np.float64, writable=True)
    builder.store(y, builder.constant(0, np.int64), builder.op("tan", builder.load(x, builder.constant(0, np.int64))))
    code = compile_kernel(builder.finish(), resolve_target("host"))
    found = []
    for way in ("elf", "llvm"):
        if way == "llvm":
            monkeypatch.setattr(elf, "link", _refuse)
        values = np.array([0.7, 0.0])
        slots = (ctypes.c_int64 * 2)(values.ctypes.data, values.ctypes.data + 8)
        load_object(code).call(ctypes.addressof(slots), 0, 1)
        found.append(values[1])
    assert found[0] == found[1] == pytest.approx(np.tan(0.7), rel=1e-15)


def _refuse(*_: object) -> None:
    raise elf.UnsupportedObjectError


def test_a_second_process_loads_no_compiler(tmp_path: Path) -> None:
    code = """
import sys, numpy as np, weft as wf
x = wf.asarray(np.arange(1000, dtype=np.float32))
print(float((wf.exp(x * 0.001) + x.sum()).max()))
print(sorted({"llvmlite", "sympy", "cuda", "weft.codegen.llvm.host_threads"} & set(sys.modules)))
"""
    env = {"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "WEFT_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout.split(
            "\n"
        )
        for _ in range(2)
    ]
    assert told[0][0] == told[1][0]
    assert told[0][1] == "['llvmlite']" and told[1][1] == "[]"


def test_the_header_is_the_standard_one() -> None:
    assert struct.calcsize(elf._HEADER.format) == 64 and elf._SECTION.size == 64 and elf._SYMBOL.size == 24


@pytest.mark.parametrize("background", [True, False])
def test_native_code_for_small_work_loads_a_compiler_only_without_a_second_process(
    background: bool, tmp_path: Path
) -> None:
    if background and usable_cores() < 2:
        pytest.skip("one core compiles nothing beside the program")
    code = """
import sys, time, numpy as np, weft as wf
from weft.dsl.immediate import native_immediate
from weft.runtime import waiting
from weft.dsl.immediate.at_call import ENOUGH
from weft.runtime.replacement import COMPILED
x = wf.asarray(np.arange(4.0))
for calls in (ENOUGH // 4, ENOUGH, COMPILED):
    for _ in range(calls):
        float(x.sum())  # (a method alone suffices)
    while waiting():
        time.sleep(0.01)
    print(type(vars(wf.Array)["sum"]).__name__, "llvmlite" in sys.modules)
"""
    env = {"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "WEFT_CACHE_DIR": str(tmp_path)}
    env["WEFT_BACKGROUND"] = str(int(background))
    told = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        for _ in range(2)
    ]
    python, found, compiled = "function False\n", "instancemethod False\n", "instancemethod True\n"
    assert told == [2 * python + (found if background else compiled), python + 2 * found]


@pytest.mark.skipif(usable_cores() < 2, reason="one core compiles nothing beside the program")
def test_code_that_was_made_quickly_is_made_better_for_the_next_process(tmp_path: Path) -> None:
    code = """
import sys, time
from weft.runtime import waiting
from weft.runtime.cpu import native
from weft.runtime.cpu.free_lists import TAKE, take_text
made = native.native_object(TAKE, take_text())
while waiting():
    time.sleep(0.01)
better, quick = (native.disk_cache().get(key) for key in native._keys_of(take_text()))
print(made.code == quick.code, made.code == better.code, better.code == quick.code, "llvmlite" in sys.modules)
"""
    env = {"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "WEFT_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout.split()
        for _ in range(2)
    ]
    assert told == [["True", "False", "False", "True"], ["False", "True", "False", "False"]]


@pytest.mark.skipif(usable_cores() < 2, reason="one core compiles nothing beside the program")
def test_better_code_replaces_code_that_was_made_quickly(tmp_path: Path) -> None:
    code = """
import ctypes, time
import numpy as np, weft as wf
from weft.dsl.immediate.native_immediate import INSTALLED, install_native_code
from weft.runtime import background, waiting
from weft.runtime.cpu import native
exchange, background.exchange = background.exchange, lambda: None  # (no request is sent yet)
x = wf.asarray(np.arange(4.0))
install_native_code()
def work():
    for _ in range(1500):
        x[1:3] += 1
        x[0] = x[1] - x[2]
    return float(x.sum())
first = work()
builtin = INSTALLED[wf.Array, "__iadd__"][0]
quick = builtin.address
before = builtin._method.function
background.exchange = exchange
while waiting():
    time.sleep(0.01)
print(first, work(), before == quick, builtin._method.function == quick, any(quick in (ctypes.c_int64 * n).from_address(w) for w, n in native.words_with_code))
"""
    env = {"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "WEFT_CACHE_DIR": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout.split()
    assert told == ["3005.0", "6005.0", "True", "False", "False"]
