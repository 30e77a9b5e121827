"""The interface of senders that act on nodes: they get all open incidents instead of single notifications.

A module of an acting kind is in `senders.ACTING` and has `open(name, config, links) -> Actor`; its settings are an
`ActingConfig`. `central/delivery/acting.py` calls `Actor.act` every `period` seconds, one call at a time.
`notify.acting.decide` decides the actions; the actions already taken are read from Slurm or Kubernetes, so that a
restart neither forgets nor repeats one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from fabricmon.model import Incident, NodeView, Severity
from fabricmon.notify.acting import Deed, Terms, absorbed_into, check_kinds
from fabricmon.notify.matchers import parse
from fabricmon.senders.settings import check_receiver
from fabricmon.units import Duration


class ActingConfig(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings of every receiver that acts.

    kinds           kinds of incidents to act on: [nic_fault, pcie_degraded, link_down]. No default.
    dry_run         only report the actions; set it to false when they are right.
    match           matchers that must all match, as in a silence: ['node=~"gpu-.*"'].
    min_severity    minimum severity to act.
    min_confidence  minimum confidence in the cause, 0 to 1.
    hold            minimum time that an incident is open.
    most_nodes      nodes acted on at the same time, at most ...
    most_share      ... and at most this share of the live nodes (one is always allowed).
    per_hour        actions per hour, at most.
    undo            undo an action when its incident has been resolved for `calm`.
    calm            that time.
    period          time between two comparisons of incidents and actions.
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
        """The settings for `notify.acting.decide`."""
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
    """The input of an actor at one moment.

    at         wall time
    incidents  open ones and those resolved within the last hour
    silenced   ids of silenced incidents
    nodes      every expected node, with presence and maintenance
    deeds      actions of this actor in the last hour, oldest first
    """

    at: float
    incidents: Sequence[Incident]
    silenced: Collection[str]
    nodes: Sequence[NodeView]
    deeds: Sequence[Deed] = ()


@dataclass(slots=True)
class ActionReport:
    """The result of one call.

    done      successful actions; in a dry run the actions that would have been taken
    failed    node -> reason of a failed action, retried in the next call
    withheld  node -> reason why no action is taken although an incident of a listed kind is open
    held      nodes acted on now
    dry       dry run: nothing was changed
    error     why Slurm or Kubernetes could not be read, then nothing was changed; "" if it could
    """

    done: list[Deed] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    held: int = 0
    dry: bool = False
    error: str = ""


class ActionLog(Protocol):
    """The log of actions, for an actor during a call."""

    async def write(self, deed: Deed) -> None:
        """Store an action before it is taken. Raises if that fails; the action must not be taken then."""

    async def incidents(self, ids: Collection[str]) -> Sequence[Incident]:
        """Stored incidents by id, resolved ones up to 30 days back; unknown ids are left out."""


async def incidents_behind(diary: ActionLog, held: Collection[str], incidents: Sequence[Incident]) -> list[Incident]:
    """The incidents of `held` ids that are not in `incidents`, and those that they were merged into."""
    known = {i.id: i for i in incidents}
    found: dict[str, Incident] = {}
    wanted, seen = set(held), {""}
    while wanted:
        seen |= wanted
        if strange := wanted - known.keys():
            found |= {i.id: i for i in await diary.incidents(strange)}
        wanted = {absorbed_into(i) for id in wanted if (i := known.get(id) or found.get(id))} - seen
    return list(found.values())


class Actor(Protocol):
    """One acting entry of `senders:`."""

    period: float

    async def act(self, standing: Standing, diary: ActionLog) -> ActionReport:
        """Take and undo actions as decided. Connection failures are returned in `ActionReport.error`."""

    async def close(self) -> None:
        """Close connections; nothing is undone."""
