"""The scores as a document."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tests.accuracy.score import SURE, Score

BANDS = (0.5, 0.8, 0.9, 0.99, 0.999, 1.01)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "-"


def document(scores: Sequence[Score], trials: int, seed: int) -> str:
    lines = [
        "# Accuracy on random faults",
        "",
        f"Made by `python -m tests.accuracy --trials {trials} --seed {seed} --write docs/accuracy-random.md`.",
        "",
        "Fabrics of about 1,024 hosts, 30 % of them idle, 1 % of the agents silent for reasons of their own. Sorts of "
        "faults are weighted by their priors; one trial in ten has a second fault. Losses follow from the paths of "
        "flows; the other symptoms are drawn with the probabilities of the field. Symptoms go straight into the "
        "diagnosis, without counters and rules between: the scenarios show those.",
        "",
        f"A verdict counts when its confidence is at least {SURE}; it is right when it names the part that broke, or "
        "when that part is in its ambiguity group. An adapter and its own cable count as one part: no evidence of a "
        "port tells them apart. At level L1, which has no flows, a verdict on what is above the leaves is right when "
        "it names the tier, or of a cable what is at its end (on fabrics without tiers: the network). Faults that show "
        'on fewer than two ports or flows are not asked for. "First answer right" and "right tier" are of the surest '
        "verdict in trials of one fault.",
        "",
        "Beside it, on the same evidence: greedy set cover (the part that most unexplained symptoms share, if 40 % of "
        "its observed members show them) and voting (007: each symptom votes for its parts). Neither has a confidence.",
        "",
    ]
    for level in ("L1", "L2"):
        for sort in ("host-visible", "core"):
            some = [s for s in scores if s.level == level and s.sort == sort]
            if not some:
                continue
            lines += [f"## {level}, {sort} faults", ""]
            tier = level == "L1" and sort == "core"
            head = ["fabric", "method", "precision", "recall", "first answer right", *(["right tier"] if tier else [])]
            lines += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
            for s in some:
                cells = [s.fabric, s.method, _share(s.right, s.told), _share(s.found, s.faults)]
                cells += [_share(s.first, s.asked)]
                cells += [_share(s.tiers, s.tiered)] if tier else []
                lines.append(f"| {' | '.join(cells)} |")
            lines.append("")
    lines += ["## Calibration of the noisy-OR", ""]
    lines += ["| level | confidence | verdicts | right |", "| --- | --- | --- | --- |"]
    for level in ("L1", "L2"):
        every = [pair for s in scores if s.level == level and s.method == "noisy-OR" for pair in s.sure]
        for low, high in pairwise(BANDS):
            band = [good for confidence, good in every if low <= confidence < high]
            if band:
                lines.append(f"| {level} | {low:g} to {min(high, 1):g} | {len(band)} | {sum(band) / len(band):.3f} |")
        sure = [good for confidence, good in every if confidence >= SURE]
        if sure:
            lines.append(f"| {level} | {SURE:g} and more | {len(sure)} | {sum(sure) / len(sure):.3f} |")
    return "\n".join([*lines, ""])
