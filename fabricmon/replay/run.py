"""One pass over a recording, by the recorded configuration and by another one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabricmon.notify.route import Receiver
from fabricmon.replay.play import Player
from fabricmon.replay.records import RecordedItem, RecordMark
from fabricmon.replay.story import Story
from fabricmon.replay.verify import Verification
from fabricmon.topology.graph import Graph


@dataclass(frozen=True, slots=True)
class Other:
    """Another configuration. `graph` None: the recorded topology; `receivers` None: the recorded ones."""

    params: Mapping[str, Any]
    graph: Graph | None = None
    receivers: tuple[Receiver, ...] | None = None


@dataclass(slots=True)
class RecordingFacts:
    """Contents of a recording, as far as it was played."""

    runs: int = 0
    records: int = 0
    frames: int = 0
    events: int = 0
    inventories: int = 0
    ticks: int = 0
    first: float = 0.0
    last: float = 0.0
    fabricmon: str = ""
    fabric: str = ""
    whole: bool = True  # from the start of its run, and nothing missing


@dataclass(slots=True)
class ReplayOutcome:
    """Result of a replay.

    other  None without another configuration
    notes  recorded parameters that were left out
    """

    facts: RecordingFacts = field(default_factory=RecordingFacts)
    verification: Verification = field(default_factory=Verification)
    recorded: Story = field(default_factory=Story)
    other: Story | None = None
    notes: list[str] = field(default_factory=list)


def play(
    recording: Iterable[RecordedItem],
    other: Other | None = None,
    since: float | None = None,
    until: float | None = None,
    progress: Callable[[RecordingFacts], None] = lambda facts: None,
) -> ReplayOutcome:
    """Play a recording's items up to `until`; results count from `since` on. `progress` is called after every tick.

    ParamsError where parameters are not those of today's rules.
    """
    outcome = ReplayOutcome()
    facts, check = outcome.facts, outcome.verification
    first = Player()
    outcome.notes = first.notes
    both = [(outcome.recorded, first)]
    if other is not None:
        outcome.other = Story(receivers=other.receivers or ())
        both.append((outcome.other, Player(other.params, other.graph)))
    for item in recording:
        if until is not None and item.now > until:
            break
        _count(facts, item)
        if item.mark is RecordMark.PLAN:
            _plan(outcome, other, item)
        counts = since is None or item.now >= since
        for story, player in both:
            change = player.take(item)
            if player is first:
                if counts:
                    check.take(item, change, first.exact)
                facts.whole = facts.whole and first.exact
            if change is not None and player.engine is not None:
                story.tick(item.now, change, player.engine.incidents, counts)
        if item.mark is RecordMark.TICK:
            progress(facts)
    check.end()
    return outcome


def _plan(outcome: ReplayOutcome, other: Other | None, item: RecordedItem) -> None:
    """Set the recorded receivers and silences from now on."""
    outcome.recorded.receivers, outcome.recorded.silences = item.thing.receivers, item.thing.silences
    if outcome.other is not None and other is not None:
        outcome.other.silences = item.thing.silences
        if other.receivers is None:
            outcome.other.receivers = item.thing.receivers


def _count(facts: RecordingFacts, item: RecordedItem) -> None:
    mark = item.mark
    facts.records += 1
    if mark is RecordMark.START:
        facts.runs += item.thing.fresh
        facts.fabricmon, facts.fabric = item.thing.start.fabricmon, item.thing.start.fabric
    elif mark is RecordMark.FRAME:
        facts.frames += 1
    elif mark is RecordMark.EVENT:
        facts.events += 1
    elif mark is RecordMark.INVENTORY:
        facts.inventories += 1
    elif mark is RecordMark.TICK:
        facts.ticks += 1
        facts.first = facts.first or item.now
        facts.last = item.now
