"""Draw the speed of the large programs: ``python -m docs.draw_speed`` writes ``docs/speed.svg`` from the measured results."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from benchmarks.picture import draw_bars

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "cpu" / "fused-2.json"


def draw() -> str:
    """Return the picture as SVG."""
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    names = {name for result in measured["results"] for name in result["turns_ms"]}
    others = f"best of {len(names - {'weft', 'NumPy', 'copy'})} others"
    groups = {}
    for result in measured["results"]:
        seconds = {name: median(turns) for name, turns in result["turns_ms"].items() if turns and name != "copy"}
        numpy = seconds.pop("NumPy")
        peer = min((time, name) for name, time in seconds.items() if name != "weft")
        groups[result["program"]] = {"weft": numpy / seconds["weft"], others: numpy / peer[0]}
    title = f"Times NumPy's speed, on {measured['threads']} cores of a CPU ({measured['date']})"
    return draw_bars(dict(sorted(groups.items(), key=lambda item: -item[1]["weft"])), title, "")


if __name__ == "__main__":
    (ROOT / "docs" / "speed.svg").write_text(draw(), encoding="utf-8")
