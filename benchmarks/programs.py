"""The ten programs of the fused suite, written once for all libraries.

A program takes a namespace (`numpy`, `weft`, `jax.numpy` or `torch`) and arrays of this namespace, and returns arrays
of the namespace. A `Program` also defines the size of the inputs, how far results may differ from float64, and versions
for libraries that cannot run the common version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Program:
    """A program of the suite.

    Attributes
    ----------
    name : str
    run : callable
        ``run(xp, *inputs)`` with `xp` the namespace.
    inputs : callable
        ``inputs(generator, size)``.
    size, quick : int
        The size to measure, and a size for tests.
    tolerance : float
        The largest allowed difference from the float64 result, relative to the largest value of that result.
    outliers : float
        The fraction of elements that may differ by more than `tolerance` (for points next to a discontinuity).
    streams : bool
        Whether the program should be bound by memory bandwidth, not by arithmetic.
    forms : mapping of str to callable
        Versions ``form(xp, *inputs)`` for peers that cannot use `run`, by peer.
    """

    name: str
    run: Callable[..., Any]
    inputs: Callable[[np.random.Generator, int], Arrays]
    size: int
    quick: int
    tolerance: float
    outliers: float = 0.0
    streams: bool = False
    forms: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def expected(self, inputs: Arrays) -> list[np.ndarray]:
        """Return the expected results, computed by NumPy in float64."""
        return listed(self.run(np, *(x.astype(np.float64) for x in inputs)))


def listed(result: Any) -> list[Any]:
    """Return the results of a program as a list, with one element for a single array."""
    return list(result) if isinstance(result, tuple | list) else [result]


def _normal(*shapes: Callable[[int], tuple[int, ...]]) -> Callable[[np.random.Generator, int], Arrays]:
    """Return a function that creates normally distributed float32 inputs for a size.

    `shapes` are functions from the size to the shape of an input.
    """

    def make(source: np.random.Generator, n: int) -> Arrays:
        return tuple(source.standard_normal(shape(n), dtype=np.float32) for shape in shapes)

    return make


def _line(n: int) -> tuple[int, ...]:
    return (n,)


def _square(n: int) -> tuple[int, ...]:
    return (n, n)


# -- the programs -------------------------------------------------------------------------------


def axpy_chain(xp: Any, a: Any, b: Any, c: Any, x: Any) -> Any:
    """Return the result of a chain of five operations on four arrays."""
    return a * x + b * x * x - c


RATE, VOLATILITY = 0.02, 0.3


def _cumulative(xp: Any, d: Any) -> Any:
    """Return the standard normal distribution function at `d` (Abramowitz and Stegun 26.2.17)."""
    k = 1.0 / (1.0 + 0.2316419 * xp.abs(d))
    series = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * xp.exp(-0.5 * d * d) * series
    return xp.where(d > 0.0, 1.0 - tail, tail)


def black_scholes(xp: Any, price: Any, strike: Any, years: Any) -> Any:
    """Return the prices of European calls and puts."""
    spread = VOLATILITY * xp.sqrt(years)
    d1 = (xp.log(price / strike) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * years) / spread
    n1, n2 = _cumulative(xp, d1), _cumulative(xp, d1 - spread)
    discounted = strike * xp.exp(-RATE * years)
    return price * n1 - discounted * n2, discounted * (1.0 - n2) - price * (1.0 - n1)


def _options(source: np.random.Generator, n: int) -> Arrays:
    bounds = ((5.0, 30.0), (1.0, 100.0), (0.25, 10.0))
    return tuple(source.uniform(low, high, n).astype(np.float32) for low, high in bounds)


def squared_differences(xp: Any, x: Any, y: Any) -> Any:
    """Return the sum of squared differences of two arrays."""
    d = x - y
    return (d * d).sum()


def softmax(xp: Any, x: Any) -> Any:
    """Return the softmax of each row."""
    e = xp.exp(x - xp.amax(x, axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(xp: Any, x: Any) -> Any:
    """Return each row scaled to mean 0 and variance 1."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5)


STEPS = 10


def _five_points(u: Any) -> Any:
    return 0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def jacobi(xp: Any, u: Any) -> Any:
    """Return a grid after ten Jacobi iterations with a five-point stencil and fixed borders."""
    u = u.copy()
    for _ in range(STEPS):
        u[1:-1, 1:-1] = _five_points(u)
    return u


def _jacobi_functional(xp: Any, u: Any) -> Any:
    for _ in range(STEPS):
        u = u.at[1:-1, 1:-1].set(_five_points(u))
    return u


def _jacobi_cloned(xp: Any, u: Any) -> Any:
    u = u.clone()
    for _ in range(STEPS):
        u[1:-1, 1:-1] = _five_points(u)
    return u


def seawater(xp: Any, sa: Any, ct: Any, p: Any) -> Any:
    """Return the density of seawater by the 48-term expression of TEOS-10 (IOC, SCOR and IAPSO, 2010)."""
    root = xp.sqrt(sa)
    above = (
        9.998420897506056e2
        + ct * (2.839940833161907e0 + ct * (-3.147759265588511e-2 + ct * 1.181805545074306e-3))
        + sa
        * (
            -6.698001071123802e0
            + ct * (-2.986498947203215e-2 + ct * 2.327859407479162e-4)
            + root
            * (-3.988822378968490e-2 + ct * (5.095422573880500e-4 + ct * (-1.426984671633621e-5 + ct * 1.645039373682922e-7)))
        )
        + p
        * (
            -2.233269627352527e-2
            + ct * (-3.436090079851880e-4 + ct * 3.726050720345733e-6)
            + sa * (-1.806789763745328e-4 + ct * 6.876837219536232e-7)
            + p
            * (-3.087032500374211e-7 + ct * (-1.988366587925593e-8 - ct * 1.061519070296458e-11) + sa * 1.550932729220080e-10)
        )
    )  # fmt: skip
    below = (
        1.0
        + ct
        * (2.775927747785646e-3 + ct * (-2.349607444135925e-5 + ct * (1.119513357486743e-6 + ct * 6.743689325042773e-10)))
        + sa
        * (
            -7.521448093615448e-3
            + ct
            * (-2.764306979894411e-5 + ct * (1.262937315098546e-7 + ct * (9.527875081696435e-10 - ct * 1.811147201949891e-11)))
            + sa * 5.419326551148740e-6
            + root
            * (
                -3.303308871386421e-5
                + ct
                * (3.801564588876298e-7 + ct * (-7.672876869259043e-9 + ct * (-4.634182341116144e-11 + ct * 2.681097235569143e-12)))
            )
        )
        + p
        * (
            -2.742185394906099e-5
            + ct * (-3.212746477974189e-7 + ct * (3.191413910561627e-9 - ct * 1.931012931541776e-12))
            + sa * (-1.105097577149576e-7 + ct * 6.211426728363857e-10)
            + p
            * (
                -1.119011592875110e-10
                + ct * (-1.941660213148725e-11 - ct * 1.864826425365600e-14 + sa * 1.119522344879478e-14)
                + p * (-1.200507748551599e-15 + ct * 6.057902487546866e-17)
            )
        )
    )  # fmt: skip
    return above / below


def _ocean(source: np.random.Generator, n: int) -> Arrays:
    return source.uniform(30.0, 40.0, n), source.uniform(-2.0, 30.0, n), source.uniform(0.0, 6000.0, n)


def mandelbrot(xp: Any, re: Any, im: Any) -> Any:
    """Return the number of iterations until each point escapes, at most 20, as floats."""
    x, y = re + 0.0 * im, im + 0.0 * re
    steps = 0.0 * x
    for _ in range(20):
        xx, yy = x * x, y * y
        inside = xx + yy <= 4.0
        y = xp.where(inside, 2.0 * x * y + im, y)
        x = xp.where(inside, xx - yy + re, x)
        steps = xp.where(inside, steps + 1.0, steps)
    return steps


def _plane(source: np.random.Generator, n: int) -> Arrays:
    return (
        np.linspace(-2.0, 0.6, n, dtype=np.float32)[None, :].copy(),
        np.linspace(-1.2, 1.2, n, dtype=np.float32)[:, None].copy(),
    )


def add_transposed(xp: Any, a: Any, b: Any) -> Any:
    """Return the sum of a matrix and the transpose of another matrix."""
    return a + b.T


def distances(xp: Any, x: Any, y: Any) -> Any:
    """Return the Euclidean distance between each point of `x` and each point of `y`."""
    d = x[:, None, :] - y[None, :, :]
    return xp.sqrt((d * d).sum(axis=2))


def _points(n: int) -> tuple[int, ...]:
    return (n, 3)


PROGRAMS = (
    Program("axpy chain, 16 M", axpy_chain, _normal(*[_line] * 4), 1 << 24, 4099, 1e-6, streams=True),
    Program("Black-Scholes, 4 M", black_scholes, _options, 1 << 22, 4099, 2e-6),
    Program("sum of squared differences, 16 M", squared_differences, _normal(*[_line] * 2), 1 << 24, 4099, 2e-6, streams=True),
    Program("softmax, 4096 x 4096", softmax, _normal(_square), 4096, 67, 2e-6),
    Program("layer norm, 4096 x 4096", layer_norm, _normal(_square), 4096, 67, 2e-6, streams=True),
    Program("Jacobi, 4096 x 4096, ten steps", jacobi, _normal(_square), 4096, 67, 1e-6,
            forms={"jax": _jacobi_functional, "torch": _jacobi_cloned}),
    Program("seawater, 1 M float64", seawater, _ocean, 1 << 20, 4099, 1e-14),
    Program("Mandelbrot, 20 steps, 2048 x 2048", mandelbrot, _plane, 2048, 67, 1e-6, outliers=2e-3),
    Program("a + b.T, 4096 x 4096", add_transposed, _normal(*[_square] * 2), 4096, 67, 1e-6, streams=True),
    Program("pairwise distances, 4096 x 4096 x 3", distances, _normal(*[_points] * 2), 4096, 67, 2e-6, streams=True),
)  # fmt: skip


def numexpr_forms(evaluate: Callable[..., Any]) -> SimpleNamespace:
    """Return versions of the programs for numexpr, which evaluates expressions given as strings."""

    def numexpr_axpy_chain(a: Any, b: Any, c: Any, x: Any) -> Any:
        return evaluate("a * x + b * x * x - c")

    def numexpr_black_scholes(price: Any, strike: Any, years: Any) -> Any:
        f = np.float32
        rate, drift, volatility = f(RATE), f(RATE + 0.5 * VOLATILITY * VOLATILITY), f(VOLATILITY)
        one, zero, half, scale = f(1), f(0), f(0.5), f(0.3989422804014327)
        k0, k1, k2, k3, k4, k5 = (
            f(v) for v in (0.2316419, 0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
        )
        d1 = evaluate("(log(price / strike) + drift * years) / (volatility * sqrt(years))")
        values = []
        for d in (d1, evaluate("d1 - volatility * sqrt(years)")):
            k = evaluate("one / (one + k0 * abs(d))")
            tail = evaluate("scale * exp(-half * d * d) * k * (k1 + k * (k2 + k * (k3 + k * (k4 + k * k5))))")
            values.append(evaluate("where(d > zero, one - tail, tail)"))
        n1, n2 = values
        call = evaluate("price * n1 - strike * exp(-rate * years) * n2")
        return call, evaluate("strike * exp(-rate * years) * (one - n2) - price * (one - n1)")

    def numexpr_squared_differences(x: Any, y: Any) -> Any:
        return evaluate("sum((x - y) * (x - y))")

    def numexpr_softmax(x: Any) -> Any:
        top = evaluate("max(x, axis=1)")[:, None]
        e = evaluate("exp(x - top)")
        total = evaluate("sum(e, axis=1)")[:, None]
        return evaluate("e / total")

    def numexpr_layer_norm(x: Any) -> Any:
        mean = (evaluate("sum(x, axis=1)") / np.float32(x.shape[1]))[:, None]
        variance = evaluate("sum((x - mean) * (x - mean), axis=1)") / np.float32(x.shape[1])
        root = np.sqrt(variance + np.float32(1e-5))[:, None]
        return evaluate("(x - mean) / root")

    def numexpr_jacobi(u: Any) -> Any:
        u = u.copy()
        fifth = np.float32(0.2)
        for _ in range(STEPS):
            c, n, s, w, e = u[1:-1, 1:-1], u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
            c[...] = evaluate("fifth * (c + n + s + w + e)")
        return u

    def numexpr_seawater(sa: Any, ct: Any, p: Any) -> Any:
        return evaluate(SEAWATER)

    def numexpr_mandelbrot(re: Any, im: Any) -> Any:
        two, four, one = np.float32(2), np.float32(4), np.float32(1)
        x, y = evaluate("re + 0 * im"), evaluate("im + 0 * re")
        steps = np.zeros_like(x)
        for _ in range(20):
            inside = evaluate("x * x + y * y <= four")
            x, y = evaluate("where(inside, x * x - y * y + re, x)"), evaluate("where(inside, two * x * y + im, y)")
            steps = evaluate("where(inside, steps + one, steps)")
        return steps

    def numexpr_add_transposed(a: Any, b: Any) -> Any:
        t = b.T
        return evaluate("a + t")

    def numexpr_distances(x: Any, y: Any) -> Any:
        x0, x1, x2 = (x[:, None, k] for k in range(3))
        y0, y1, y2 = (y[None, :, k] for k in range(3))
        return evaluate("sqrt((x0 - y0) * (x0 - y0) + (x1 - y1) * (x1 - y1) + (x2 - y2) * (x2 - y2))")

    return SimpleNamespace(
        **{name.removeprefix("numexpr_"): f for name, f in locals().items() if name.startswith("numexpr_")}
    )


class _Text:
    """An operand whose operators (such as `+`) do not compute, but build the text of a numexpr expression."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _with(self, sign: str, other: Any, *, reflected: bool = False) -> _Text:
        text = other.text if isinstance(other, _Text) else repr(other)
        return _Text(f"({text} {sign} {self.text})" if reflected else f"({self.text} {sign} {text})")

    def __add__(self, other: Any) -> _Text:
        return self._with("+", other)

    def __radd__(self, other: Any) -> _Text:
        return self._with("+", other, reflected=True)

    def __sub__(self, other: Any) -> _Text:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> _Text:
        return self._with("-", other, reflected=True)

    def __mul__(self, other: Any) -> _Text:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> _Text:
        return self._with("*", other, reflected=True)

    def __truediv__(self, other: Any) -> _Text:
        return self._with("/", other)


# The expression for the density of seawater as text, for numexpr.
SEAWATER: str = seawater(
    SimpleNamespace(sqrt=lambda v: _Text(f"sqrt({v.text})")), _Text("sa"), _Text("ct"), _Text("p")
).text
