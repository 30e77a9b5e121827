"""The books of a campaign of faults: what the receiver got, compared with what is true. Computes only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Members = Mapping[tuple[str, str], Sequence[str]]
"""Id and beginning of each incident that fires at the server -> its parts now."""
NONE: Members = MappingProxyType({})

SAME = ("status", "kind", "component", "severity", "members")
"""What two states of one incident must not have in common one after the other: it would be one notification twice."""


@dataclass
class Ledger:
    """Counts of one receiver.

    last      incident id -> its newest state, as a receiver has it that drops keys it knows
    repeated  posts with a known key
    anew      states that a server notified again under its id after it had lost its database: that it had notified
              them, and since when they are, is lost
    stale     incidents that stayed open: a server lost its database before it could resolve them, or found what is left
              of a group under other ids
    another   the same state of an incident under two keys, one incident under two ids, or one key with two contents
    """

    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeated: int = 0
    anew: int = 0
    stale: int = 0
    another: list[str] = field(default_factory=list)
    _bodies: dict[str, Any] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> set[str]:
        """All that were received."""
        return set(self._bodies)

    def take(self, posts: Iterable[dict[str, Any]], forgot: bool) -> None:
        """Further posts, in the order of their arrival; `forgot`: the server's database was lost meanwhile."""
        for post in posts:
            key, body = post["headers"]["Idempotency-Key"], post["body"]
            if key in self._bodies:
                self.repeated += 1
                if self._bodies[key] != body["incidents"]:
                    self.another.append(f"key {key} has two contents")
                continue
            self._bodies[key] = body["incidents"]
            for incident in body["incidents"]:
                self._note(key, incident, forgot)

    def _note(self, key: str, incident: dict[str, Any], forgot: bool) -> None:
        id, before = incident["id"], self.last.get(incident["id"])
        if before is not None and all(before.get(name) == incident.get(name) for name in SAME):
            if forgot:
                self.anew += 1
            else:
                self.another.append(f"{id} {incident['status']} again under key {key}: {incident['title']}")
        self.last[id] = incident
        about = f"{incident['kind']} {incident['component']}"
        if self._ids.setdefault(about, id) != id:
            self.another.append(f"{about} is {self._ids[about]} and {id}")

    def forget(self, known: Collection[str], down: Collection[str]) -> None:
        """A server has lost its database: incidents other than those that it knows now are never resolved. That of a
        single link that is still down is none of them, unless it is part of a larger one by now: a server makes its id
        of what is down alone."""
        gone = [id for id, incident in self.last.items() if incident["status"] == "firing" and id not in known]
        larger = Ledger({id: i for id, i in self.last.items() if id not in gone and i["kind"] != "link_down"})
        self.stale += len(gone)
        for id in gone:
            about = f"{self.last[id]['kind']} {self.last[id]['component']}"
            still = any(f"/{device}/" in about and not larger.fires(device) for device in down)
            if about.startswith("link_down ") and still:
                self.another.append(f"{about} was not found again as {id}")
            del self.last[id]

    def fires(self, device: str, members: Members = NONE) -> bool:
        """Whether the receiver knows of an open incident of the device. Within the episode that it was notified of, and
        no other, the members may become others without a notification (docs/design/outbox.md)."""
        return any(
            i["status"] == "firing"
            and any(f"{device}/" in part for part in (*members.get((id, i["since"]), i["parts"]), i["component"]))
            for id, i in self.last.items()
        )

    def wrong(self, down: Iterable[str], up: Iterable[str], members: Members = NONE) -> list[str]:
        """Devices of which the receiver does not know the truth."""
        missing = [f"{device} is down and does not fire" for device in down if not self.fires(device, members)]
        return missing + [f"{device} is up and fires" for device in up if self.fires(device, members)]


@dataclass
class Sums:
    """The table of a campaign, by kind of fault. A round has several: what happens in it counts for each of its kinds,
    and once in `total`."""

    faults: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    another: Counter[str] = field(default_factory=Counter)
    anew: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)

    def add(self, kinds: Iterable[str], found: Mapping[str, int]) -> None:
        """One round; `found` by column."""
        kinds = list(kinds)
        self.faults.update(kinds)
        for column, count in found.items():
            self.total[column] += count
            for kind in set(kinds):
                getattr(self, column)[kind] += count

    def table(self) -> str:
        """As text."""
        head = f"{'fault':28}{'faults':>8}{'lost':>8}{'repeated':>10}{'another key':>13}{'anew':>8}"
        rows = [
            f"{kind:28}{count:8}{self.lost[kind]:8}{self.repeated[kind]:10}{self.another[kind]:13}{self.anew[kind]:8}"
            for kind, count in sorted(self.faults.items())
        ]
        end = f"{'all, each counted once':28}{self.faults.total():8}{self.total['lost']:8}{self.total['repeated']:10}"
        return "\n".join([head, *rows, f"{end}{self.total['another']:13}{self.total['anew']:8}"])
