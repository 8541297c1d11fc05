"""Test kernels for statements, and for functions inside kernels."""

# mypy: ignore-errors
# ruff: noqa: B023, B905, E731, PIE790

from __future__ import annotations

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, INTS, IOUT, OUT, probe
from weft import cuda


@probe(FLOATS, OUT)
def if_elif_else(x, out):
    for i in range(x.size):
        if x[i] < 0:
            out[i] = -1
        elif x[i] == 0:
            out[i] = 0
        elif x[i] > 1e6:
            out[i] = 1e6
        else:
            out[i] = x[i]


@probe(INTS, IOUT)
def while_loop(x, out):
    for i in range(x.size):
        n = x[i]
        steps = 0
        while n > 0:
            n //= 2
            steps += 1
        out[i] = steps


@probe(INTS, IOUT)
def while_else(x, out):
    for i in range(x.size):
        n = x[i]
        while n > 0:
            if n == 12:
                break
            n -= 1
        else:
            out[i] = 99
        out[i] += n


@probe(INTS, IOUT)
def for_else(x, out):
    for i in range(x.size):
        for k in range(2, 8):
            if x[i] == k:
                out[i] = k
                break
        else:
            out[i] = -1


@probe(INTS, IOUT)
def continue_in_loops(x, out):
    count = 0
    for i in range(x.size):
        if x[i] % 2 == 0:
            continue
        count += 1
        k = 0
        while k < 6:
            k += 1
            if k == 3:
                continue
            out[i] += k
    out[1] = count


@probe(INTS, IOUT)
def nested_loops_with_break(x, out):
    for i in range(x.size):
        for j in range(x.size):
            if x[j] > x[i]:
                out[i] = j
                break
            for k in range(j):
                if k == 2:
                    break
                out[i] += 1


@probe(INTS, IOUT)
def while_true(x, out):
    i = 0
    while True:
        if i == x.size:
            break
        out[i] = 2 * x[i]
        i += 1


@probe(INTS, IOUT)
def conditional_expression(x, out):
    for i in range(x.size):
        out[i] = 1 if x[i] > 0 else (0 if x[i] == 0 else -1)


@probe(INTS, IOUT)
def chained_comparison(x, out):
    for i in range(x.size):
        out[i] = 0 <= x[i] < 10 != 7
        out[i] += 10 * (-5 < x[i] <= 5 == 5)


@probe(INTS, IOUT)
def short_circuit(x, out):
    n = x.size
    for i in range(n):
        if (i + 1 < n and x[i + 1] > 0) or i == 0:
            out[i] = 1
        if not (i == 0 or x[i - 1] < 0):
            out[i] += 2


@probe(INTS, IOUT)
def values_of_and_or(x, out):
    for i in range(x.size):
        out[i] = (x[i] or 42) + (x[i] and 7)


@probe(FLOATS, OUT)
def early_return(x, out):
    for i in range(x.size):
        if x[i] > 5:
            return
        out[i] = x[i]


@probe(FLOATS, OUT, launch=(3, 4), want=lambda x, out: out.__setitem__(slice(0, 8), x * 2))
def return_of_some_threads(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    out[i] = x[i] * 2


@probe(INTS, IOUT)
def match_constants(x, out):
    for i in range(x.size):
        match x[i]:
            case 5:
                out[i] = 50
            case -3 | 7:
                out[i] = 60
            case 0:
                out[i] = 70
            case _:
                out[i] = 80


@probe(INTS, IOUT)
def match_guards(x, out):
    for i in range(x.size):
        match x[i]:
            case n if n < 0:
                out[i] = -n
            case 0:
                out[i] = 1000
            case n if n > 10:
                out[i] = n * 2
            case n:
                out[i] = n


@probe(INTS, IOUT)
def match_tuples(x, out):
    for i in range(x.size):
        match (i > 3, x[i] % 2):
            case (True, 0):
                out[i] = 1
            case (True, _):
                out[i] = 2
            case (False, k):
                out[i] = 10 + k


@probe(INTS, IOUT)
def match_without_a_case(x, out):
    for i in range(x.size):
        match x[i] % 3:
            case 1:
                out[i] = 1
            case 2:
                out[i] = 2


@probe(INTS, IOUT)
def walrus_in_while(x, out):
    i = 0
    while (n := x[i]) != 0:
        out[i] = n + 1
        i += 1


@probe(INTS, IOUT)
def walrus_in_if(x, out):
    for i in range(x.size):
        if (half := x[i] // 2) > 2:
            out[i] = half
        else:
            out[i] = -half


@probe(INTS, IOUT)
def stepped_range(x, out):
    for i in range(1, x.size, 3):
        out[i] = x[i]
    for i in range(6, 1, -2):
        out[i] += 100


@probe(INTS, IOUT, 7, 1, -2)
def range_with_run_time_step(x, out, start, stop, step):
    for i in range(start, stop, step):
        out[i] = x[i] + 1


@probe(INTS, IOUT)
def empty_ranges(x, out):
    for i in range(5, 5):
        out[i] = 1
    for i in range(5, 2):
        out[i] = 2
    for i in range(2, 5, -1):
        out[i] = 3
    out[0] = 4


@probe(INTS, IOUT)
def loop_variable_afterwards(x, out):
    for i in range(x.size):
        if x[i] == 0:
            break
    out[0] = i
    for k in range(3):
        k *= 10
        out[k // 10 + 1] = k


@probe(INTS, IOUT)
def reversed_range(x, out):
    position = 0
    for i in reversed(range(x.size)):
        out[position] = x[i]
        position += 1


@probe(INTS, IOUT)
def reversed_array(x, out):
    position = 0
    for value in reversed(x):
        out[position] = value
        position += 1


@probe(INTS, IOUT)
def enumerate_array(x, out):
    for i, value in enumerate(x):
        out[i] = i * 100 + value


@probe(INTS, IOUT)
def enumerate_from_start(x, out):
    for number, value in enumerate(x, start=1):
        out[number - 1] = number * value
    for number, value in enumerate(x[:3], 2):
        out[number] += value


@probe(INTS, FLOATS, OUT)
def zip_arrays(x, y, out):
    i = 0
    for a, b in zip(x, y):
        out[i] = a + b
        i += 1


@probe(INTS, IOUT)
def zip_of_unequal_lengths(x, out):
    n = 0
    for a, i in zip(x, range(5)):
        out[i] = a
        n += 1
    out[7] = n


@probe(INTS, FLOATS, OUT)
def enumerate_zip(x, y, out):
    for i, (a, b) in enumerate(zip(x, y)):
        out[i] = a * b


@probe(INTS, IOUT)
def loop_over_array(x, out):
    for value in x:
        out[0] += value
        if value > 0:
            out[1] += value


@probe(IOUT)
def loop_over_tuple(out):
    for k in (3, 1, 6):
        out[k] = k * k


@probe(OUT)
def loop_over_mixed_tuple(out):
    i = 0
    for value in (1, 2.5, True):
        out[i] = value
        i += 1


@probe(INTS, IOUT)
def parallel_assignment(x, out):
    for i in range(x.size):
        a, b = 0, 1
        for k in range(abs(x[i]) % 20):
            a, b = b, a + b
        out[i] = a


@probe(INTS, IOUT)
def chained_assignment(x, out):
    a = b = x[2]
    a += 1
    out[0] = out[1] = a + b


@probe(INTS, IOUT)
def annotated_assignment(x, out):
    total: int = 0
    for i in range(x.size):
        total += x[i]
    out[0] = total


@probe(INTS, IOUT)
def inner_function(x, out):
    def square(v):
        return v * v

    for i in range(x.size):
        out[i] = square(x[i]) + square(i)


@probe(INTS, IOUT)
def inner_function_sees_variables(x, out):
    offset = x[0]

    def shifted(v):
        return v + offset

    offset += 1
    for i in range(x.size):
        out[i] = shifted(x[i])


@probe(INTS, IOUT)
def nonlocal_variable(x, out):
    count = 0

    def note(v):
        nonlocal count
        if v > 0:
            count += 1

    for i in range(x.size):
        note(x[i])
    out[0] = count


@probe(INTS, IOUT)
def lambda_function(x, out):
    scale = 3
    f = lambda v, k=2: v * scale + k
    for i in range(x.size):
        out[i] = f(x[i]) + f(x[i], 5)


@probe(INTS, IOUT)
def function_chosen_by_argument(x, out):
    def apply(f, v):
        return f(v)

    for i in range(x.size):
        out[i] = apply(lambda v: v + 1, x[i]) * apply(lambda v: v * v, i)


def _gcd(a, b):
    if b == 0:
        return a
    return _gcd(b, a % b)


@probe(INTS, IOUT)
def recursion(x, out):
    for i in range(x.size):
        out[i] = _gcd(abs(x[i]), 24)


def _fibonacci(n):
    return n if n < 2 else _fibonacci(n - 1) + _fibonacci(n - 2)


@probe(IOUT)
def double_recursion(out):
    for i in range(out.size):
        out[i] = _fibonacci(i)


@probe(INTS, IOUT)
def assert_that_holds(x, out):
    for i in range(x.size):
        assert x[i] < 1000, "too large"
        out[i] = x[i]


@probe(INTS, IOUT)
def raise_not_reached(x, out):
    for i in range(x.size):
        if x[i] > 1000:
            raise ValueError("too large")
        out[i] = x[i]


@probe(INTS, IOUT)
def docstring_pass_ellipsis(x, out):
    """A kernel with a docstring."""
    for i in range(x.size):
        if x[i] < 0:
            pass
        else:
            out[i] = 1
    ...


@probe(INTS, IOUT)
def variable_set_on_every_path(x, out):
    for i in range(x.size):
        if x[i] < 0:
            value = 0
        elif x[i] < 6:
            value = x[i]
        else:
            value = 2 * i
        out[i] = value


@probe(FLOATS, OUT)
def one_variable_of_several_numbers(x, out):
    for i in range(x.size):
        if x[i] < 0:
            value = 0
        elif x[i] > 5:
            value = i
        else:
            value = x[i] / 2
        out[i] = value


@probe(INTS, FLOATS, OUT, True)
def array_chosen_at_run_time(x, y, out, first):
    other = y[2:] if first else y
    for i in range(other.size):
        out[i] = other[i]


@probe(FLOATS, INTS.astype(np.int32), np.ones((2, 3), np.float32), OUT)
def variables_of_unrolled_iterations(x, n, m, out):
    k = 0
    for values in (x, n, m):
        part = values[0]
        for j, first in enumerate((part, 2)):
            y = first if j else values
            if j:
                continue
            out[k] += y.size
            k += 1
        if k == 3:
            break
        kind = part.dtype
        out[7] += kind.itemsize


@probe(IOUT)
def widths_of_unrolled_iterations(out):
    for k, v in enumerate((np.uint8(200), np.uint16(200), np.float32(0.1))):
        y = v
        y += v
        out[k] = y * 10
    out[4] = sum(10 * w for w in (np.uint8(200), np.uint16(200)) if w > 1)
    last = 0
    for v in (1, 2.5, 3):
        if v > 2:
            last += v
        carried = last
        out[3] = carried * 2


@probe(OUT)
def functions_of_a_comprehension(out):
    functions = [lambda: i * 2 for i in (1, 2.5)]
    for k, function in enumerate(functions):
        out[k] = function()
