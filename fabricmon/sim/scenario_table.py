"""Results of scenario runs as lines and as a Markdown table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fabricmon import __version__
from fabricmon.sim.scenario import Scenario
from fabricmon.sim.scenario_run import Result


def line(result: Result) -> str:
    """One run on one line."""
    delays = [found.delay for found in result.found]
    slowest = f"{max(delays):.0f} s" if delays else "-"
    return (
        f"{'ok  ' if result.ok else 'FAIL'} {result.scenario} seed {result.seed}: "
        f"found {len(result.found)} of {result.required}, missed {len(result.missed)}, late {len(result.late)}, "
        f"wrong {len(result.wrong)}, false {len(result.false)}, delay {slowest}, told {result.told}, "
        f"{result.seconds:.1f} s"
    )


def total(results: Sequence[Result]) -> dict[str, float]:
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
        "told": sum(r.told for r in results),
        "seconds": round(sum(r.seconds for r in results), 1),
    }


def table(results: Sequence[Result], scenarios: Sequence[Scenario], command: str) -> str:
    """docs/accuracy.md: one row a scenario over all its seeds, and what failed below."""
    seeds = sorted({r.seed for r in results})
    said = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    sums = total(results)
    lines = [
        "# Accuracy on the scenarios",
        f"<!-- Written by `{command}`. Run that instead of editing. -->",
        "",
        f"Made by `{command}`, version {__version__}, seeds {said}: {sums['ok']} of {sums['runs']} runs as expected, "
        f"{sums['found']} of {sums['required']} required incidents found, {sums['false']} that must not come.",
        "",
        "A delay counts from the first poll that could have seen the fault until the incident was there with the",
        "required severity and confidence. *Wrong*: it came in time and was not what it had to be. *Told*: incidents",
        "that one receiver of warnings was told of in a run, without resolutions.",
        "",
        "| scenario | runs as expected | found | missed | late | wrong | false | delay median / worst | told at most |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    failed: list[str] = []
    for scenario in scenarios:
        runs = [r for r in results if r.scenario == scenario.name]
        delays = [f.delay for r in runs for f in r.found]
        delay = f"{median(delays):.0f} s / {max(delays):.0f} s" if delays else "-"
        lines.append(
            f"| {scenario.name} | {sum(r.ok for r in runs)} of {len(runs)} "
            f"| {sum(len(r.found) for r in runs)} of {sum(r.required for r in runs)} "
            f"| {sum(len(r.missed) for r in runs)} | {sum(len(r.late) for r in runs)} "
            f"| {sum(len(r.wrong) for r in runs)} | {sum(len(r.false) for r in runs)} "
            f"| {delay} | {max(r.told for r in runs)} |"
        )
        reasons: dict[str, list[int]] = {}
        for r in runs:
            for failure in (*r.missed, *r.late, *r.wrong, *r.false):
                reasons.setdefault(failure.what, []).append(r.seed)
        failed += [
            f"* {scenario.name}: {what} (seed{'s' if len(at) > 1 else ''} {', '.join(map(str, at[:20]))})"
            for what, at in reasons.items()
        ]
    if failed:
        lines += ["", "## Not as expected", "", *failed]
    return "\n".join(lines) + "\n"
