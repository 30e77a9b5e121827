"""Sweep the InfiniBand fabric once, from a port of this machine: what is there, how it is cabled, what every linked
port counted. Needs read and write access to /dev/infiniband/umad*. Nothing is set and no counter is reset.

Exit code: 0, 1 where the port cannot be used, 3 where part of the fabric did not answer in time."""

from __future__ import annotations

import argparse
import sys
import time

from fabricmon.fabric.transport import TransportError
from fabricmon.terminal import console
from fabricmon.terminal.text import clean

EXAMPLES = """\
fabricmon fabric
fabricmon fabric --device mlx5_0 --json > fabric.json
fabricmon fabric --ibnetdiscover > fabric.txt
"""
OK, FAILED, PARTIAL = 0, 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to send from, how hard to ask, what to print."""
    parser.add_argument("--device", default="", metavar="NAME", help="adapter (default: first active InfiniBand port)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="its port")
    parser.add_argument("--node-names", default="", metavar="FILE", help="node-name-map of the InfiniBand tools")
    parser.add_argument("--window", type=int, default=16, choices=range(1, 17), metavar="N",
                        help="datagrams outstanding, 1 to 16 (default 16)")
    parser.add_argument("--timeout", type=float, default=0.2, metavar="SECONDS", help="for one datagram (default 0.2)")
    parser.add_argument("--tries", type=int, default=3, metavar="N", help="times one is sent (default 3)")
    parser.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS", help="for everything (default 60)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="nodes, links and ports with all counters as JSON")
    form.add_argument("--ibnetdiscover", action="store_true", help="the topology as ibnetdiscover prints it")


def run(args: argparse.Namespace) -> int:
    """Walk, sweep, print."""
    from fabricmon.commands import fabric_text
    from fabricmon.fabric.discover import discover
    from fabricmon.fabric.dump import ibnetdiscover
    from fabricmon.fabric.exchange import Exchange, Pace
    from fabricmon.fabric.report import report
    from fabricmon.fabric.subnet import At
    from fabricmon.fabric.sweep import Sweep
    from fabricmon.fabric.umad import open_port

    names = None
    if args.node_names:
        from fabricmon import sources

        try:
            names = sources.node_names(args.node_names)
        except sources.SourceError as error:
            print(f"fabricmon fabric: {clean(error)}", file=sys.stderr)
            return FAILED
    started = time.monotonic()
    until = started + args.deadline
    try:
        transport = open_port(args.device, args.port)
    except TransportError as error:
        print(f"fabricmon fabric: {error.strerror}", file=sys.stderr)
        return FAILED
    try:
        exchange = Exchange(transport, Pace(args.window, args.timeout, max(1, args.tries)))
        with console.elapsed("walking the fabric"):
            subnet = discover(exchange, until)
        walked = time.monotonic()
        if args.ibnetdiscover:
            console.show(ibnetdiscover(subnet).splitlines())
            return OK if subnet.whole and not subnet.cut else PARTIAL
        ports = [At(node.guid, port.number) for node, port in subnet.linked()]
        with console.elapsed(f"reading {len(ports):,} ports"):
            values = Sweep(exchange, subnet, ports).run(until)
    except TransportError as error:
        print(f"fabricmon fabric: {error.strerror}", file=sys.stderr)
        return FAILED
    finally:
        transport.close()
    told = report(subnet, ports, values, names, walked - started, time.monotonic() - walked)
    if args.json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(told), indent=1).decode() + "\n")
    else:
        console.show(clean(line) for line in fabric_text.render(told).split("\n"))
    return OK if subnet.whole and not (subnet.cut or values.cut or values.silent) else PARTIAL
