"""Texts and examples for the docstrings of ufuncs, methods and functions.

`tests/docs/test_docstrings.py` runs the examples.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

# Arguments of an example call to each op, and the result of the call
UFUNC_EXAMPLES = {
    "add": ("[1, 2], 10", "array([11, 12])"),
    "subtract": ("[1, 2], 10", "array([-9, -8])"),
    "multiply": ("[1, 2], 10", "array([10, 20])"),
    "divide": ("[1, 2], 4", "array([0.25, 0.5 ])"),
    "floor_divide": ("[7, -7], 2", "array([ 3, -4])"),
    "remainder": ("[7, -7], 3", "array([1, 2])"),
    "fmod": ("[7, -7], 3", "array([ 1, -1])"),
    "power": ("[1.0, 2.0], [3.0, 0.5]", "array([1.        , 1.41421356])"),
    "float_power": ("[2, 3], -1", "array([0.5       , 0.33333333])"),
    "negative": ("[1, -2]", "array([-1,  2])"),
    "positive": ("[1, -2]", "array([ 1, -2])"),
    "absolute": ("[-3, 2]", "array([3, 2])"),
    "fabs": ("[-3, 2]", "array([3., 2.])"),
    "sign": ("[-3, 0, 2]", "array([-1,  0,  1])"),
    "square": ("[-3, 2]", "array([9, 4])"),
    "reciprocal": ("[2.0, 4.0]", "array([0.5 , 0.25])"),
    "heaviside": ("[-1.0, 0.0, 1.0], 0.5", "array([0. , 0.5, 1. ])"),
    "gcd": ("[12, 18], 8", "array([4, 2])"),
    "lcm": ("[4, 6], 10", "array([20, 30])"),
    "conjugate": ("[1 + 2j, 3.0]", "array([1.-2.j, 3.-0.j])"),
    "equal": ("[1, 2], [1, 3]", "array([ True, False])"),
    "not_equal": ("[1, 2], [1, 3]", "array([False,  True])"),
    "less": ("[1, 2], [1, 3]", "array([False,  True])"),
    "less_equal": ("[1, 2], [1, 1]", "array([ True, False])"),
    "greater": ("[1, 2], [1, 1]", "array([False,  True])"),
    "greater_equal": ("[1, 2], [1, 3]", "array([ True, False])"),
    "logical_and": ("[True, True, False], [True, False, False]", "array([ True, False, False])"),
    "logical_or": ("[True, True, False], [True, False, False]", "array([ True,  True, False])"),
    "logical_xor": ("[True, True, False], [True, False, False]", "array([False,  True, False])"),
    "logical_not": ("[True, False]", "array([False,  True])"),
    "bitwise_and": ("[12, 10], 6", "array([4, 2])"),
    "bitwise_or": ("[12, 10], 6", "array([14, 14])"),
    "bitwise_xor": ("[12, 10], 6", "array([10, 12])"),
    "invert": ("[0, 5]", "array([-1, -6])"),
    "left_shift": ("[1, 5], 2", "array([ 4, 20])"),
    "right_shift": ("[8, -8], 2", "array([ 2, -2])"),
    "bitwise_count": ("[0, 7, 8]", "array([0, 3, 1], dtype=uint8)"),
    "minimum": ("[1.0, np.nan], 3.0", "array([ 1., nan])"),
    "maximum": ("[1.0, np.nan], 3.0", "array([ 3., nan])"),
    "fmin": ("[1.0, np.nan], 3.0", "array([1., 3.])"),
    "fmax": ("[1.0, np.nan], 3.0", "array([3., 3.])"),
    "isfinite": ("[1.0, np.inf, np.nan]", "array([ True, False, False])"),
    "isinf": ("[1.0, np.inf, np.nan]", "array([False,  True, False])"),
    "isnan": ("[1.0, np.inf, np.nan]", "array([False, False,  True])"),
    "signbit": ("[-0.0, 1.0]", "array([ True, False])"),
    "copysign": ("[1.0, 2.0], [-0.0, 3.0]", "array([-1.,  2.])"),
    "rint": ("[0.5, 1.5, 2.7]", "array([0., 2., 3.])"),
    "floor": ("[-1.5, 1.5]", "array([-2.,  1.])"),
    "ceil": ("[-1.5, 1.5]", "array([-1.,  2.])"),
    "trunc": ("[-1.5, 1.5]", "array([-1.,  1.])"),
    "sqrt": ("[4.0, 2.0]", "array([2.        , 1.41421356])"),
    "cbrt": ("[27.0, -8.0]", "array([ 3., -2.])"),
    "exp": ("[0.0, 1.0]", "array([1.        , 2.71828183])"),
    "exp2": ("[0.0, 3.0]", "array([1., 8.])"),
    "expm1": ("[0.0, 1e-10]", "array([0.e+00, 1.e-10])"),
    "log": ("[1.0, np.e]", "array([0., 1.])"),
    "log2": ("[1.0, 8.0]", "array([0., 3.])"),
    "log10": ("[1.0, 1000.0]", "array([0., 3.])"),
    "log1p": ("[0.0, 1e-10]", "array([0.e+00, 1.e-10])"),
    "sin": ("[0.0, np.pi / 2]", "array([0., 1.])"),
    "cos": ("[0.0, np.pi / 3]", "array([1. , 0.5])"),
    "tan": ("[0.0, np.pi / 4]", "array([0., 1.])"),
    "arcsin": ("[0.0, 1.0]", "array([0.        , 1.57079633])"),
    "arccos": ("[0.0, 1.0]", "array([1.57079633, 0.        ])"),
    "arctan": ("[0.0, 1.0]", "array([0.        , 0.78539816])"),
    "arctan2": ("[1.0, -1.0], [1.0, -1.0]", "array([ 0.78539816, -2.35619449])"),
    "sinh": ("[0.0, 1.0]", "array([0.        , 1.17520119])"),
    "cosh": ("[0.0, 1.0]", "array([1.        , 1.54308063])"),
    "tanh": ("[0.0, 1.0]", "array([0.        , 0.76159416])"),
    "arcsinh": ("[0.0, 1.0]", "array([0.        , 0.88137359])"),
    "arccosh": ("[1.0, 2.0]", "array([0.       , 1.3169579])"),
    "arctanh": ("[0.0, 0.5]", "array([0.        , 0.54930614])"),
    "hypot": ("[3.0, 5.0], [4.0, 12.0]", "array([ 5., 13.])"),
    "nextafter": ("np.float32([1.0]), np.float32(2.0)", "array([1.0000001], dtype=float32)"),
    "deg2rad": ("[0.0, 180.0]", "array([0.        , 3.14159265])"),
    "rad2deg": ("[0.0, np.pi]", "array([  0., 180.])"),
    "logaddexp": ("[0.0, -1000.0], [0.0, -1000.0]", "array([ 6.93147181e-01, -9.99306853e+02])"),
    "logaddexp2": ("[0.0, 1.0], [0.0, 1.0]", "array([1., 2.])"),
    "ldexp": ("[1.0, 3.0], [4, -1]", "array([16. ,  1.5])"),
    "sinc": ("[0.0, 0.5]", "array([1.        , 0.63661977])"),
    "fma": ("[2.0, 3.0], 10.0, 1.0", "array([21., 31.])"),
    "erf": ("[0.0, 1.0]", "array([0.        , 0.84270079])"),
    "erfc": ("[0.0, 1.0]", "array([1.        , 0.15729921])"),
    "gamma": ("[0.5, 5.0]", "array([ 1.77245385, 24.        ])"),
    "lgamma": ("[1.0, 10.0]", "array([ 0.        , 12.80182748])"),
    "clz": ("np.int32([1, 256])", "array([31, 23], dtype=int32)"),
    "ffs": ("[0, 8]", "array([0, 4])"),
    "brev": ("np.uint8([1, 6])", "array([128,  96], dtype=uint8)"),
    "rsqrt": ("[4.0, 16.0]", "array([0.5 , 0.25])"),
    "exp10": ("[0.0, 2.0]", "array([  1., 100.])"),
    "sinpi": ("[0.5, 1.0]", "array([ 1., -0.])"),
    "cospi": ("[0.5, 1.0]", "array([-0., -1.])"),
}

# Summaries of methods and properties that have no docstring
MEMBER_SUMMARIES = {
    "T": "View of the array with reversed axes.",
    "clip": "Limit elements to an interval, like `numpy.ndarray.clip`.",
    "data": "Buffer of the evaluated elements, like `numpy.ndarray.data`. On a GPU, the buffer is a read-only copy.",
}

# Example of each method or property of `Array`: an expression and its value, or a longer session
MEMBER_EXAMPLES: dict[str, tuple[str, str] | str] = {
    "T": """\
>>> x = wf.asarray([[1, 2], [3, 4]])
>>> x.T
array([[1, 3],
       [2, 4]])""",
    "base": """\
>>> x = wf.arange(4)
>>> x.base is None
True
>>> x[1:].base is None
False""",
    "byteswap": ("wf.asarray([1, 256], dtype=np.int16).byteswap()", "array([256,   1], dtype=int16)"),
    "choose": ("wf.asarray([0, 1, 0]).choose([[1, 2, 3], [10, 20, 30]])", "array([ 1, 20,  3])"),
    "clip": ("wf.asarray([-2, 0, 5]).clip(0, 3)", "array([0, 0, 3])"),
    "compress": ("wf.asarray([1, 2, 3]).compress([True, False, True])", "array([1, 3])"),
    "conj": ("wf.asarray([1 + 2j]).conj()", "array([1.-2.j])"),
    "conjugate": ("wf.asarray([1 + 2j]).conjugate()", "array([1.-2.j])"),
    "copy": """\
>>> x = wf.arange(3)
>>> y = x.copy()
>>> x[0] = 9
>>> y
array([0, 1, 2])""",
    "ctypes": ("wf.arange(3).ctypes.shape[0]", "3"),
    "data": ("wf.arange(3).data.tolist()", "[0, 1, 2]"),
    "device": """\
>>> with wf.device('cpu'):
...     x = wf.zeros(2)
>>> x.device.name
'cpu'""",
    "dtype": ("wf.ones(3, dtype=np.float32).dtype", "dtype('float32')"),
    "dump": """\
>>> import io, pickle
>>> file = io.BytesIO()
>>> wf.arange(3).dump(file)
>>> pickle.loads(file.getvalue())
array([0, 1, 2])""",
    "dumps": """\
>>> import pickle
>>> pickle.loads(wf.arange(3).dumps())
array([0, 1, 2])""",
    "fill": """\
>>> x = wf.zeros(3)
>>> x.fill(2)
>>> x
array([2., 2., 2.])""",
    "getfield": ("wf.asarray([1, 258], dtype=np.int16).getfield(np.int8, 1)", "array([0, 1], dtype=int8)"),
    "setfield": """\
>>> x = wf.zeros(2, dtype=np.int16)
>>> x.setfield([1, 2], np.int8, 1)
>>> x
array([256, 512], dtype=int16)""",
    "flags": """\
>>> x = wf.arange(3)
>>> x.flags.writeable = False
>>> x.flags.writeable
False""",
    "flat": """\
>>> x = wf.asarray([[1, 2], [3, 4]])
>>> x.flat[2] = 9
>>> x
array([[1, 2],
       [9, 4]])""",
    "flatten": ("wf.asarray([[1, 2], [3, 4]]).flatten()", "array([1, 2, 3, 4])"),
    "imag": ("wf.asarray([1 + 2j, 3.0]).imag", "array([2., 0.])"),
    "item": ("wf.asarray([[1, 2], [3, 4]]).item(1, 0)", "3"),
    "itemsize": ("wf.ones(3, dtype=np.float32).itemsize", "4"),
    "mT": ("wf.ones((2, 3, 4)).mT.shape", "(2, 4, 3)"),
    "nbytes": ("wf.ones((2, 3)).nbytes", "48"),
    "ndim": ("wf.ones((2, 3)).ndim", "2"),
    "numpy": ("wf.arange(3).numpy()", "array([0, 1, 2])"),
    "partition": """\
>>> x = wf.asarray([7, 1, 5])
>>> x.partition(1)
>>> x[1]
np.int64(5)""",
    "put": """\
>>> x = wf.zeros((2, 2))
>>> x.put([0, 3], [7, 8])
>>> x
array([[7., 0.],
       [0., 8.]])""",
    "real": ("wf.asarray([1 + 2j, 3.0]).real", "array([1., 3.])"),
    "reshape": ("wf.arange(6).reshape(2, -1)", "array([[0, 1, 2],\n       [3, 4, 5]])"),
    "resize": """\
>>> x = wf.asarray([1, 2])
>>> x.resize(2, 2)
>>> x
array([[1, 2],
       [0, 0]])""",
    "setflags": """\
>>> x = wf.arange(3)
>>> x.setflags(write=False)
>>> x.flags.writeable
False""",
    "shape": ("wf.ones((2, 3)).shape", "(2, 3)"),
    "size": ("wf.ones((2, 3)).size", "6"),
    "sort": """\
>>> x = wf.asarray([7, 1, 5])
>>> x.sort()
>>> x
array([1, 5, 7])""",
    "strides": ("wf.ones((2, 3)).strides", "(24, 8)"),
    "to": ("wf.arange(3).to('cpu')", "array([0, 1, 2])"),
    "to_device": ("wf.arange(3).to_device('cpu')", "array([0, 1, 2])"),
    "to_numpy": ("wf.arange(3).to_numpy()", "array([0, 1, 2])"),
    "tobytes": ("wf.asarray([1, 2], dtype=np.uint8).tobytes().hex()", "'0102'"),
    "tofile": """\
>>> import tempfile
>>> file = tempfile.TemporaryFile()
>>> wf.arange(3).tofile(file)
>>> file.tell()
24""",
    "tolist": ("wf.asarray([[1, 2], [3, 4]]).tolist()", "[[1, 2], [3, 4]]"),
    "transpose": ("wf.ones((2, 3, 4)).transpose(2, 0, 1).shape", "(4, 2, 3)"),
    "view": """\
>>> x = wf.arange(3)
>>> y = x.view()
>>> y[0] = 9
>>> x
array([9, 1, 2])""",
    "astype": ("wf.asarray([1.7, -2.7]).astype(np.int32)", "array([ 1, -2], dtype=int32)"),
}

# Phrases in several summaries
_LIKE = "by default with the shape, dtype and device of another array"
_COPY = "Return a copy of a matrix, or of a stack of matrices, with the elements"
_ALONG = "along an axis, by default of the flattened array"
_OR_NAN = "along the given axes, or NaN if an element is NaN"
_NOT_NAN = "of the elements that are not NaN"
# Summary, example arguments and example result of each function
FUNCTIONS = {
    "zeros": ("Return an array of zeros, by default float64", "(2, 2)", "array([[0., 0.],\n       [0., 0.]])"),
    "ones": ("Return an array of ones, by default float64", "3, dtype=np.int32", "array([1, 1, 1], dtype=int32)"),
    "empty": ("Return an uninitialized array, by default float64", "(0, 2)", "array([], shape=(0, 2), dtype=float64)"),
    "zeros_like": (f"Return an array of zeros, {_LIKE}", "[1.5, 2.5]", "array([0., 0.])"),
    "ones_like": (f"Return an array of ones, {_LIKE}", "[[1, 2], [3, 4]]", "array([[1, 1],\n       [1, 1]])"),
    "empty_like": (f"Return an uninitialized array, {_LIKE}", "np.int32([])", "array([], dtype=int32)"),
    "tril": (f"{_COPY} above the `k`-th diagonal set to zero", "[[1, 2], [3, 4]]", "array([[1, 0],\n       [3, 4]])"),
    "triu": (f"{_COPY} below the `k`-th diagonal set to zero", "[[1, 2], [3, 4]]", "array([[1, 2],\n       [0, 4]])"),
    "sum": ("Return the sum of the elements over the given axes", "[[1, 2], [3, 4]], axis=0", "array([4, 6])"),
    "prod": ("Return the product of the elements over the given axes", "[2, 3, 4]", "np.int64(24)"),
    "max": (f"Return the maximum {_OR_NAN}", "[[1, 5], [7, 3]], axis=1", "array([5, 7])"),
    "min": (f"Return the minimum {_OR_NAN}", "[[1, 5], [7, 3]], axis=1", "array([1, 3])"),
    "all": (
        "Return whether all elements along the given axes are nonzero",
        "[[True, False], [True, True]], axis=1",
        "array([False,  True])",
    ),
    "any": (
        "Return whether any element along the given axes is nonzero",
        "[[False, False], [False, True]], axis=1",
        "array([False,  True])",
    ),
    "cumsum": (f"Return the cumulative sum {_ALONG}", "[1, 2, 3]", "array([1, 3, 6])"),
    "cumprod": (f"Return the cumulative product {_ALONG}", "[1, 2, 3]", "array([1, 2, 6])"),
    "nancumsum": (
        "Return the cumulative sum along an axis, treating NaN as 0",
        "[2.0, np.nan, 3.0]",
        "array([2., 2., 5.])",
    ),
    "nancumprod": (
        "Return the cumulative product along an axis, treating NaN as 1",
        "[2.0, np.nan, 3.0]",
        "array([2., 2., 6.])",
    ),
    "sort": ("Return a copy of an array, sorted along an axis", "[7, 1, 5]", "array([1, 5, 7])"),
    "argsort": ("Return the indices that sort an array along an axis", "[7, 1, 5]", "array([1, 2, 0])"),
    "argmax": ("Return the index of the first maximum along an axis", "[3, 9, 4, 9]", "np.int64(1)"),
    "argmin": ("Return the index of the first minimum along an axis", "[3, 1, 4, 1]", "np.int64(1)"),
    "nansum": (f"Return the sum {_NOT_NAN}", "[1.0, np.nan, 2.0]", "np.float64(3.0)"),
    "nanprod": (f"Return the product {_NOT_NAN}", "[2.0, np.nan, 3.0]", "np.float64(6.0)"),
    "nanvar": (f"Return the variance {_NOT_NAN}", "[2.0, np.nan, 4.0]", "np.float64(1.0)"),
    "nanstd": (f"Return the standard deviation {_NOT_NAN}", "[2.0, np.nan, 4.0]", "np.float64(1.0)"),
    "quantile": (
        "Return quantiles of the elements along the given axes",
        "[1.0, 2.0, 3.0, 4.0, 5.0], [0.25, 0.5]",
        "array([2., 3.])",
    ),
    "percentile": (
        "Return percentiles of the elements along the given axes",
        "[1.0, 2.0, 3.0, 4.0, 5.0], 25",
        "np.float64(2.0)",
    ),
    "nanquantile": (f"Return quantiles {_NOT_NAN}", "[1.0, np.nan, 3.0], 0.5", "np.float64(2.0)"),
    "nanpercentile": (f"Return percentiles {_NOT_NAN}", "[1.0, np.nan, 3.0], 50", "np.float64(2.0)"),
    "nanmax": (f"Return the maximum {_NOT_NAN}", "[1.0, np.nan, 3.0]", "np.float64(3.0)"),
    "nanmin": (f"Return the minimum {_NOT_NAN}", "[1.0, np.nan, 3.0]", "np.float64(1.0)"),
    "fft.fft": (
        "Return the discrete Fourier transform along an axis",
        "[1.0, 0.0, 0.0, 0.0]",
        "array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])",
    ),
    "fft.ifft": (
        "Return the inverse discrete Fourier transform along an axis",
        "[4.0, 0.0, 0.0, 0.0]",
        "array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])",
    ),
    "fft.rfft": (
        "Return the discrete Fourier transform of real values, at the non-negative frequencies",
        "[1.0, 0.0, 0.0, 0.0]",
        "array([1.+0.j, 1.+0.j, 1.+0.j])",
    ),
    "fft.irfft": (
        "Return the real values whose transform has the given values at the non-negative frequencies",
        "[4.0, 0.0, 0.0]",
        "array([1., 1., 1., 1.])",
    ),
}


def add_example(text: str, session: str) -> str:
    """Return a numpydoc docstring that consists of `text` and the example `session`."""
    return f"{text}\n\nExamples\n--------\n{session}\n"


def describe_function(name: str, rows: dict[str, tuple[str, str, str]] = FUNCTIONS, details: str = "") -> str:
    """Return the docstring of the function `name`, generated from its entry in `rows` and from paragraphs `details`."""
    summary, operands, result = rows[name]
    return add_example(f"{summary}, like `numpy.{name}`.{details}", f">>> wf.{name}({operands})\n{result}")


def named(name: str, function: Any, details: str = "") -> Any:
    """Set the name and the docstring of a generated function, and return the function."""
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = describe_function(name, details=details)
    return function


def describe_members(kind: type) -> None:
    """Add examples to the docstrings of the methods and properties of `Array`."""
    for name, example in MEMBER_EXAMPLES.items():
        member = vars(kind)[name]
        session = example if isinstance(example, str) else ">>> {}\n{}".format(*example)
        summary = member.__doc__ or MEMBER_SUMMARIES[name]
        if "Examples\n" not in summary:
            member.__doc__ = add_example(cleandoc(summary), session)
