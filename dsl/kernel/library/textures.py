"""Textures: read-only arrays that kernels sample at fractional coordinates.

In: an array of one to three axes. Out: an object with a `sample` method for kernels. On a GPU, `sample` is one
instruction of the texture units. On the CPU, `sample` is the same arithmetic in the kernel language (CUDA C++
Programming Guide, "Texture Fetching"). Invariant: a texture keeps the elements that the array had when the texture was
created.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.dsl.cuda.array_creation import to_device
from weft.dsl.kernel.language.device_function import device
from weft.dsl.kernel.language.handlers import handles
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.values import ArrayValue, Constant, ScalarValue
from weft.runtime import default_device

ZERO, HALF, ONE, TWO = (np.float32(x) for x in (0, 0.5, 1, 2))
STEPS = np.float32(256)  # number of steps of the fixed-point weights of linear filtering
DTYPES = ("float32", "int32", "uint32", "int16", "uint16", "int8", "uint8")
MOST = 2.0**30  # coordinates are clamped to this magnitude, which exceeds every texture


class Filter(enum.Enum):
    """Filter mode of a texture: how values between elements are sampled."""

    NEAREST = "nearest"  # the element whose cell contains the coordinate
    LINEAR = "linear"  # interpolated between the nearest elements along every axis


class Address(enum.Enum):
    """Addressing mode of a texture: how coordinates outside the array are handled."""

    CLAMP = "clamp"  # the nearest element
    BORDER = "border"  # zero
    WRAP = "wrap"  # the array is repeated
    MIRROR = "mirror"  # the array is repeated, mirrored every second time


class Coordinates(enum.Enum):
    """Unit of the coordinates at which a texture is sampled."""

    ELEMENTS = "elements"
    NORMALIZED = "normalized"  # the length of the axis is 1


def texture(
    array: Any, *, filter: str = "nearest", address: str = "clamp", normalized: bool = False
) -> Texture1D | Texture2D | Texture3D:
    """Create a texture from an array for sampling in kernels.

    Parameters
    ----------
    array : array_like
        An array with one to three axes. The elements are float32, or integers of at most 32 bits. The last axis is the
        x axis of the texture. The elements are copied.
    filter : {"nearest", "linear"}
        "linear" interpolates between the nearest elements, which must be float32. The weights are multiples of 1/256.
    address : {"clamp", "border", "wrap", "mirror"}
        The values at coordinates outside the array: the nearest element ("clamp"), zero ("border"), a repetition of the
        array ("wrap"), or a repetition of the array in alternating directions ("mirror"). "wrap" and "mirror" require
        `normalized`.
    normalized : bool
        Whether coordinates range from 0 to 1 along each axis. Otherwise, the unit of coordinates is one element.

    Returns
    -------
    Texture1D, Texture2D or Texture3D
        A texture, which can be an argument of kernels. In a kernel, ``t.sample(x)``, ``t.sample(x, y)`` or
        ``t.sample(x, y, z)`` returns a number with the dtype of the array. Along an axis of n elements, the first
        element is centered at 0.5, or at 0.5 / n if `normalized`.

    Raises
    ------
    TypeError
        If textures do not support the dtype, or `filter` is "linear" and the elements are not float32.
    ValueError
        If the array is empty or does not have one to three axes, if `filter` or `address` has another value, or if
        `address` requires `normalized`.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> from weft import cuda
    >>> t = wf.texture(np.float32([0, 10, 20, 30]), filter="linear")
    >>> @wf.kernel
    ... def sample(t, x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = t.sample(x[i])
    >>> out = np.zeros(3, np.float32)
    >>> sample[1, 3](t, np.float32([0.5, 2, 9]), out)
    >>> out
    array([ 0., 15., 30.], dtype=float32)
    """
    values = _checked(array)
    mode = Filter(filter), Address(address), Coordinates.NORMALIZED if normalized else Coordinates.ELEMENTS
    if mode[0] is Filter.LINEAR and values.dtype != np.float32:
        raise TypeError(f'filter="linear" interpolates float32, not {values.dtype}')
    if mode[1] in (Address.WRAP, Address.MIRROR) and not normalized:
        raise ValueError(f"address={address!r} needs normalized=True, as CUDA's textures do")
    owner = default_device().texture(values, "linear" if mode[0] is Filter.LINEAR else "point", address, normalized)
    made = (Texture1D, Texture2D, Texture3D)[values.ndim - 1](
        to_device(values.copy()), owner.handle if owner else 0, *mode
    )
    setattr(made, "_owner", owner)  # keeps the handle valid
    return made


def _checked(array: Any) -> np.ndarray:
    """Return an array as a C-contiguous NumPy array, or raise an error if it cannot be a texture."""
    values = np.ascontiguousarray(array)
    if values.dtype.name not in DTYPES:
        raise TypeError(f"a texture of {values.dtype}: its elements are {', '.join(DTYPES)}")
    if np.ndim(array) not in (1, 2, 3) or not values.size:
        raise ValueError(f"a texture of shape {np.shape(array)}: it has one to three axes, none of them empty")
    return values


@dataclass(eq=False)
class Texture:
    """Base class of textures, which `weft.texture` creates.

    Attributes
    ----------
    data : Array
        The elements.
    handle : int
        The texture object of a GPU, or 0 on other devices.
    filter : Filter
    address : Address
    coordinates : Coordinates
    """

    data: Any
    handle: int
    filter: Filter
    address: Address
    coordinates: Coordinates


class Texture1D(Texture):
    """A texture with one axis."""

    def sample(self, x: Any) -> Any:
        """Return the value of the texture at a coordinate."""
        if runs_on_gpu():
            return fetch(self.data, self.handle, x)
        u = position(self, x, 0)
        if self.filter is Filter.NEAREST:
            return element(self, (cell(u),))
        return on_line(self, (), u)


class Texture2D(Texture):
    """A texture with two axes."""

    def sample(self, x: Any, y: Any) -> Any:
        """Return the texture's value at coordinate `x` along the last axis and `y` along the first."""
        if runs_on_gpu():
            return fetch(self.data, self.handle, x, y)
        u = position(self, x, 1)
        v = position(self, y, 0)
        if self.filter is Filter.NEAREST:
            return element(self, (cell(v), cell(u)))
        return on_plane(self, (), v, u)


class Texture3D(Texture):
    """A texture with three axes."""

    def sample(self, x: Any, y: Any, z: Any) -> Any:
        """Return the texture's value at `x`, `y` and `z` along the last, middle and first axis."""
        if runs_on_gpu():
            return fetch(self.data, self.handle, x, y, z)
        u = position(self, x, 2)
        v = position(self, y, 1)
        w = position(self, z, 0)
        if self.filter is Filter.NEAREST:
            return element(self, (cell(w), cell(v), cell(u)))
        total = ZERO
        for k in range(2):
            c = weight(w - HALF)
            total += (c if k == 1 else ONE - c) * on_plane(self, (cell(w - HALF) + k,), v, u)
        return total


@device
def on_line(t: Any, outer: Any, u: Any) -> Any:
    """Interpolate in a texture along its last axis, at position `u`. The tuple `outer` contains the indices along the other axes."""
    i = cell(u - HALF)
    a = weight(u - HALF)
    return (ONE - a) * element(t, (*outer, i)) + a * element(t, (*outer, i + 1))


@device
def on_plane(t: Any, outer: Any, v: Any, u: Any) -> Any:
    """Interpolate along the last two axes. `outer` contains the indices along all other axes."""
    j = cell(v - HALF)
    b = weight(v - HALF)
    return (ONE - b) * on_line(t, (*outer, j), u) + b * on_line(t, (*outer, j + 1), u)


@device
def position(t: Any, x: Any, axis: Any) -> Any:
    """Convert a texture coordinate to a position in elements."""
    x = np.float32(x)
    if t.address is Address.WRAP:
        x = x - np.floor(x)
    elif t.address is Address.MIRROR:
        whole = np.floor(x)
        part = x - whole
        x = part if whole == TWO * np.floor(whole * HALF) else ONE - part
    if t.coordinates is Coordinates.NORMALIZED:
        x = x * np.float32(t.data.shape[axis])
    return min(max(x, np.float32(-MOST)), np.float32(MOST))


@device
def cell(x: Any) -> Any:
    """Return the index of the element whose cell contains a position."""
    return int(np.floor(x))


@device
def weight(x: Any) -> Any:
    """Return the weight of the next element: the fractional part of `x`, rounded to a multiple of 1/256."""
    return np.floor((x - np.floor(x)) * STEPS + HALF) / STEPS


@device
def element(t: Any, index: Any) -> Any:
    """Return the texture's element at an index, which may be outside the array."""
    cells = [inner(t, i, axis) for axis, i in enumerate(index)]
    found = t.data[tuple([i for i, _ in cells])]
    return found if all(inside for _, inside in cells) else t.data.dtype.type(0)


@device
def inner(t: Any, i: Any, axis: Any) -> Any:
    """Return an in-bounds index for `i`, and a flag that is false if `i` is in the zero border."""
    n = t.data.shape[axis]
    if t.address is Address.WRAP:
        return i % n, True
    return min(max(i, 0), n - 1), t.address is not Address.BORDER or (0 <= i and i < n)


def runs_on_gpu() -> bool:
    """Return whether the kernel is compiled for a GPU."""
    return False  # for kernels that run as plain Python


def fetch(data: Any, handle: Any, *coordinates: Any) -> Any:
    """Sample a texture object in a GPU kernel."""
    raise NotImplementedError


@handles(runs_on_gpu)
def _runs_on_gpu(call: Invocation) -> Constant:
    return Constant(call.c.target is not None and call.c.target.kind == "cuda")


@handles(fetch)
def _fetch(call: Invocation, data: ArrayValue, handle: ScalarValue, *coordinates: Any) -> Any:
    """Compile a call to `fetch` as a texture instruction."""
    c, axes = call.c, len(coordinates)
    wide, register = {"f": ("f32", "f"), "i": ("s32", "r"), "u": ("u32", "r")}[data.dtype.kind]
    numbers = [c.ir(c.cast(c.scalar(x), np.dtype(np.float32)), np.dtype(np.float32)) for x in coordinates]
    registers = ", ".join(f"${5 + min(k, axes - 1)}" for k in range({1: 1, 2: 2, 3: 4}[axes]))
    template = f"tex.{axes}d.v4.{wide}.f32 {{$0, $1, $2, $3}}, [$4, {{{registers}}}];"
    kinds = [np.dtype(np.float32 if register == "f" else np.uint32)] * 4
    operands = [c.ir(c.cast(handle, np.dtype(np.uint64)), np.dtype(np.uint64)), *numbers]
    constraints = ",".join([f"={register}"] * 4 + ["l"] + ["f"] * axes)
    first, *_ = c.builder.emit("assembly", operands, kinds, template=template, constraints=constraints)
    return c.cast(ScalarValue(first), data.dtype)
