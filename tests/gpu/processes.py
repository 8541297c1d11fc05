"""A pytest plugin that runs GPU tests in a child process.

A test that loses the device, hangs or crashes does not affect other tests.

The plugin runs the tests marked ``gpu`` that pytest has selected. With ``--out``, it writes the results and facts about
the machine to a folder. Invariant: the main process makes no driver calls. If a test ends the child process or loses
the device, the next test runs in a new process. If several consecutive tests end their process, all remaining tests
fail immediately.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

LIMIT = 120.0  # time limit of one test in seconds, including compilation
PATIENCE = 10  # factor of the time limits on a stand-in that executes PTX one instruction at a time
LIMIT_START = 120.0  # time limit in seconds for the start of the process
GIVE_UP = 3  # number of consecutive tests that may end their process; then all remaining tests fail


def register(config: pytest.Config) -> None:
    """Register the plugin that sends GPU tests to a child process, or the one that runs them there."""
    ends = config.getoption("--gpu-worker")
    if ends:
        config.pluginmanager.register(Worker(config, *map(int, ends.split(","))), "gpu-worker")
    elif not config.getoption("collectonly"):
        config.pluginmanager.register(Processes(config), "gpu-processes")


class Processes:
    """A pytest plugin that sends tests to a child process, and forwards their reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.results: list[dict[str, Any]] = []
        self.facts = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._tests: TextIO
        self._reports: int
        self._said: Any = None
        self._rest = b""
        self._ended = 0
        self._files: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test marked ``gpu`` in the child process, and forward its reports."""
        if item.get_closest_marker("gpu") is None:
            return None
        if not self._files:
            of_gpu = (i for i in item.session.items if i.get_closest_marker("gpu") is not None)
            self._files = list(dict.fromkeys(str(i.path) for i in of_gpu))
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        begin, failed = time.perf_counter(), ""
        for report in self._reported(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
            failed = failed or (str(report.longrepr) if report.failed else "")
        if "DeviceLostError" in failed:
            self._close()
        seconds = time.perf_counter() - begin
        self.results.append({"test": item.nodeid, "seconds": round(seconds, 3), "failed": failed})
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_sessionfinish(self) -> None:
        """End the child process and write the results."""
        self._close()
        folder = self.config.getoption("--out")
        if folder and self.results:
            write(Path(folder), self.facts, self.results)

    def _reported(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
        if self._ended >= GIVE_UP:
            yield self._report(item, f"not run: {GIVE_UP} tests in a row took their process with them")
            return
        following = None if nextitem is None or nextitem.get_closest_marker("gpu") is None else nextitem.nodeid
        try:
            if self._process is None:
                self._open()
            end = time.monotonic() + LIMIT * (PATIENCE if self.config.getoption("--stand-in") else 1)
            self._tests.write(json.dumps([item.nodeid, following]) + "\n")
            self._tests.flush()
            while (line := self._line(end)) != {"done": item.nodeid}:
                report = self.config.hook.pytest_report_from_serializable(config=self.config, data=line["report"])
                if isinstance(report.longrepr, list):  # the reason of a skipped test
                    report.longrepr = tuple(report.longrepr)
                yield report
            self._ended = 0
        except (OSError, EOFError, TimeoutError) as error:
            self._ended += 1
            yield self._report(item, self._close("it did not end in time" if isinstance(error, TimeoutError) else ""))

    def _report(self, item: pytest.Item, why: str) -> pytest.TestReport:
        return pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", why, "call")

    def _open(self) -> None:
        here, there = os.pipe(), os.pipe()
        self._said = tempfile.TemporaryFile()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu"]
        command += [f"--rootdir={self.config.rootpath}"]
        if self.config.getoption("--stand-in"):
            command += ["--stand-in"]
            if self.config.pluginmanager.hasplugin("timeout"):
                command += [f"--timeout={LIMIT * PATIENCE:.0f}"]
        self._process = subprocess.Popen(
            [*command, f"--gpu-worker={here[0]},{there[1]}", *self._files],
            cwd=self.config.invocation_params.dir,
            pass_fds=(here[0], there[1]),
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
        )
        os.close(here[0])
        os.close(there[1])
        self._tests, self._reports, self._rest = open(here[1], "w"), there[0], b""
        self.facts = self._line(time.monotonic() + LIMIT_START)["facts"]

    def _line(self, end: float) -> dict[str, Any]:
        """Return the next message of the child process.

        Raise TimeoutError at the time `end`, and EOFError if the child has ended.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._reports, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(end - time.monotonic(), 0)):
                    raise TimeoutError
                more = os.read(self._reports, 1 << 16)
                if not more:
                    raise EOFError
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _close(self, why: str = "") -> str:
        """End the child process. Return the text `why` (the reason for ending it), the exit code, and the output.

        Long output is shortened. Without a child process, only the reason is returned.
        """
        if self._process is None:
            return why
        try:
            self._tests.close()
        except OSError:
            why = why or "the process has ended"
        try:
            code = self._process.wait(0 if why else 20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        os.close(self._reports)
        self._process = None
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        said = said if len(said) < 6000 else f"{said[:4000]}\n...\n{said[-2000:]}"
        self._said.close()
        return f"{why or 'the process ended'} (exit {code})\n{said}"


class Worker:
    """A pytest plugin that runs the tests it receives, and reports them."""

    def __init__(self, config: pytest.Config, tests: int, reports: int) -> None:
        self.config = config
        self._tests = tests
        self._reports = open(reports, "w")

    def _say(self, **line: Any) -> None:
        self._reports.write(json.dumps(line) + "\n")
        self._reports.flush()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests that the parent process names, until the parent process closes the channel."""
        from weft.dsl.cli.reports import info

        if self.config.getoption("--stand-in"):
            self._stand_in()
        items = {item.nodeid: item for item in session.items}
        self._say(facts=info())
        with open(self._tests) as tests:
            for line in tests:
                name, following = json.loads(line)
                item = items[name]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=items.get(following))
                self._say(done=name)
        return True

    def _stand_in(self) -> None:
        """Replace NVIDIA's driver by a stand-in that runs PTX."""
        from tests.stand_in.library import load_library
        from tests.stand_in.ptx.driver import PtxStandIn

        self._folder = tempfile.TemporaryDirectory()
        load_library(Path(self._folder.name), PtxStandIn())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Forward a report to the parent process."""
        self._say(report=self.config.hook.pytest_report_to_serializable(config=self.config, report=report))


def write(folder: Path, facts: str, results: list[dict[str, Any]]) -> None:
    """Write the results as JSON and Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = [result for result in results if result["failed"]]
    total = sum(result["seconds"] for result in results)
    (folder / "gpu-tests.json").write_text(
        json.dumps({"facts": facts.splitlines(), "results": results}, indent=1) + "\n"
    )
    lines = ["# Tests on a GPU", "", "```", facts, "```", ""]
    lines += [f"{len(results) - len(failed)} of {len(results)} passed, in {total:.0f} s.", ""]
    for result in failed:
        lines += [f"## {result['test']}", "", "```", result["failed"][-3000:], "```", ""]
    slowest = sorted(results, key=lambda result: -result["seconds"])[:10]
    lines += ["| slowest | s |", "| --- | --- |", *(f"| {r['test']} | {r['seconds']:.1f} |" for r in slowest)]
    (folder / "gpu-tests.md").write_text("\n".join(lines) + "\n")
