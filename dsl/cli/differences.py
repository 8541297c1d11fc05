"""Comparison of the results of two runs, relative to the magnitude of the program's numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.runtime import counted

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

# A difference is attributed to rounding if it is at most this multiple of the precision, relative to the array's
# largest value (`OF_ITSELF`) or to one of the program's magnitudes (`OF_PROGRAM`, see `scales_of`).
OF_ITSELF = 1e6
OF_PROGRAM = 1e4

SIGNS = "equal but for the signs of vectors"

Row = tuple[str, str, bool]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ResultComparison:
    """Comparison of a program's results with those of a reference run under NumPy.

    Attributes
    ----------
    again : Arrays
        The arrays of a second reference run. A result that differs between the reference runs may also differ on weft.
    printed_again : str
        The printed text of the second reference run.
    scales : tuple of float
        The magnitudes that `scales_of` returns for the reference run. Residuals and changes between iterations are
        differences of values of these sizes.
    """

    again: Arrays
    printed_again: str
    scales: tuple[float, ...]

    def _rounded_scale(self, difference: float, precision: float) -> float | None:
        """Return the smallest magnitude in `scales` that is so large that `difference` can be a rounding error of such numbers, or None."""
        return next((scale for scale in self.scales if difference <= OF_PROGRAM * precision * scale), None)

    def arrays(self, theirs: Arrays, ours: Arrays) -> list[Row]:
        """Compare arrays by name, and return a report row for each: name, verdict, and whether the result passes."""
        rows = []
        for name in sorted(set(theirs) | set(ours)):
            if name not in theirs or name not in ours:
                rows.append((name, f"only under {'NumPy' if name in theirs else 'weft'}", False))
                continue
            verdict, good = self._verdict(theirs[name], ours[name])
            if not good and name in self.again and not self._verdict(theirs[name], self.again[name])[1]:
                verdict, good = f"{verdict}; differs between runs of NumPy too", True
            rows.append((name, verdict, good))
        return rows

    def _verdict(self, wanted: np.ndarray, found: np.ndarray) -> tuple[str, bool]:
        shape = f"{wanted.dtype}{list(wanted.shape)}"
        if wanted.shape != found.shape or wanted.dtype != found.dtype:
            return f"{shape} against {found.dtype}{list(found.shape)}", False
        if np.array_equal(wanted, found, equal_nan=wanted.dtype.kind in "fcmM"):
            return f"{shape} equal", True
        if wanted.dtype.kind not in "biufc":
            return f"{shape} different", False
        wide, other = wanted.astype(complex), found.astype(complex)
        if not np.array_equal(np.isfinite(wide), np.isfinite(other)):
            return f"{shape} infinite or NaN at different elements", False
        wide, other = (np.where(np.isfinite(values), values, 0) for values in (wide, other))
        largest, difference = float(np.abs(wide).max(initial=0)), float(np.abs(wide - other).max(initial=0))
        precision = float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind in "fc" else 0.0
        limit = OF_ITSELF * precision * largest
        text = f"{shape} largest difference {difference:.3g} ({difference / largest if largest else difference:.2g} of the largest value)"
        if not precision:
            return text, False
        if difference <= limit:
            return text, True
        if (scale := self._rounded_scale(difference, precision)) is not None:
            return f"{text}; rounding errors (the arrays have values up to {scale:.2g})", True
        if 0 < wide.ndim <= 2 and _differs_in_sign(wide, other, limit):
            return f"{shape} {SIGNS}", True
        return text, False

    def printed(self, theirs: str, ours: str, signs: bool) -> list[Row]:
        """Compare printed lines, and return report rows: a summary and one row for each difference.

        Numbers may differ in sign if `signs` is true.
        """
        a, b, c = theirs.splitlines(), ours.splitlines(), self.printed_again.splitlines()
        if len(a) != len(b):
            return [("printed", f"{counted(len(a), 'line')} against {len(b)}", len(a) != len(c))]
        rows = []
        for k, (x, y) in enumerate(zip(a, b, strict=True), 1):
            if x == y:
                continue
            verdict, good = self._line(x, y, signs)
            if not good and len(c) == len(a) and c[k - 1] != x:
                verdict, good = f"{verdict}; differs between runs of NumPy too", True
            rows.append((f"printed line {k}", verdict, good))
        rounded = sum(good for _, _, good in rows)
        others = f", {rounded} within the tolerance" if rounded else ""
        return [("printed", f"{len(a) - len(rows)} of {counted(len(a), 'line')} equal{others}", True), *rows]

    def _line(self, x: str, y: str, signs: bool) -> tuple[str, bool]:
        numbers = [[float(n) for n in NUMBER.findall(line)] for line in (x, y)]
        if re.sub(r"\s", "", NUMBER.sub("#", x)) != re.sub(r"\s", "", NUMBER.sub("#", y)) or len(numbers[0]) != len(
            numbers[1]
        ):
            return f"{x!r} against {y!r}", False
        worst, rounded = 0.0, 0.0
        for p, q in zip(*numbers, strict=True):
            difference = min(abs(p - q), abs(p + q)) if signs else abs(p - q)
            if (scale := self._rounded_scale(difference, float(np.finfo(float).eps))) is None:
                worst = max(worst, difference / max(abs(p), 1e-300))
            elif difference:
                rounded = max(rounded, scale)
        if worst:
            return f"numbers differ by up to {worst:.2g} of their value", worst < 1e-4
        if not rounded:
            return "numbers differ in sign" if signs else "numbers are equal, but are written differently", True
        return (
            f"numbers differ {'in sign, or ' if signs else ''}by rounding errors (the arrays have values up to {rounded:.2g})",
            True,
        )


def _differs_in_sign(wanted: np.ndarray, found: np.ndarray, limit: float) -> bool:
    """Return whether two arrays differ only in the signs of whole columns or rows, apart from errors up to `limit`."""
    for axis in range(wanted.ndim):
        signs = np.sign(np.sum(np.conj(wanted) * found, axis=axis, keepdims=True).real)
        if np.abs(wanted - signs * found).max() <= limit:
            return True
    return False


def scales_of(arrays: Arrays, printed: str) -> tuple[float, ...]:
    """Return one number for each array: its largest finite absolute value. The numbers are sorted in increasing order.

    Only arrays of two or more floats or complex numbers count. Equal magnitudes are returned once. If there are no such
    arrays, return the magnitudes of the printed numbers.
    """
    large = [np.abs(a[np.isfinite(a)]).max(initial=0) for a in arrays.values() if a.dtype.kind in "fc" and a.size > 1]
    return tuple(sorted({float(one) for one in large or [abs(float(text)) for text in NUMBER.findall(printed)]}))
