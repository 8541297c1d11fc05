"""Write the pages of the reference: functions, arrays, ops, errors, commands, kernels and `weft.cuda`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

import weft as wf
from docs.site.docstring_pages import NUMPY_PAGE, describe, has_numpy, link_names, summary_table
from docs.site.public_names import PublicName, public_names
from weft.codegen import OPS, NoLoopError, resolve_dtypes
from weft.dsl import OWN
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.cli.options import make_parser
from weft.dsl.kernel.language.names import TABLE, TRIPLES

# Titles of the pages of functions, and the modules of these functions; single functions of `compositions` by name
GROUPS = {
    "creation": (
        "Creating arrays",
        "creation triangles grids padding standard asarray_chkfinite c_ diagflat fromfunction ix_ meshgrid "
        "mgrid ogrid r_ require tri vander",
    ),
    "shapes": (
        "Changing shapes and joining arrays",
        "manipulation joining bits atleast_1d atleast_2d atleast_3d block column_stack dsplit dstack fliplr flipud "
        "hsplit hstack insert matrix_transpose resize rollaxis trim_zeros unstack vsplit vstack",
    ),
    "reductions": (
        "Sums, means and other reductions",
        "reductions nan_statistics allclose apply_over_axes array_equal array_equiv corrcoef cov cumulative_prod nanargmax nanargmin",
    ),
    "order": (
        "Sorting, searching and sets",
        "sorting sets quantiles histograms argwhere flatnonzero histogram_bin_edges histogramdd intersect1d setxor1d "
        "sort_complex union1d unique_all unique_counts unique_inverse unique_values",
    ),
    "selecting": ("Selecting elements", "selection along_axis indexing extract fill_diagonal piecewise put select"),
    "algebra": (
        "Products and calculus",
        "linear calculus signals diff matvec poly polyadd polyder polyfit polyint polymul polysub polyval trapezoid unwrap "
        "vecdot vecmat",
    ),
    "attributes": (
        "Attributes and memory of arrays",
        "attribute_functions methods introspection imag isfortran isscalar iterable ndim real shape",
    ),
}
# Elementwise functions that are no single op
ELEMENTWISE = "angle divmod fix frexp i0 iscomplex isneginf isposinf isreal modf real_if_close spacing".split()
RUNNING = "evaluate explain Explanation compile lambdify profile statistics reset_statistics".split()
MACHINES = "default_device devices device set_default_device stream".split()
KERNELS = "kernel vectorize guvectorize reduce sanitize texture".split()
REMEDIES = {
    "CacheWarning": "Make the cache folder (WEFT_CACHE_DIR) writable, or set WEFT_CACHE=0.",
    "CompileError": "Install the tool that is named in the message. If code generation failed, open an issue and attach the kernel.",
    "CudaError": "Run `weft doctor` to check the installation. The error message names the driver function that failed.",
    "DeviceLostError": "Start a new process. To find the invalid access, run the kernel on the CPU with WEFT_SANITIZE=1.",
    "DeviceMismatchError": "Move the arrays to the same device, for example with `x.to('cpu')`.",
    "DeviceNotFoundError": "Run `weft info`, which prints the missing packages and the command that installs them.",
    "DivergenceError": "Move the barrier or the warp operation to a line that all threads reach.",
    "HostFallbackWarning": "Copy the array to the host once with `x.to('cpu')`, or use an operation that has a kernel. To turn the warning off, set WEFT_HOST_FALLBACK=ignore.",
    "KernelAttributeError": "Use one of the names that the message suggests.",
    "KernelError": "See the remedies for the subclasses of this class.",
    "KernelFault": "Move the barrier that is named in the message to a line that all threads reach.",
    "KernelNameError": "Assign a value to the name on every path that leads to a use of the name.",
    "KernelSyntaxError": "Use the alternative that the message suggests.",
    "KernelTypeError": "Convert one of the operands to the type of the other operand, or use two variables with different names.",
    "LaunchError": "Use at most 1,024 threads per block, or less shared memory.",
    "MaskedArrayError": "Fill the masked elements first, for example with `x.filled(0)`, or use the functions of `numpy.ma`.",
    "MissingAssemblerError": "Run `pip install nvidia-nvjitlink`.",
    "OptimizerWarning": "The result is correct despite the warning. Open an issue, and attach the report whose path is in the message.",
    "OutOfMemoryError": "Delete some of the arrays in `error.largest`, or raise the memory limit. Then evaluate the array again.",
    "PerformanceWarning": "Follow the advice in the message. For example, pass `cuda.In(x)` if the kernel only reads `x`.",
    "SanitizerError": "Each report describes the access, the array and the source line. To fix a race, insert a barrier between the two accesses.",
    "SettingError": "Correct the environment variable named in the message.",
    "UnsupportedDtypeError": "Convert the array to a numeric dtype, or use NumPy for this operation.",
    "VerificationError": "Open an issue, and attach the report that is named in the message.",
    "WeftError": "See the remedies for the subclasses of this class. To catch all of weft's errors, catch `WeftError`.",
}

Pages = dict[str, str]


def heading(title: str, text: str = "") -> str:
    """Return a page's title and first paragraph."""
    return f"{title}\n{'=' * len(title)}\n\n{text}\n\n"


def escape(text: str) -> str:
    """Escape the characters of operators. Outside literals, reStructuredText would read them as markup."""
    return re.sub(r"``.*?``|[|*]", lambda match: match[0] if len(match[0]) > 1 else f"\\{match[0]}", text)


def entries(shown: Iterable[PublicName], names: dict[str, PublicName]) -> str:
    """Return a summary table of the names in `shown`, followed by a detailed entry for each name."""
    listed = list(shown)
    return summary_table(listed) + "\n" + "\n".join(describe(name, names, link_to_numpy(name)) for name in listed)


def link_to_numpy(name: PublicName) -> str:
    """Return a sentence that leads to NumPy's page, for a name that NumPy has too."""
    short = name.name.removeprefix("weft.").replace("Array.", "ndarray.")
    if name.name.startswith(("weft.cuda", "weft.memory")) or not has_numpy(short) or name.kind == "class":
        return ""
    return f"\nNumPy's page: `numpy.{short} <{NUMPY_PAGE.format(short)}>`__\n"


def function_pages(names: dict[str, PublicName]) -> Pages:
    """Return the reference pages of weft's array functions, one page for each group of functions."""
    pages: Pages = {}
    module_of = {name: OWN._origin[name][0].rpartition(".")[2] for name in OWN._origin}  # type: ignore[attr-defined]
    for slug, (title, shown) in GROUPS.items():
        wanted = sorted(n for n, module in module_of.items() if {n, module} & set(shown.split()) and n[0] != "_")
        text = "These functions have the same parameters and results as the NumPy functions of the same names. Operations on large arrays are recorded, and run when a result is needed."
        pages[slug] = heading(title, text) + entries((names[f"weft.{name}"] for name in wanted), names)
    ufuncs = [name for name in names.values() if isinstance(name.target, UFunc)]
    own = [name for name in ufuncs if name.name == f"weft.{name.target.definition.name}"]
    text = "These functions operate elementwise on arrays, and support broadcasting. weft fuses elementwise functions with each other\nand with reductions. This page does not list aliases separately."
    pages["elementwise"] = heading("Elementwise functions", text) + entries(
        [names["weft.UFunc"], *own, *(names[f"weft.{n}"] for n in ELEMENTWISE)], names
    )
    return pages


DTYPES = {"bool": "bool", "int64": "int", "uint64": "uint", "float64": "float", "complex128": "complex"}


def dtypes_of(op: Any) -> str:
    """Return the kinds of operands that an op accepts, as text. If the result has another kind than the operands, both are shown: "int → float"."""
    shown = []
    for dtype, kind in DTYPES.items():
        try:
            result = resolve_dtypes(op, (np.dtype(dtype),) * op.arity)[1]
        except (NoLoopError, TypeError):
            continue
        to = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}[result.kind]
        shown.append(kind if to == kind else f"{kind} → {to}")
    return ", ".join(shown)


def op_page() -> str:
    """Return the table of ops."""
    rows = [".. list-table::", "   :header-rows: 1", "   :widths: 20 34 28 10 8", ""]
    rows += ["   * - op", "     - description", "     - dtypes", "     - ULP", "     - operator"]
    operators = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
    operators |= {
        "and": "&",
        "or": "|",
        "xor": "^",
        "lshift": "<<",
        "rshift": ">>",
        "invert": "~",
        "neg": "-",
        "pos": "+",
    }
    operators |= {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "abs": "abs"}
    for name, op in OPS.items():
        if name.startswith("_") or not hasattr(wf, name) or op.body is not None:
            continue
        also = f" (also {', '.join(op.aliases)})" if op.aliases else ""
        sign = f"``{operators[op.dunder]}``" if op.dunder in operators else ""
        bound = f"{op.ulp:g}" if op.ulp else "exact"
        link = f":py:func:`{name} <weft.{name}>`" if isinstance(getattr(wf, name), UFunc) else f"``{name}``"
        rows += [f"   * - {link}{also}", f"     - {escape(op.doc)}", f"     - {dtypes_of(op)}"]
        rows += [f"     - {bound}", f"     - {sign}"]
    text = (
        "This table lists all elementwise operations (*ops*). Every op runs on the CPU and on GPUs, in fused kernels and in explicit\n"
        "kernels. The *ULP* column lists the maximum error, in units in the last place of the result. *exact* means that the result\n"
        "is bit-identical to NumPy's result. For 16-bit floats, ops are computed in float32, and the result is rounded once."
    )
    return heading("Table of ops", text) + "\n".join(rows) + "\n"


def error_page(names: dict[str, PublicName]) -> str:
    """Return the page of errors and warnings, with remedies."""
    classes = {name: getattr(wf, name) for name in (*wf.__all__, "SanitizerError") if name in REMEDIES}
    text = heading(
        "Errors and warnings",
        "Each error message states what was requested, what is wrong, where the error occurred, and how to correct it.",
    )
    rows = [".. list-table::", "   :header-rows: 1", "", "   * - class", "     - base classes", "     - remedy"]
    for name, kind in sorted(classes.items()):
        bases = ", ".join(f"``{base.__name__}``" for base in kind.__bases__)
        rows += [f"   * - ``{name}``", f"     - {bases}", f"     - {link_names(REMEDIES[name], names)}"]
    found = [PublicName(f"weft.{name}", kind) for name, kind in sorted(classes.items())]
    return text + "\n".join(rows) + "\n\n" + "\n".join(describe(name, names) for name in found)


def command_page() -> str:
    """Return the reference page of the command `weft`. The text is generated from the command's argument parser."""
    text = heading("Commands", "The commands ``weft`` and ``python -m weft`` are equivalent.")
    (commands,) = [a for a in make_parser()._actions if hasattr(a, "choices") and isinstance(a.choices, dict)]
    said = {action.dest: action.help for action in commands._choices_actions}  # type: ignore[attr-defined]
    assert isinstance(commands.choices, dict)
    for name, parser in commands.choices.items():
        usage = parser.format_help().replace("usage: ", "", 1)
        title = f"weft {name}"
        text += f"{title}\n{'-' * len(title)}\n\n{str(said[name])[0].upper()}{str(said[name])[1:]}.\n\n.. code-block:: text\n\n"
        text += "".join(f"   {line}\n" for line in usage.splitlines()) + "\n"
    return text


def kernel_page(names: dict[str, PublicName]) -> str:
    """Return the reference page for kernels: the decorators, and the names of the CUDA model."""
    text = heading(
        "Kernels",
        "The following decorators and functions create kernels. For an introduction to kernels, see :doc:`Write a kernel </kernels>`.",
    )
    text += entries((names[f"weft.{name}"] for name in KERNELS), names)
    text += "\nThe CUDA model\n--------------\n\nKernels can use the following names from ``weft.cuda``.\n\n"
    rows = [".. list-table::", "   :header-rows: 1", "", "   * - name", "     - meaning"]
    for name, (parameters, meaning) in TABLE.items():
        rows += [f"   * - ``cuda.{name}({parameters})``", f"     - {link_names(escape(meaning), names)}"]
    for name, meaning in TRIPLES.items():
        rows += [f"   * - ``cuda.{name}``", f"     - {link_names(escape(meaning), names)}"]
    return text + "\n".join(rows) + "\n"


def host_page() -> str:
    """Return the list of NumPy's functions that run on the host."""
    mine = set(OWN)
    host = [
        n for n in sorted(dir(np)) if n[0] != "_" and callable(getattr(np, n)) and not isinstance(getattr(np, n), type)
    ]
    listed = [f"`{n} <{NUMPY_PAGE.format(n)}>`__" for n in host if n not in mine and n not in wf.__all__]
    text = (
        "weft has no kernels for the following NumPy functions. For each function, ``wf.NAME`` converts weft arrays to NumPy\n"
        "arrays, calls the NumPy function on the host, and converts the results back to weft arrays. Some functions in ``wf.fft``, ``wf.linalg``\n"
        "and ``wf.random`` also run on the host."
    )
    return heading("NumPy functions on the host", text) + ", ".join(listed) + "\n"


def reference_pages() -> Pages:
    """Return all pages of the reference by name."""
    names = {name.name: name for name in public_names()}
    members = [name for name in names.values() if name.name.startswith("weft.Array.")]
    pages = function_pages(names)
    of_array = "An array is a view of a block of memory. The elements of an array may not have been computed yet."
    pages["array"] = heading("Array", of_array) + describe(names["weft.Array"], names) + entries(members, names)
    text = "These functions evaluate, display and measure recorded operations."
    pages["running"] = heading("Running and explaining", text) + entries((names[f"weft.{n}"] for n in RUNNING), names)
    text = heading("Devices, streams and memory", "These functions select devices, create streams, and manage memory.")
    memory = [name for name in names.values() if name.name.startswith("weft.memory.")]
    pages["machines"] = text + entries([*(names[f"weft.{n}"] for n in MACHINES), *memory], names)
    pages["kernels"] = kernel_page(names)
    text = "These functions are called on the host, and have the same names as the functions of Numba CUDA. On a machine without a GPU, the functions use the CPU."
    cuda = [name for name in names.values() if name.name.startswith("weft.cuda.") and callable(name.target)]
    pages["cuda"] = heading("weft.cuda", text) + entries(cuda, names)
    pages["ops"], pages["errors"], pages["commands"] = op_page(), error_page(names), command_page()
    pages["host"] = host_page()
    order = [
        "array",
        *GROUPS,
        "elementwise",
        "running",
        "machines",
        "kernels",
        "cuda",
        "ops",
        "errors",
        "commands",
        "host",
    ]
    text = f"The reference describes {len(names)} public names. The examples assume ``import numpy as np``, ``import weft as wf`` and ``from weft import cuda``."
    toc = ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {page}\n" for page in order)
    pages["index"] = heading("Reference", text) + toc
    return pages
