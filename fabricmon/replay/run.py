"""One pass over a recording: judged as it was, and by another configuration beside it. Pure over its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabricmon.model import Change
from fabricmon.notify.route import Receiver
from fabricmon.replay.play import Player
from fabricmon.replay.reading import Recording
from fabricmon.replay.records import Item, Mark
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
class Facts:
    """What a recording holds, as far as it was played."""

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
class Outcome:
    """What became of it.

    other  None where no other configuration was asked for
    notes  recorded parameters that were left out
    """

    facts: Facts = field(default_factory=Facts)
    verification: Verification = field(default_factory=Verification)
    recorded: Story = field(default_factory=Story)
    other: Story | None = None
    notes: list[str] = field(default_factory=list)


def play(
    recording: Recording,
    other: Other | None = None,
    since: float | None = None,
    until: float | None = None,
    tell: Callable[[Facts], None] = lambda facts: None,
) -> Outcome:
    """Play the recording up to `until`; what counts is from `since` on. `tell` is called after every tick.

    RecordingError where it cannot be read, ParamsError where parameters are not those of today's rules.
    """
    outcome = Outcome()
    facts, check = outcome.facts, outcome.verification
    first = Player()
    outcome.notes = first.notes
    second = Player(other.params, other.graph) if other is not None else None
    if other is not None:
        outcome.other = Story(receivers=other.receivers or ())
    for item in recording.items():
        if until is not None and item.now > until:
            break
        _count(facts, item)
        change = first.take(item)
        counts = since is None or item.now >= since
        if counts:
            check.take(item, change, first.exact)
        facts.whole = facts.whole and first.exact
        if item.mark is Mark.PLAN:
            outcome.recorded.receivers = item.thing.receivers
            outcome.recorded.silences = item.thing.silences
            if outcome.other is not None and other is not None:
                outcome.other.silences = item.thing.silences
                if other.receivers is None:
                    outcome.other.receivers = item.thing.receivers
        if second is not None and outcome.other is not None:
            _tell(outcome.other, second, item, second.take(item), counts)
        _tell(outcome.recorded, first, item, change, counts)
        if change is not None:
            tell(facts)
    check.end()
    return outcome


def _tell(story: Story, player: Player, item: Item, change: Change | None, counts: bool) -> None:
    if change is not None and player.engine is not None:
        story.tick(item.now, change, player.engine.incidents, counts)


def _count(facts: Facts, item: Item) -> None:
    mark = item.mark
    facts.records += 1
    if mark is Mark.START:
        facts.runs += item.thing.fresh
        facts.fabricmon, facts.fabric = item.thing.start.fabricmon, item.thing.start.fabric
    elif mark is Mark.FRAME:
        facts.frames += 1
    elif mark is Mark.EVENT:
        facts.events += 1
    elif mark is Mark.INVENTORY:
        facts.inventories += 1
    elif mark is Mark.TICK:
        facts.ticks += 1
        facts.first = facts.first or item.now
        facts.last = item.now
