"""A campaign: faults of all kinds, drawn by a seed, happen to one set of processes while links go down and come back.

In a round several resources have faults at the same time, and at random moments between them some links go down and
those of the round before come back. Then everything is left alone until the receiver knows the truth about each link.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fabricmon.central.store.database import FILE
from fabricmon.model import Notification
from tests.chaos.faults import KINDS, Stage, clock_of
from tests.chaos.ledger import NONE, Ledger, Members, Sums
from tests.chaos.site import Site
from tests.rigs.faulty_disk import FaultyDisk

IN_A_ROUND = 20
DAMAGED = 6  # faults of those that lose the server's memory in one of the rounds that have any
LINKS = 24  # so many that those that are down at a time are not taken for one fault of their node
AT_ONCE = 3  # links that go down in a round
QUIET_FOR = 3.0  # seconds without a notification, after a server without memory has notified what it found
PATIENCE = 240.0  # seconds until the receiver must know the truth, after the faults of a round are over
BETWEEN = 0.7  # seconds between two faults of one resource, at most
QUIET = {"link_flapping": {"raise_at": 1e9, "ceiling": 2e9}, "repeat_offender": {"times": 1e9}}
"""A link that went down often would fire on when it is up again."""
REPEATS = frozenset({"kill -9 of the server", "database damaged", "kill -9 of the receiver", "receiver hangs"})
"""After these an answer may be missing, and then the notification is repeated with its key."""


@dataclass
class Campaign:
    """One run.

    lost         texts of what was lost
    unexplained  repeats in rounds in which neither server nor receiver lost an answer
    """

    folder: Path
    seed: int
    sums: Sums = field(default_factory=Sums)
    ledger: Ledger = field(default_factory=Ledger)
    lost: list[str] = field(default_factory=list)
    unexplained: int = 0
    rounds: int = 0
    _read: int = 0
    _heard: float = 0.0
    _forgot: bool = False

    def run(self, faults: int, limit: float = float("inf")) -> Stage:
        """The whole campaign; prints a line a round, and begins none after `limit` seconds."""
        until = time.monotonic() + limit
        rng = random.Random(self.seed)
        with ExitStack() as stack:
            disk = stack.enter_context(FaultyDisk(self.folder))
            prefix = {name: clock_of(name, self.folder) for name in ("server", "agent")}
            site = Site(self.folder, disk.root / "state", limit="1s", prefix=prefix, links=LINKS, rules=QUIET)
            stage = Stage(stack.enter_context(site), disk, self.folder)
            down: list[str] = []
            for kinds in plan(rng, faults):
                down = self._round(stage, rng, down, kinds)
                if self.lost or stage.ended or time.monotonic() > until:
                    break
            self._finish(stage, down)
        return stage

    def _round(self, stage: Stage, rng: random.Random, down: list[str], kinds: list[str]) -> list[str]:
        """Returns the links that are down after it."""
        began, stage.disk_faulty = time.monotonic(), False
        lanes: dict[str, list[str]] = {}
        for kind in kinds:
            lanes.setdefault(KINDS[kind].resource, []).append(kind)
        # The end of what a server without memory does not know of is not notified: nothing comes back meanwhile.
        self._forgot = any(KINDS[kind].loses for kind in kinds)
        up = [] if self._forgot else down
        free = [device for device in stage.site.node.devices if device not in down]
        broken = rng.sample(free, AT_ONCE) if len(down) <= AT_ONCE else []
        threads = [
            threading.Thread(target=self._lane, args=(stage, names, random.Random(rng.random())))
            for names in lanes.values()
        ]
        threads.append(threading.Thread(target=_links, args=(stage, broken, up, random.Random(rng.random()))))
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            stage.serve()
        now_down = [*down, *broken] if self._forgot else broken
        self._add(kinds, lambda: self._settle(stage, now_down))
        self.rounds += 1
        print(f"round {self.rounds}: {self.sums.faults.total()} faults, {time.monotonic() - began:.1f} s, "
              f"{len(self.ledger.keys)} notifications, {dict(self.sums.total)}", flush=True)  # fmt: skip
        return now_down

    def _add(self, kinds: Sequence[str], listen: Callable[[], None]) -> None:
        """The sums of what `listen` finds."""
        before = self._found()
        listen()
        found = {name: now - before[name] for name, now in self._found().items()}
        self.sums.add(kinds, found)
        if kinds and not REPEATS & {*kinds}:
            self.unexplained += found["repeated"]

    def _found(self) -> dict[str, int]:
        """Until now, by column."""
        books = self.ledger
        return {
            "lost": len(self.lost), "repeated": books.repeated, "another": len(books.another), "anew": books.anew
        }  # fmt: skip

    @staticmethod
    def _lane(stage: Stage, names: list[str], rng: random.Random) -> None:
        for name in names:
            time.sleep(rng.uniform(0, BETWEEN))
            KINDS[name].happen(stage, rng)

    def _settle(self, stage: Stage, down: list[str]) -> None:
        """Wait until the receiver knows the truth; what it does not know after PATIENCE is lost."""
        end = time.monotonic() + PATIENCE
        up = [device for device in stage.site.node.devices if device not in down]
        while True:
            for process in stage.site.commands:
                stage.alive(process)
            self._listen(stage)
            wrong = self.ledger.wrong(down, up, _members(stage))
            if self._forgot:
                wrong += self._not_found_again(stage, down)
            if not wrong and time.monotonic() - self._heard >= (QUIET_FOR if self._forgot else 0):
                return
            if wrong and time.monotonic() > end:
                tail = stage.site.daemons["server"].tail(4000)
                self.lost += [*wrong[:-1], f"{wrong[-1]}\n{tail}"]
                return
            time.sleep(0.1)

    def _not_found_again(self, stage: Stage, down: list[str]) -> list[str]:
        """Devices whose fault a server without its database has not found and notified again, as its new database has
        it: the ids are those of before. What else the receiver has is stale once there are none."""
        with contextlib.suppress(OSError, sqlite3.Error):
            listed = stage.site.ask("/api/v1/incidents")["incidents"]
            known = {incident["id"] for incident in listed if incident["status"] == "firing"}
            again = Ledger({id: self.ledger.last[id] for id in known & _sent(stage) & self.ledger.last.keys()})
            missing = [device for device in down if not again.fires(device)]
            missing += [key for key, state in _outbox(stage) if state == "pending"]
            if not missing:
                self.ledger.forget(known, down)
            return [f"{one} was not found again, or waits" for one in missing]
        return ["the server does not answer"]

    def _listen(self, stage: Stage) -> None:
        if not stage.site.received.exists():
            return
        with stage.site.received.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        if whole:
            self._heard = time.monotonic()
        self.ledger.take(map(json.loads, whole.splitlines()), self._forgot)

    def _finish(self, stage: Stage, down: list[str]) -> None:
        """All links come back; then no notification waits, and the receiver has every one that the store calls sent."""
        for device in down:
            stage.site.node.up(device)
        self._forgot = False
        if not self.lost:
            self._add((), lambda: self._settle(stage, []))
        self._add((), lambda: self._compare(stage))

    def _compare(self, stage: Stage) -> None:
        """The store and the receiver."""
        end = time.monotonic() + PATIENCE
        while True:
            rows = _outbox(stage)
            waiting = [key for key, state in rows if state == "pending"]
            if not waiting or time.monotonic() > end:
                break
            time.sleep(0.2)
        self._listen(stage)
        self.lost += [f"{key} waits for ever" for key in waiting]
        self.lost += [f"{key} failed" for key, state in rows if state == "failed"]
        known = self.ledger.keys
        self.lost += [f"{key} sent, not received" for key, state in rows if state == "sent" and key not in known]


def _members(stage: Stage) -> Members:
    """None where the server does not answer."""
    with contextlib.suppress(OSError):
        listed = stage.site.ask("/api/v1/incidents")["incidents"]
        return {(one["id"], one["since"]): one["parts"] for one in listed if one["status"] == "firing"}
    return NONE


def _outbox(stage: Stage) -> list[tuple[str, str]]:
    """Key and state of each notification in the store."""
    return _asked(stage, "SELECT key, state FROM outbox")


def _sent(stage: Stage) -> set[str]:
    """Ids of the incidents in notifications that the store calls sent."""
    bodies = _asked(stage, "SELECT body FROM outbox WHERE state = 'sent'")
    notified = (msgspec.msgpack.decode(body, type=Notification) for (body,) in bodies)
    return {incident.id for one in notified for incident in one.incidents}


def _asked(stage: Stage, question: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{stage.site.state / FILE}?mode=ro", uri=True)) as db:
        return db.execute(question).fetchall()


def plan(rng: random.Random, faults: int) -> list[list[str]]:
    """The kinds of each round, drawn evenly. Those that lose the server's memory have rounds of their own, with others:
    in them no link comes back."""
    kinds = rng.choices(list(KINDS), k=faults)
    losing = [kind for kind in kinds if KINDS[kind].loses]
    others = [kind for kind in kinds if not KINDS[kind].loses]
    rounds: list[list[str]] = []
    while losing or others:
        some, losing = losing[:DAMAGED], losing[DAMAGED:]
        count = IN_A_ROUND - len(some)
        rounds.append(some + others[:count])
        others = others[count:]
        rng.shuffle(rounds[-1])
    rng.shuffle(rounds)
    return rounds


def _links(stage: Stage, down: list[str], up: list[str], rng: random.Random) -> None:
    changes = [(stage.site.node.down, device) for device in down] + [(stage.site.node.up, device) for device in up]
    rng.shuffle(changes)
    for change, device in changes:
        time.sleep(rng.uniform(0, 2))
        change(device)
