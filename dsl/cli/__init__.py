"""The command line: ``weft run | explain | info | doctor | cache``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from weft.dsl.cli.main_program import MainProgram, output_is_closed
from weft.dsl.cli.run import explain, run
from weft.runtime import override

OPTIONS = ("--compare", "--explain", "--verify", "--device")  # of ``weft run``
PLAIN = SimpleNamespace(command="run", compare=False, explain=False, verify=False, device="")  # ``weft run SCRIPT``


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the words after ``run`` or ``explain`` into weft's options and the program's command line."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-" and words[at][:2] not in ("-m", "-c"):
        at += 1 + (words[at] in ("--device", "-o", "--output"))
    return words[:at], words[at:]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""

    words: Sequence[str] = sys.argv[1:] if arguments is None else arguments
    program: Sequence[str] = ()
    if words[:1] in (["run"], ["explain"]):
        own, program = _split(words[1:])
        words = [words[0], *own]
    options = PLAIN if words == ["run"] and program else _parse(words)
    try:
        status = _execute(options, program)
        print(end="", flush=True)
    except BrokenPipeError:
        plain = options.command == "run" and not (options.compare or options.explain)
        if plain or not output_is_closed():  # a plain run ends as under Python
            raise
        # The program that reads the output, such as head, has ended. The interpreter flushes the output again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    return status


def _parse(words: Sequence[str]) -> Any:
    """Return the options of a command, or exit with an error message."""
    from difflib import get_close_matches

    from weft.dsl.cli.options import make_parser

    options, unknown = make_parser().parse_known_args(words)
    if unknown:  # (`parse_args` would show the usage of all commands)
        near = get_close_matches(unknown[0], OPTIONS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    return options


def _execute(options: Any, program: Sequence[str]) -> int:
    """Execute a weft command, and return its exit status."""
    if options.command not in ("run", "explain"):
        return _report(options)
    if not program and sys.stdin.isatty():
        print(f"weft {options.command}: no program given", file=sys.stderr)
        return 2
    parsed = MainProgram.parse(program)
    if options.command == "explain":
        return explain(parsed, options.output, options.device)
    for option in _misplaced(parsed):
        print(
            f"weft run: {option} after the program's name is passed to the program; to give it to weft, put it before",
            file=sys.stderr,
        )
    with override(verify=True) if options.verify else nullcontext():
        return run(parsed, options.compare, options.explain, options.device)


def _misplaced(program: MainProgram) -> list[str]:
    """Return the options that follow the program's name, but were probably meant for weft.

    These are weft's options that do not occur in the program's source.
    """
    source = program.source
    return [] if source is None else [w for w in OPTIONS if w in program.arguments[1:] and w.encode() not in source]


def _report(options: Any) -> int:
    """Print the report of ``weft info``, ``weft doctor`` or ``weft cache``, and return the exit status."""
    from weft.dsl.cli import reports

    match options.command:
        case "info":
            print(reports.info())
        case "doctor":
            return reports.doctor()
        case _:
            print(reports.cache(options.action))
    return 0
