"""The result of a fabric sweep as text: faults first, then a summary by tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fabricmon.fabric.report import LinkReport, PortReport, SweepReport
from fabricmon.forms.natural import natural
from fabricmon.terminal.text_table import text_table
from fabricmon.topology.graph import Finding

MOST = 30
"""Ports or links listed in one section; --json has all."""

NAMED = 8
"""Components that the line of a finding names."""

HEAD = ("TIER", "LINKS", "ACTIVE", "RATES", "PORTS WITH ERRORS", "PORTS WITH TX WAIT")


def render(sweep: SweepReport) -> str:
    """The text."""
    kinds = Counter(node.kind for node in sweep.nodes)
    nodes = ", ".join(f"{kinds[kind]} {_many(kind, kinds[kind])}" for kind in sorted(kinds, reverse=True))
    lines = [
        f"{nodes}, {len(sweep.links)} links, seen from {sweep.origin}",
        f"discovered in {sweep.walked_in:.2f} s, {len(sweep.ports)} ports swept in {sweep.swept_in:.2f} s "
        f"with {sweep.datagrams} datagrams{'' if sweep.whole else '; PART OF THE FABRIC DID NOT ANSWER'}",
    ]
    for title, found in (
        ("nodes without answer", list(sweep.silent)),
        ("ports with their link up whose far end does not answer", list(sweep.mute)),
        ("links lost", [_lost(finding) for finding in sweep.lost]),
        ("links not active", [_link(link) for link in sweep.links if link.state != "active"]),
        ("ports with errors since their counters were last reset", [_port(port) for port in _worst(sweep.ports)]),
    ):
        if found:
            lines += ["", f"{len(found)} {title}:", *(f"  {text}" for text in found[:MOST])]
            if len(found) > MOST:
                lines.append(f"  and {len(found) - MOST} more")
    lines += ["", *text_table([HEAD, *_tiers(sweep)])]
    lines += ["", *(map(_finding, sweep.findings) if sweep.findings else ("no topology findings",))]
    return "\n".join(lines)


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}es" if word.endswith("ch") else f"{word}s"


def _link(link: LinkReport) -> str:
    return f"{link.a.node}/{link.a.port} - {link.b.node}/{link.b.port}: {link.state}"


def _rate(rate: float | None, width: int | None) -> str:
    return f"{rate * 8 / 1e9:g} Gb/s over {width}X" if rate is not None else "unknown"


def _finding(finding: Finding) -> str:
    """Kind, reason and the first components."""
    named = "; ".join(finding.components[:NAMED])
    rest = f" and {len(finding.components) - NAMED} more" if len(finding.components) > NAMED else ""
    return f"{finding.kind}: {finding.why}: {named}{rest}"


def _lost(finding: Finding) -> str:
    return f"{finding.components[0]}: {finding.why}" if finding.kind == "port_down" else _finding(finding)


def _worst(ports: Sequence[PortReport]) -> list[PortReport]:
    bad = [port for port in ports if port.errors]
    return sorted(bad, key=lambda port: (-sum(port.errors.values()), natural(port.node), port.port))


def _port(port: PortReport) -> str:
    counted = ", ".join(f"{name} {value:g}" for name, value in sorted(port.errors.items(), key=lambda e: -e[1]))
    return f"{port.node}/{port.port} -> {port.remote or port.state}: {counted}"


def _tiers(sweep: SweepReport) -> Iterator[tuple[str, ...]]:
    ends = {(port.guid, port.port): port for port in sweep.ports}
    for tier in sorted({link.tier for link in sweep.links}):
        links = [link for link in sweep.links if link.tier == tier]
        rates = Counter(_rate(link.rate, link.width) for link in links)
        both = [(end.guid, end.port) for link in links for end in (link.a, link.b)]
        ports = [ends[end] for end in both if end in ends]
        yield (
            tier, str(len(links)), str(sum(link.state == "active" for link in links)),
            ", ".join(f"{count} x {rate}" for rate, count in rates.most_common()),
            str(sum(bool(port.errors) for port in ports)),
            str(sum(bool(port.counters.get("xmit_wait_ticks")) for port in ports)),
        )  # fmt: skip
