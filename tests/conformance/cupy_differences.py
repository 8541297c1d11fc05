"""CuPy's tests that NumPy passes and weft fails, with the reasons.

`cupy_suite` reports them as "differs". Tests are listed by ``folder/file::class::test``, or by the beginning of it.
"""

from __future__ import annotations

_BASE = "`base` is an array over the same memory, but not the same object"
_EMPTY = "the strides of arrays without elements differ"

_QUIET = "kernels issue no warnings"
_KERNEL_RULES = "vectorize computes with the number types of kernels"

DIFFERENCES: dict[str, str] = {
    "creation_tests/test_basic.py::TestBasic::test_empty_zero_sized_array_strides": _EMPTY,
    "creation_tests/test_from_data.py::TestArrayCopy": _BASE,
    "functional_tests/test_vectorize.py": _KERNEL_RULES,
    "logic_tests/test_comparison.py::TestIsclose::test_is_close_finite": "casts of floats that are out of range saturate",
    "statistics_tests/test_order.py::TestOrder::test_nanmax_all_nan": _QUIET,
    "statistics_tests/test_order.py::TestOrder::test_nanmin_all_nan": _QUIET,
    "statistics_tests/test_order.py::TestQuantileMethods": "overwrite_input has no effect",
    "linalg_tests/test_einsum.py::TestEinSumError::test_no_arguments": "a missing argument is a TypeError",
    "linalg_tests/test_einsum.py::TestEinSumUnaryOperation::test_einsum_unary_views": _BASE,
    "math_tests/test_misc.py::TestMisc::test_external_clip4": "the array API standard allows one bound",
    "math_tests/test_misc.py::TestMisc::test_sign_inf": "magnitudes of complex numbers have an error of 1 ULP",
    "manipulation_tests/test_shape.py::TestReshape::test_reshape_zerosize": _BASE,
}


def reason_for(test: str) -> str | None:
    """Return the known reason why a test fails on weft, or None."""
    return next((why for name, why in DIFFERENCES.items() if test.startswith(name)), None)
