"""Tables of scored composites, as Markdown. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from fabricmon.adversary.classes import CLASSES
from fabricmon.adversary.score import SURE, CauseScore, CompositeScore
from fabricmon.adversary.statistics import calibration_error, percentile, reliability, wilson


def share(found: int, of: int) -> str:
    """".950 (.912-.973) of 200": a share, its interval of 95 % by Wilson, of how many."""
    if not of:
        return "- of 0"
    low, high = wilson(found, of)
    return f"{found / of:.3f} ({low:.3f}-{high:.3f}) of {of}"


def summary(scores: Sequence[CompositeScore]) -> list[tuple[str, str]]:
    """Measure and figure, over some composites."""
    causes = [cause for score in scores for cause in score.causes]
    seen = [cause for cause in causes if cause.visible]
    pairs = [pair for score in scores for pair in score.calibration]
    sure = [right for confidence, right in pairs if confidence >= SURE]
    messages = [float(cause.messages) for cause in seen]
    asked = [cause for cause in seen if cause.asked]
    deaths = [cause for cause in seen if cause.death]
    claims = sum(score.claims for score in scores)
    error = calibration_error(pairs)
    return [
        ("composites", str(len(scores))),
        ("true faults, of these invisible", share(len(causes) - len(seen), len(causes))),
        ("required found in time", share(sum(c.found for c in seen), len(seen))),
        ("named later", share(sum(c.late for c in seen), len(seen))),
        ("only its members listed in one incident", share(sum(c.listed for c in seen), len(seen))),
        ("composites with a wrong verdict at confidence >= .9", share(sum(bool(s.wrong) for s in scores), len(scores))),
        ("composites with an incident that must not come", share(sum(bool(s.false) for s in scores), len(scores))),
        ("notifications per true cause: mean", f"{sum(messages) / len(messages):.2f}" if messages else "-"),
        ("notifications per true cause: 99th percentile", _figure(percentile(messages, 0.99))),
        ("most messages in any five minutes", str(max((s.burst for s in scores), default=0))),
        ("composites with more than 6 messages in five minutes", share(sum(s.burst > 6 for s in scores), len(scores))),
        ("notifications about no cause, per composite", f"{sum(s.other for s in scores) / max(1, len(scores)):.2f}"),
        ("confidence >= .9 is right", share(sum(sure), len(sure))),
        ("expected calibration error", "-" if math.isnan(error) else f"{error:.3f}"),
        ("dead host notified within 30 s", share(sum(c.found for c in deaths), len(deaths))),
        ("group named as such", share(sum(c.named for c in asked), len(asked))),
        ("false among named groups at confidence >= .9", share(sum(s.false_claims for s in scores), claims)),
    ]


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0f}"


def markdown(scores: Sequence[CompositeScore], command: str) -> str:
    """All tables: by stress, by class of fault, groups, calibration, false incidents."""
    stresses = dict.fromkeys(score.stress for score in scores)
    by_stress = {stress: [score for score in scores if score.stress == stress] for stress in stresses}
    base = by_stress.get("", list(scores))
    parts = [f"Made by `{command}`. Shares with their interval of 95 % (Wilson).\n"]
    heads = ["measure", *(stress or "base" for stress in by_stress)]
    columns = [summary(mine) for mine in by_stress.values()]
    rows = [[name, *(column[at][1] for column in columns)] for at, (name, _) in enumerate(summary(base))]
    parts.append(_table(heads, rows))
    parts.append(_by(base, "class of fault", [one.name for one in CLASSES], lambda cause: cause.name))
    parts.append(_by(base, "sort of group", sorted({c.sort for s in base for c in s.causes}), lambda cause: cause.sort))
    parts.append(_calibration(base))
    parts.append(_false(base))
    return "\n".join(parts)


def _by(scores: Sequence[CompositeScore], head: str, names: Iterable[str], key: Callable[[CauseScore], str]) -> str:
    rows = []
    for name in names:
        mine = [cause for score in scores for cause in score.causes if key(cause) == name]
        if not mine:
            continue
        seen = [cause for cause in mine if cause.visible]
        delays = [cause.delay for cause in seen if cause.delay is not None]
        asked = [cause for cause in seen if cause.asked]
        rows.append([
            name, str(len(mine)), str(len(mine) - len(seen)), share(sum(c.found for c in seen), len(seen)),
            str(sum(c.late for c in seen)), str(sum(c.listed for c in seen)), _figure(percentile(delays, 0.5)),
            f"{sum(c.messages for c in seen) / len(seen):.1f}" if seen else "-",
            share(sum(c.named for c in asked), len(asked)) if asked else "-",
        ])  # fmt: skip
    heads = [head, "drawn", "invisible", "found in time", "late", "listed", "median delay, s", "notifications", "named"]
    return _table(heads, rows)


def _calibration(scores: Sequence[CompositeScore]) -> str:
    pairs = [pair for score in scores for pair in score.calibration]
    rows = [[f"{low:.1f}-{high:.1f}", share(right, count)] for low, high, count, right in reliability(pairs) if count]
    return _table(["confidence", "right"], rows)


def _false(scores: Sequence[CompositeScore]) -> str:
    """How many composites have a false incident, by kind and by the benign events that they have."""
    kinds: dict[str, int] = {}
    for score in scores:
        for kind in {text.split()[0] for text in score.false}:
            kinds[kind] = kinds.get(kind, 0) + 1
    rows = [[kind, str(count)] for kind, count in sorted(kinds.items(), key=lambda item: -item[1])]
    benign = sorted({name for score in scores for name in score.lookalikes})
    mine = {name: [s for s in scores if name in s.lookalikes] for name in benign}
    events = [[name, share(sum(bool(s.false) for s in some), len(some))] for name, some in mine.items()]
    heads = ["kind of a false incident", "composites"]
    return _table(heads, rows) + "\n" + _table(["benign event", "composites with a false incident"], events)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])
