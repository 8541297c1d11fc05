"""Bessel functions of integer order, in the kernel language.

In and out: float64, and int32 for the order. Invariant: the error of J0, J1, Y0 and Y1 is at most 1e-15 of the
amplitude, or of the value if that is larger. The amplitude is sqrt(2 / (pi*x)), and at most 1 for J. Near a zero, the
relative error may be larger. Jn and Yn use recurrences.

The coefficients are Chebyshev series, truncated below 1e-17 and converted to powers of a variable in [-1, 1]. For x
below 4, the variable is a linear function of x*x, and the series are those of (1 - J0(x)) / x**2, J1(x) / x,
Y0(x) - 2/pi log(x) J0(x), and (Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x. From 4 to 8, the variable is a linear function
of x. From 8 on, it is a linear function of (8/x)**2, and the series are those of the functions P and Q in Hankel's
asymptotic expansions (Abramowitz and Stegun, 9.2.5 to 9.2.10). The coefficients were computed for this file with 60
digits from the functions' series.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The coefficients of the series, highest power first.
# fmt: off
J0_NEAR = (
    -1.9355417643125736e-15, 1.3785880434335394e-13, -8.230827412688205e-12, 4.0541068955425235e-10,
    -1.6127011554094467e-08, 5.049197589323219e-07, -1.204013724667513e-05, 0.00020940940433266243,
    -0.002503496980590878, 0.018882504919796563, -0.0788235151886729, 0.14956851190880852,
)
J1_NEAR = (
    -4.5901146303500886e-14, 2.9905877047589106e-12, -1.6186075180699704e-10, 7.1492368977101096e-09,
    -2.5154561259096733e-07, 6.843098463778058e-06, -0.00013842260985339657, 0.0019736926708597224,
    -0.01835270061006565, 0.09827404763523412, -0.23976404107550536, 0.14148999344027124,
)
Y0_NEAR = (
    -3.123848051751221e-14, 2.161122833195709e-12, -1.248063543701552e-10, 5.915436276253702e-09,
    -2.2485625169479852e-07, 6.6621664715610166e-06, -0.00014821419991201506, 0.0023517049617821045,
    -0.024660115465906546, 0.1503964899400079, -0.40369710826422894, 0.050927688205595026,
    0.5583839189939036,
)
Y1_NEAR = (
    9.24867661598275e-14, -5.855635315564015e-12, 3.067759696296138e-10, -1.3051638460550358e-08,
    4.3944572897299977e-07, -1.1337349423780929e-05, 0.00021465631043476673, -0.00280631703490957,
    0.023066339787999855, -0.10077639147123532, 0.15166794583548893, 0.0824863499533448,
)
J0_MIDDLE = (
    -3.0237693535906227e-13, -6.406268559729226e-12, 2.937510380353461e-11, 5.381478472043914e-10,
    -2.194691865618915e-09, -3.3900344200218183e-08, 1.2816447773348473e-07, 1.622333286626833e-06,
    -5.654443092691337e-06, -5.643593722003937e-05, 0.00017974366344156577, 0.001338159002880013,
    -0.0038448604140199276, -0.019582120631195566, 0.04964322384153925, 0.1484225171978903,
    -0.3149399864011574, -0.3935184672111824, 0.5533677162551313, 0.15064525725099692,
)
J1_MIDDLE = (
    -6.485871291248097e-13, 2.8655439709867566e-12, 6.057505911862469e-11, -2.4965847544161573e-10,
    -4.310695768232692e-09, 1.6460136215279932e-08, 2.3730808453890715e-07, -8.330690552395837e-07,
    -9.734003178047839e-06, 3.109943698228692e-05, 0.0002821796873682353, -0.0008088464854782017,
    -0.005352636011791774, 0.013457011449068159, 0.05874636189361805, -0.12410805960384798,
    -0.29684503439578225, 0.47240997960173603, 0.3935184672111824, -0.27668385812756563,
)
Y0_MIDDLE = (
    5.125915588623519e-12, -1.5629953364137068e-11, 2.005183047486047e-11, -6.453808145109336e-11,
    3.427403915468765e-10, -1.143357414581965e-09, -1.7101243781967384e-09, 8.741421074186825e-09,
    2.706902968880566e-07, -9.714004472731668e-07, -9.712447442537971e-06, 3.243719098024913e-05,
    0.00029265735447432266, -0.0008876249916626304, -0.005452946550566753, 0.014757342390225742,
    0.059806817684408695, -0.14046871822385434, -0.28442665963344527, 0.5180525865296924,
    0.3500206886007965, -0.28819468398157916,
)
Y1_MIDDLE = (
    -6.567049198694009e-12, 1.9076499818167832e-11, -1.934510538740339e-11, 6.091703455053152e-11,
    -2.6847609874566584e-10, 7.847228248665089e-10, -2.8138640988744732e-09, 8.90363394397408e-09,
    1.2747436076522399e-08, -6.101259568506074e-08, -1.7594472452992807e-06, 5.828321310444464e-06,
    5.341844809486461e-05, -0.00016218593159121595, -0.0013169580925551697, 0.0035504999626545164,
    0.01908531292668272, -0.044272027170302604, -0.14951704421100384, 0.2809374364476927,
    0.4266399894501675, -0.5180525865296922, -0.17501034430039825,
)
P0 = (
    -1.180002783020184e-14, 3.339452259070809e-14, -6.416781008015415e-14, 2.4531772967345006e-13,
    -1.0636861151667625e-12, 4.786995821368028e-12, -2.4882702786880542e-11, 1.5500565496632596e-10,
    -1.2121182069774233e-09, 1.280376144080092e-08, -2.0527448156307146e-07, 6.137416080109497e-06,
    -0.0005363673192130047, 0.9994572757882519,
)
Q0 = (
    1.2731367623367943e-14, -3.417306155904644e-14, 5.756325587995953e-14, -2.0979723806283122e-13,
    8.689732394690306e-13, -3.605043103124562e-12, 1.7029372022291316e-11, -9.469830663448226e-11,
    6.432789503382007e-10, -5.668717017471248e-09, 7.106214852192226e-08, -1.477138832589449e-06,
    6.833149099344083e-05, -0.01555511387951352,
)
P1 = (
    1.2489929194563941e-14, -3.5455617466606254e-14, 6.864486664846182e-14, -2.6335760672461096e-13,
    1.1462229852806783e-12, -5.191158004646548e-12, 2.720406848040165e-11, -1.713107485294131e-10,
    1.3603058049468316e-09, -1.4708512991275258e-08, 2.4536766222672443e-07, -7.9596946984383e-06,
    0.0008988049416705579, 1.0009070262780821,
)
Q1 = (
    -1.3449019339973269e-14, 3.620117603894229e-14, -6.144675787095688e-14, 2.2462055932168237e-13,
    -9.33138059712287e-13, 3.8929927766683146e-12, -1.8520736145988993e-11, 1.0394482901993273e-10,
    -7.151113611051071e-10, 6.420133519314915e-09, -8.291960701313517e-08, 1.8212018511674905e-06,
    -9.621458822054632e-05, 0.04677687402744898,
)
# fmt: on

TWO_OVER_PI, ROOT_HALF = 0.6366197723675814, 0.7071067811865476


def _sum(series: tuple[float, ...], u: float) -> Any:
    """Evaluate a polynomial by Horner's rule, with the coefficient of the highest power first."""
    total = 0.0
    for c in series:
        total = total * u + c
    return total


def _far(x: float, order: int) -> Any:
    """Compute J and Y of order 0 or 1 for x >= 8, from the asymptotic expansions."""
    w = 8 / x
    u = 2 * (w * w) - 1
    size = np.sqrt(TWO_OVER_PI / x)
    s, c = np.sin(x), np.cos(x)
    c, s = (c + s) * ROOT_HALF, (s - c) * ROOT_HALF  # of x - pi/4
    if order == 0:
        p, q = size * _sum(P0, u), size * w * _sum(Q0, u)
    else:
        p, q = size * _sum(P1, u), size * w * _sum(Q1, u)
        c, s = s, -c  # of x - 3/4 pi
    return p * c - q * s, p * s + q * c


def _from_4(x: float, middle: tuple[float, ...], order: int, kind: int) -> Any:
    """Compute a Bessel function of order 0 or 1 for x >= 4. The result for NaN is NaN.

    `middle` is the function's series for 4 <= x < 8. `kind` is 0 for J and 1 for Y.
    """
    if x < 8:
        result = _sum(middle, x * 0.5 - 3)
    elif x < np.inf:
        result = _far(x, order)[kind]
    else:
        result = 1 / x
    return result


def j0(x: float) -> Any:
    """Compute the Bessel function of the first kind of order 0."""
    size = abs(x)
    if size < 4:
        square = size * size
        result = 1 - square * _sum(J0_NEAR, square * 0.125 - 1)
    else:
        result = _from_4(size, J0_MIDDLE, 0, 0)
    return result


def j1(x: float) -> Any:
    """Compute the Bessel function of the first kind of order 1."""
    size = abs(x)
    if size < 4:
        result = size * _sum(J1_NEAR, size * size * 0.125 - 1)
    else:
        result = _from_4(size, J1_MIDDLE, 1, 0)
    if np.signbit(x):
        result = -result
    return result


def y0(x: float) -> Any:
    """Compute the Bessel function of the second kind of order 0. The result is NaN for x < 0, and -inf for x = 0."""
    if x < 0:
        result = x * np.nan
    elif x == 0:
        result = np.float64(-np.inf)
    elif x < 4:
        result = TWO_OVER_PI * np.log(x) * j0(x) + _sum(Y0_NEAR, x * x * 0.125 - 1)
    else:
        result = _from_4(x, Y0_MIDDLE, 0, 1)
    return result


def y1(x: float) -> Any:
    """Compute the Bessel function of the second kind of order 1. The result is NaN for x < 0, and -inf for x = 0."""
    if x < 0:
        result = x * np.nan
    elif x == 0:
        result = np.float64(-np.inf)
    elif x < 4:
        result = TWO_OVER_PI * (np.log(x) * j1(x) - 1 / x) + x * _sum(Y1_NEAR, x * x * 0.125 - 1)
    else:
        result = _from_4(x, Y1_MIDDLE, 1, 1)
    return result


def jn(n: int, x: float) -> Any:
    """Compute the Bessel function of the first kind of order n.

    The result is NaN for n < 0.

    For |x| < 1e-7, the result is the first term of the power series. Otherwise, the method is upward recurrence if the
    order is below |x|, or downward recurrence from an order where the function is negligible, scaled to match J0 or J1
    (Miller's method; Abramowitz and Stegun, 9.12).
    """
    size = abs(x)
    first, second = j0(size), j1(size)
    if n < 0 or x != x:
        result = x * np.nan
    elif n == 0:
        result = first
    elif n == 1:
        result = second
    elif size < 1e-7:
        result = _first_term(n, size)
    elif n < size:
        result = _recurrence(n, size, first, second)
    else:
        result = _downwards(n, size, first, second)
    if np.signbit(x) and n & 1 == 1:
        result = -result
    return result


def yn(n: int, x: float) -> Any:
    """Compute the Bessel function of the second kind of order n.

    The result is NaN for n < 0 or x < 0, and -inf for x = 0.
    """
    first, second = y0(x), y1(x)
    if n < 0 or x < 0 or x != x:
        result = x * np.nan
    elif n == 0:
        result = first
    elif n == 1:
        result = second
    else:
        result = _recurrence(n, x, first, second)
    return result


def _first_term(n: int, x: float) -> Any:
    """Return (x/2)**n / n!, the first term of the power series of the Bessel function Jn(x).

    For tiny x*x, the other terms are negligible.
    """
    result = np.float64(1.0)
    k = np.int32(1)
    while k <= n and result > 0:
        result *= 0.5 * x / np.float64(k)
        k += 1
    return result


def _recurrence(n: int, x: float, first: float, second: float) -> Any:
    """Compute the Bessel function of order n by upward recurrence from orders 0 and 1.

    The recurrence ends at an overflow.
    """
    before, now = first, second
    k = np.int32(1)
    while k < n and np.isfinite(now):
        before, now = now, np.float64(2 * k) / x * now - before
        k += 1
    return now


def _downwards(n: int, x: float, first: float, second: float) -> Any:
    """Compute Jn(x) for n >= x > 0 by downward recurrence.

    The values are normalized by `first`, which is J0(x), or by `second`, which is J1(x).
    """
    k = n + 30 + np.int32(12 * np.cbrt(np.float64(n)))
    after, now, wanted = np.float64(0.0), np.float64(1e-300), np.float64(0.0)
    while k > 0:
        if k == n:
            wanted = now
        after, now = now, np.float64(2 * k) / x * now - after
        if abs(now) > 1e250:
            # Only the ratios matter.
            after, now, wanted = after * 1e-250, now * 1e-250, wanted * 1e-250
        k -= 1
    # `now` is J0 and `after` is J1, up to a common factor, which the larger of them determines.
    scale = first / now
    if abs(after) > abs(now):
        scale = second / after
    return wanted * scale
