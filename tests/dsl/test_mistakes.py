"""Tests of programs that NumPy rejects.

weft rejects them at the same line, with an error of the same class and a message that explains the mistake.
"""

from __future__ import annotations

import inspect
import operator
import traceback
from decimal import Decimal
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.dsl.script.numpy_face import OWN
from weft.runtime import override

# program -> a part of the message
MISTAKES = {
    "xp.zeros((2, 3)) + xp.zeros(4)": "broadcast",
    "xp.zeros((2, 3)) @ xp.zeros((2, 3))": "matmul",
    "a = xp.ones((2, 2)); a @= xp.ones(2)": "mat",
    "a = xp.ones((2, 2)); a @= xp.ones((2, 1))": "mat",
    "xp.ones((2, 2)) @ 3": "operand 1",
    "3 @ xp.ones((2, 2))": "operand 0",
    "xp.zeros(3)[5]": "index 5 is out of bounds",
    "xp.zeros(3)[1.5]": "only integers",
    "xp.zeros((2, 3))[1, 2, 3]": "too many indices",
    "xp.zeros(3)[xp.array([True, False])]": "boolean index",
    "xp.sum(xp.zeros((2, 3)), axis=2)": "axis 2 is out of bounds",
    "xp.zeros(3).sum(axis=1.0)": "float",
    "xp.zeros(3).sum(axis='x')": "str",
    "xp.zeros(3).sum(axs=1)": "axs",
    "xp.sin(xp.zeros(3), otu=xp.zeros(3))": "otu",
    "xp.zeros(3).shape = (2, 2)": "size 3",
    "xp.concatenate([xp.zeros((2, 3)), xp.zeros(3)])": "dimensions",
    "xp.concatenate([xp.zeros(2), xp.zeros(2)], out=xp.zeros(5))": "shape",
    "xp.concatenate([xp.zeros(2), xp.zeros(2)], dtype=int)": "Cannot cast",
    "xp.concatenate([xp.zeros(2), xp.zeros(2)], out=(xp.zeros(4),))": "must be an array",
    "xp.stack([xp.zeros(2), xp.zeros(2)], out=(xp.zeros((2, 2)),))": "must be an array",
    "xp.einsum('i->i', xp.zeros(2), out=(xp.zeros(2),))": "must be an array",
    "xp.dot(xp.zeros((2, 2)), xp.zeros(2), out=(xp.zeros(2),))": "must be an array",
    "xp.take(xp.zeros(2), [0, 1], out=(xp.zeros(2),))": "must be an array",
    "xp.choose(xp.zeros(2, int), [xp.zeros(2)], out=(xp.zeros(2),))": "must be an array",
    "xp.round(xp.zeros(2), out=(xp.zeros(2),))": "must be an array",
    "xp.add(xp.zeros(2), 1, (xp.zeros(2),))": "ArrayType",
    "xp.add(xp.zeros(2), 1, signature=None)": "signature",
    "xp.add(xp.zeros(2), 1, sig=None)": "signature",
    "xp.add(xp.zeros(2), 1, sig=None, signature=None)": "both",
    "xp.arange(start=3)": "requires stop",
    "xp.arange(start=3, step=2)": "requires stop",
    "xp.arange(3, start=0)": "given by name",
    "xp.arange(None, 5)": "NoneType",
    "xp.arange(start=None, stop=5)": "NoneType",
    "xp.clip(xp.zeros(2), 1)": "a_max",
    "xp.clip(xp.zeros(2), 1, max=2)": "a_max",
    "xp.clip(xp.zeros(2), a_max=1)": "a_min",
    "xp.clip(xp.zeros(2), 1, 2, min=0)": "forbidden",
    "xp.sinc(y=xp.zeros(2))": "unexpected keyword",
    "xp.concatenate([xp.zeros(2)], 0, None, float)": "positional",
    "xp.inner(a=xp.zeros(2), b=xp.zeros(2))": "argument",
    "xp.vdot(a=xp.zeros(2), b=xp.zeros(2))": "argument",
    "xp.putmask(a=xp.zeros(2), mask=True, values=1)": "argument",
    "xp.copyto(xp.zeros(3, int), xp.zeros(3))": "Cannot cast",
    "xp.copyto(xp.zeros(3), xp.zeros(4))": "broadcast",
    "xp.stack([xp.zeros(2), xp.zeros(3)])": "same shape",
    "xp.zeros(6).reshape(4, 2)": "size 6",
    "xp.zeros(6).reshape(-1, -1)": "one unknown",
    "xp.zeros(6).reshape(2, 3, order='Z')": "order",
    "xp.zeros(6).reshape(2.0, 3)": "float",
    "xp.zeros(6).ravel(order='Z')": "order",
    "xp.zeros(3, order='Z')": "order",
    "xp.array([[1, 2], [3]])": "inhomogeneous",
    "xp.ones(3, dtype='flot32')": "flot32",
    "a = xp.arange(3); a += 0.5": "cast",
    "a = xp.arange(3); a[0] = 1j": "complex",
    "a = xp.arange(3, dtype=xp.uint8); a + 300": "300",
    "a = xp.arange(3, dtype=xp.uint8); a[0] = 300": "300",
    "a = xp.broadcast_to(xp.zeros(3), (2, 3)); a[0] = 1": "read-only",
    "a = xp.zeros(3); del a[0]": "delete",
    "for v in xp.array(3.0): pass": "0-d",
    "len(xp.array(3.0))": "unsized",
    "if xp.zeros(3): pass": "ambiguous",
    "float(xp.zeros(3))": "0-dimensional",
    "xp.take(xp.arange(3), [1], mode='Z')": "clipmode",
    "xp.zeros(-1)": "negative",
    "xp.zeros(2.5)": "2.5",
    "xp.zeros((10**10, 10**10))": "",
    "xp.broadcast_to(xp.zeros(3), (10**10, 10**10, 3))": "",
    "xp.zeros((1,) * 70)": "64",
    "xp.eye(2.5)": "float",
    "xp.eye(2, k=1.5)": "float",
    "xp.zeros(True)": "integer",
    "xp.arange(None)": "NoneType",
    "xp.tile(xp.zeros(2), 1.5)": "float",
    "xp.fft.fft(xp.zeros(8), 2.5)": "float",
    "xp.split(xp.arange(6), [2.5])": "slice indices",
    "xp.array_split(xp.arange(6), 0)": "larger than 0",
    "xp.tensordot(xp.ones((2, 2)), xp.ones((2, 2)), ((1.0,), (0,)))": "float",
    "xp.sum(xp.zeros((2, 2)), axis=[0, 1])": "list",
    "xp.max(xp.zeros((2, 2)), True)": "integer",
    "xp.argmax(xp.zeros((2, 2)), (0,))": "tuple",
    "xp.squeeze(xp.zeros((1, 2)), [0])": "list",
    "xp.add.accumulate(xp.zeros((2, 2)), None)": "multiple axes",
    "xp.linspace(0, 1, 2.5)": "float",
    "xp.diff(xp.zeros(3), n=-1)": "-1",
    "xp.triu(xp.zeros(()))": "",
    "xp.rot90(xp.zeros((2, 2)), axes=(0, 1, 1))": "axes",
    "xp.sin.outer(xp.zeros(3), 1)": "binary",
    "xp.zeros(3) & 1": "bitwise_and",
    "-xp.array([True])": "negative",
    "xp.add(1)": "positional",
    "xp.argmax(xp.zeros(0))": "empty",
    "xp.max(xp.zeros((0, 3)), axis=0)": "identity",
    "xp.einsum('ij->k', xp.zeros((2, 3)))": "k",
    "xp.asarray([1, 2], copy=False)": "copy",
    "xp.zeros(3).fill('x')": "x",
    "xp.zeros(3, int).fill(xp.datetime64(1, 's'))": "argument",
}


def error_of(program: str, xp: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        exec(compile(program, "<the user's>", "exec"), {"xp": xp})
    return caught.value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("program", MISTAKES)
def test_mistakes_are_named_at_their_line(program: str, immediate: int) -> None:
    with override(immediate=immediate):
        wanted, found = error_of(program, np), error_of(program, wf)
    assert isinstance(found, type(wanted)), f"{found!r}, not {wanted!r}"
    assert MISTAKES[program] in str(found)
    assert traceback.extract_tb(found.__traceback__)[1].filename == "<the user's>"


def test_functions_take_numpys_keywords() -> None:
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    compared = 0
    for name, found in OWN.items():
        own = OWN.replaced.get(name, found)
        if not isinstance(own, FunctionType) or not hasattr(np, name) or name in ("array", "einsum", "clip"):
            continue
        theirs = inspect.signature(getattr(np, name)).parameters if name != "matmul" else {}
        wanted = {n for n, p in theirs.items() if p.kind in kinds} - {"like"}
        assert wanted <= set(inspect.signature(own).parameters), name
        compared += 1
    assert compared > 90


def test_keywords_of_functions_with_few() -> None:
    x = np.arange(12.0).reshape(3, 4)
    y = wf.asarray(x)
    for program in (
        "xp.split(ary=x, indices_or_sections=2, axis=1)[1]",
        "xp.vstack(tup=[x, x])",
        "xp.pad(array=x, pad_width=1)",
        "xp.tile(A=x, reps=2)",
        "xp.flip(m=x)",
        "xp.clip(x, a_min=2, a_max=5)",
        "xp.clip(x, 2, 5, dtype=xp.float32)",
        "xp.clip(x, None, None) is x",
        "xp.cumulative_sum(x, axis=1, include_initial=True)",
        "xp.cumulative_sum(x[0])",
        "xp.add(x, x, dtype=xp.float32)",
        "xp.add(x, x, signature='ff->f', casting='unsafe')",
        "xp.matmul(x, x, axes=[(0, 1), (1, 0), (0, 1)])",
        "xp.roll(x, xp.array([1, 2]), axis=(0, 1))",
        "xp.reshape(x.T, (2, 6), order='A')",
        "x.reshape(xp.arange(13)[12])",
        "x.reshape(xp.arange(3, 5))",
        "x.astype(str)",
        "xp.full(2, 10**30, dtype=object)",
    ):
        wanted, found = eval(program, {"xp": np, "x": x}), eval(program, {"xp": wf, "x": y})
        np.testing.assert_array_equal(found, wanted, strict=isinstance(wanted, np.ndarray))


def test_elements_are_set_to_text_and_objects() -> None:
    for value in ("1.5", ["1", "2", "3"], Decimal("0.25"), np.array([1, 2, 3], object)):
        wanted, found = np.zeros(3), wf.zeros(3)
        wanted[:] = value
        found[:] = value
        np.testing.assert_array_equal(found, wanted)


def test_what_is_evaluated_has_no_kernels() -> None:
    x = wf.arange(5.0) + 1
    assert len(wf.compile(x)) == 1
    with pytest.raises(ValueError, match="evaluated"):
        wf.compile(wf.evaluate(x))
    assert wf.compile([]) == ()
    with override(immediate=16_384):
        for x in (wf.ones(3), wf.ones(3) + 1, [wf.ones(3)]):
            with pytest.raises(ValueError, match="evaluated"):
                wf.compile(x)
        with pytest.raises(ValueError, match="evaluated"):
            wf.compile(lambda a: a + 1, wf.ones(3))


def test_arrays_of_other_devices_are_refused_at_their_line() -> None:
    x = wf.zeros(3)
    with wf.device("simt"):
        y = wf.ones(3)
    for use in (
        lambda: x + y,
        lambda: x.__setitem__(slice(1, None), y[1:]),
        lambda: x.__setitem__(0, y[:1]),
        lambda: wf.concatenate([x, y]),
        lambda: wf.where(x > 0, x, y),
    ):
        with pytest.raises(wf.DeviceMismatchError, match=r"\.to\("):
            use()
    assert not x.any()
    x[:] = y.to("cpu")
    assert x.all()


def test_what_is_no_array_is_refused() -> None:
    for use in (wf.explain, wf.compile):
        with pytest.raises(TypeError, match="expected weft arrays, .* not int"):
            use(3)
    with pytest.raises(wf.KernelTypeError, match="takes a function of numbers, or signatures, not 3"):
        wf.vectorize(3)


def test_names_that_load_late_are_listed() -> None:
    listed = set(dir(wf))
    assert {"kernel", "vectorize", "guvectorize", "reduce", "sanitize", "cuda", "stream", "profile", "sin"} <= listed
    with pytest.raises(AttributeError, match="'asum'") as caught:
        _ = wf.asum
    assert caught.value.name == "asum" and caught.value.obj is wf  # from which Python suggests another name


def test_warnings_stand_at_the_users_line() -> None:
    with wf.device("simt"):
        x = wf.zeros(8, np.float32)
    kernel = wf.kernel(_fill)
    with pytest.warns(wf.PerformanceWarning) as warned:
        kernel[1, 8](x, np.ones(8, np.float32))
    assert [warning.filename for warning in warned] == [__file__]
    assert x.sum() == 8  # a host array is copied to the device of the other operands


def _fill(x: Any, y: Any) -> None:
    x[cuda.threadIdx.x] = y[cuda.threadIdx.x]


def test_evaluating_takes_what_functions_return() -> None:
    x = wf.asarray(np.arange(12.0).reshape(3, 4))
    largest = (x + 1j).max()
    values = (3, "text", None, np.float64(2.5), largest, wf.percentile(x, 30), [x + 1, {"a": 2.0}])
    assert wf.evaluate(7) == 7
    assert all(v is w for v, w in zip(wf.evaluate(*values), values, strict=True))
    np.testing.assert_array_equal(np.asarray(values[6][0]), np.arange(12.0).reshape(3, 4) + 1)  # type: ignore[index]


@pytest.mark.parametrize("name", ["linalg.sovle", "fft.rff", "linspce"])
def test_misspelled_names_are_names_of_weft(name: str) -> None:
    module, _, last = f"weft.{name}".rpartition(".")
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{last}', and NumPy has none"):
        operator.attrgetter(name)(wf)


def test_names_that_numpy_removed_have_numpys_advice() -> None:
    with pytest.raises(AttributeError, match="np.float64"):
        wf.float_  # noqa: B018


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize(
    "key",
    [np.array([1.0]), [0.5], np.array(1.5), 1.5, np.array(["a"]), "a", (0, np.array([1.0])), [None], np.array([]), 1j],
    ids=repr,
)
def test_indices_of_another_dtype(key: Any, immediate: int) -> None:
    x = np.ones((2, 3))
    with pytest.raises(IndexError) as expected:
        x[key]
    with override(immediate=immediate):
        for use in (lambda y: y[key], lambda y: y.__setitem__(key, 0)):
            with pytest.raises(IndexError) as found:
                use(wf.asarray(x))
            assert str(found.value) == str(expected.value)


def test_text_that_is_no_number_gives_numpys_error_alone() -> None:
    x = wf.zeros(20) * 2
    with pytest.raises(ValueError, match="could not convert string to float: 'a'") as caught:
        x[5] = "a"
    assert caught.value.__context__ is None
