"""Invalid programs with wrong types, argument counts or launches."""

# mypy: ignore-errors
# ruff: noqa

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass

import numpy as np

from tests.dsl.kernel.refusals.definition import LAUNCH, SYNTAX, TYPE, refused
from weft import cuda

ANY = (SYNTAX, TYPE)
TABLE = np.arange(4.0)
MATRIX = np.zeros((3, 4))
Point = namedtuple("Point", "x y")


@refused(TYPE, "ind(ex|ices)|axes", MATRIX)
def too_many_indices(m):
    m[0, 1, 2] = 1  # here


@refused(TYPE, "array|number|axis", MATRIX)
def too_few_indices(m):
    m[0, 0] = m[1] + 1  # here


@refused(TYPE, "a number for multiply is needed here, not text of dtype <U1", np.array(["a", "b"]))
def product_of_text(x):
    y = 2.0 * x[0]  # here


@refused(TYPE, r"a number for multiply is needed here, not record \[", np.zeros(2, [("a", "i4")]))
def product_of_a_record(x):
    y = 2.0 * x[0]  # here


@refused(TYPE, "may overlap.*(loop|local array)")
def reversed_in_place(x):
    x[:] = x[::-1]  # here


@refused(TYPE, "may overlap.*(loop|local array)", np.zeros((3, 3)))
def transposed_in_place(m):
    m[:] = m.T  # here


@refused(TYPE, "index|integer")
def float_index(x):
    x[0] = x[1.5]  # here


@refused(TYPE, "an index is an integer, not cuda.threadIdx, which has the components x, y and z")
def index_of_three_components(x):
    x[0] = x[cuda.threadIdx]  # here


@refused(TYPE, "index|integer")
def float_index_at_run_time(x):
    x[0] = x[x[0]]  # here


@refused(TYPE, "index|str")
def string_index(x):
    x[0] = x["a"]  # here


@refused(TYPE, "index|out of|range")
def tuple_index_out_of_range(x):
    t = (1, 2)
    x[0] = t[2]  # here


@refused(TYPE, "constant|tuple|run time|known")
def mixed_tuple_at_run_time(x):
    t = (1, x)
    x[0] = t[int(x[0])]  # here


@refused(TYPE, "read|constant|writ")
def assignment_to_constant_array(x):
    TABLE[0] = 1  # here
    x[0] = TABLE[0]


@refused(TYPE, "read|constant|writ")
def assignment_to_const_memory(x):
    t = cuda.const.array_like(TABLE)
    t[1] = 1  # here


@refused(TYPE, "tuple")
def assignment_to_tuple(x):
    t = (1, 2)
    t[0] = 3  # here


@refused(TYPE, "attribute|field|assign", Point(1, 2), np.zeros(2))
def assignment_to_field(p, x):
    p.x = 3  # here


@refused(ANY, "threadIdx|attribute|assign")
def assignment_to_thread_number(x):
    cuda.threadIdx.x = 3  # here


@refused(TYPE, "shape|constant|known")
def local_shape_from_run_time(x):
    own = cuda.local.array(int(x[0]), np.float64)  # here
    own[0] = 1


@refused(TYPE, "shape|constant|known")
def shared_shape_from_run_time(x):
    own = cuda.shared.array((4, int(x[0])), np.float64)  # here
    own[0, 0] = 1


@refused(TYPE, "shape|negative|positive")
def negative_shape(x):
    own = cuda.local.array(-3, np.float64)  # here
    own[0] = 1


@refused(TYPE, "dtype|type")
def array_without_dtype(x):
    own = cuda.shared.array(3)  # here
    own[0] = 1


@refused(TYPE, "dtype|object")
def array_of_objects(x):
    own = cuda.local.array(3, object)  # here
    own[0] = 1


@refused(TYPE, "variable|type|'v'", np.arange(8.0), 1)
def array_then_scalar(x, flag):
    if flag > 0:
        v = x
    else:
        v = 1.0
    x[0] = v  # the error may name this line or the line of the assignment


@refused(TYPE, "variable|type|'t'", np.arange(8.0), 1)
def tuples_of_unequal_lengths(x, flag):
    t = (1, 2)
    if flag > 0:
        t = (1, 2, 3)  # here
    x[0] = t[0]


@refused(TYPE, "complex|float64")
def complex_into_float(x):
    x[0] = 1j  # here


@refused(TYPE, "array|number|float64")
def array_into_element(x):
    x[0] = x[1:3]  # here


@refused(TYPE, "None")
def none_into_element(x):
    x[0] = None  # here


@refused(TYPE, "None|add")
def arithmetic_with_none(x):
    v = None
    x[0] = v + 1  # here


@refused(TYPE, "float|bit|and|shift")
def bit_operation_on_floats(x):
    x[0] = x[0] & 3  # here


@refused(TYPE, "invert|float")
def inverted_float(x):
    x[0] = ~x[0]  # here


@refused(TYPE, "complex|order|compar", np.zeros(2, complex))
def order_of_complex_numbers(z):
    if z[0] < z[1]:  # here
        z[0] = 1


@refused(TYPE, "negative|power", np.arange(1, 4))
def integer_to_negative_power(n):
    n[0] = n[1] ** -2  # here


@refused(TYPE, "argument|takes|f\\(")
def too_many_arguments_inside(x):
    def f(a, b):
        return a + b

    x[0] = f(1, 2, 3)  # here


@refused(TYPE, "argument|misses|missing")
def too_few_arguments_inside(x):
    def f(a, b):
        return a + b

    x[0] = f(1)  # here


@refused(TYPE, "argument|keyword|'c'")
def unknown_keyword_inside(x):
    def f(a, b=1):
        return a + b

    x[0] = f(1, c=3)  # here


@refused(TYPE, "sqrt|argument")
def wrong_count_for_function(x):
    x[0] = np.sqrt(x[0], x[1], x[2])  # here


@refused(TYPE, "grid")
def grid_without_axes(x):
    x[0] = cuda.grid()  # here


@refused(TYPE, "grid|1, 2|3")
def grid_of_four_axes(x):
    i = cuda.grid(4)  # here
    x[0] = i[0]


@refused(TYPE, "atomic|float|integer")
def atomic_bits_of_floats(x):
    cuda.atomic.and_(x, 0, 1)  # here


@refused(TYPE, "atomic|array")
def atomic_on_a_number(x):
    cuda.atomic.add(x[0], 0, 1)  # here


@refused(TYPE, "inc|unsigned|uint", np.zeros(2, np.int32))
def atomic_increment_of_signed(n):
    cuda.atomic.inc(n, 0, 1)  # here


@refused(TYPE, "global or shared")
def atomic_on_a_local_array(x):
    own = cuda.local.array(2, np.float32)
    cuda.atomic.add(own, 0, 1)  # here


@refused(TYPE, "int8|atomic", np.zeros(2, np.int8))
def atomic_of_small_integers(n):
    cuda.atomic.add(n, 0, 1)  # here


@refused(TYPE, "len|number|float64")
def length_of_number(x):
    x[0] = len(x[0])  # here


@refused(TYPE, "float64 is not iterable")
def loop_over_number(x):
    for v in x[0]:  # here
        x[1] = v


@refused(TYPE, "range|integer")
def range_of_float(x):
    for i in range(x[0]):  # here
        x[i] = 1


@refused(TYPE, "call|float64|function")
def calling_a_number(x):
    f = x[0]
    x[0] = f(1)  # here


@refused(TYPE, "min|argument|empty|at least")
def least_of_nothing(x):
    x[0] = min(())  # here


@refused(TYPE, "min.*at least 1 argument")
def least_of_no_arguments(x):
    x[0] = min()  # here


@refused(TYPE, "data type")
def dtype_of_a_number(x):
    x[0] = np.zeros(1, np.dtype(3))[0]  # here


@refused(TYPE, "sep.*text")
def separator_that_is_no_text(x):
    print(x[0], sep=3)  # here


@refused(TYPE, "field|'b'|mass", np.zeros(2, [("mass", np.float64)]))
def unknown_field(r):
    r[0].mass = r[0].b  # here


# -- arguments and launches -----------------------------------------------------------------------


@refused(TYPE, "argument|takes|parameter", np.zeros(2), 1, 2)
def too_many_arguments(x):
    x[0] = 1


@refused(TYPE, "argument|missing|misses|parameter", np.zeros(2))
def too_few_arguments(x, y):
    x[0] = y


@refused(TYPE, "argument|keyword|factor", np.zeros(2), factor=3)
def unknown_keyword(x):
    x[0] = 1


@refused(TYPE, "str", "text")
def string_argument(x):
    cuda.syncthreads()


@refused(TYPE, "dict", {"a": 1})
def dict_argument(x):
    cuda.syncthreads()


@refused(TYPE, "list", [1.0, 2.0])
def list_argument(x):
    x[0] = 1


@refused(TYPE, "object", np.array([None, 1], dtype=object))
def object_array_argument(x):
    cuda.syncthreads()


@refused(TYPE, "add of datetime64.D. and int 1", np.array(["2020-01-01"], dtype="M8[D]"))
def date_plus_number(x):
    x[0] = x[0] + 1  # here


@refused(TYPE, "float128|longdouble", np.zeros(2, np.longdouble))
def long_double_argument(x):
    cuda.syncthreads()


@refused(TYPE, "text is needed here, not int 1", np.array(["a", "b"]))
def number_stored_as_text(x):
    x[0] = 1  # here


@refused(TYPE, "text of dtype <U1 cannot be indexed", np.array(["a", "b"]))
def text_with_an_index(x):
    x[0] = x[1]["a"]  # here


@dataclass
class Doubled:
    """A dataclass with a `__post_init__` method that doubles the field. Kernels do not support such dataclasses."""

    a: float

    def __post_init__(self):
        self.a *= 2


@refused(TYPE, "Doubled has a method __post_init__")
def constructor_with_code(x):
    x[0] = Doubled(3.0).a  # here


class Thing:
    """A class whose instances are not supported in kernels."""


@refused(TYPE, "Thing", Thing())
def object_argument(thing):
    cuda.syncthreads()


@refused(LAUNCH, "2048.*1024|1024.*2048", launch=(1, 2048))
def block_too_large(x):
    x[0] = 1


@refused(LAUNCH, "1024", launch=(1, (64, 32, 2)))
def block_too_large_over_axes(x):
    x[0] = 1


@refused(LAUNCH, "64|z", launch=(1, (1, 1, 128)))
def block_too_deep(x):
    x[0] = 1


@refused(LAUNCH, "block|0|thread", launch=(1, 0))
def empty_block(x):
    x[0] = 1


@refused(LAUNCH, "grid|-1|block", launch=(-1, 32))
def negative_grid(x):
    x[0] = 1


@refused(LAUNCH, "65535|65,535|grid", launch=((1, 70000), 1))
def grid_too_high(x):
    x[0] = 1


@refused((LAUNCH, TYPE), "3|axes|dimension", launch=((1, 1, 1, 1), 32))
def grid_of_four_numbers(x):
    x[0] = 1


@refused((LAUNCH, TYPE), "integer|int|float", launch=(1, 2.5))
def block_of_a_float(x):
    x[0] = 1


@refused((LAUNCH, TYPE), "integer|int|str", launch=("1", 32))
def grid_of_a_string(x):
    x[0] = 1


@refused(LAUNCH, "shared", launch=(1, 32, 0, 1 << 20))
def too_much_dynamic_shared_memory(x):
    x[0] = 1


@refused(LAUNCH, "shared", launch=(1, 32, 0, -1))
def negative_shared_memory(x):
    x[0] = 1


@refused((LAUNCH, TYPE, SYNTAX), "shared")
def too_much_shared_memory(x):
    big = cuda.shared.array((1000, 1000), np.float64)  # here
    big[0, 0] = 1


@refused(LAUNCH, "local arrays have 1200000 bytes")
def too_much_local_memory(x):
    small = cuda.local.array(50000, np.float64)
    big = cuda.local.array(100000, np.float64)  # here
    big[0] = small[0] = 1


@refused((LAUNCH, TYPE), "stream", launch=(1, 32, "stream"))
def stream_that_is_none(x):
    x[0] = 1


@refused(TYPE, "different lengths")
def zip_of_unequal_tuples(x):
    for a, b in zip((1, 2), (3, 4, 5), strict=True):  # here
        x[0] = a * b


@refused(TYPE, "at most 8 values")
def message_with_many_values(x):
    a = x[0]
    assert a < 0, f"{a} {a + 1} {a + 2} {a + 3} {a + 4} {a + 5} {a + 6} {a + 7} {a + 8}"  # here


@refused(TYPE, "coordinates")
def distance_of_unequal_points(x):
    x[0] = math.dist((x[0], x[1]), (x[0], x[1], x[2]))  # here


BODIES = np.zeros(2, [("mass", np.float64), ("charge", np.int32)])


@refused(TYPE, "length 3 cannot be assigned to 4")
def augmented_array_of_another_length(x):
    a, b = cuda.local.array(4, np.float64), cuda.local.array(3, np.float64)
    a[:] += b  # here
    x[0] = a[3]


@refused(TYPE, "2 axes cannot be assigned to 1", np.zeros(3), np.zeros((2, 3)))
def augmented_array_of_fewer_axes(x, y):
    x[:] += y  # here


@refused(TYPE, "2 axes cannot be assigned to 1", np.zeros(3), np.zeros((2, 3)))
def output_of_fewer_axes(x, y):
    np.add(y, 1, x)  # here


@refused(TYPE, "length 5 and 3 have no dot product")
def dot_of_other_lengths(x):
    a, b = cuda.local.array(5, np.float64), cuda.local.array(3, np.float64)
    x[0] = a.dot(b)  # here


@refused(TYPE, "arrays of numbers", BODIES)
def item_of_records(x):
    x[0].mass = x.item(1).mass  # here


@refused(TYPE, "arrays of numbers", np.zeros(2, "M8[D]"))
def item_of_dates(x):
    x[0] = x.item(1)  # here


@refused(TYPE, "bit_length.*integers")
def bit_length_of_a_float(x):
    x[0] = x[0].bit_length()  # here


@refused(TYPE, "ASCII", np.zeros(2, "S4"))
def letters_that_bytes_do_not_have(x):
    x[0] = "\u03a9"  # here


@refused(TYPE, "positional only")
def positional_parameter_by_name(x):
    def added(a, /, b):
        return a + b

    x[0] = added(a=1, b=2)  # here


@refused(TYPE, "classes, not int 3")
def instance_of_a_number(x):
    x[0] = isinstance(x[0], 3)  # here


@refused(TYPE, "begins with a class")
def pattern_of_a_function(x):
    match x[0]:
        case math.sqrt():  # here
            x[0] = 1


@refused(("KernelAttributeError",), "no attribute 'depth'")
def pattern_of_another_attribute(x):
    match Point(1, 2):
        case Point(depth=1):  # here
            x[0] = 1


@refused(TYPE, "Unknown format code")
def format_of_a_constant(x):
    print(f"{'a':d}")  # here


@refused(TYPE, "does not fit float64")
def format_in_an_error(x):
    raise ValueError(f"{x[0]:x}")  # here


@refused(TYPE, "does not fit int64", np.zeros(2, np.int64))
def precision_of_an_integer(x):
    raise ValueError(f"{x[0]:.3}")  # here


@refused(("KernelNameError",), r"\n {23}\^{7}$")
def letters_of_several_bytes(x):
    x[0] = len("äö") + missing  # here
