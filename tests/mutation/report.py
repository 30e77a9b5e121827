"""What became of each change, and the numbers by package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutation.changes import Change

VERDICTS = ("noticed", "survived", "equivalent", "error")


@dataclass(frozen=True)
class Result:
    """One change that was tried.

    verdict    noticed, survived, equivalent; error where the tests could not be run
    why        what failed, how many tests passed, or why nothing can differ
    test       the first test that failed
    seconds    of tests
    """

    change: Change
    verdict: str
    why: str
    test: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.verdict == "noticed":
            return f"noticed  {self.change.module}:{self.change.line} {self.seconds:.1f} s {self.test}"
        return f"{self.verdict.upper()} {self.change}\n    {self.why}, {self.seconds:.1f} s"


def table(results: Sequence[Result]) -> str:
    """Noticed and survived by package, without the equivalent ones; Markdown."""
    count = Counter((result.change.module.split(".")[1], result.verdict) for result in results)
    rows = ["| package | changes | noticed | survived | equivalent | error |", f"|{' --- |' * 6}"]
    for package in [*sorted({package for package, _ in count}), "all"]:
        of = {v: sum(n for (p, w), n in count.items() if w == v and package in (p, "all")) for v in VERDICTS}
        counted = of["noticed"] + of["survived"]
        share = f"{of['noticed']} ({of['noticed'] / counted:.0%})" if counted else "0"
        cells = (package, sum(of.values()), share, of["survived"], of["equivalent"], of["error"])
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)
