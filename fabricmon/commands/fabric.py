"""Sweep the InfiniBand fabric once from a port of this machine: nodes, links, and the counters of every port, also of
switch ports that are down. Needs read and write access to /dev/infiniband/umad*. Read-only: no setting is changed, no
counter is reset.

Exit code: 0, 1 if the port cannot be used, 3 if part of the fabric did not answer in time."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from fabricmon.console import output
from fabricmon.console.progress import elapsed
from fabricmon.fabric.transport import TransportError
from fabricmon.terminal.fitted_text import clean

if TYPE_CHECKING:
    from fabricmon.fabric.transport import Transport
    from fabricmon.topology.names import NodeNames

EXAMPLES = """\
fabricmon fabric
fabricmon fabric --device mlx5_0 --json > fabric.json
fabricmon fabric --ibnetdiscover > fabric.txt
"""
OK, FAILED, PARTIAL = 0, 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="", metavar="NAME", help="adapter (default: first active InfiniBand port)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port of the adapter")
    parser.add_argument("--node-names", default="", metavar="FILE", help="node-name-map file of the InfiniBand tools")
    parser.add_argument(
        "--window",
        type=int,
        default=16,
        choices=range(1, 17),
        metavar="N",
        help="datagrams outstanding, 1 to 16 (default 16)",
    )
    parser.add_argument("--timeout", type=float, default=0.2, metavar="SECONDS", help="for one datagram (default 0.2)")
    parser.add_argument("--tries", type=int, default=3, metavar="N", help="transmissions of one datagram (default 3)")
    parser.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS", help="for the sweep (default 60)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="nodes, links and ports with all counters as JSON")
    form.add_argument("--ibnetdiscover", action="store_true", help="the topology in the format of ibnetdiscover")


def run(args: argparse.Namespace) -> int:
    """Discover the fabric, read all ports, print; 0, 1 or 3 as above."""
    from fabricmon.host.umad import open_port
    from fabricmon.sources import SourceError, node_names

    try:
        names = node_names(args.node_names) if args.node_names else None
        transport = open_port(args.device, args.port)
        try:
            return _sweep(args, transport, names)
        finally:
            transport.close()
    except (SourceError, TransportError) as error:
        reason = error.strerror if isinstance(error, TransportError) else clean(error)
        print(f"fabricmon fabric: {reason}", file=sys.stderr)
        return FAILED


def _sweep(args: argparse.Namespace, transport: Transport, names: NodeNames | None) -> int:
    from fabricmon.commands import fabric_text
    from fabricmon.fabric.discover import discover
    from fabricmon.fabric.dump import ibnetdiscover
    from fabricmon.fabric.exchange import Exchange, Pace
    from fabricmon.fabric.report import report
    from fabricmon.fabric.subnet import At
    from fabricmon.fabric.sweep import Sweep

    started = time.monotonic()
    until = started + args.deadline
    exchange = Exchange(transport, Pace(args.window, args.timeout, max(1, args.tries)), time.monotonic)
    with elapsed("discovering the fabric"):
        subnet = discover(exchange, until)
    walked = time.monotonic()
    if args.ibnetdiscover:
        output.show(ibnetdiscover(subnet).splitlines())
        return OK if subnet.whole and not subnet.cut else PARTIAL
    ports = [*(At(node.guid, port.number) for node, port in subnet.linked()), *subnet.open_ports()]
    with elapsed(f"reading {len(ports):,} ports"):
        values = Sweep(exchange, subnet, ports).run(until)
    result = report(subnet, ports, values, names, walked - started, time.monotonic() - walked)
    if args.json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result), indent=1).decode() + "\n")
    else:
        output.show(clean(line) for line in fabric_text.render(result).split("\n"))
    return OK if result.whole else PARTIAL
