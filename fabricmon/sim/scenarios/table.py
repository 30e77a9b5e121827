"""Results of scenario runs as lines and as a Markdown table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fabricmon import __version__
from fabricmon.sim.scenarios.run import ScenarioResult
from fabricmon.sim.scenarios.scenario import Scenario


def line(result: ScenarioResult) -> str:
    """One run on one line."""
    delays = [found.delay for found in result.found]
    slowest = f"{max(delays):.0f} s" if delays else "-"
    return (
        f"{'ok  ' if result.ok else 'FAIL'} {result.scenario} seed {result.seed}: "
        f"found {len(result.found)} of {result.required}, missed {len(result.missed)}, late {len(result.late)}, "
        f"wrong {len(result.wrong)}, false {len(result.false)}, delay {slowest}, notified {result.notified}, "
        f"{result.seconds:.1f} s"
    )


def total(results: Sequence[ScenarioResult]) -> dict[str, float]:
    """Sums over all runs."""
    return {
        "runs": len(results),
        "ok": sum(r.ok for r in results),
        "required": sum(r.required for r in results),
        "found": sum(len(r.found) for r in results),
        "missed": sum(len(r.missed) for r in results),
        "late": sum(len(r.late) for r in results),
        "wrong": sum(len(r.wrong) for r in results),
        "false": sum(len(r.false) for r in results),
        "notified": sum(r.notified for r in results),
        "seconds": round(sum(r.seconds for r in results), 1),
    }


def table(results: Sequence[ScenarioResult], scenarios: Sequence[Scenario], command: str) -> str:
    """docs/accuracy-catalogue.md: one row a scenario over all its seeds, and the failures below."""
    seeds = sorted({r.seed for r in results})
    span = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    sums = total(results)
    lines = [
        "# Accuracy on the scenarios",
        f"<!-- Written by `{command}`. Run that instead of editing. -->",
        "",
        f"Made by `{command}`, version {__version__}, seeds {span}: {sums['ok']} of {sums['runs']} runs as expected, "
        f"{sums['found']} of {sums['required']} required incidents found, {sums['false']} false ones.",
        "",
        "These are simulations, and the engine was built with such scenarios; `docs/accuracy.md` has those that it was "
        "not built with.",
        "",
        "A delay counts from the first poll that could detect the fault until the incident was open with the required",
        "severity and confidence. *Wrong*: opened in time, but not as required. *Notified*: incidents that one",
        "receiver of warnings was notified of in a run, without resolutions.",
        "",
        "| scenario | runs as expected | found | missed | late | wrong | false | delay median / worst | notified |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    failed: list[str] = []
    for scenario in scenarios:
        runs = [r for r in results if r.scenario == scenario.name]
        lines.append(_row(scenario.name, runs))
        failed += _failed(scenario.name, runs)
    if failed:
        lines += ["", "## Not as expected", "", *failed]
    return "\n".join(lines) + "\n"


def _row(name: str, runs: Sequence[ScenarioResult]) -> str:
    sums = total(runs)
    delays = [found.delay for run in runs for found in run.found]
    delay = f"{median(delays):.0f} s / {max(delays):.0f} s" if delays else "-"
    return (
        f"| {name} | {sums['ok']} of {sums['runs']} | {sums['found']} of {sums['required']} | {sums['missed']} "
        f"| {sums['late']} | {sums['wrong']} | {sums['false']} | {delay} | {max(run.notified for run in runs)} |"
    )


def _failed(name: str, runs: Sequence[ScenarioResult]) -> list[str]:
    """The failures, with their seeds."""
    reasons: dict[str, list[int]] = {}
    for run in runs:
        for failure in (*run.missed, *run.late, *run.wrong, *run.false):
            reasons.setdefault(failure.what, []).append(run.seed)
    return [
        f"* {name}: {what} (seed{'s' if len(at) > 1 else ''} {', '.join(map(str, at[:20]))})"
        for what, at in reasons.items()
    ]
