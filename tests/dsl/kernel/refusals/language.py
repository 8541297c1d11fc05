"""Invalid programs that use constructs outside the kernel language."""

# mypy: ignore-errors
# ruff: noqa

from __future__ import annotations

import os
import random

import numpy as np

from tests.dsl.kernel.refusals.definition import SYNTAX, TYPE, refused
from weft import cuda

ANY = (SYNTAX, TYPE)
NAMES = {"a": 1, "b": 2}
ITEMS = [1.0, 2.0]


def host_function(x):
    return os.path.join("a", "b")


@refused(SYNTAX, "try")
def try_except(x):
    try:  # here
        x[0] = 1
    except ValueError:
        x[0] = 2


@refused(SYNTAX, "try|finally")
def try_finally(x):
    try:  # here
        x[0] = 1
    finally:
        x[0] = 2


@refused(SYNTAX, "with")
def with_statement(x):
    with open("file") as f:  # here
        x[0] = 1


@refused(("KernelError",), "'a' is used before")
def deleted_variable(x):
    a = 1
    del a
    x[0] = a  # here


@refused(SYNTAX, "del")
def delete_element(x):
    del x[0]  # here


@refused(SYNTAX, "yield|generator")
def generator(x):
    yield x[0]  # here


@refused(SYNTAX, "yield|generator")
def generator_delegating(x):
    yield from x  # here


@refused(SYNTAX, "async|await|coroutine")
async def coroutine(x):  # here
    x[0] = 1


@refused(SYNTAX, "class")
def class_inside(x):
    class Point:  # here
        pass

    x[0] = 1


@refused(SYNTAX, "import")
def import_inside(x):
    import math  # here

    x[0] = math.pi


@refused(SYNTAX, "import")
def import_from_inside(x):
    from math import pi  # here

    x[0] = pi


@refused(SYNTAX, "global")
def global_statement(x):
    global ITEMS  # here
    ITEMS = 2
    x[0] = 1


@refused(SYNTAX, "dict")
def dict_display(x):
    d = {"a": 1}  # here
    x[0] = d["a"]


@refused(SYNTAX, "set")
def set_display(x):
    s = {1, 2}  # here
    x[0] = 1 in s


@refused(SYNTAX, "dict")
def dict_comprehension(x):
    d = {i: i for i in range(3)}  # here
    x[0] = d[1]


@refused(ANY, r"lists do not grow in a kernel \(no 'extend'\)")
def list_extend(x):
    l = [1, 2]
    l.extend((3,))  # here
    x[0] = 1


@refused(ANY, "did you mean 'shape'")
def misspelt_shape(x):
    x[0] = x.shap[0]  # here


@refused(TYPE, r"x\.shape\[1\] does not exist: x is 1-dimensional")
def missing_dimension(x):
    x[0] = x.shape[1]  # here


@refused(ANY, r"cuda\.shared has no attribute 'aray'; did you mean 'array'")
def misspelt_shared_array(x):
    s = cuda.shared.aray(3, np.float64)  # here
    x[0] = s[0]


@refused(ANY, "without an index is for arrays of one element")
def item_of_many(x):
    a = cuda.local.array(3, np.float64)
    x[0] = a.item()  # here


@refused(SYNTAX, "set")
def set_comprehension(x):
    s = {i for i in range(3)}  # here
    x[0] = len(s)


@refused(ANY, "append|list")
def list_append(x):
    l = []
    l.append(1)  # here
    x[0] = 1


@refused(ANY, "list|comprehension|compil")
def list_of_run_time_length(x):
    l = [v * 2 for v in x]  # here
    x[0] = l[0]


@refused(ANY, "string|format")
def string_method(x):
    s = "ab".upper()  # here
    x[0] = len(s)


@refused(ANY, "string|str|number")
def string_of_number(x):
    s = "value " + str(x[0])  # here
    x[0] = len(s)


@refused(ANY, "string|str|format")
def string_formatting(x):
    s = "%d" % x[0]  # here
    x[0] = 1


@refused(SYNTAX, "conversion !r")
def conversion_in_f_string(x):
    print(f"{x[0]!r}")  # here


@refused(TYPE, "read-only")
def bytes_literal(x):
    b = b"abc"
    b[0] = 1  # here


@refused(TYPE, "undefined_name.*not defined")
def unknown_name(x):
    x[0] = undefined_name  # here


@refused(TYPE, "later.*before")
def used_before_given_a_value(x):
    x[0] = later  # here
    later = 1


@refused(TYPE, "only_here.*(before|not)")
def variable_of_an_inner_function(x):
    def inner(v):
        only_here = v
        return only_here

    inner(x[0])
    x[0] = only_here  # here


@refused(TYPE, "numpy.*no_such_function|no_such_function.*numpy")
def unknown_attribute_of_module(x):
    x[0] = np.no_such_function(x[0])  # here


@refused(TYPE, "no_such_attribute")
def unknown_attribute_of_array(x):
    x[0] = x.no_such_attribute  # here


@refused(TYPE, "no_such_name")
def unknown_name_of_cuda(x):
    x[0] = cuda.no_such_name()  # here


@refused(TYPE, "threadIdx.*'w'|'w'.*threadIdx|x, y and z")
def fourth_axis_of_thread(x):
    x[0] = cuda.threadIdx.w  # here


@refused(ANY, "host_function|join|str")
def calling_a_host_function(x):
    x[0] = host_function(x[0])


@refused(ANY, "open")
def opening_a_file(x):
    x[0] = open("file")  # here


@refused(ANY, "random")
def host_random_numbers(x):
    x[0] = random.random()  # here


@refused(ANY, "inv")
def linear_algebra(x):
    y = np.linalg.inv(x)  # here
    x[0] = y[0, 0]


@refused(ANY, "dict")
def global_dict(x):
    x[0] = NAMES["a"]  # here


@refused(ANY, "list|append")
def global_list_changed(x):
    ITEMS.append(2.0)  # here
    x[0] = 1


@refused(TYPE, "sorted cannot be called in a kernel: write a loop, or call it outside the kernel")
def sorting(x):
    y = sorted(x)  # here
    x[0] = y[0]


@refused(ANY, "eval")
def evaluating_text(x):
    x[0] = eval("1 + 1")  # here


@refused(ANY, "input")
def asking_the_user(x):
    x[0] = float(input())  # here


@refused(ANY, "getattr|locals")
def looking_at_frames(x):
    x[0] = len(locals())  # here


@refused(SYNTAX, r"@|matmul|matrix")
def matrix_operator(x):
    x[0] = x @ x  # here


@refused(TYPE, "array|operator|number")
def array_arithmetic(x):
    y = x + x  # here
    x[0] = y[0]


@refused(ANY, "mask|bool|index")
def index_by_mask(x):
    mask = cuda.local.array(8, np.bool_)
    y = x[mask]  # here
    x[0] = y[0]


@refused(SYNTAX, r"\*\*|keyword")
def double_star_parameters(x):
    def f(**options):
        return 1

    x[0] = f(a=1)  # here


@refused(SYNTAX, r"pattern|match|case|mapping")
def mapping_pattern(x):
    match x[0]:
        case {"a": 1}:  # here
            x[0] = 1


@refused(ANY, "return|kernel")
def value_returned_from_kernel(x):
    return x[0]  # here


@refused(ANY, "unpack|values|number of")
def too_many_to_unpack(x):
    a, b = (1, 2, 3)  # here
    x[0] = a


@refused(ANY, "unpack|values|number of")
def too_few_to_unpack(x):
    a, b, c = (1, 2)  # here
    x[0] = a


@refused(ANY, "step|zero")
def slice_step_of_zero(x):
    y = x[::0]  # here
    x[0] = y[0]


@refused(ANY, "slice takes 1 to 3 arguments, not 4")
def slice_of_four_numbers(x):
    x[slice(1, 2, 3, 4)] = 0  # here


@refused(ANY, "zero")
def range_step_of_zero(x):
    for i in range(0, 8, 0):  # here
        x[i] = 1


@refused(ANY, "recurs|bound|type|result")
def recursion_without_end(x):
    def f(v):
        return f(v + 1)  # here

    x[0] = f(x[0])


@refused(ANY, "decorator")
def decorated_inner_function(x):
    @os.path.join  # here
    def f(v):
        return v

    x[0] = f(x[0])
