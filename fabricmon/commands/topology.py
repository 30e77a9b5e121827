"""Show what a fabric description says: switches, hosts, links by tier and rail, and what is odd in it.

  fabricmon topology show fabric.txt             an ibnetdiscover dump (full or -p form) or a YAML cable plan, also .gz
  ibnetdiscover | fabricmon topology show /dev/stdin
  fabricmon topology affinity                    how close this host's GPUs and adapters are (PIX to SYS)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

import msgspec

from fabricmon import sources
from fabricmon.commands import affinity
from fabricmon.topology.graph import Cable, Graph
from fabricmon.topology.infer import natural, tier

OK, ODD, UNUSABLE = 0, 1, 2
NAMED = 8
"""Components of one finding that are printed; --json has all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    show = verbs.add_parser("show", help="print what the files say; exit 2 where one cannot be used")
    show.add_argument("files", nargs="+", metavar="FILE")
    show.add_argument("--node-name-map", default="", metavar="FILE", help="GUID to name, wins over descriptions")
    show.add_argument("--json", action="store_true", help="one JSON object a file, a line each, with the whole graph")
    show.add_argument("--strict", action="store_true", help="exit 1 where anything is odd")
    near = verbs.add_parser("affinity", help="print how close GPUs and network adapters of a node are over PCIe")
    affinity.add_arguments(near)


def run(args: argparse.Namespace) -> int:
    """0; 1 with --strict and a finding; 2 where a file cannot be used (the others are shown)."""
    if args.verb == "affinity":
        return affinity.run(args)
    worst = OK
    for at, path in enumerate(args.files):
        try:
            graph = sources.load(path, args.node_name_map)
        except sources.SourceError as error:
            print(error, file=sys.stderr)
            worst = UNUSABLE
            continue
        if args.json:
            print(msgspec.json.encode(graph).decode())
        else:
            print("\n" * (at > 0) + "\n".join(report(graph)))
        if args.strict and graph.findings:
            worst = max(worst, ODD)
    return worst


def report(graph: Graph) -> Iterator[str]:
    """The graph for a person, line by line."""
    yield graph.source
    apart = f", {len(graph.aggregation)} aggregation nodes apart" if graph.aggregation else ""
    yield (
        f"  {len(graph.switches)} switches, {len(graph.hosts)} hosts, "
        f"{len(graph.adapters)} adapters{apart}, {len(graph.cables)} links"
    )
    yield ""
    yield from _table(("LEVEL", "SWITCHES", "ADAPTERS", "MODELS"), _levels(graph))
    yield ""
    yield from _table(("LINKS", "COUNT", "RATES"), _tiers(graph))
    rails = list(_rails(graph))
    if rails:
        yield ""
        yield from _table(("UNIT", "HOSTS", "LEAVES", "RAILS (leaves)"), rails)
    yield ""
    if not graph.findings:
        yield "  nothing odd"
    else:
        yield f"  {len(graph.findings)} findings"
    for finding in graph.findings:
        yield f"    {finding.kind}: {finding.why}"
        if len(finding.components) > 1:
            rest = len(finding.components) - NAMED
            yield "      " + "; ".join(finding.components[:NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def _level(level: int) -> str:
    return {-1: "unknown", 0: "0 (leaf)"}.get(level, str(level))


def _levels(graph: Graph) -> Iterator[tuple[str, ...]]:
    carried: Counter[str] = Counter()
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in graph.switches and far.node in graph.adapters:
                carried[near.node] += 1
    for level in sorted({switch.level for switch in graph.switches.values()}):
        of = [switch for switch in graph.switches.values() if switch.level == level]
        counts = [carried[switch.id] for switch in of]
        models = Counter(switch.model or "unknown" for switch in of)
        yield _level(level), str(len(of)), _span(counts), _counted(models)


def _tiers(graph: Graph) -> Iterator[tuple[str, ...]]:
    by_tier: dict[str, list[Cable]] = {}
    for link in graph.cables:
        by_tier.setdefault(tier(graph, link), []).append(link)
    for name, links in sorted(by_tier.items()):
        rates = Counter(f"{link.rate * 8 / 1e9:g} Gb/s" if link.rate else "rate unknown" for link in links)
        yield name, str(len(links)), _counted(rates)


def _rails(graph: Graph) -> Iterator[tuple[str, ...]]:
    leaves: dict[str, Counter[str]] = {}
    for switch in graph.switches.values():
        if switch.level == 0 and (unit := switch.labels.get("unit")):
            leaves.setdefault(unit, Counter())[switch.labels.get("rail", "mixed")] += 1
    hosts = Counter(labels.get("unit", "") for labels in graph.hosts.values())
    for unit in sorted(leaves, key=natural):
        rails = leaves[unit]
        names = [rail if count == 1 else f"{rail} x{count}" for rail, count in sorted(rails.items(), key=_by_rail)]
        yield unit, str(hosts[unit]), str(rails.total()), " ".join(names)


def _by_rail(item: tuple[str, int]) -> tuple[tuple[int, int, str], ...]:
    return natural(item[0])


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count} x {word}" for word, count in words.most_common())


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
