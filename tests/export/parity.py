"""A recording through the exported rules, and the two verdicts side by side."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fabricmon.catalogue.series import component
from fabricmon.model import ComponentId
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.rulefile import EVALUATED, RulefileOptions, groups
from tests.export.recording import STEP, Episode, Recording
from tests.rigs.daemons import fetch, fetch_json

_SAMPLE = re.compile(r"\{([^}]*)\} ([-+0-9.eE]+)")
_PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
WORDS = ("min", "max")
TABLE = {rule.name: rule.table for rule in RULES}


@dataclass(frozen=True, slots=True)
class Firing:
    """When alerts of a rule fired on a component: the first and the last second of it."""

    rule: str
    component: ComponentId
    first: float
    last: float


def under_prometheus(recording: Recording, tool: str, folder: Path) -> list[Firing]:
    """The recording through Prometheus's own engine and rule manager (promtool test rules)."""
    (folder / "rules.yml").write_text(json.dumps({"groups": groups(RULES, {}, RulefileOptions())}))
    end = (recording.steps - 1) * STEP
    asked = [f'{word}_over_time(timestamp(ALERTS{{alertstate="firing"}})[{end:.0f}s:{STEP:.0f}s])' for word in WORDS]
    tests = [{
        "interval": f"{STEP:.0f}s",
        "input_series": recording.inputs(),
        "promql_expr_test": [{"expr": ask, "eval_time": f"{end:.0f}s", "exp_samples": []} for ask in asked],
    }]  # fmt: skip
    document = {"rule_files": ["rules.yml"], "evaluation_interval": f"{STEP:.0f}s", "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(document))
    # nothing is expected, so that promtool prints what it got
    done = subprocess.run(
        [tool, "test", "rules", "tests.yml"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    said = done.stdout + done.stderr
    parts = said.split("got:")[1:]
    assert "SUCCESS" in said or len(parts) == len(WORDS), said[-3000:]
    seconds = [{_key(dict(_PAIR.findall(labels))): [] for labels, _ in _SAMPLE.findall(part)} for part in parts]
    for part, found in zip(parts, seconds, strict=True):
        for labels, value in _SAMPLE.findall(part):
            found[_key(dict(_PAIR.findall(labels)))].append(float(value))
    if not seconds:
        return []
    first, last = seconds
    return [Firing(*key, min(first[key]), max(last[key])) for key in sorted(first)]


def under_victoria_metrics(
    recording: Recording, url: str, vmalert: str, folder: Path, names: Sequence[str]
) -> list[Firing]:
    """The recording in a VictoriaMetrics, through vmalert's replay, by the rules of these names.

    Between two rules a replay waits until what the first recorded can be found; it knows no `keep_firing_for`.
    """
    content = groups([rule for rule in RULES if rule.name in names], {}, RulefileOptions(keep_firing=False))
    for group in content:
        group["rules"] = [entry for entry in group["rules"] if entry.get("record") != EVALUATED]
    (folder / "replayed.yml").write_text(json.dumps({"groups": content}))
    begin = int(time.time() // 60 * 60) - 3600 - int(recording.steps * STEP)
    end = begin + int((recording.steps - 1) * STEP)
    lines = [
        f"{series} {value} {(begin + step * int(STEP)) * 1000}"
        for series, values in recording.series.items()
        for step, value in enumerate(values)
        if value
    ]
    request = urllib.request.Request(f"{url}/api/v1/import/prometheus", "\n".join(lines).encode(), method="POST")
    urllib.request.urlopen(request, timeout=60).close()
    fetch(f"{url}/internal/force_flush")
    command = [
        vmalert, "-rule=replayed.yml", f"-datasource.url={url}", f"-remoteWrite.url={url}",
        f"-replay.timeFrom={_rfc3339(begin)}", f"-replay.timeTo={_rfc3339(end)}", f"-evaluationInterval={STEP:.0f}s",
        f"-datasource.queryStep={STEP:.0f}s", "-replay.rulesDelay=2s", "-remoteWrite.flushInterval=100ms",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    fetch(f"{url}/internal/force_flush")
    asked = urllib.parse.urlencode({
        "query": 'ALERTS{alertstate="firing"}', "start": begin, "end": end, "step": f"{STEP:.0f}s", "nocache": 1,
    })  # fmt: skip
    found: dict[tuple[str, ComponentId], list[float]] = {}
    for series in fetch_json(f"{url}/api/v1/query_range?{asked}")["data"]["result"]:
        found.setdefault(_key(series["metric"]), []).extend(float(at) - begin for at, _ in series["values"])
    return [Firing(*key, min(found[key]), max(found[key])) for key in sorted(found)]


def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _key(labels: dict[str, str]) -> tuple[str, ComponentId]:
    rule = labels["rule"]
    its = component(TABLE[rule], labels["instance"], labels)
    assert its is not None, labels
    return rule, its


@dataclass(frozen=True, slots=True)
class Difference:
    """late: seconds by which the ruler is later than the engine; None where one of the two says nothing."""

    rule: str
    component: ComponentId
    engine: Episode | None
    ruler: Firing | None

    @property
    def late(self) -> float | None:
        return None if self.engine is None or self.ruler is None else self.ruler.first - self.engine.opened


def compared(recording: Recording, firing: Iterable[Firing]) -> list[Difference]:
    """Every symptom of either: the first episode of each rule on each component."""
    ours: dict[tuple[str, ComponentId], Episode] = {}
    for episode in recording.episodes:
        ours.setdefault((episode.rule, episode.component), episode)
    theirs = {(f.rule, f.component): f for f in firing}
    return [Difference(*key, ours.get(key), theirs.get(key)) for key in sorted(ours.keys() | theirs.keys())]
