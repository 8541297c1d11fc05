"""The decorator `weft.guvectorize`, which makes generalized ufuncs.

In: a Python function of arrays, and a layout such as ``"(m,n),(n,p)->(m,p)"``. Out: a generalized ufunc. A call
launches one kernel on evaluated inputs, with new or given output arrays. Invariant: core axes come last, and the
others broadcast.
"""

from __future__ import annotations

import re
from math import prod
from types import FunctionType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, convert
from weft.dsl.functions.creation import empty
from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.types import ArrayType, NoneType, Signature, as_signatures
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher, make_options
from weft.runtime import counted

Layout = tuple[tuple[str, ...], ...]


def parse_layout(text: str) -> tuple[Layout, Layout]:
    """Return the core axes of inputs and outputs in a layout such as ``"(m,n),(n,p)->(m,p)"``."""
    group = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
    if not re.fullmatch(rf"\s*{group}(\s*,\s*{group})*\s*->\s*({group}(\s*,\s*{group})*)?\s*", text):
        raise KernelTypeError(f"a layout reads as '(m,n),(n)->(m)', not {text!r}")
    sides = [
        tuple(tuple(re.findall(r"\w+", part)) for part in re.findall(r"\(([^)]*)\)", side)) for side in text.split("->")
    ]
    unknown = {name for part in sides[1] for name in part} - {name for part in sides[0] for name in part}
    if unknown:
        raise KernelTypeError(f"layout {text!r}: the length of {sorted(unknown)[0]} is known from no input")
    return sides[0], sides[1]


class GeneralizedFunction:
    """A generalized ufunc, created by `weft.guvectorize`, which applies a function to subarrays."""

    def __init__(self, function: FunctionType, layout: str, signatures: Any = (), options: Any = None) -> None:
        self.function = function.function if isinstance(function, DeviceFunction) else function
        self.layout = layout
        self.inputs, self.outputs = parse_layout(layout)
        self.signatures = tuple(signatures)
        self.__name__ = self.function.__name__
        self.__doc__ = self.function.__doc__
        count = self.function.__code__.co_argcount
        if count != len(self.inputs) + len(self.outputs):
            raise KernelTypeError(
                f"{self.__name__} takes {counted(count, 'argument')}, but the layout {layout!r} has {len(self.inputs) + len(self.outputs)}"
            )
        for signature in self.signatures:
            if signature.result is not None and not isinstance(signature.result, NoneType):
                raise KernelTypeError(
                    f"guvectorized functions cannot return values, but the signature {signature} specifies {signature.result} "
                    "return type"
                )
        self.kernel = KernelDispatcher(_over_outer_axes(self.function), options=options or make_options({}))

    def __repr__(self) -> str:
        return f"<weft generalized function {self.__name__} {self.layout}>"

    def __call__(self, *operands: Any, out: Any = None, stream: object = 0) -> Any:
        """Apply the function to arrays.

        Parameters
        ----------
        *operands : array_like
            The inputs, optionally followed by output arrays.
        out : array or tuple of arrays, optional
            Output arrays, instead of output arrays among the operands. None stands for a new array.
        stream
            Stream of the kernel launch.

        Returns
        -------
        Array, or tuple of arrays if the layout has several outputs
            Weft arrays and ndarrays that are passed as outputs are returned themselves. If an input contains dates, new
            outputs are ndarrays. If no outputs are passed, a function created by `cuda.guvectorize` returns ndarrays if
            some input is an ndarray and none is a weft array.
        """
        count = len(self.inputs)
        given = operands[count:]
        if len(operands) < count or len(operands) > count + len(self.outputs):
            plural = "s" * (len(operands) != 1)
            raise KernelTypeError(
                f"{self.__name__}: a gufunc accepts {count} positional arguments (the inputs) or "
                f"{count + len(self.outputs)} positional arguments (inputs and outputs). "
                f"Got {len(operands)} positional argument{plural}."
            )
        if out is not None:
            given = self._named_outputs(given, out)
        inputs = operands[:count]
        # Weft arrays do not support dates, so the kernel works on NumPy arrays.
        dated = any(isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "mM" for value in inputs)
        make: Any = np.empty if dated else empty
        given = tuple(convert(t) if hasattr(t, "__cuda_array_interface__") else t for t in given)
        arrays: list[Any] = [v if isinstance(v, Array) else np.asarray(v) if dated else convert(v) for v in inputs]
        dtypes_in, dtypes_out, signature = self._dtypes(arrays, given)
        arrays = [a if d is None or a.dtype == d else a.astype(d) for a, d in zip(arrays, dtypes_in, strict=True)]
        sizes, outer = self._sizes(arrays)
        shapes = [outer + tuple(sizes[name] for name in core) for core in self.outputs]
        results = [make(shape, dtype) for shape, dtype in zip(shapes, dtypes_out, strict=True)]
        for k, target in enumerate(given):
            if target is None:
                continue
            if tuple(target.shape) != shapes[k]:
                raise ValueError(f"output {k} of {self.__name__} has shape {shapes[k]}, not {tuple(target.shape)}")
            if not dated:
                results[k] = target if isinstance(target, Array) else convert(target)
        written = {id(target._storage) for target in given if isinstance(target, Array)}
        arrays = [a.copy() if isinstance(a, Array) and id(a._storage) in written else a for a in arrays]
        self._launch(arrays, results, outer, sizes, signature, stream)
        for k, target in enumerate(given):
            if target is not None and (dated or isinstance(target, np.ndarray)):
                np.copyto(target, np.asarray(results[k]))
                results[k] = target
        of_host = not given and any(isinstance(x, np.ndarray) for x in operands)
        if of_host and self.kernel.options.numba and not any(isinstance(x, Array) for x in operands):
            results = [np.array(result) for result in results]  # NumPy arrays give NumPy arrays, as in Numba
        return results[0] if len(results) == 1 else tuple(results)

    def _named_outputs(self, given: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        """Return the argument `out` as a tuple, or raise ValueError if it is invalid."""
        if given:
            raise ValueError("cannot specify argument 'out' as both positional and keyword")
        named = out if isinstance(out, tuple) else (out,)
        if len(named) > len(self.outputs):
            raise ValueError(f"{self.__name__} has {counted(len(self.outputs), 'output')}, but out= has {len(named)}")
        return named

    def _dtypes(self, arrays: list[Array], given: tuple[Any, ...]) -> tuple[list[Any], list[Any], Signature | None]:
        """Return the input dtypes, the output dtypes, and the signature for the given arrays.

        If the function has no signatures, the input dtypes are all None, and so is the signature.
        """
        count = len(arrays)
        for casting in ("no", "safe", "same_kind"):  # prefer the signature that loses least
            for signature in self.signatures:
                dtypes = [
                    kind.dtype if isinstance(kind.dtype, np.dtype) else kind.dtype.dtype for kind in signature.arguments
                ]
                if all(np.can_cast(a.dtype, d, casting) for a, d in zip(arrays, dtypes, strict=False)):
                    return dtypes[:count], dtypes[count:], signature
        if self.signatures:
            kinds = ", ".join(str(a.dtype) for a in arrays)
            raise KernelTypeError(f"{self.__name__}: no signature takes ({kinds})")
        common = np.result_type(*(a.dtype for a in arrays)) if arrays else np.dtype(float)
        outputs = [common if t is None else t.dtype for t in given] + [common] * (len(self.outputs) - len(given))
        return [None] * count, outputs, None

    def _sizes(self, arrays: list[Array]) -> tuple[dict[str, int], tuple[int, ...]]:
        sizes: dict[str, int] = {}
        outer: list[tuple[int, ...]] = []
        for k, (array, core) in enumerate(zip(arrays, self.inputs, strict=True)):
            if array.ndim < len(core):
                raise ValueError(
                    f"input {k} of {self.__name__} needs the core axes ({','.join(core)}), but it has shape {array.shape}"
                )
            split = array.ndim - len(core)
            outer.append(array.shape[:split])
            for name, length in zip(core, array.shape[split:], strict=True):
                if sizes.setdefault(name, length) != length:
                    raise ValueError(
                        f"input {k} of {self.__name__}: axis {name} has length {length}, and {sizes[name]} elsewhere"
                    )
        return sizes, np.broadcast_shapes(*outer) if outer else ()

    def _launch(
        self,
        arrays: list[Array],
        results: list[Any],
        outer: tuple[int, ...],
        sizes: dict[str, int],
        signature: Signature | None,
        stream: object,
    ) -> None:
        count = prod(outer)
        if not count:
            return
        flat = []
        for k, (array, core) in enumerate(zip(arrays, self.inputs, strict=True)):
            lengths = tuple(sizes[name] for name in core)
            # If the signature declares an array for a scalar argument, the scalar becomes an array of one element.
            single = not core and signature is not None and isinstance(signature.arguments[k], ArrayType)
            flat.append(np.broadcast_to(array, outer + lengths).reshape(count, *(lengths or (1,) * single)))
        # The function sees a result without core axes as an array of one element.
        written = [
            result.reshape(count, *(tuple(sizes[name] for name in core) or (1,)))
            for result, core in zip(results, self.outputs, strict=True)
        ]
        self.kernel.forall(count, stream=stream)(tuple(flat), tuple(written), count)
        for result, seen in zip(results, written, strict=True):
            if isinstance(seen, Array) and seen._storage is not result._storage:
                result[...] = seen.reshape(result.shape)


def _over_outer_axes(function: FunctionType) -> Any:
    """Return a kernel in which each thread calls the function for one index of the outer axes."""

    def over_outer_axes(inputs, outputs, count):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < count:
            function(*[part[i] for part in inputs], *[part[i] for part in outputs])

    return over_outer_axes


def guvectorize(function: Any = None, layout: Any = None, signature: Any = None, **options: Any) -> Any:
    """Create a generalized ufunc from a function of arrays.

    Usually used as a decorator: ``@weft.guvectorize([...], "(n),(n)->()")``.

    Parameters
    ----------
    function : function, signatures or str, optional
        A function of the inputs and the outputs. The function writes its results to the outputs. An output without core
        axes is an array of one element. For a decorator, a list of signatures, such as
        ``["void(float32[:], float32[:], float32[:])"]``, or the layout.
    layout : str
        The core axes of the inputs and outputs.
    signature : str, optional
        Numba's name for `layout`.
    **options
        Options of `weft.kernel`. Numba's options `target`, `identity` and `writable_args` have no effect.

    Returns
    -------
    GeneralizedFunction, or a decorator if `function` is not a function

    Examples
    --------
    >>> @wf.guvectorize('(n)->()')
    ... def spread(x, out):
    ...     out[0] = x[0]
    ...     for i in range(x.size):
    ...         out[0] = max(out[0], abs(x[i]))
    >>> spread([[1.0, -5.0], [2.0, 3.0]])
    array([5., 3.])
    """
    text = layout if isinstance(layout, str) else signature
    if isinstance(function, str) and text is None:
        function, text = None, function
    if not isinstance(text, str):
        raise KernelTypeError("guvectorize takes a layout such as '(n),(n)->()'")
    chosen = make_options({k: v for k, v in options.items() if k not in ("target", "identity", "writable_args")})
    if isinstance(function, (FunctionType, DeviceFunction)):
        return GeneralizedFunction(function, text, (), chosen)  # type: ignore[arg-type]
    found = () if function is None else as_signatures(function if isinstance(function, (list, str)) else list(function))
    return lambda inner: GeneralizedFunction(inner, text, found, chosen)
