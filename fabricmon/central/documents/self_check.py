"""What the server has, what is missing, and what to do about it: `fabricmon doctor server`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from fabricmon.forms.readable import count
from fabricmon.forms.times import span

SPACE_WARNING, SPACE_CRITICAL = 0.05, 0.03
"""Free share of a file system below which it is almost full: thresholds of the Prometheus node exporter's mixin
(fsSpaceAvailableWarningThreshold, fsSpaceAvailableCriticalThreshold)."""
PROMPT = 1.0
"""Seconds after which a fault is to be evaluated at the latest."""
CLOCK = 1.0
"""Seconds that the machine's clock may differ from the server's: more is a step that is being followed."""


class TargetReading(NamedTuple):
    """One source of targets: its name, how many it has, and its error, "" none."""

    name: str
    targets: int
    error: str


class ReceiverReading(NamedTuple):
    """One receiver: queued notifications, age of the oldest in seconds, failed attempts in a row and their error."""

    name: str
    queued: int
    oldest: float
    attempts: int
    error: str


class ServerReadings(NamedTuple):
    """What the doctor reads.

    nodes     by presence
    placed    ports of live nodes, and how many of them are on a leaf or rail
    free      free bytes and size of the file system with the state, None: cannot be read
    tick      seconds: from one evaluation to the next without events, the last evaluation, the longest
    wait      seconds that an event may wait for its evaluation
    """

    targets: Sequence[TargetReading]
    nodes: Mapping[str, int]
    topology: str
    placed: tuple[int, int]
    receivers: Sequence[ReceiverReading]
    jobs: Sequence[tuple[str, str]]
    clock: float
    store_error: str
    state: str
    free: tuple[int, int] | None
    tick: tuple[float, float, float]
    wait: float
    warnings: Sequence[str]


class ServerFinding(Struct, frozen=True):
    """One part of the server. state: "ok", "partly", "failed", "nothing" (not configured)."""

    part: str
    state: str
    found: str
    why: str = ""
    do: str = ""


def examine_server(read: ServerReadings) -> list[ServerFinding]:
    """A finding for every part, in the order in which they are set up."""
    parts = (_targets, _topology, _receivers, _jobs, _clock, _disk, _load)
    found = [finding for part in parts for finding in part(read)]
    return found + [ServerFinding("warnings", "failed", text, do="see the server's log") for text in read.warnings]


def _targets(read: ServerReadings) -> Iterator[ServerFinding]:
    for source in read.targets:
        if source.error:
            do = "repair the source; until then its last targets stay in use"
            yield ServerFinding("targets", "failed", f"{source.name}: {source.targets}", source.error, do)
    known, live = sum(read.nodes.values()), read.nodes.get("live", 0)
    if not known:
        do = "set central.targets, target_files, dns or kubernetes"
        yield ServerFinding("targets", "nothing", "no agents", do=do)
        return
    text = f"{live} of {count(known, 'node')} live, from {', '.join(s.name for s in read.targets if s.targets)}"
    others = ", ".join(f"{n} {presence}" for presence, n in read.nodes.items() if n and presence != "live")
    do = "`fabricmon nodes --silent` names each with its error" if others else ""
    yield ServerFinding("targets", "partly" if others else "ok", text, others, do)


def _topology(read: ServerReadings) -> Iterator[ServerFinding]:
    ports, placed = read.placed
    if not read.topology:
        do = "set topology.file (ibnetdiscover, cable plan), or collect.fabric on one node; without it no leaf is found"
        yield ServerFinding("topology", "nothing", f"{count(ports, 'port')}, none on a known leaf or rail", do=do)
    elif placed < ports:
        do = "`fabricmon topology check` compares the plan with what the nodes report"
        why = f"{count(ports - placed, 'port')} on no leaf or rail"
        found = f"{read.topology}; {placed} of {count(ports, 'port')} placed"
        yield ServerFinding("topology", "partly", found, why, do)
    else:
        yield ServerFinding("topology", "ok", f"{read.topology}; all {count(ports, 'port')} placed")


def _receivers(read: ServerReadings) -> Iterator[ServerFinding]:
    if not read.receivers:
        do = "set senders (docs/receivers.md), then `fabricmon notify test`"
        yield ServerFinding("receivers", "nothing", "none: no notification is sent", do=do)
    for one in read.receivers:
        queued = f"{one.name}: {one.queued} queued" + (f", the oldest for {span(one.oldest)}" if one.queued else "")
        if one.attempts:
            why = f"{count(one.attempts, 'attempt')} failed in a row: {one.error}"
            do = f"`fabricmon notify test {one.name}` with the server's configuration shows the answer"
            yield ServerFinding("receivers", "failed", queued, why, do)
        else:
            yield ServerFinding("receivers", "ok", queued)


def _jobs(read: ServerReadings) -> Iterator[ServerFinding]:
    if not read.jobs:
        do = "nothing, or central.jobs, so that incidents name the jobs that they affect"
        yield ServerFinding("jobs", "nothing", "no source of running jobs", do=do)
    for name, error in read.jobs:
        do = "repair the source; meanwhile affected jobs are unknown" if error else ""
        yield ServerFinding("jobs", "failed" if error else "ok", name, error, do)


def _clock(read: ServerReadings) -> Iterator[ServerFinding]:
    text = f"{read.clock:+.1f} s between the machine's clock and the server's"
    off = abs(read.clock) > CLOCK
    do = "see chrony or ntpd on this machine; the server follows by 0.1 s a second" if off else ""
    yield ServerFinding("clock", "partly" if off else "ok", text, "the machine's clock was set" if off else "", do)


def _disk(read: ServerReadings) -> Iterator[ServerFinding]:
    if read.free is None:
        yield ServerFinding("disk", "failed", read.state, "its file system cannot be read", "see central.state")
        return
    free, size = read.free
    share = free / size if size else 0.0
    text = f"{read.state}: {free / 2**30:.1f} GiB free of {size / 2**30:.1f} GiB ({share:.0%})"
    if read.store_error:
        do = "repair the disk: no new notification is sent until it can be written"
        yield ServerFinding("disk", "failed", text, read.store_error, do)
    elif share < SPACE_WARNING:
        state = "failed" if share < SPACE_CRITICAL else "partly"
        why = f"less than {SPACE_WARNING:.0%} free"
        yield ServerFinding("disk", state, text, why, "free space, or move central.state")
    else:
        yield ServerFinding("disk", "ok", text)


def _load(read: ServerReadings) -> Iterator[ServerFinding]:
    every, last, longest = read.tick
    text = f"an evaluation takes {last * 1000:.1f} ms (longest {longest * 1000:.0f} ms), every {every:.3g} s"
    if read.wait > PROMPT:
        why = f"a fault may wait {read.wait:.1f} s for its evaluation, more than {PROMPT:g} s"
        yield ServerFinding("load", "partly", text, why, "a faster core, or a second server for a part of the fleet")
    else:
        yield ServerFinding("load", "ok", text)
