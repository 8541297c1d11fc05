"""Check of the symbols that an LLVM module declares.

The check precedes the parsing by LLVM, which would end the process if the module called an intrinsic that the target
lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from weft.runtime import CompileError

COMMON = (
    r"llvm\.(sqrt|fabs|floor|ceil|trunc|rint|copysign)\.(v\d+)?f(32|64)",
    r"llvm\.fma\.(v\d+)?f(32|64)",
    r"llvm\.(abs|smin|smax|umin|umax|ctpop|ctlz|bitreverse)\.(v\d+)?i(8|16|32|64)",
    r"llvm\.fpto[su]i\.sat\.(v\d+)?i(8|16|32|64)\.(v\d+)?f(32|64)",
)
HOST = (
    r"llvm\.lifetime\.start\.p0",
    r"llvm\.(memset\.p0|memcpy\.p0\.p0)\.i64",
    r"llvm\.readcyclecounter",
    r"llvm\.prefetch\.p0",
    r"llvm\.masked\.(load|store)\.v\d+(i(8|16|32|64)|f(16|32|64))\.p0",
    r"llvm\.masked\.(gather|scatter)\.v\d+(i(8|16|32|64)|f(16|32|64))\.v\d+p0",
    r"llvm\.x86\.sse\.sfence",
    r"llvm\.coro\.(id|size\.i64|begin|suspend|end|resume)",
)
NVPTX = (
    r"llvm\.(minimum|maximum)\.(v\d+)?f32",  # from sm_80 on
    r"llvm\.(minnum|maxnum)\.(v\d+)?f(32|64)",
    r"llvm\.nvvm\.r(cp|sqrt)\.approx\.ftz\.[fd]",
    r"llvm\.nvvm\.read\.ptx\.sreg\.((tid|ctaid|ntid|nctaid)\.[xyz]|laneid|clock64)",
    r"llvm\.nvvm\.barrier0(\.(popc|and|or))?",
    r"llvm\.nvvm\.bar\.warp\.sync",
    r"llvm\.nvvm\.membar\.(cta|gl|sys)",
    r"llvm\.nvvm\.shfl\.sync\.(bfly|idx|up|down)\.i32",
    r"llvm\.nvvm\.vote\.(all|any|uni|ballot)\.sync",
    r"llvm\.nvvm\.match\.(any\.sync\.i(32|64)|all\.sync\.i(32|64)p)",
    r"llvm\.nvvm\.redux\.sync\.(add|u?min|u?max|and|or|xor)",
    r"llvm\.nvvm\.(activemask|nanosleep)",
    r"vprintf",
)

_DECLARED = re.compile(r"^declare [^@]*@([\w.$]+)\(", re.MULTILINE)


def check_declarations(text: str, patterns: Collection[str], symbols: Collection[str]) -> None:
    """Raise CompileError if a module declares a symbol that is not allowed.

    A symbol is allowed if it is in `symbols`, or if a regular expression in `patterns` matches its whole name.
    """
    for name in _DECLARED.findall(text):
        if name in symbols:
            continue
        if not any(re.fullmatch(pattern, name) for pattern in patterns):
            raise CompileError(f"the generated code refers to {name}, which this target does not offer")
