"""Docstrings of functions that run NumPy's Python code on weft arrays, or return NumPy's results.

`tests/docs/test_docstrings.py` runs the examples.
"""

from __future__ import annotations

from weft.dsl.arrays.docstrings import add_example, describe_function

# Summary, example arguments and example result of each function that executes NumPy's code or returns NumPy's result
_CALLS = {
    "apply_over_axes": (
        "Apply a function over several axes, one after another",
        "np.sum, wf.ones((2, 3)), [0, 1]",
        "array([[6.]])",
    ),
    "array_equiv": ("Return whether two arrays are equal after broadcasting", "[1, 2], [[1, 2], [1, 2]]", "True"),
    "asarray_chkfinite": (
        "Return an array, or raise ValueError if an element is NaN or infinite",
        "[1.0, 2.0]",
        "array([1., 2.])",
    ),
    "require": (
        "Return an array with the required dtype, memory layout and flags",
        "[1, 2], dtype=np.float32",
        "array([1., 2.], dtype=float32)",
    ),
    "block": ("Assemble an array from nested lists of blocks", "[wf.ones(2), wf.zeros(1)]", "array([1., 1., 0.])"),
    "corrcoef": (
        "Return the correlation coefficients of variables",
        "[[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]",
        "array([[ 1., -1.],\n       [-1.,  1.]])",
    ),
    "cov": (
        "Return the covariance matrix of variables",
        "[[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]",
        "array([[ 1., -2.],\n       [-2.,  4.]])",
    ),
    "diagflat": (
        "Return a matrix that has the elements of an array on a diagonal",
        "[1, 2]",
        "array([[1, 0],\n       [0, 2]])",
    ),
    "dsplit": ("Split an array along the third axis", "[[[1, 2]]], 2", "[array([[[1]]]), array([[[2]]])]"),
    "insert": (
        "Return a copy of an array with values inserted before the given indices",
        "[1, 2, 3], 1, 9",
        "array([1, 9, 2, 3])",
    ),
    "iscomplex": ("Return whether each element has a nonzero imaginary part", "[1 + 2j, 3]", "array([ True, False])"),
    "isneginf": (
        "Return whether each element is negative infinity",
        "[-np.inf, 0.0, np.inf]",
        "array([ True, False, False])",
    ),
    "isposinf": (
        "Return whether each element is positive infinity",
        "[-np.inf, 0.0, np.inf]",
        "array([False, False,  True])",
    ),
    "isreal": ("Return whether the imaginary part of each element is 0", "[1 + 2j, 3]", "array([False,  True])"),
    "ix_": (
        "Return index arrays that select the grid spanned by sequences of indices",
        "[0, 2], [1, 3]",
        "(array([[0],\n       [2]]), array([[1, 3]]))",
    ),
    "nanargmax": (
        "Return the index of the first maximum of the elements that are not NaN",
        "[1.0, np.nan, 3.0]",
        "np.int64(2)",
    ),
    "nanargmin": (
        "Return the index of the first minimum of the elements that are not NaN",
        "[np.nan, 1.0, 3.0]",
        "np.int64(1)",
    ),
    "piecewise": (
        "Evaluate a piecewise-defined function",
        "[-2.0, 3.0], [[True, False]], [0, np.square]",
        "array([0., 9.])",
    ),
    "poly": ("Return the coefficients of the polynomial with the given roots", "[1.0, 2.0]", "array([ 1., -3.,  2.])"),
    "polyint": ("Return the coefficients of an antiderivative of a polynomial", "[3, 2]", "array([1.5, 2. , 0. ])"),
    "polyadd": ("Return the coefficients of the sum of two polynomials", "[1, 2], [9, 5, 4]", "array([9, 6, 6])"),
    "polyder": ("Return the coefficients of a derivative of a polynomial", "[1, 2, 3]", "array([2, 2])"),
    "polymul": ("Return the coefficients of the product of two polynomials", "[1, 2], [1, 3]", "array([1, 5, 6])"),
    "polysub": ("Return the coefficients of the difference of two polynomials", "[2, 10], [1, 4]", "array([1, 6])"),
    "resize": (
        "Return a new array with the given shape, repeating the elements as needed",
        "[1, 2], (2, 3)",
        "array([[1, 2, 1],\n       [2, 1, 2]])",
    ),
    "sort_complex": (
        "Return the elements sorted by real part, then by imaginary part, as complex numbers",
        "[2 + 1j, 1, 2]",
        "array([1.+0.j, 2.+0.j, 2.+1.j])",
    ),
    "trim_zeros": (
        "Return an array without its leading and trailing zeros",
        "wf.asarray([0, 1, 0, 2, 0])",
        "array([1, 0, 2])",
    ),
    "unstack": (
        "Return the slices of an array along an axis",
        "wf.asarray([[1, 2], [3, 4]])",
        "(array([1, 2]), array([3, 4]))",
    ),
    "unwrap": (
        "Remove jumps between consecutive angles by adding multiples of the period",
        "[0.0, 3.0, 6.0, 9.0 - 2 * np.pi]",
        "array([0., 3., 6., 9.])",
    ),
    "vander": (
        "Return the Vandermonde matrix of a sequence of points",
        "[2, 3], 3",
        "array([[4, 2, 1],\n       [9, 3, 1]])",
    ),
    "real_if_close": (
        "Return the real parts if all imaginary parts are close to zero",
        "[1 + 1e-20j, 2]",
        "array([1., 2.])",
    ),
    "histogramdd": (
        "Return the number of points in each bin of a multidimensional grid, and the bin edges",
        "wf.asarray([[0.0], [1.0]]), 2",
        "(array([1., 1.]), [array([0. , 0.5, 1. ])])",
    ),
    "cumulative_prod": (
        "Return the cumulative product of the elements along an axis",
        "[2, 3, 4]",
        "array([ 2,  6, 24])",
    ),
    "isfortran": (
        "Return whether an array is Fortran contiguous and not C contiguous",
        "wf.ones((2, 3)).T",
        "True",
    ),
    "matrix_transpose": (
        "Return a view with the last two axes exchanged",
        "wf.asarray([[1, 2], [3, 4]])",
        "array([[1, 3],\n       [2, 4]])",
    ),
    "histogram_bin_edges": ("Return the edges of the bins of a histogram", "[0, 1, 4], bins=2", "array([0., 2., 4.])"),
    "i0": (
        "Return the modified Bessel function of the first kind, order 0",
        "[0.0, 1.0]",
        "array([1.        , 1.26606588])",
    ),
    "polyfit": (
        "Return the coefficients of a polynomial that is a least-squares fit to data points",
        "[0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1",
        "array([2., 1.])",
    ),
    "can_cast": (
        "Return whether a casting rule allows a cast from one dtype to another",
        "np.int32, np.float32",
        "False",
    ),
    "common_type": (
        "Return the floating-point or complex type to which all given arrays can be converted",
        "wf.ones(2, dtype=np.float32), wf.arange(2)",
        "<class 'numpy.float64'>",
    ),
    "iscomplexobj": ("Return whether an array has a complex dtype", "[1 + 0j, 2]", "True"),
    "isrealobj": ("Return whether the dtype of an array is not complex", "[1 + 0j, 2]", "False"),
    "mintypecode": (
        "Return the type character of the smallest type to which all given types can be cast safely",
        '["i", "f"]',
        "'f'",
    ),
    "result_type": (
        "Return the dtype that results from applying type promotion to the arguments",
        "np.int8, wf.ones(3, dtype=np.float32)",
        "dtype('float32')",
    ),
    "diag_indices_from": (
        "Return the indices of the main diagonal of an array",
        "wf.ones((2, 2))",
        "(array([0, 1]), array([0, 1]))",
    ),
    "tril_indices_from": (
        "Return the indices of the lower triangle of a matrix",
        "wf.ones((2, 2))",
        "(array([0, 1, 1]), array([0, 0, 1]))",
    ),
    "triu_indices_from": (
        "Return the indices of the upper triangle of a matrix",
        "wf.ones((2, 2))",
        "(array([0, 0, 1]), array([0, 1, 1]))",
    ),
    "vstack": ("Join arrays vertically (row-wise)", "[[1, 2], [3, 4]]", "array([[1, 2],\n       [3, 4]])"),
    "hstack": ("Join arrays horizontally (column-wise)", "[[1, 2], [3, 4]]", "array([1, 2, 3, 4])"),
    "diff": ("Compute the differences between consecutive elements along an axis", "[1, 4, 9, 16]", "array([3, 5, 7])"),
    "fliplr": ("Reverse the order of the columns", "[[1, 2], [3, 4]]", "array([[2, 1],\n       [4, 3]])"),
    "flipud": ("Reverse the order of the rows", "[[1, 2], [3, 4]]", "array([[3, 4],\n       [1, 2]])"),
    "atleast_1d": ("Return arrays with at least one axis", "3.0", "array([3.])"),
    "atleast_2d": ("Return arrays with at least two axes", "[1, 2]", "array([[1, 2]])"),
    "trapezoid": ("Integrate along an axis by the trapezoidal rule", "[1, 2, 3], dx=0.5", "np.float64(2.0)"),
    "angle": ("Return the angle of complex numbers", "[1.0, 1j, -1.0], deg=True", "array([  0.,  90., 180.])"),
    "allclose": ("Test whether all elements are equal within a tolerance", "[1.0, 2.0], [1.0, 2.0 + 1e-10]", "True"),
    "array_equal": ("Test whether two arrays have the same shape and elements", "[1, 2], [1, 2]", "True"),
    "flatnonzero": (
        "Return the indices of the nonzero elements in the flattened array",
        "[[0, 7], [8, 0]]",
        "array([1, 2])",
    ),
    "argwhere": (
        "Return the indices of the nonzero elements, with one row per element",
        "[[0, 1], [1, 0]]",
        "array([[0, 1],\n       [1, 0]])",
    ),
    "fromfunction": (
        "Create an array by calling a function with the indices of the elements",
        "lambda i, j: i * 10 + j, (2, 3), dtype=np.int64",
        "array([[ 0,  1,  2],\n       [10, 11, 12]])",
    ),
    "unique_values": ("Return the unique values", "[3, 1, 3]", "array([1, 3])"),
    "union1d": (
        "Return the sorted unique values that occur in either of two arrays",
        "[3, 1], [2, 3]",
        "array([1, 2, 3])",
    ),
    "intersect1d": ("Return the sorted values common to both arrays", "[1, 3, 4], [3, 1, 5]", "array([1, 3])"),
    "setxor1d": (
        "Return the sorted values that occur in exactly one of two arrays",
        "[1, 2, 3], [2, 3, 4]",
        "array([1, 4])",
    ),
    "real": ("Return the real parts of the elements", "[1 + 2j, 3 - 4j]", "array([1., 3.])"),
    "imag": ("Return the imaginary parts of the elements", "[1 + 2j, 3 - 4j]", "array([ 2., -4.])"),
    "shape": ("Return the shape of an array", "[[1, 2, 3], [4, 5, 6]]", "(2, 3)"),
    "ndim": ("Return the number of axes of an array", "[[1, 2, 3], [4, 5, 6]]", "2"),
}

# Summary and session of each function whose example is more than a call and its result
_SESSIONS = {
    "dstack": ("Join arrays along the third axis.", ">>> wf.dstack([[1, 2], [3, 4]]).shape\n(1, 2, 2)"),
    "column_stack": (
        "Join arrays along the second axis. Vectors become columns.",
        ">>> wf.column_stack([[1, 2], [3, 4]])\narray([[1, 3],\n       [2, 4]])",
    ),
    "hsplit": (
        "Split an array horizontally (column-wise) into views.",
        ">>> left, right = wf.hsplit(wf.asarray([[1, 2], [3, 4]]), 2)\n>>> right\narray([[2],\n       [4]])",
    ),
    "vsplit": (
        "Split an array vertically (row-wise) into views.",
        ">>> top, bottom = wf.vsplit(wf.asarray([[1, 2], [3, 4]]), 2)\n>>> bottom\narray([[3, 4]])",
    ),
    "atleast_3d": ("Return arrays with at least three axes.", ">>> wf.atleast_3d([1, 2]).shape\n(1, 2, 1)"),
    "rollaxis": (
        "Return a view in which an axis is moved backward until it precedes another axis.",
        ">>> wf.rollaxis(wf.ones((2, 3, 4)), 2).shape\n(4, 2, 3)",
    ),
    "polyval": (
        "Evaluate a polynomial with Horner's method, like `numpy.polyval`. The coefficient of the highest power is first.",
        ">>> wf.polyval([1, 0, -2], [0, 1, 2])\narray([-2, -1,  2])",
    ),
    "meshgrid": (
        "Return coordinate arrays from coordinate vectors, like `numpy.meshgrid`.",
        ">>> x, y = wf.meshgrid([1, 2, 3], [10, 20])\n>>> x + y\narray([[11, 12, 13],\n       [21, 22, 23]])",
    ),
    "unique_all": (
        "Return the unique values, the indices of their first occurrences, the inverse indices, and the counts, like\n`numpy.unique_all`.",
        ">>> wf.unique_all([3, 1, 3]).inverse_indices\narray([1, 0, 1])",
    ),
    "unique_counts": (
        "Return the unique values and their counts, like `numpy.unique_counts`.",
        ">>> wf.unique_counts([3, 1, 3]).counts\narray([1, 2])",
    ),
    "unique_inverse": (
        "Return the unique values and the inverse indices, like `numpy.unique_inverse`.",
        ">>> wf.unique_inverse([3, 1, 3]).inverse_indices\narray([1, 0, 1])",
    ),
    "iterable": (
        "Return whether a value can be iterated over, like `numpy.iterable`.",
        ">>> wf.iterable(wf.arange(3)), wf.iterable(3)\n(True, False)",
    ),
    "svdvals": (
        "Return the singular values of a matrix, like `numpy.linalg.svdvals`.",
        ">>> wf.linalg.svdvals([[3.0, 0.0], [0.0, 2.0]])\narray([3., 2.])",
    ),
    "c_": (
        "Join the arrays of an index expression as columns, like `numpy.c_`.",
        ">>> wf.c_[[1, 2], [3, 4]]\narray([[1, 3],\n       [2, 4]])",
    ),
    "r_": (
        "Join the arrays and ranges of an index expression along the first axis, like `numpy.r_`.",
        ">>> wf.r_[1:4, 0, [7, 8]]\narray([1, 2, 3, 0, 7, 8])",
    ),
    "mgrid": (
        "Return the full coordinate arrays of the grid that an index expression describes, like `numpy.mgrid`.",
        ">>> wf.mgrid[0:2, 5:7][1]\narray([[5, 6],\n       [5, 6]])",
    ),
    "ogrid": (
        "Return coordinate arrays that broadcast to the grid of an index expression, like `numpy.ogrid`.",
        ">>> x, y = wf.ogrid[0:2, 5:8]\n>>> x.shape, y.shape\n((2, 1), (1, 3))",
    ),
    "einsum_path": (
        "Return the cheapest contraction order for an Einstein summation, and a report, like `numpy.einsum_path`.",
        ">>> x, y = wf.ones((9, 2)), wf.ones((2, 9))\n>>> wf.einsum_path('ij,jk,kl', x, y, x)[0]\n"
        "['einsum_path', (1, 2), (0, 1)]",
    ),
    "fill_diagonal": (
        "Fill the main diagonal of an array in place, like `numpy.fill_diagonal`.",
        ">>> x = wf.zeros((2, 2))\n>>> wf.fill_diagonal(x, 7)\n>>> x\narray([[7., 0.],\n       [0., 7.]])",
    ),
    "put": (
        "Assign values to the elements at flat indices, like `numpy.put`.",
        ">>> x = wf.zeros((2, 2))\n>>> wf.put(x, [0, 3], [7, 8])\n>>> x\narray([[7., 0.],\n       [0., 8.]])",
    ),
}


def describe_composed(name: str) -> str | None:
    """Return the docstring of a function, or None if this module has none for the function."""
    if name in _SESSIONS:
        return add_example(*_SESSIONS[name])
    return describe_function(name, _CALLS) if name in _CALLS else None
