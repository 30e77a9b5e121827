"""What each collector reads on this node, what it does not, why, and what to do about it; with `server` the same for
the central server: targets, topology, receivers, jobs, clock, disk, load.

Every collector of the configuration reads once. Exit code: 0; 1 where one cannot read something it found, or hangs."""

from __future__ import annotations

import argparse
import math
import queue
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from fabricmon.catalogue import remedies
from fabricmon.commands import remote
from fabricmon.console import output
from fabricmon.forms.readable import count
from fabricmon.terminal.fitted_text import clean

if TYPE_CHECKING:
    from fabricmon.agent.probing.settings import AgentProbeConfig
    from fabricmon.host.protocol import Host

EXAMPLES = """\
fabricmon doctor
fabricmon doctor --json
fabricmon doctor server --server http://localhost:9791
"""
OK, TROUBLED, UNREADABLE = 0, 1, 2
LIMIT = 20.0
"""Seconds for one collector; then it is reported as hanging, and the next one begins."""

STATES = {
    "failed": "failed", "partly": "partly read", "read": "read", "nothing": "with nothing to read", "off": "off",
}  # fmt: skip
"""State of a collector -> how the last line names it; in the order of the report."""

MOST = 4
"""Sorts of missing sources that are reported of one collector."""


class Missing(Struct, frozen=True):
    """One sort of thing that is not read: an example of where, why, how many of the sort, and what to do."""

    source: str
    why: str
    count: int
    do: str


class CollectorFinding(Struct, frozen=True):
    """One collector. state: "read", "partly", "failed", "nothing" (there is none, or it reports nothing), "off" (by
    configuration). `unknown`: values that device or driver does not report."""

    collector: str
    state: str
    sought: str
    devices: int = 0
    values: int = 0
    unknown: int = 0
    missing: tuple[Missing, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fabricmon.commands.agent import add_host_arguments

    parser.add_argument("which", nargs="?", choices=("node", "server"), default="node", help="what to examine")
    parser.add_argument("--config", metavar="FILE", help="configuration file of the agent (default: built-in defaults)")
    add_host_arguments(parser)
    remote.add_arguments(parser, as_json=False)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """0; 1 where something that is there is not read, or the server does not answer; 2 where the archive cannot be
    read."""
    if args.which == "server":
        return _server(args)
    from fabricmon import config
    from fabricmon.commands.agent import open_host, overrides
    from fabricmon.host.protocol import HostError
    from fabricmon.runtime import logs

    root = config.load(args.config, overrides(args), uses=("agent", "collect"))
    logs.configure("logfmt", "error")
    try:
        host = open_host(root, args.host)
    except (HostError, OSError, ValueError) as error:
        print(clean(f"fabricmon doctor: {error}"), file=sys.stderr)
        return UNREADABLE
    found = (*examine(host, root.collect), *_of_probes(root.agent.probe))
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        output.show(map(clean, report(found)))
    return TROUBLED if any(one.state in ("partly", "failed") for one in found) else OK


def _of_probes(config: AgentProbeConfig) -> Iterator[CollectorFinding]:
    """Which RDMA ports can probe by queue pairs, where agent.probe.backend wants them."""
    if not config.enabled or config.backend != "verbs":
        return
    from fabricmon.agent.probing.addresses import addresses_of
    from fabricmon.agent.probing.udp import UdpBackend
    from fabricmon.agent.probing.verbs import VerbsBackend, device_rows

    rows, sought = device_rows(), remedies.VERBS
    backend = VerbsBackend(UdpBackend(config.port, addresses_of), addresses_of)
    offers = backend.offers(rows)
    missing = tuple(Missing(row, why, 1, sought.do) for row, why in backend.refused().items())
    state = "nothing" if not rows else "failed" if not offers else "partly" if missing else "read"
    missing = missing[:MOST] if rows else (Missing("", "none found", 1, sought.do),)
    yield CollectorFinding("probes by verbs", state, sought.what, len(rows), len(offers), 0, missing)


@remote.answered("doctor")
def _server(args: argparse.Namespace) -> int:
    found = remote.request(args, "GET", "/doctor")
    if args.json:
        remote.print_json(found)
    else:
        output.show(map(clean, server_report(found["parts"])))
    return TROUBLED if any(part["state"] in ("partly", "failed") for part in found["parts"]) else OK


def server_report(parts: list[dict[str, Any]]) -> Iterator[str]:
    """The text: one line a part, then why and what to do where something is missing."""
    width = max((len(part["part"]) for part in parts), default=0)
    for part in parts:
        yield f"{part['state']:<8}{part['part']:<{width}}  {part['found']}"
        yield from _remedy(width, part["why"], part["do"])


def _remedy(width: int, why: str, do: str) -> Iterator[str]:
    for word, text in (("why", why), ("do", do)):
        first = f"{'':8}{'':{width}}  {word:<4}"
        yield from textwrap.wrap(text, 120, initial_indent=first, subsequent_indent=" " * len(first))


def examine(host: Host, settings: Mapping[str, Any], limit: float = LIMIT) -> Iterator[CollectorFinding]:
    """A finding for every collector, in the order of the table."""
    from fabricmon.collect import COLLECTORS

    for name, kind in COLLECTORS.items():
        setting = settings.get(name) or kind.config()
        sought = remedies.SOUGHT[name]
        if not setting.enabled:
            yield CollectorFinding(name, "off", sought.what, missing=(Missing("", "not enabled", 1, sought.do),))
            continue
        answers: queue.SimpleQueue[CollectorFinding] = queue.SimpleQueue()
        ask = (host, name, kind, setting, answers)
        threading.Thread(target=_ask, args=ask, name=f"doctor {name}", daemon=True).start()
        try:
            yield answers.get(timeout=limit)
        except queue.Empty:
            why = f"no answer within {limit:g} s"
            yield CollectorFinding(name, "failed", sought.what, missing=(Missing("", why, 1, remedies.remedy(why)),))


def _ask(host: Host, name: str, kind: Any, setting: Any, answers: queue.SimpleQueue[CollectorFinding]) -> None:
    try:
        answers.put(_examined(host, name, kind, setting))
    except Exception as error:
        missing = Missing("", str(error), 1, remedies.remedy(str(error)))
        answers.put(CollectorFinding(name, "failed", remedies.SOUGHT[name].what, missing=(missing,)))


def _examined(host: Host, name: str, kind: Any, setting: Any) -> CollectorFinding:
    from fabricmon.host.protocol import HostError

    sought = remedies.SOUGHT[name]
    collector = kind.open(host, setting)
    if collector.watch is not None:
        collector.watch(lambda event: None)()  # shows whether the kernel log can be read
    faults: Counter[tuple[str, str]] = Counter()  # (why, first words of the source)
    example: dict[tuple[str, str], str] = {}
    devices = values = unknown = lost = 0
    for device, session in collector.sessions().items():
        devices += 1
        try:
            reading = session.read()
        except HostError as error:
            lost += 1
            faults[error.text, ""] += 1
            example.setdefault((error.text, ""), device)
            continue
        empty = sum(map(math.isnan, reading.values))
        unknown, values = unknown + empty, values + len(reading.values) - empty
        for fault in reading.faults:
            faults[fault.error, "fault"] += 1
            example.setdefault((fault.error, "fault"), f"{fault.component} {fault.source}".strip())
        for part in reading.parts:
            for row in part.components:
                if why := row.labels.get("kernel_log"):
                    faults[why, "log"] += 1
                    example.setdefault((why, "log"), "/dev/kmsg")
    missing = tuple(
        Missing(example[sort], sort[0], count, remedies.remedy(f"{sort[0]} {example[sort]}"))
        for sort, count in faults.most_common(MOST)
    )
    if not devices or not (values or unknown or missing):
        return CollectorFinding(name, "nothing", sought.what, missing=(Missing("", "none found", 1, sought.do),))
    if not (values or missing):
        none = Missing("", "no value reported", 1, remedies.UNREPORTED)
        return CollectorFinding(name, "nothing", sought.what, devices, 0, unknown, (none,))
    state = "failed" if lost == devices else "partly" if missing else "read"
    return CollectorFinding(name, state, sought.what, devices, values, unknown, missing)


def report(found: tuple[CollectorFinding, ...]) -> Iterator[str]:
    """The text: one line a collector, what failed first, then why and what to do where something is missing; that once
    for collectors that find nothing for the same reason; at the end how many there are of each state."""
    width = max(len(one.collector) for one in found)
    for alike in _together(found):
        for one in alike:
            yield f"{one.state:<8}{one.collector:<{width}}  {_result(one)}"
        for each in alike[0].missing:
            where = f"{each.source}: " if each.source else ""
            rest = f" (and {each.count - 1} more such)" if each.count > 1 else ""
            why = "" if alike[0].state in ("nothing", "off") else f"{where}{each.why}{rest}"
            yield from _remedy(width, why, each.do)
    states = Counter(one.state for one in found)
    counts = ", ".join(f"{states[state]} {text}" for state, text in STATES.items() if states[state])
    yield f"{count(len(found), 'collector')}: {counts}"


def _together(found: tuple[CollectorFinding, ...]) -> Iterator[list[CollectorFinding]]:
    """By state; those that find nothing and have the same advice stand together, at the first of them."""
    order = list(STATES)
    groups: dict[object, list[CollectorFinding]] = {}
    for one in sorted(found, key=lambda one: order.index(one.state)):
        groups.setdefault(one.missing if one.state == "nothing" else one.collector, []).append(one)
    yield from groups.values()


def _result(one: CollectorFinding) -> str:
    if not one.devices:
        return f"looks for {one.sought}"
    of = f"of {count(one.devices, 'device')}"
    if one.state == "nothing":
        return f"none of {count(one.unknown, 'value')} {of} is reported"
    return f"{count(one.values, 'value')} {of}" + (f", {one.unknown} not reported" if one.unknown else "")
