"""What `collecting` does before and after a collection, in native code: no signal handler runs in it.

In: the two Python functions. Out: a builtin for each. Always true: an interrupt that comes while garbage is collected is raised
behind the collection, in the program. In a callback, where Python runs handlers before the first line of a function, it would
be raised to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.fusion.storage import recording
from weft.runtime import Builtin, Text, python_function

_FUNCTIONS = (
    "PyUnicode_GetLength",
    "PyObject_SetAttr",
    "PyObject_Vectorcall",
    "PyList_Size",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_GetItem",
    "Py_IncRef",
)
_OBJECTS: dict[str, Any] = {
    "None": None,
    "True": True,
    "recording": recording,
    "epoch": "epoch",
    "interrupted": "interrupted",
    "ended": "ended",
}


class _Callback:
    """LLVM text of a callback, and its builtin."""

    def __init__(self, name: str, phase: str, own: Sequence[str] = ()) -> None:
        """It has something to do in one phase of the two, which their lengths tell apart."""
        self.name = name
        self._t = t = Text()
        self._known = t.begin_builtin(name, (*_FUNCTIONS, *_OBJECTS, *own))
        length = self._call("i64", "PyUnicode_GetLength", t.load("%given", 0, "ptr"))
        t.branch(f"icmp eq i64 {length}, {len(phase)}", "act", "done")
        t.label("act")

    def make(self, own: Sequence[Any] = ()) -> Callable[..., Any]:
        """The builtin."""
        t = self._t
        t.do("br label %done")
        t.label("done")
        self._call("void", "Py_IncRef", self._known["None"])
        t.do(f"ret ptr {self._known['None']}")
        t.label("raise")
        t.do("ret ptr null")
        objects = (*_OBJECTS.values(), *own)
        words = [*map(python_function, _FUNCTIONS), *map(id, objects)]
        return Builtin(self.name, t.end(), words, objects, self.name).call

    def _call(self, kind: str, name: str, *given: str) -> str:
        line = f"call {kind} {self._known[name]}({', '.join(f'ptr {each}' for each in given)})"
        if kind == "void":
            self._t.do(line)
            return ""
        return self._t.new(line)

    def _unless(self, condition: str, there: str, name: str) -> None:
        """Elsewhere where the condition holds, else on."""
        self._t.branch(condition, there, name)
        self._t.label(name)

    def _get(self, name: str) -> str:
        """An attribute of the thread's recording, with a reference."""
        value = self._call("ptr", "PyObject_GetAttr", self._known["recording"], self._known[name])
        self._unless(f"icmp eq ptr {value}, null", "raise", f"{name}.got")
        return value

    def _set(self, thing: str, name: str, value: str) -> None:
        wrong = self._call("i32", "PyObject_SetAttr", thing, self._known[name], value)
        self._unless(f"icmp ne i32 {wrong}, 0", "raise", f"{name}.set")

    def begin(self) -> None:
        """As `collecting._begin`, which is called where `end` is not the last of all callbacks."""
        t, known = self._t, self._known
        place = t.new(f"sub i64 {self._call('i64', 'PyList_Size', known['callbacks'])}, 1")
        last = t.new(f"call ptr {known['PyList_GetItem']}(ptr {known['callbacks']}, i64 {place})")
        t.branch(f"icmp eq ptr {last}, {known['end']}", "last", "other")
        t.label("other")
        given = f"(ptr {known['function']}, ptr %given, i64 %count, ptr %names)"
        done = t.new(f"call ptr {known['PyObject_Vectorcall']}{given}")
        t.do(f"ret ptr {done}")
        t.label("last")
        kept = t.new(f"call ptr {known['PyTuple_New']}(i64 1)")
        self._unless(f"icmp eq ptr {kept}, null", "raise", "kept")
        epoch = self._get("epoch")
        t.do(f"call i32 {known['PyTuple_SetItem']}(ptr {kept}, i64 0, ptr {epoch})")  # (the reference goes with it)
        self._set(known["recording"], "interrupted", kept)
        self._call("void", "Py_DecRef", kept)
        self._set(known["recording"], "epoch", known["None"])

    def end(self) -> None:
        """As `collecting._end`."""
        t, known = self._t, self._known
        before = self._get("interrupted")
        t.branch(f"icmp eq ptr {before}, {known['None']}", "nothing", "something")
        t.label("nothing")
        self._call("void", "Py_DecRef", before)
        t.do("br label %done")
        t.label("something")
        epoch = self._get("epoch")
        t.branch(f"icmp eq ptr {epoch}, {known['None']}", "back", "used")
        t.label("used")
        self._set(epoch, "ended", known["True"])
        t.do("br label %back")
        t.label("back")
        self._call("void", "Py_DecRef", epoch)
        first = t.new(f"call ptr {known['PyTuple_GetItem']}(ptr {before}, i64 0)")
        self._set(known["recording"], "epoch", first)
        self._call("void", "Py_DecRef", before)
        self._set(known["recording"], "interrupted", known["None"])


def make_callbacks(begin: Callable[..., Any], callbacks: list[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Builtins for the beginning and the end of a collection, of which the list tells. Raises CompileError."""
    last = _Callback("weft_collecting_end", "stop")
    last.end()
    end = last.make()
    first = _Callback("weft_collecting_begin", "start", ("callbacks", "end", "function"))
    first.begin()
    return first.make((callbacks, end, begin)), end
