"""Every page and answer of a server after a bad morning, against recorded files: changes are read."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from tests.recorded.golden import compare, lines
from tests.recorded.morning import answers, shown

PORT = "kind=port&node=host-005&name=mlx5_3/1"
PAGES = {
    "overview": "page/live",
    "table": "page/live?view=table&group=domain",
    "search": "page/live?view=table&q=link&severity=warning&sort=kind",
    "archive": "archive?kind=link_down",
    "incident-link-errors": "incident?id={link_errors}&part=1",
    "incident-leaf": "incident?id={fault_domain}&part=1",
    "incident-pcie": "incident?id={pcie_degraded}&part=1",
    "node": "node?name=host-005&part=1",
    "port": f"component?{PORT}&part=1",
    "gpu": "component?kind=gpu&node=host-004&name=gpu2&part=1",
    "leaf": "named?kind=leaf&name=su0/rail2&part=1",
    "spine": "named?kind=switch&name=spine-03&part=1",
    "job": "named?kind=job&name=eval%234712&part=1",
    "cable": "named?kind=cable&name=host-005/mlx5_3/1,%20su0-rail3-leaf/6&part=1",
}
ANSWERS = {
    "plan": "page/plan",
    "health": "page/health",
    "levels": "page/levels",
    "counts": "api/v1/overview",
    "incidents": "api/v1/incidents",
    "symptoms": "api/v1/symptoms?limit=16",
    "nodes": "api/v1/nodes",
    "ports": "api/v1/ports?limit=12",
    "ports-busy": "api/v1/ports?node=host-014&sort=busy",
    "rails": "api/v1/rails",
    "jobs": "api/v1/jobs",
    "timeline": "api/v1/timeline",
    "silences": "api/v1/silences?all=true",
    "maintenance": "api/v1/maintenance",
    "history": f"api/v1/history?{PORT}",
    "history-day": f"api/v1/history?{PORT}&span=day",
    "health-of-the-server": "health",
}
OPEN = {"table", "search"}  # pages of which the list of open incidents is recorded: the rest is that of the overview
BY_CHANCE = {"port", "gpu", "cable", "series", "quiet"}  # pages and lists in the order of the simulator's columns


def test_every_answer_is_the_recorded_one(tmp_path: Path) -> None:
    made = asyncio.run(answers(tmp_path, [*PAGES.values(), *ANSWERS.values(), "metrics"]))
    for name, address in PAGES.items():
        page = shown(made[address])
        if name in OPEN:
            page = page[page.index('<section id="open"') :].partition("\n<section")[0]
        rows = [row for row in page.splitlines() if row]
        if name in BY_CHANCE:
            rows = sorted(re.sub(r"(?:</(?:p|details|section|tbody|table|div)>|\s)+$", "", row) for row in rows)
        compare(f"{name}.html", "".join(f"{row}\n" for row in rows))
    for name, address in ANSWERS.items():
        compare(f"{name}.json", lines(_rows("", json.loads(made[address]))))
    compare("metrics.txt", _metrics(made["metrics"]))


def _rows(name: str, value: Any) -> list[Any]:
    """The items of the lists of an answer, one by one."""
    if isinstance(value, dict):
        return [row for key, one in value.items() for row in _rows(key, one)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        items = sorted(value, key=str) if name in BY_CHANCE else value
        return [{name: {key: one for key, one in item.items() if key != "points"} | _points(item)} for item in items]
    return [{name: sorted(value) if name in BY_CHANCE else value}]


def _points(item: dict[str, Any]) -> dict[str, Any]:
    return {"points": [len(item["points"]), *item["points"][:2], *item["points"][-2:]]} if "points" in item else {}


def _metrics(page: str) -> str:
    """Those that are not 0, and none of times, bytes and connections."""
    own = [line.rpartition(" ") for line in page.splitlines() if line.startswith("fabricmon_")]
    changing = re.compile(r"_seconds|_info|_free_|_tick_|_bytes|_entries|_engine{|_web_")
    kept = [(name, float(value)) for name, _, value in own if float(value) and not changing.search(name)]
    return "".join(f"{name} {value:.5g}\n" for name, value in kept)
