"""Tests of ``weft explain`` with complete programs."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.dsl.cli import advice, main
from weft.dsl.cli.advice import advise
from weft.dsl.cli.explain_program import Measured, measure
from weft.dsl.cli.line_sampler import UNLOCATED, LineSampler
from weft.dsl.cli.main_program import MainProgram
from weft.runtime import LaunchNote

pytestmark = pytest.mark.cpu

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MISTAKES = """\
import numpy as np

x = np.random.default_rng(0).random(200_000).astype(np.float32)
weights = np.linspace(0, 1, 200_000)
y = x * weights  # widens
for k in range(12):
    if y.max() < k / 100:  # reads
        break
    y = y * 0.99
z = np.cov(np.stack([y + k for k in range(30)]))  # host
print(float(z[0, 1]) > 0)
"""
LINES = MISTAKES.splitlines()


def line_of(comment: str) -> int:
    return next(k for k, line in enumerate(LINES, 1) if line.endswith(f"# {comment}"))


class Page(HTMLParser):
    """The texts, anchors, links and unclosed tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("script", "link", "img", "iframe"), "the page is one file without scripts"
        self.anchors += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if tag == "a" else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, Path]:
    folder = tmp_path_factory.mktemp("explain")
    script = folder / "mistakes.py"
    script.write_text(MISTAKES)
    assert main(["explain", "-o", str(folder / "page.html"), str(script)]) == 0
    return Page((folder / "page.html").read_text()), folder


def test_the_page_is_whole(page: tuple[Page, Path]) -> None:
    found = page[0]
    assert not found.open and len(set(found.anchors)) == len(found.anchors)
    assert found.links and all(link.removeprefix("#") in found.anchors for link in found.links)
    assert all(line in found.texts for line in LINES if line), "every line of the program is shown"
    assert any("kernel, map" in text or "kernel, reduction" in text for text in found.texts), "a plan is drawn"


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        ("widens", "float32 values become float64"),
        ("reads", "reads a value 12 times"),
        ("host", "has no kernel for"),
    ],
)
def test_avoidable_costs_are_named(page: tuple[Page, Path], comment: str, sentence: str) -> None:
    texts = page[0].texts
    at = texts.index(f"mistakes.py:{line_of(comment)}")
    assert any(sentence in text for text in texts[at : at + 5])


def measured(script: Path, *arguments: str) -> Measured:
    found = measure(MainProgram("", str(script), [str(script), *arguments]))
    assert found is not None
    return found


def test_times_of_lines_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(EXAMPLES / "heat.py", "400", "100")
    assert capsys.readouterr().out.count("400 x 400 points") == 1, "only the measured run prints"
    whole = sum(found.host.values()) + sum(one.seconds for one in found.profile.lines.values())
    assert 0 < whole < 1.3 * found.profile.seconds, "no time counts twice"  # (two clocks are read)
    source = (EXAMPLES / "heat.py").read_text().splitlines()
    slowest = max(found.profile.lines, key=lambda line: found.profile.lines[line].seconds)
    assert slowest[0].endswith("heat.py") and source[slowest[1] - 1].lstrip().startswith(("flow =", "plate[1:-1"))
    numbers = set(found.numbers.values())
    drawn = [number for plan in found.plans for number in plan.numbers]
    assert drawn and numbers and min(numbers) == 1 and numbers & set(drawn)
    assert found.plans == sorted(found.plans, key=lambda plan: -plan.seconds)


def test_host_time_counts_at_its_line(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time\nimport numpy as np\nx = np.ones(50_000) * 2\ntime.sleep(0.3)\nprint(x.sum() > 0)\n")
    found = measured(script)
    assert 0.25 < found.host[str(script), 4] <= found.profile.seconds
    (advice,) = [one for one in advise(found) if one.line == (str(script), 4)]
    assert "outside of kernels, mostly in Python" in advice.sentences[0]
    assert advice.sentences[1].startswith("Replace Python loops")


def test_functions_on_the_host_that_take_no_time_are_not_named(tmp_path: Path) -> None:
    script = tmp_path / "shifts.py"
    script.write_text("import numpy as np\nx = np.fft.fftshift(np.ones(50_000) * 2)\nprint(x[3] > 0)\n")
    found = measured(script)
    found.host[str(script), 3] = 1000.0  # a slow machine takes long for the short line, too
    (advice,) = advise(found)
    assert advice.line == (str(script), 3)


def test_kernels_without_a_line_are_not_named_like_packages(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time\ntime.sleep(0.1)\n")
    found, sampler, functions = measured(script), LineSampler(), list[str]()
    for note in (LaunchNote("fused", ("add",), key=3), LaunchNote("copy")):
        sampler.launch(None, note, lambda: functions.append(sampler._function))
    assert functions == [UNLOCATED, "copy"]
    found.packages[str(script), 2] = {UNLOCATED: 0.1}
    assert "outside of this line's kernels, mostly in kernels without a source line." in advise(found)[0].sentences[0]


def test_writing_a_file_is_no_avoidable_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "saves.py"
    script.write_text("import numpy as np\nx = np.ones(50_000) * 2\nnp.savez('x.npz', x=x)\nprint(x.sum() > 0)\n")
    sentences = " ".join(sentence for one in advise(measured(script)) for sentence in one.sentences)
    assert "no kernel for numpy.savez" not in sentences


def test_programs_that_fail_write_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "fails.py"
    script.write_text("import numpy as np\nnp.ones(30_000) + np.ones(3)\n")
    assert main(["explain", str(script)]) == 1
    text = capsys.readouterr().err
    assert 'fails.py", line 2' in text and "broadcast" in text and "explain_program" not in text
    assert main(["explain", str(tmp_path / "none.py")]) == 2
    assert main(["explain", "-"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["fails.py"]


def test_code_and_text_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import numpy as np; x = np.arange(100_000.0); s = '<b>'; print((x < 3).sum())"
    assert main(["explain", "-c", code]) == 0
    page = Page((tmp_path / "program-weft.html").read_text())
    assert code in page.texts and not page.open


def test_a_program_without_arrays_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.py").write_text("x = 1 < 2  # nothing to measure\n")
    assert main(["explain", "empty.py"]) == 0
    page = Page((tmp_path / "empty-weft.html").read_text())
    assert "x = 1 < 2  # nothing to measure" in page.texts and "No kernel ran." in page.texts


@pytest.mark.parametrize(("share", "limited"), [(0.3, False), (0.9, True), (1.1, True), (1.8, False)])
def test_kernels_in_the_cache_are_not_limited_by_memory(share: float, limited: bool) -> None:
    note = SimpleNamespace(name="kernel", nbytes=1000, instructions=10)
    kernel = SimpleNamespace(note=note, times=[0.1], seconds=0.1, share=share)
    measured = SimpleNamespace(host={}, packages={})
    found = advice._limits(measured, ("program.py", 3), SimpleNamespace(kernels=[kernel], seconds=0.1))  # type: ignore[arg-type]
    assert any("memory bandwidth" in sentence for sentence in found) == limited
