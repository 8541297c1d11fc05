"""Tests of behaviour on which programs for Numba CUDA rely."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


def test_types_stand_beside_the_functions() -> None:
    assert cuda.float32[:, ::1] == cuda.types.float32[:, ::1]
    assert cuda.void(cuda.int32, cuda.float64[:]).arguments == (cuda.types.int32, cuda.types.float64[:])


def test_an_array_for_a_signature_that_leaves_its_strides_open() -> None:
    @cuda.jit("void(float64[:, :], float64[:, :])")
    def transpose(x: Any, y: Any) -> None:
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[j, i] = x[i, j]

    values = np.arange(35.0).reshape(5, 7)
    result = cuda.device_array((7, 5))
    transpose[(1, 1), (8, 8)](cuda.to_device(values), result)
    np.testing.assert_array_equal(result.copy_to_host(), values.T)


def test_a_program_on_the_command_line() -> None:
    program = "from weft import cuda\n@cuda.jit\ndef hello(n):\n    print(n, cuda.grid(1))\nhello[1, 2](7)\ncuda.synchronize()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert sorted(done.stdout.split("\n")) == ["", "7 0", "7 1"]


def test_a_kernel_without_brackets_is_a_function() -> None:
    @cuda.jit
    def twice(x: Any) -> Any:
        return 2 * x

    @cuda.jit
    def fill(x: Any) -> None:
        i = cuda.grid(1)
        x[i] = twice(i) + 1

    x = np.zeros(4)
    fill[1, 4](x)
    np.testing.assert_array_equal(x, [1, 3, 5, 7])


def test_a_ufunc_fills_an_array() -> None:
    @cuda.jit
    def fill(x: Any, y: Any, out: Any, sines: Any) -> None:
        np.add(x, y, out)
        np.sin(x, out=sines)

    x, y = np.linspace(0, 1, 12).reshape(3, 4), np.arange(4.0)
    out, sines = np.zeros((3, 4)), np.zeros((3, 4))
    fill[1, 1](x, y, out, sines)
    np.testing.assert_array_equal(out, x + y)
    np.testing.assert_allclose(sines, np.sin(x), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("digits", [-3, 0, 2, 5, 300])
def test_digits_of_round_known_when_running(dtype: Any, digits: int) -> None:
    @cuda.jit
    def rounded(x: Any, digits: Any) -> None:
        i = cuda.grid(1)
        x[i] = round(x[i], digits)

    values = np.array([0.5425, -2.5, 1234.56789, 1e30, np.inf, -0.0], dtype)
    x = values.copy()
    rounded[1, 6](x, digits)
    expected = [round(v, digits) if np.isfinite(v) else v for v in values.astype(np.float64).tolist()]
    np.testing.assert_array_equal(x, np.array(expected, dtype))


ITEM = np.dtype([("count", np.int32), ("weight", np.float64), ("parts", np.float32, (3,))])


def test_one_record_as_an_argument() -> None:
    @cuda.jit
    def change(item: Any, out: Any) -> None:
        item.count += 2
        item.parts[1] = item.weight
        out[0] = item[0] + item["weight"]

    items = np.zeros(2, ITEM)
    items["count"], items["weight"] = 3, 0.5
    out = np.zeros(1)
    change[1, 1](items[1:].reshape(()), out)
    assert out[0] == 5.5
    assert items["count"].tolist() == [3, 5]
    assert items["parts"].tolist() == [[0, 0, 0], [0, 0.5, 0]]
    change[1, 1](items[0], out)
    assert items["count"].tolist() == [5, 5]


def test_records_in_constant_memory() -> None:
    table = np.zeros(3, ITEM)
    table["count"], table["weight"] = [1, 2, 3], [0.5, 0.25, 0.125]
    table["parts"] = np.arange(9).reshape(3, 3)

    @cuda.jit
    def read(out: Any) -> None:
        held = cuda.const.array_like(table)
        i = cuda.grid(1)
        out[i] = held[i].count * held[i].weight + held[i].parts[2]

    out = np.zeros(3)
    read[1, 3](out)
    np.testing.assert_array_equal(out, [2.5, 5.5, 8.375])


def test_print_of_an_element(capfd: pytest.CaptureFixture[str]) -> None:
    @cuda.jit
    def show() -> None:
        print(cuda.threadIdx, cuda.blockDim)

    show[1, (2, 1)]()
    cuda.synchronize()
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "(0, 0, 0) (2, 1, 1)", "(1, 0, 0) (2, 1, 1)"]


def test_a_name_takes_another_type_where_a_condition_is_known() -> None:
    @cuda.jit(device=True)
    def first(x: Any) -> Any:
        if isinstance(x, tuple):
            x = x[0]
        return x

    @cuda.jit
    def fill(out: Any, a: Any, b: Any) -> None:
        for k in range(2):
            out[k] = first(a) + first(b) + k

    out = np.zeros(2)
    fill[1, 1](out, (3, 0.5), 4)
    np.testing.assert_array_equal(out, [7, 8])


def test_a_name_of_two_types_that_goes_round_a_loop() -> None:
    @cuda.jit
    def fill(out: Any, flag: Any) -> None:
        for k in range(3):
            if k:
                out[k] = x  # noqa: F821
            x = (k, 0.5)
            if out.ndim == 1:
                x = x[0]

    with pytest.raises(weft.KernelTypeError, match="'x'.*several types"):
        fill[1, 1](np.zeros(3), 1)


@pytest.mark.parametrize("divisor", [0, 0.0])
@pytest.mark.parametrize("operation", ["/", "//", "%"])
def test_debug_finds_divisions_by_zero(operation: str, divisor: Any) -> None:
    if operation == "/":

        def divide(x: Any, y: Any) -> None:
            x[cuda.threadIdx.x] = 1 / y

    elif operation == "//":

        def divide(x: Any, y: Any) -> None:
            x[cuda.threadIdx.x] = 1 // y

    else:

        def divide(x: Any, y: Any) -> None:
            x[cuda.threadIdx.x] = 1 % y

    x = np.zeros(1)
    kernel = cuda.jit(debug=True)(divide)
    kernel[1, 1](x, type(divisor)(2))
    assert x[0] == {"/": 0.5, "//": 0, "%": 1}[operation]
    with pytest.raises(ZeroDivisionError, match=r"division by zero in block \(0, 0, 0\)"):
        kernel[1, 1](x, divisor)
    cuda.jit(divide)[1, 1](x, float(divisor))


def test_sets_of_types() -> None:
    assert cuda.types.uint8 in cuda.types.integer_domain - cuda.types.signed_domain
    assert cuda.types.complex64.underlying_float == cuda.types.float32
    with pytest.raises(AttributeError, match="not complex"):
        _ = cuda.types.int32.underlying_float


def test_a_value_of_the_turn_before() -> None:
    @cuda.jit
    def fill(out: Any) -> None:
        for k in range(4):
            if k > 0:
                out[k] = last  # noqa: F821
            last = 0.5 * k  # noqa: F841

    out = np.zeros(4)
    fill[1, 1](out)
    np.testing.assert_array_equal(out, [0, 0, 0.5, 1])


@pytest.mark.parametrize("shape", [(-1, 6), (4, -1), (4, 6), np.array([-1, 6])])
def test_reshape_to_lengths_known_when_running(shape: Any) -> None:
    @cuda.jit
    def copy(x: Any, shape: Any, out: Any) -> None:
        y = x.reshape((shape[0], shape[1]))
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                out[i, j] = y[i, j]

    out = np.zeros((4, 6))
    copy[1, 1](np.arange(24.0), shape, out)
    np.testing.assert_array_equal(out, np.arange(24).reshape(4, 6))


def test_checked_kernels_look_at_the_size_of_a_reshape() -> None:
    @cuda.jit(debug=True)
    def first(x: Any, n: Any, out: Any) -> None:
        out[0] = x.reshape(n)[0]

    first[1, 1](np.ones(4), 4, np.zeros(1))
    with pytest.raises(ValueError, match="an array of 4 elements cannot be reshaped to 5"):
        first[1, 1](np.ones(4), 5, np.zeros(1))


def test_modules_that_are_reached_as_attributes() -> None:
    assert isinstance(cuda.to_device(np.zeros(2)), cuda.devicearray.DeviceNDArray)
    assert cuda.cudadrv.driver is cuda.driver


class Foreign:
    """An array of an unknown library, with ``__cuda_array_interface__``."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        interface = dict(values.__array_interface__, version=3, strides=values.strides)
        self.__cuda_array_interface__ = interface


def test_arrays_of_other_libraries_in_expressions() -> None:
    values = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(weft.add(weft.ones(4), Foreign(values)).numpy(), values + 1)
    np.testing.assert_array_equal(weft.asarray(Foreign(values[:, ::2])).numpy(), values[:, ::2])
    np.testing.assert_array_equal(weft.add(Foreign(values), Foreign(values), dtype=np.float32).numpy(), 2 * values)
    shared, copied = weft.asarray(Foreign(values)), weft.array(Foreign(values))
    shared[0] = 7
    weft.evaluate(shared)
    assert values[0, 0] == 7 and copied[0, 0] == 0


def test_how_many_blocks_can_wait_for_one_another() -> None:
    @cuda.jit
    def meet(x: Any) -> None:
        x[cuda.grid(1)] = 1
        cuda.cg.this_grid().sync()

    meet[2, 4](np.zeros(8))
    (found,) = meet.overloads.values()
    assert found.cooperative
    assert found.max_cooperative_grid_blocks(64) >= found.max_cooperative_grid_blocks((16, 16)) > 0
    (before,) = cuda.jit("void(float64[::1])")(meet.py_func).overloads.values()
    assert before.max_cooperative_grid_blocks(64) > 0


def test_remainders_of_integers_are_floats() -> None:
    @cuda.jit
    def rest(out: Any, x: Any, y: Any) -> None:
        out[0] = math.remainder(x, y)

    out = np.zeros(1)
    for x, y, wanted in ((0, 0, np.nan), (7, 4, -1), (7.5, 4, -0.5)):
        rest[1, 1](out, x, y)
        np.testing.assert_array_equal(out[0], wanted)


def test_outputs_that_other_libraries_own() -> None:
    values, out = np.arange(4.0), np.zeros(4)
    whole = Foreign(out)
    assert weft.add(values, 1, out=whole) is whole
    np.testing.assert_array_equal(out, values + 1)
    shown = cuda.to_device(values)[1:]
    assert ctypes.c_double.from_address(shown.device_ctypes_pointer.value or 0).value == 1

    @cuda.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
    def double(x: Any, y: Any) -> None:
        for k in range(len(x)):
            y[k] = 2 * x[k]

    double(values, out=Foreign(out))
    np.testing.assert_array_equal(out, 2 * values)


def test_python_floats_take_no_integer_signature() -> None:
    @cuda.vectorize(["int32(int32, int32)", "float32(float32, float32)", "float64(float64, float64)"])
    def add(a: Any, b: Any) -> Any:
        return a + b

    assert add(1.25, 2.5).dtype == np.float64
    assert float(add(1.25, 2.5)) == 3.75
    assert add(np.float32([1.25]), 2.5).dtype == np.float32
    assert add(np.int32([1]), 2).dtype == np.int32
    with pytest.raises(weft.KernelTypeError, match="no signature takes"):
        add(1j, 2)


def test_numbers_take_the_dtype_of_the_arrays_if_no_signature_fits() -> None:
    @cuda.vectorize(["int16(int16, int16)", "int8(int8, int8)"])
    def above(x: Any, limit: Any) -> Any:
        return x if x >= limit else 0

    x = np.arange(20, dtype=np.int16)
    for given in (15, 15.0, 15.7):
        np.testing.assert_array_equal(above(x, given), np.where(x >= 15, x, 0))
    assert above(x.astype(np.int8), 3.5).dtype == np.int8
    for other in (x.astype(float), np.float64(15), x.astype(float)[0]):
        with pytest.raises(weft.KernelTypeError, match="no signature takes"):
            above(x, other)


@pytest.mark.parametrize("decorator", [cuda.vectorize, cuda.guvectorize])
def test_options_that_do_not_exist(decorator: Any) -> None:
    layout = ["(n)->(n)"] if decorator is cuda.guvectorize else []
    with pytest.raises(weft.KernelTypeError, match="no option 'speed'"):
        decorator(["void(float32[:], float32[:])"], *layout, target="cuda", speed=2)


def test_numbers_that_a_signature_says_are_arrays() -> None:
    @cuda.guvectorize(["void(int32[:], int32[:], int32[:])"], "(n),()->(n)")
    def add(x: Any, y: Any, out: Any) -> None:
        for k in range(x.size):
            out[k] = x[k] + y[0]

    x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.array([10, 20], np.int32)
    np.testing.assert_array_equal(np.asarray(add(x, y)), x + y[:, None])
    with pytest.raises(ValueError, match="both positional and keyword"):
        add(x, y, x.copy(), out=x.copy())


def test_a_guvectorized_function_returns_nothing() -> None:
    with pytest.raises(weft.KernelTypeError, match="cannot return values"):
        cuda.guvectorize(["int32(int32[:], int32[:])"], "(n)->(n)")(lambda x, y: None)


def test_signatures_of_device_functions_cast() -> None:
    @cuda.jit("int32(int32, int32)", device=True)
    def pack(r: Any, g: Any) -> Any:
        return ((r & 0xFF) << 8) | (g & 0xFF)

    @cuda.jit(["(int64, int64)", "(float64, float64)"], device=True)
    def add(x: Any, y: Any) -> Any:
        return x + y

    @cuda.jit
    def fill(out: Any, channels: Any, y: Any) -> None:
        out[0] = pack(channels[0], channels[1])
        out[1] = add(1, 2)
        out[2] = add(1, y)
        out[3] = add(y=2.5, x=y)

    out = np.zeros(4)
    fill[1, 1](out, np.array([3.9, 5.0], np.float32), 0.25)
    np.testing.assert_array_equal(out, [0x305, 3, 1.25, 2.75])

    @cuda.jit
    def refused(out: Any) -> None:
        out[0] = add(1j, 2)

    with pytest.raises(weft.KernelTypeError, match="add is declared as .*complex"):
        refused[1, 1](out)
    with pytest.raises(TypeError, match="takes 1 argument, but the signature"):
        weft.device("float32(float32, float32)")(lambda x: x)
    with pytest.raises(TypeError, match="device function: kernels call it"):
        add[1, 1](2, 3)


def test_the_signature_that_loses_nothing() -> None:
    @cuda.jit(["(float64[::1], float32, float32)", "(float64[::1], float64, float64)"])
    def add(out: Any, x: Any, y: Any) -> None:
        out[0] = x + y

    out = np.zeros(1)
    add[1, 1](out, np.float32(1), np.float32(2**-25))
    assert out[0] == 1
    add[1, 1](out, 1, 2**-25)
    assert out[0] == 1 + 2**-25


def test_one_specialization_for_the_same_types() -> None:
    @cuda.jit
    def copy(x: Any, y: Any) -> None:
        y[0] = x[0]

    first = copy.specialize(np.ones(1), np.ones(1))
    assert copy.specialize(np.zeros(3), np.zeros(3)) is first
    assert copy.specialize(np.ones(1, np.int32), np.ones(1)) is not first
    assert len(copy.specializations) == 2
    assert first.specialized
    assert not copy.specialized
    assert copy.specialize(cuda.float64[::1], cuda.float64[::1]) is copy.specialize(
        cuda.float64[::1], cuda.float64[::1]
    )
    with pytest.raises(RuntimeError, match="already specialized"):
        first.specialize(np.ones(1), np.ones(1))


def test_launches_of_wrong_types() -> None:
    @cuda.jit
    def nothing() -> None:
        pass

    for brackets in [(2.0, 3), (2, 3.0), ((1, 2.0), 4)]:
        with pytest.raises(TypeError, match="must be a sequence of integers"):
            nothing[brackets]
    with pytest.raises(ValueError, match="launch_bounds"):
        cuda.jit(launch_bounds=(128, 1, 1, 1))(lambda: None)
