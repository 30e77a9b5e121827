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
        "Simulated fabrics of about 1,024 hosts; 30 % of the hosts are idle, and 1 % of the agents are silent without "
        "a fault of the fabric. Kinds of faults are drawn by their priors; one trial in ten has a second fault. Packet "
        "losses follow from the paths of the flows, and ports that receive them count what is missing; hosts that lose "
        "power fall silent within 2 s. The other symptoms are drawn with the probabilities of the "
        "[methods](methods.md#priors-and-probabilities). Symptoms are given to the diagnosis directly, without "
        "counters and rules; the [scenarios](accuracy-catalogue.md) test those.",
        "",
        f"A verdict counts if its confidence is at least {SURE}. It is right if it names the faulty part, or if that "
        "part is in its ambiguity group or among the few that it lists as likely. An adapter and its own cable count "
        "as one part, because the evidence of a port cannot distinguish them. Level L1 has no flows: above the leaves "
        "a verdict is right if it names the tier, or for a cable the switch at its end (on fabrics without tiers: the "
        'network). Faults that affect fewer than two ports or flows are excluded. "First answer right" and "right '
        'tier" count the verdict with the highest confidence in trials with one fault.',
        "",
        "For comparison, on the same evidence: greedy set cover (the part that most unexplained symptoms share, if "
        "40 % of its observed members show them) and voting (007: each symptom votes for its parts). Neither has a "
        "confidence. [accuracy.md](accuracy.md#seeds) has the seeds tried.",
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
