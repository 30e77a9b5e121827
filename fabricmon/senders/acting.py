"""What a sender that acts is: it sees all that stands, not single notifications, and changes the world.

A module of an acting kind stands in `senders.ACTING` and has `Config` (a subclass of `ActingConfig`) and
`open(name, config, links) -> Actor`. The centre (`central/acting.py`) calls `Actor.act` every `period` seconds, one
call at a time. What may be done is decided by `notify.acting.decide`; what has been done is read from the world, so
that a restart neither forgets nor repeats.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from fabricmon.model import Incident, NodeView, Severity
from fabricmon.notify.acting import Deed, Terms, check_kinds, larger
from fabricmon.notify.matchers import parse
from fabricmon.senders.settings import check_receiver
from fabricmon.units import Duration


class ActingConfig(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What every receiver that acts has.

    kinds           kinds of incidents to act on: [nic_fault, pcie_degraded, link_down]. There is no default.
    dry_run         say what would be done and do nothing; set it to false when what it says is right.
    match           matchers that must all hold, as in a silence: ['node=~"gpu-.*"'].
    min_severity    less severe incidents are no reason to act.
    min_confidence  how sure of the cause fabricmon must be, 0 to 1.
    hold            how long an incident must have been firing.
    most_nodes      nodes acted on at once, at most ...
    most_share      ... and at most this share of the nodes whose agents speak (one is always allowed).
    per_hour        actions begun within an hour, at most.
    undo            take back what was done when its incident has been over for `calm`.
    calm            how long that is.
    period          how often what stands is compared with what was done.
    timeout         for one command or request.
    """

    kinds: tuple[str, ...]
    dry_run: bool = True
    match: tuple[str, ...] = ()
    min_severity: Severity = Severity.CRITICAL
    min_confidence: Annotated[float, Meta(ge=0.5, le=1.0)] = 0.9
    hold: Duration = Duration(60)
    most_nodes: Annotated[int, Meta(ge=1, le=1000)] = 10
    most_share: Annotated[float, Meta(gt=0.0, le=0.1)] = 0.005
    per_hour: Annotated[int, Meta(ge=1, le=1000)] = 10
    undo: bool = False
    calm: Duration = Duration(600)
    period: Duration = Duration(30)
    timeout: Duration = Duration(30)

    def __post_init__(self) -> None:
        check_kinds(self.kinds)
        check_receiver(self.timeout, self.match)
        if not 1 <= self.period <= 3600:
            raise ValueError("`period` must be between 1s and 1h")

    def terms(self) -> Terms:
        """The same for the decision."""
        return Terms(
            kinds=self.kinds,
            matchers=tuple(map(parse, self.match)),
            severity=self.min_severity,
            confidence=self.min_confidence,
            hold=float(self.hold),
            calm=float(self.calm),
            most_nodes=self.most_nodes,
            most_share=self.most_share,
            per_hour=self.per_hour,
            undo=self.undo,
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """All that an actor may look at, as of one moment.

    at         wall time
    incidents  all that fire and those resolved within an hour
    silenced   ids of those that a silence covers now
    nodes      every node there should be, with its presence and maintenance
    deeds      what this actor did within the last hour, oldest first
    """

    at: float
    incidents: Sequence[Incident]
    silenced: Collection[str]
    nodes: Sequence[NodeView]
    deeds: Sequence[Deed] = ()


@dataclass(slots=True)
class Report:
    """What one call did.

    done      deeds that succeeded; in a dry run what would have been done
    failed    node -> why it could not be done; it is tried again in the next call
    withheld  node -> why nothing is done there although an incident of a listed kind fires
    held      nodes that stand acted on now
    dry       nothing was done: `done` is what would have been
    error     why the world could not be read or reached at all, "" where it could: then nothing was done
    """

    done: list[Deed] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    held: int = 0
    dry: bool = False
    error: str = ""


class Diary(Protocol):
    """What the centre offers an actor during a call."""

    async def write(self, deed: Deed) -> None:
        """Write a deed down; call it before doing it. Raises where that failed, and then it must not be done."""

    async def incidents(self, ids: Collection[str]) -> Sequence[Incident]:
        """Incidents by id as last committed, also those resolved up to 30 days ago; unknown ids are left out."""


async def past(diary: Diary, held: Collection[str], incidents: Sequence[Incident]) -> list[Incident]:
    """The incidents behind `held` ids that are not among `incidents`, and those that they became part of."""
    known = {i.id: i for i in incidents}
    found: dict[str, Incident] = {}
    wanted, seen = set(held), {""}
    while wanted:
        seen |= wanted
        if strange := wanted - known.keys():
            found |= {i.id: i for i in await diary.incidents(strange)}
        wanted = {larger(i) for id in wanted if (i := known.get(id) or found.get(id))} - seen
    return list(found.values())


class Actor(Protocol):
    """Serves one entry below `senders:` that acts."""

    period: float

    async def act(self, standing: Standing, diary: Diary) -> Report:
        """Compare what stands with the world and do what may be done. Raises nothing for a world that is away: says so
        in `Report.error`."""

    async def close(self) -> None:
        """Let go of connections; nothing is undone."""
