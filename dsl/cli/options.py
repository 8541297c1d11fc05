"""The options of the command line.

``weft run SCRIPT`` without options does not import this module, and therefore starts faster.
"""

from __future__ import annotations

import argparse

from weft.dsl.cli.reports import installed_version


def make_parser() -> argparse.ArgumentParser:
    """Return the parser for the command line."""
    # (no abbreviations: to find the program's name before the options are parsed, `_split` compares their full names)
    parser = argparse.ArgumentParser(prog="weft", description="Write NumPy, get fused kernels.", allow_abbrev=False)
    parser.add_argument(
        "--version", action="version", version=f"weft {installed_version('weft')}", help="print the version"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser(
        "run",
        allow_abbrev=False,
        help="run an unmodified NumPy script on weft",
        usage="weft run [options] (SCRIPT | -m MODULE | -c CODE | -) [arguments]",
    )
    for name, text in {
        "--compare": "run the program several times on weft and on NumPy, and print the times and the differences",
        "--explain": "compile the program before its first run, and print each new plan",
        "--verify": "also interpret each compiled program, and compare the results bit by bit",
    }.items():
        running.add_argument(name, action="store_true", help=text)
    explaining = commands.add_parser(
        "explain",
        allow_abbrev=False,
        help="write an HTML page that shows the time, the bytes moved and the kernels of each line of a script",
        usage="weft explain [options] (SCRIPT | -m MODULE | -c CODE) [arguments]",
    )
    explaining.add_argument(
        "-o", "--output", default="", metavar="FILE", help="name of the HTML file (default: SCRIPT-weft.html)"
    )
    for command in (running, explaining):
        command.add_argument("--device", default="", help='the device, such as "cpu" or "cuda:0"')
    commands.add_parser("info", help="print the versions of packages, the devices, and the CUDA components found")
    commands.add_parser("doctor", help="compile a kernel for every target, and run a kernel on every device")
    caching = commands.add_parser("cache", help="show or clear the disk cache of compiled kernels")
    caching.add_argument(
        "action", choices=("info", "clear"), help="print the folder and the size of the cache, or delete its entries"
    )
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser
