"""The decorator `weft.vectorize`, which makes ops from a user's scalar functions.

In: a scalar Python function, and arrays. Out: recorded arrays. Each result of the function is computed by an op, which
is fused like any other op. Invariant: the op's name determines its code.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from weft.codegen import (
    STRUCTURAL,
    Block,
    Function,
    Kernel,
    OpDef,
    Operation,
    add_user_op,
    find_op,
    fits_dtype,
    flatten_branches,
    is_supported,
    print_kernel,
    resolve_target,
)
from weft.dsl.arrays.array import Array, as_operand, start
from weft.dsl.arrays.call_sites import on_operands_device
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.results import return_result
from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelError, KernelTypeError
from weft.dsl.kernel.language.specialize import Options, identifier, specialize
from weft.dsl.kernel.language.types import Signature, as_signatures
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher, make_options
from weft.dsl.script.numpy_face import NUMPY
from weft.fusion import cast, map_
from weft.runtime import PerformanceWarning, counted, warn_user

INDEX = np.dtype(np.int32)
_COST_OF_LOOPS = 200


class VectorFunction(DeviceFunction):
    """A function of scalars that is applied elementwise, created by `weft.vectorize`.

    A call with arrays broadcasts the arrays, and records an operation that can be fused. In a kernel, the object is a
    device function.
    """

    def __init__(
        self,
        function: Any,
        signatures: Sequence[Signature] = (),
        options: Options | None = None,
        numpys: np.vectorize | None = None,
    ) -> None:
        super().__init__(function, list(signatures))
        self.pyfunc = self.function
        self.numpys = numpys
        self.otypes = None if numpys is None else numpys.otypes
        # (A function for which these options are set is a `numpy.vectorize` object instead, see `_without_signatures`.)
        self.cache, self.excluded, self.signature = False, set[Any](), None
        if numpys is not None:
            self.__doc__ = numpys.__doc__
        self._reason = ""  # the reason why NumPy calls the function
        self.kernel_options = options or Options()
        self.nin = self.function.__code__.co_argcount
        self._ops: dict[Any, tuple[OpDef, ...]] = {}

    def __repr__(self) -> str:
        return f"<weft vectorized function {self.__name__}>"

    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        where: Any = True,
        casting: str = "same_kind",
        stream: object = 0,
        **named: Any,
    ) -> Any:
        """Apply the function to arrays and scalars.

        Parameters
        ----------
        *operands : array_like
            Operands, which broadcast against each other. `out` may follow as the last positional argument.
        out : array, or tuple of arrays, optional
            Array for the result, or for each result.
        where, casting
            As for NumPy's ufuncs.
        stream
            Ignored, for compatibility with Numba.
        **named : array_like
            Operands by the names of the function's parameters.

        Returns
        -------
        Array, or tuple of arrays if the function returns a tuple
            The arrays in `out` are returned themselves. If an operand contains dates, new results are ndarrays. A
            function created by `cuda.vectorize` returns ndarrays if some operand is an ndarray and none is a weft
            array.
        """
        operands = self._operands_in_order(operands, named)
        if len(operands) == self.nin + 1 and out is None:
            *operands, out = operands  # type: ignore[assignment]
        if len(operands) != self.nin:
            raise KernelTypeError(
                f"{self.__name__}() takes {counted(self.nin, 'argument')}, but {len(operands)} were given"
            )
        if any(
            np.asarray(value).dtype.kind in "mM" for value in operands if isinstance(value, (np.ndarray, np.generic))
        ):
            return self._of_dates([np.asarray(value) for value in operands], out, where, casting)
        return self._record(operands, out, where, casting)

    @functools.partial(on_operands_device, name="vectorize")
    def _record(self, operands: Sequence[Any], out: Any, where: Any, casting: str) -> Any:
        """Record a call, or let NumPy call the function if it cannot be compiled."""
        where_from = start()
        pairs = [as_operand(value) for value in operands]
        kinds = tuple(weak if weak is not None else node.dtype for node, weak in pairs)
        ops = self._ops_for(kinds, numpys=None if isinstance(out, Array) else self.numpys)
        if ops is None:
            return call_numpy(self.numpys, tuple(operands), {})  # type: ignore[arg-type]
        nodes = [map_(op.name, [p[0] for p in pairs], [p[1] for p in pairs], location=where_from) for op in ops]
        if self.otypes is not None:
            nodes = [cast(node, kind) for node, kind in zip(nodes, self.otypes, strict=True)]
        outs = out if isinstance(out, tuple) else (None,) * len(nodes) if out is None else (out,)
        if len(outs) != len(nodes):
            raise ValueError(f"{self.__name__} returns {counted(len(nodes), 'result')}, but out= has {len(outs)}")
        if len(nodes) > 1:
            # Writing to a NumPy array ends the recording, so all results are recorded first.
            results = [return_result(op.name, node, None) for op, node in zip(ops, nodes, strict=True)]
            results = [
                r if o is None and where is True else return_result(op.name, as_operand(r)[0], o, where, casting)
                for op, r, o in zip(ops, results, outs, strict=True)
            ]
        else:
            results = [return_result(ops[0].name, nodes[0], outs[0], where, casting)]
        of_host = self.kernel_options.numba and any(isinstance(x, np.ndarray) for x in operands)
        if of_host and not any(isinstance(x, Array) for x in operands):  # as in Numba, NumPy arrays give NumPy arrays
            results = [np.array(r) if o is None else r for r, o in zip(results, outs, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    def _ops_for(self, kinds: tuple[Any, ...], numpys: np.vectorize | None) -> tuple[OpDef, ...] | None:
        """Return an op for each result of the function, or None if NumPy must call the function."""
        ops = self._ops.get(kinds)
        if ops is not None or (self._reason and numpys is not None):
            return ops
        try:
            ops = self._ops[kinds] = self._compile(kinds)
        except KernelError as error:
            if numpys is None:
                raise
            self._reason = str(error).splitlines()[0]
            text = f"NumPy calls {self.__name__} for each element, as it cannot be compiled: {self._reason}"
            warn_user(text, PerformanceWarning)
        return ops

    def _operands_in_order(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return the operands in the order of the parameters, including default values.

        If a parameter has no value, return only the positional operands."""
        names = self.function.__code__.co_varnames[: self.nin]
        rest = names[len(operands) :]
        for name in named:
            if name not in rest:
                raise TypeError(f"{self.__name__}() has no argument {name!r}, or it was given twice")
        defaults = dict(zip(reversed(names), reversed(self.function.__defaults__ or ()), strict=False))
        known = {**defaults, **named}
        return (*operands, *(known[name] for name in rest)) if all(name in known for name in rest) else operands

    def _of_dates(self, operands: list[np.ndarray], out: Any, where: Any, casting: Any) -> np.ndarray:
        """Apply the function to NumPy arrays, some of which hold dates."""
        shape = np.broadcast_shapes(*(value.shape for value in operands))
        flat = tuple(np.broadcast_to(value, shape).reshape(-1) for value in operands)
        dtype = np.asarray(self.function(*(np.ones((), value.dtype)[()] for value in flat))).dtype
        result = np.empty(flat[0].shape, dtype)
        if result.size:
            _over_elements(self.function, self.kernel_options).forall(result.size)(flat, result)
        if out is None:
            return result.reshape(shape)
        (target,) = out if isinstance(out, tuple) else (out,)
        np.copyto(target, result.reshape(shape), casting, where)
        return target  # type: ignore[no-any-return]

    def reduce(self, array: Any, axis: Any = 0, stream: object = 0) -> Any:
        """Reduce a 1-D array with the function. `stream` is ignored."""
        if axis not in (0, -1, None):
            raise np.exceptions.AxisError(axis, 1)
        from weft.dsl.kernel.library.reduction import Reduce

        return Reduce(self.function)(array)

    def _compile(self, kinds: tuple[Any, ...]) -> tuple[OpDef, ...]:
        """Compile the function for operands of types `kinds`, and return one op per result."""
        descriptors, result = self._typed(kinds)
        made = specialize(
            self.function,
            descriptors,
            resolve_target("host"),
            INDEX,
            self.kernel_options,
            reporting=False,
            device=(result, "row"),
        )
        body = next(f for f in made.kernel.functions if f.name == made.kernel.attributes["device"])
        if len(made.kernel.functions) > 1:
            raise KernelTypeError(f"{self.__name__} calls itself: that cannot be part of an expression; use a kernel")
        if not body.results:
            raise KernelTypeError(f"{self.__name__} returns nothing: a vectorized function returns a number")
        straight = flatten_branches(body, INDEX)
        return tuple(
            self._make_op(made.kernel, straight or body, straight is not None, k) for k in range(len(body.results))
        )

    def _typed(self, kinds: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        if not self.signatures:
            return tuple(("scalar", np.dtype(kind), isinstance(kind, type)) for kind in kinds), None
        rules = [fits_dtype]
        if all(isinstance(kind, type) for kind in kinds):  # prefer signatures that hold Python scalars without loss
            rules.insert(0, lambda kind, dtype: np.can_cast(np.dtype(kind), dtype, "safe"))
        elif self.kernel_options.numba:  # (as in Numba, arrays decide if no signature takes all operands)
            rules.append(lambda kind, dtype: isinstance(kind, type) or kind == dtype)
        for fits in rules:
            for signature in self.signatures:
                dtypes = [kind.dtype for kind in signature.arguments]
                if all(fits(k, d) for k, d in zip(kinds, dtypes, strict=True)):
                    returned = getattr(signature.result, "dtype", None)
                    return tuple(("scalar", d, False) for d in dtypes), returned
        names = ", ".join(k.__name__ if isinstance(k, type) else str(k) for k in kinds)
        raise KernelTypeError(
            f"{self.__name__}: no signature takes ({names}); there are {', '.join(map(str, self.signatures))}"
        )

    def _make_op(self, kernel: Kernel, body: Function, straight: bool, k: int) -> OpDef:
        """Return the op for result number `k` of the compiled function."""
        text = print_kernel(Kernel("row", [], kernel.body, INDEX, "threaded", {}, [body]))
        digest = hashlib.sha256(f"{straight} {text}".encode()).hexdigest()[:16]
        name = f"{identifier(self.__name__)}_{digest}" + (f"_{k}" if len(body.results) > 1 else "")
        single = body if len(body.results) == 1 else _only(body, k)
        taken = "".join(v.type.char for v in body.parameters)  # type: ignore[union-attr]
        given = body.results[k].char  # type: ignore[union-attr]
        inside = Kernel("row", [], body.body, INDEX).walk()
        cost = sum(find_op(o.opcode).cost for o in inside if o.opcode not in STRUCTURAL)
        return add_user_op(
            OpDef(
                name,
                self.__doc__ or f"The function {self.__name__}.",
                loops=(f"{taken}->{given}",),
                reference=_reference(self.function, k if len(body.results) > 1 else None, body.results[k]),  # type: ignore[arg-type]
                cost=cost if straight else _COST_OF_LOOPS + cost,
                ulp=4,
                body=single,
                straight=straight,
            )
        )


def _only(body: Function, k: int) -> Function:
    """Return a copy of a function in kernel IR that returns only result number `k`."""
    *inside, last = body.body.operations
    block = Block(body.body.parameters)
    block.operations = [*inside, Operation("yield", (last.operands[k],))]
    return Function(body.name, body.parameters, block, (body.results[k],))


def _reference(function: FunctionType, part: int | None, dtype: np.dtype) -> Any:
    """Return a function that calls the user's function for each element of NumPy arrays."""

    def run(*operands: Any) -> Any:
        def one(*values: Any) -> Any:
            found = function(*values)
            return found if part is None else found[part]

        return np.vectorize(one, otypes=[dtype])(*operands)

    return functools.wraps(function)(run)


@functools.lru_cache(maxsize=256)
def _over_elements(function: Any, options: Any) -> KernelDispatcher:
    """Return a kernel in which each thread calls the function for one element of the output."""

    def over_elements(inputs: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(*[part[i] for part in inputs])

    return KernelDispatcher(over_elements, options=options)  # type: ignore[arg-type]


def vectorize(
    function: Any = None, signatures: Any = None, *, target: str = "cuda", identity: Any = None, **options: Any
) -> Any:
    """Convert a function of scalars to an elementwise function of arrays (``@weft.vectorize``).

    Parameters
    ----------
    function : function, or signatures
        A function of scalars that returns a scalar or a tuple of scalars. Alternatively, a list of signatures such as
        ``["float32(float32, float32)"]``. A call uses the first signature that fits its arguments. Without signatures,
        the arguments determine the dtypes.
    signatures : list, optional
        Signatures, if the first argument is the function. Alternatively, the `otypes` of `numpy.vectorize`.
    target, identity
        Numba's options, which have no effect.
    **options
        Options of `weft.kernel`, and the options `otypes`, `doc`, `excluded`, `cache` and `signature` of
        `numpy.vectorize`.

    Returns
    -------
    VectorFunction
        Without a function, a decorator. If `excluded`, `cache` or `signature` is given, a `numpy.vectorize` object
        whose calls return weft arrays. The same applies to functions without positional parameters, or with defaults of
        keyword-only parameters, ``*args`` or ``**kwargs``, to other callable objects, and to dtypes in `otypes` that
        weft does not support.

    Warns
    -----
    PerformanceWarning
        If a function without signatures cannot be compiled. In this case, NumPy calls the function for each element.
        With signatures, for `cuda.vectorize`, and if `out` is a weft array, a call raises `KernelError` instead.

    Notes
    -----
    A function without loops is usually compiled to straight-line code. For an `if`, this code computes both branches and
    selects one result.

    Examples
    --------
    >>> @wf.vectorize
    ... def relu(x):
    ...     return x if x > 0 else 0.0
    >>> relu([-1.0, 2.0])
    array([0., 2.])
    """
    numpys = {name: options.pop(name) for name in _NUMPYS if name in options}
    chosen = make_options(options)
    is_function = isinstance(function, (FunctionType, DeviceFunction))
    if is_function and _are_otypes(signatures):
        numpys, signatures = {"otypes": signatures, **numpys}, None
    listed = signatures if is_function else function if function is not None else signatures
    if listed is not None and (is_function or not callable(listed)) and not numpys:
        found = _signatures(listed)
        if is_function:
            return VectorFunction(function, found, chosen)
        return lambda inner: VectorFunction(inner, found, chosen)
    if function is None:
        return lambda inner: _without_signatures(inner, chosen, numpys)
    return _without_signatures(function, chosen, numpys)


def _signatures(listed: Any) -> Any:
    if not isinstance(listed, (str, Signature, list, tuple)):
        raise KernelTypeError(f"vectorize takes a function of numbers, or signatures, not {listed!r}")
    return as_signatures(list(listed) if not isinstance(listed, (str, Signature)) else listed)


def _are_otypes(value: Any) -> bool:
    """Return whether the second argument of weft's `vectorize` lists result dtypes, as in NumPy. If not, it lists signatures, as in Numba."""
    if isinstance(value, str):
        return "(" not in value
    return isinstance(value, list) and bool(value) and all(isinstance(x, (type, np.dtype)) for x in value)


_NUMPYS = ("otypes", "doc", "excluded", "cache", "signature")
_STARRED = 0x04 | 0x08  # flags of code with parameters ``*args`` or ``**kwargs``


def _without_signatures(function: Any, options: Options, numpys: dict[str, Any]) -> Any:
    """Vectorize a function for which the user has given no signatures.

    The function is compiled for the types of its operands. If it cannot be compiled, NumPy calls the function. With
    Numba's rules and without options of `numpy.vectorize`, a call raises an error instead.
    """
    if options.numba and not numpys:
        return VectorFunction(function, (), options)
    plain = function.function if isinstance(function, DeviceFunction) else function
    theirs = np.vectorize(plain, **numpys)
    compiled = isinstance(plain, FunctionType) and plain.__code__.co_argcount and not plain.__kwdefaults__
    compiled = compiled and not plain.__code__.co_flags & _STARRED
    kinds = [np.dtype(code) for code in theirs.otypes or ()]
    if not compiled or any(numpys.get(name) for name in ("excluded", "cache", "signature")):
        return NUMPY.vectorize(plain, **numpys)
    if not all(is_supported(kind) for kind in kinds):
        return NUMPY.vectorize(plain, **numpys)
    return VectorFunction(function, (), options, theirs)
