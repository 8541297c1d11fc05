"""The function `weft.reduce`, which makes reductions from user functions.

Invariant: the order of the reduction depends only on the number of reduced elements, so results are reproducible. The
function must be associative and commutative.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft.dsl.arrays.array import Array, convert
from weft.dsl.functions.creation import empty
from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher

THREADS = 256
MOST_BLOCKS = 1024


class Reduce:
    """A reduction of arrays by a user's function of two scalars, created by `weft.reduce`."""

    def __init__(self, functor: Any) -> None:
        function = functor.function if isinstance(functor, DeviceFunction) else functor
        if not isinstance(function, FunctionType) or function.__code__.co_argcount != 2:
            raise KernelTypeError("reduce takes a function of two numbers, such as lambda a, b: a + b")
        self.function = function
        self.__name__ = function.__name__
        self._kernel = KernelDispatcher(_reduce_blocks(function))

    def __repr__(self) -> str:
        return f"<weft reduction {self.__name__}>"

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: object = 0) -> Any:
        """Reduce a 1-D array to one number.

        Parameters
        ----------
        arr : array_like
            An array with one axis.
        size : int, optional
            Number of leading elements to reduce.
        res : Array, optional
            Array whose first element receives the result.
        init : number
            Result for an empty array. If `init` is not 0, the function also combines it with the reduced elements.
        stream
            Ignored, for compatibility with Numba.

        Returns
        -------
        number, or None if `res` is given
        """
        values = arr if isinstance(arr, Array) else convert(arr)
        if values.ndim != 1:
            raise KernelTypeError(f"reduce takes an array of one axis, not of shape {values.shape}")
        count = values.shape[0] if size is None else int(size)
        if not 0 <= count <= values.shape[0]:
            raise KernelTypeError(f"{count} elements of an array of {values.shape[0]}")
        found = first = values.dtype.type(init)
        while count > 1:
            blocks = min(-(-count // (2 * THREADS)), MOST_BLOCKS)
            partial = empty(blocks, values.dtype)
            self._kernel[blocks, THREADS](values, partial, count)
            values, count = partial, blocks
        if count:
            found = values.numpy()[0]
            if first != 0:
                found = values.dtype.type(self.function(found, first))
        if res is None:
            return found
        res[:1] = found
        return None


def _reduce_blocks(function: FunctionType) -> Any:
    """Return a kernel that reduces an array to one number per block."""

    def reduce_blocks(values, partial, count):  # type: ignore[no-untyped-def]
        reduced = cuda.shared.array(THREADS, values.dtype)
        thread = cuda.threadIdx.x
        first = cuda.grid(1)
        step = cuda.gridsize(1)
        if first < count:
            mine = values[first]
            for k in range(first + step, count, step):
                mine = function(mine, values[k])
            reduced[thread] = mine
        cuda.syncthreads()
        # Number of elements of this block. The last block may have fewer than the others.
        held = min(count - cuda.blockIdx.x * THREADS, THREADS)
        width = THREADS // 2
        while width > 0:
            if thread < width and thread + width < held:
                reduced[thread] = function(reduced[thread], reduced[thread + width])
            cuda.syncthreads()
            width //= 2
        if thread == 0:
            partial[cuda.blockIdx.x] = reduced[0]

    return reduce_blocks


def reduce(function: Any) -> Reduce:
    """Create a reduction from a function of two scalars.

    For example: ``total = weft.reduce(lambda a, b: a + b)``.

    Parameters
    ----------
    function : function
        An associative and commutative function of two scalars.

    Returns
    -------
    Reduce
        A reduction: ``total(array)`` returns a number.

    Examples
    --------
    >>> largest = wf.reduce(lambda a, b: a if a > b else b)
    >>> largest([3, 9, 4])
    np.int64(9)
    """
    return Reduce(function)
