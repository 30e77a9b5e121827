"""Counting right and wrong answers over trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.accuracy.evidence import CORE, VISIBLE, Trial, Truth, trial
from tests.accuracy.fabrics import TREES, Fabric
from tests.accuracy.methods import METHODS, Answer

SURE = 0.9
"""Confidence from which a verdict is told (docs/methods.md#confidence)."""
CLASSES = {"host-visible": VISIBLE, "core": CORE}


@dataclass
class Score:
    """One method on one sort of fault of one fabric.

    told, right    verdicts of SURE confidence, and those of them that are right
    faults, found  faults that anything could show, and those of them that a right verdict names
    first          trials of one fault whose surest verdict is right, of `asked`
    tiers          trials of one core fault whose surest verdict names the right tier, of `tiered` (L1)
    sure           (confidence, right) of every verdict
    """

    fabric: str
    level: str
    sort: str
    method: str
    told: int = 0
    right: int = 0
    faults: int = 0
    found: int = 0
    first: int = 0
    asked: int = 0
    tiers: int = 0
    tiered: int = 0
    sure: list[tuple[float, bool]] = field(default_factory=list)


def measure(
    fabric: Fabric, level: str, trials: int, seed: int, wrong: Callable[[str], None] | None = None
) -> list[Score]:
    scores: list[Score] = []
    for number, (sort, table) in enumerate(CLASSES.items()):
        mine = {method: Score(fabric.name, level, sort, method) for method in METHODS}
        scores += mine.values()
        for at in range(trials):
            case = trial(fabric, (seed, number, at), table, level)
            for method, score in mine.items():
                answers = METHODS[method](fabric, case)
                said = _count(score, case, answers, level)
                if wrong is not None and method == "noisy-OR" and said:
                    faults = "; ".join(f"{t.fault}: {t.word}({t.name}) seen {t.seen}" for t in case.truths)
                    given = "; ".join(f"{a.word}({a.name}) {a.confidence:.2f}" for a in answers)
                    wrong(f"  {fabric.name} {level} {sort} {at} {said}: {faults} -> {given}")
    return scores


def _count(score: Score, case: Trial, answers: list[Answer], level: str) -> str:
    """Adds one trial; what was wrong, "" for nothing."""
    said: list[str] = []
    for answer in answers:
        good = any(_right(answer, truth, level, score.fabric) for truth in case.truths)
        score.sure.append((answer.confidence, good))
        if answer.confidence >= SURE:
            score.told += 1
            score.right += good
            said += [] if good else ["false"]
    sure = [answer for answer in answers if answer.confidence >= SURE]
    for truth in case.truths:
        if (truth.tier != "") != (score.sort == "core") or not _visible(truth, level, score.fabric):
            continue
        score.faults += 1
        hit = any(_right(answer, truth, level, score.fabric) for answer in sure)
        score.found += hit
        said += [] if hit else ["missed"]
        if len(case.truths) == 1:
            score.asked += 1
            best = max(answers, key=lambda answer: answer.confidence, default=None)
            score.first += best is not None and _right(best, truth, level, score.fabric)
            if truth.tier and level == "L1" and score.fabric in TREES:
                score.tiered += 1
                score.tiers += best is not None and _tier(best, truth)
    return ", ".join(said)


def _visible(truth: Truth, level: str, fabric: str) -> bool:
    """Whether the symptoms of this level show it at all: loss above the leaves is seen by those who send through it."""
    if truth.tier:
        ports, flows = truth.seen
        return flows >= 2 if level == "L2" else ports >= 2 and fabric in TREES
    if truth.fault in ("leaf gray", "host dead", "power lost"):
        return truth.seen[0] >= 2
    own = "loss" in truth.fault and truth.seen[level == "L2"] >= 2
    return truth.signs > 0 or own


def _right(answer: Answer, truth: Truth, level: str, fabric: str) -> bool:
    if truth.is_it(answer.word, answer.name) or any(truth.is_it(*other) for other in answer.others):
        return True
    # without tiers a leaf carries the packets of others, too
    transit = truth.tier or (truth.fault == "leaf gray" and fabric not in TREES)
    if transit and level == "L1":
        return _tier(answer, truth) or answer.word == "network"
    return False


def _tier(answer: Answer, truth: Truth) -> bool:
    """A cable's tier is also told by what is at its end (docs/methods.md#limits-of-localization: "its leaf, or its
    plane")."""
    every = ((answer.word, answer.name), *answer.others)
    named = {("leaf" if word == "uplinks" else word, name) for word, name in every}
    return (bool(truth.tier) and truth.tier in answer.tiers) or bool(named & truth.ends)
