"""Topology of the fabric: switches, hosts, links by tier and rail, the recognised shape, and findings.

The topology comes from the server, or from files: ibnetdiscover dump, cable plan, Slurm, Kubernetes, LLDP
(docs/topology.md); several files of one fabric are merged and compared. `affinity` shows the PCIe distance between the
GPUs and adapters of this host (PIX to SYS)."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from fabricmon import sources
from fabricmon.commands import affinity, remote
from fabricmon.console import output
from fabricmon.forms.natural import natural
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.text_table import text_table
from fabricmon.topology.graph import Adapter, Cable, Graph, Switch
from fabricmon.topology.infer import is_nvlink, tier

EXAMPLES = """\
fabricmon topology
fabricmon topology show fabric.txt plan.yaml
ibnetdiscover | fabricmon topology show /dev/stdin
fabricmon topology affinity
"""
OK, ODD, UNUSABLE = 0, 1, 2
NAMED = 8
"""Components printed for one finding; --json has all."""
UNITS_SHOWN = 40
"""Units printed; a torus has one per switch."""
VERSION = 1
"""Version of the JSON; increases when a field changes its meaning or is removed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(files=[], node_name_map="")
    _add_form(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", description="default: show")
    show = verbs.add_parser("show", help="show the topology of the server, or of files")
    show.add_argument("files", nargs="*", metavar="FILE", help="topology files (default: from the server)")
    show.add_argument("--node-name-map", default="", metavar="FILE", help="names by GUID, override node descriptions")
    _add_form(show)
    near = verbs.add_parser("affinity", help="PCIe distance between GPUs and network adapters of this node")
    affinity.add_arguments(near)
    for verb in (show, near):
        _keep_given(parser, verb)


def _keep_given(parser: argparse.ArgumentParser, verb: argparse.ArgumentParser) -> None:
    """Keep options that are given before the verb: argparse would replace them by the verb's defaults."""
    given = {action.dest for action in parser._actions if action.option_strings}
    for action in verb._actions:
        if action.dest in given:
            action.default = argparse.SUPPRESS


def _add_form(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the whole graph as JSON")
    parser.add_argument("--strict", action="store_true", help="exit 1 if there is a finding")
    remote.add_arguments(parser, as_json=False)


def run(args: argparse.Namespace) -> int:
    """0; 1 with --strict and a finding; 2 if a file cannot be used (the others are shown) or the server does not
    answer."""
    if args.verb == "affinity":
        return affinity.run(args)
    if not args.files:
        return _from_central(args)
    worst = OK
    graphs = []
    try:
        names = sources.node_names(args.node_name_map)
    except sources.SourceError as error:
        print(clean(error), file=sys.stderr)
        return UNUSABLE
    for path in args.files:
        try:
            graphs.append(sources.parse_file(path, names))
        except sources.SourceError as error:
            print(clean(error), file=sys.stderr)
            worst = UNUSABLE
    if not graphs:
        return worst
    graph = sources.merged(graphs)
    _show(graph, as_json=args.json)
    return max(worst, ODD) if args.strict and graph.findings else worst


def _from_central(args: argparse.Namespace) -> int:
    try:
        graph = graph_of(remote.request(args, "GET", "/topology"))
    except remote.RemoteError as error:
        print(f"fabricmon topology: {error}", file=sys.stderr)
        return UNUSABLE
    except msgspec.ValidationError as error:
        print(f"fabricmon topology: the server has another version, its topology cannot be read: {clean(error)}",
              file=sys.stderr)  # fmt: skip
        return UNUSABLE
    _show(graph, as_json=args.json)
    return ODD if args.strict and graph.findings else OK


def _show(graph: Graph, *, as_json: bool) -> None:
    """Print the graph. Names come from node descriptions and LLDP, so control characters are removed."""
    if as_json:
        print(msgspec.json.encode(document(graph)).decode())
    else:
        output.show(clean(line) for line in report(graph))


class _Nodes(msgspec.Struct):
    """Lists in the answer of the server that a graph has by id."""

    switches: tuple[Switch, ...]
    adapters: tuple[Adapter, ...]


def graph_of(answer: dict[str, Any]) -> Graph:
    """The graph in an answer of the server. msgspec.ValidationError."""
    nodes = msgspec.convert(answer, _Nodes)
    graph = msgspec.convert({**answer, "switches": {}, "adapters": {}}, Graph)
    return msgspec.structs.replace(
        graph,
        switches={switch.id: switch for switch in nodes.switches},
        adapters={adapter.id: adapter for adapter in nodes.adapters},
    )


def document(graph: Graph) -> dict[str, Any]:
    """The graph as JSON with a summary (docs/topology.md)."""
    return {
        "version": VERSION,
        "summary": {
            "switches": len(graph.switches),
            "hosts": len(graph.hosts),
            "adapters": len(graph.adapters),
            "links": len(graph.cables),
            "neighbours": len(graph.trunks),
            "aggregation": len(graph.aggregation),
            "levels": {str(level): count for level, count in sorted(_level_counts(graph).items())},
            "tiers": _tier_counts(graph),
            "units": {unit: _unit(graph, unit, rails) for unit, rails in _leaves(graph).items()},
        },
        "shape": graph.shapes[0] if graph.shapes else None,
        **{name: getattr(graph, name) for name in graph.__struct_fields__},
    }


def report(graph: Graph) -> Iterator[str]:
    """The graph as text, line by line."""
    for origin in graph.origins:
        when = f"{datetime.fromtimestamp(origin.taken, UTC):%Y-%m-%d %H:%M} UTC" if origin.taken is not None else ""
        yield f"{origin}  {origin.role.value}{', written ' + when if when else ''}"
    apart = f", {len(graph.aggregation)} aggregation nodes" if graph.aggregation else ""
    near = f", {len(graph.trunks)} neighbours and {len(graph.attached)} hosts without ports" if graph.attached else ""
    yield (
        f"  {len(graph.switches)} switches, {len(graph.hosts)} hosts, "
        f"{len(graph.adapters)} adapters{apart}, {len(graph.cables)} links{near}"
    )
    for shape in graph.shapes:
        yield f"  {shape.name}, confidence {shape.confidence:.0%}"
        yield f"    {shape.why}"
    units = list(_rails(graph))
    domains = Counter(labels["nvlink"] for labels in graph.hosts.values() if "nvlink" in labels)
    sizes = sorted(Counter(domains.values()).items())
    for head, rows in (
        (("LEVEL", "SWITCHES", "ADAPTERS", "MODELS"), list(_levels(graph))),
        (("LINKS", "COUNT", "RATES"), list(_tiers(graph))),
        (("UNIT", "HOSTS", "LEAVES", "RAILS (leaves)"), units[:UNITS_SHOWN]),
        (("NVLINK DOMAINS", "HOSTS EACH"), [(str(n), str(size)) for size, n in sizes]),
    ):
        if rows:
            yield ""
            yield from text_table([head, *rows], "  ")
        if rows and head[0] == "UNIT" and len(units) > UNITS_SHOWN:
            yield f"  and {len(units) - UNITS_SHOWN} more units"
    yield ""
    yield from _findings(graph)


def _findings(graph: Graph) -> Iterator[str]:
    count = len(graph.findings)
    yield f"  {count} finding{'s' * (count > 1)}" if count else "  no findings"
    for finding in graph.findings:
        yield f"    {finding.kind}: {finding.why}"
        if len(finding.components) > 1:
            rest = len(finding.components) - NAMED
            yield "      " + "; ".join(finding.components[:NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def _level_counts(graph: Graph) -> Counter[int]:
    return Counter(switch.level for switch in graph.switches.values() if not is_nvlink(switch))


def _levels(graph: Graph) -> Iterator[tuple[str, ...]]:
    carried: Counter[str] = Counter()
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in graph.switches and far.node in graph.adapters:
                carried[near.node] += 1
    kinds = [({-1: "unknown", 0: "0 (leaf)"}.get(level, str(level)),
              [s for s in graph.switches.values() if s.level == level and not is_nvlink(s)])
             for level in sorted(_level_counts(graph))]  # fmt: skip
    kinds.append(("NVLink", [s for s in graph.switches.values() if is_nvlink(s)]))
    for word, of in kinds:
        if of:
            models = Counter(switch.model or "unknown" for switch in of)
            yield word, str(len(of)), _span([carried[switch.id] for switch in of]), _counted(models)


def _by_tier(graph: Graph) -> dict[str, list[Cable]]:
    """Links by tier; NVLinks are a separate tier."""
    found: dict[str, list[Cable]] = {}
    for link in graph.cables:
        ends = (graph.switches.get(link.a.node), graph.switches.get(link.b.node))
        word = "nvlink" if any(end is not None and is_nvlink(end) for end in ends) else tier(graph, link)
        found.setdefault(word, []).append(link)
    return dict(sorted(found.items()))


def _rate_words(links: list[Cable]) -> Counter[str]:
    return Counter(f"{link.rate * 8 / 1e9:g} Gb/s" if link.rate else "rate unknown" for link in links)


def _tiers(graph: Graph) -> Iterator[tuple[str, ...]]:
    for name, links in _by_tier(graph).items():
        yield name, str(len(links)), _counted(_rate_words(links))


def _tier_counts(graph: Graph) -> dict[str, dict[str, Any]]:
    return {name: {"links": len(of), "rates": dict(_rate_words(of))} for name, of in _by_tier(graph).items()}


def _leaves(graph: Graph) -> dict[str, Counter[str]]:
    """Unit -> rail -> number of leaves; rail "mixed" for a leaf with several adapter indexes."""
    found: dict[str, Counter[str]] = {}
    for switch in graph.switches.values():
        if switch.level == 0 and (unit := switch.labels.get("unit")):
            found.setdefault(unit, Counter())[switch.labels.get("rail", "mixed")] += 1
    return {unit: found[unit] for unit in sorted(found, key=natural)}


def _unit(graph: Graph, unit: str, rails: Counter[str]) -> dict[str, Any]:
    return {
        "hosts": sorted((host for host, labels in graph.hosts.items() if labels.get("unit") == unit), key=natural),
        "leaves": rails.total(),
        "rails": dict(sorted(rails.items(), key=_by_rail)),
    }


def _rails(graph: Graph) -> Iterator[tuple[str, ...]]:
    hosts = Counter(labels.get("unit", "") for labels in graph.hosts.values())
    for unit, rails in _leaves(graph).items():
        names = [rail if count == 1 else f"{rail} x{count}" for rail, count in sorted(rails.items(), key=_by_rail)]
        known = " ".join(names) if graph.cables else ""
        yield unit, str(hosts[unit]), str(rails.total()), known


def _by_rail(item: tuple[str, int]) -> tuple[tuple[int, int, str], ...]:
    return natural(item[0])


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count} x {word}" for word, count in words.most_common())
