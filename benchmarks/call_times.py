"""The times of calls to NumPy's functions and methods on small arrays.

The script prints the seconds per call as JSON. It imports only NumPy, so that it runs under NumPy and on weft.
"""

import inspect
import json
import statistics
import sys
import time
import warnings

import numpy as np

TURNS, CALLS, WARM = 5, 50, 150
SECONDS = 0.008  # limit for the warm-up calls of a function, and for each turn
SPACES = {"": np, "linalg.": np.linalg, "fft.": np.fft}
# Functions that read or write files, change settings, only describe types, or return no arrays.
EXCLUDED = frozenset(
    """apply_over_axes array2string array_repr array_str base_repr binary_repr block bmat broadcast busday_count
    busday_offset can_cast common_type datetime_as_string datetime_data einsum_path errstate format_float_positional
    format_float_scientific from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc fromregex fromstring
    genfromtxt get_include get_printoptions getbufsize geterr geterrcall info is_busday isdtype issubdtype load loadtxt
    lookfor min_scalar_type mintypecode nested_iters printoptions promote_types result_type save savetxt savez
    savez_compressed set_printoptions setbufsize seterr seterrcall show_config show_runtime test typename""".split()
)
METHODS = """all any argmax argmin argpartition argsort astype choose clip compress conj copy cumprod cumsum diagonal dot
    fill flatten item max mean min nonzero partition prod put ravel repeat reshape round searchsorted sort squeeze std
    sum swapaxes take tobytes tolist trace transpose var view""".split()


def arrays_of(elements):
    """Return a dict of arrays with about `elements` elements each."""
    generator = np.random.default_rng(0)
    side = max(2, int(elements**0.5))
    x = generator.random(elements)
    return {"x": x, "m": generator.random((side, side)), "i": (x * 50).astype(np.int64), "b": x > 0.5}


def arguments_of(arrays):
    """Return tuples of call arguments in a dict. The key of each tuple describes it: the key of `(x, 2)` is "x, 2"."""
    x, m, i, b = arrays.values()
    return {
        "x": (x,), "x, x": (x, x), "x, 2": (x, 2), "m": (m,), "m, m": (m, m), "m, 0": (m, 0), "m, 1": (m, 1),
        "m.T": (m.T,), "m.T, m.T": (m.T, m.T),
        "i": (i,), "i, 2": (i, 2), "i, i": (i, i), "b": (b,), "[x, x]": ([x, x],), "b, x, x": (b, x, x),
        "x, x, x": (x, x, x),
    }  # fmt: skip


def calls(arrays):
    """Yield the name, the function and the arguments of each call to try. NumPy may not support the arguments."""
    given = arguments_of(arrays)
    for space, module in SPACES.items():
        for name in sorted(set(dir(module)) - EXCLUDED):
            function = getattr(module, name)
            if name.startswith("_") or isinstance(function, type) or not callable(function):
                continue
            if not inspect.ismodule(function):
                yield from ((f"{space}{name}({said})", function, values) for said, values in given.items())
    own = {"": (), "0": (0,), "2": (2,), "x": given["x"], "int": (int,), "[1, 2]": ([1, 2],)}
    for owner in ("x", "m", "i"):
        for name in METHODS:
            method = getattr(arrays[owner], name)
            yield from ((f"{owner}.{name}({said})", method, values) for said, values in own.items())


def call_often(function, values, times):
    """Call a function up to `times` times, and return the mean time of a call in seconds."""
    begin = time.perf_counter()
    for k in range(1, times + 1):
        function(*values)
        if not k % 10 and time.perf_counter() - begin > SECONDS:
            break
    return (time.perf_counter() - begin) / k


def seconds_per_call(function, values):
    """Return the time of one call in seconds: the median of `TURNS` measurements, each with up to `CALLS` calls."""
    call_often(function, values, WARM)
    return statistics.median(call_often(function, values, CALLS) for _ in range(TURNS))


def main(elements, only):
    """Measure the calls, and return a dict that maps the name of each call to its time in seconds.

    `only` selects calls by parts of their names. Calls that NumPy does not support are left out.
    """
    found, arrays, saved = {}, arrays_of(elements), arrays_of(elements)
    for name, function, values in calls(arrays):
        if only and not any(text in name for text in only):
            continue
        try:
            function(*values)
        except Exception:  # (an error of NumPy: the function does not support these arguments)
            continue
        found[name] = seconds_per_call(function, values)
        for kind, array in arrays.items():  # (a second or third argument may be `out`)
            array[...] = saved[kind]
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2:])))
