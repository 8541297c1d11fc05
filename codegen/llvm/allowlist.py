"""What a module may refer to: checked before LLVM sees it, since an intrinsic that a target cannot select
ends the process, and an unresolved symbol is a jump to nowhere."""

from __future__ import annotations

import re
from collections.abc import Collection

from weft.runtime import CompileError

COMMON = (
    r"llvm\.(sqrt|fabs|floor|ceil|trunc|rint|copysign)\.(v\d+)?f(32|64)",
    r"llvm\.fma\.(v\d+)?f(32|64)",
    r"llvm\.(abs|smin|smax|umin|umax|ctpop)\.(v\d+)?i(8|16|32|64)",
    r"llvm\.fpto[su]i\.sat\.(v\d+)?i(8|16|32|64)\.(v\d+)?f(32|64)",
)
HOST = (r"llvm\.lifetime\.start\.p0",)
NVPTX = (
    r"llvm\.nvvm\.read\.ptx\.sreg\.(tid|ctaid|ntid|nctaid)\.x",
    r"llvm\.nvvm\.barrier0",
    r"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all",
    r"llvm\.nvvm\.shfl\.sync\.bfly\.i32",
)

_DECLARED = re.compile(r"^declare [^@]*@([\w.$]+)\(", re.MULTILINE)


def check_declarations(text: str, patterns: Collection[str], symbols: Collection[str]) -> None:
    """Raise CompileError where the module declares what is neither a known intrinsic nor in `symbols`."""
    for name in _DECLARED.findall(text):
        if name in symbols:
            continue
        if not any(re.fullmatch(pattern, name) for pattern in patterns):
            raise CompileError(f"the generated code refers to {name}, which this target does not offer")
