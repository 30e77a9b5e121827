"""A sweep of the fabric in words: what is wrong first, then a summary by tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fabricmon.fabric.report import LinkReport, PortReport, Report
from fabricmon.topology.infer import natural

MOST = 30
"""Ports or links of one sort that are named; the rest is counted. --json has all."""


def render(told: Report) -> str:
    """The text a person reads."""
    kinds = Counter(node.kind for node in told.nodes)
    nodes = ", ".join(f"{kinds[kind]} {_many(kind, kinds[kind])}" for kind in sorted(kinds, reverse=True))
    lines = [
        f"{nodes}, {len(told.links)} links, seen from {told.origin}",
        f"walked in {told.walked_in:.2f} s, {len(told.ports)} ports swept in {told.swept_in:.2f} s "
        f"with {told.datagrams} datagrams{'' if told.whole else '; NOT ALL OF THE FABRIC ANSWERED'}",
    ]
    for title, found in (
        ("nodes that do not answer", list(told.silent)),
        ("links that are not active", [_link(link) for link in told.links if link.state != "active"]),
        ("links below the rate of their tier", list(_slow(told.links))),
        ("ports with errors, since their counters were last reset", [_port(port) for port in _worst(told.ports)]),
    ):
        if found:
            lines += ["", f"{len(found)} {title}:", *(f"  {text}" for text in found[:MOST])]
            if len(found) > MOST:
                lines.append(f"  and {len(found) - MOST} more")
    lines += ["", *_table(("TIER", "LINKS", "ACTIVE", "RATES", "PORTS WITH ERRORS", "PORTS THAT WAITED"), _tiers(told))]
    lines += ["", *(told.findings or ("nothing odd in the topology",))]
    return "\n".join(lines)


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}es" if word.endswith("ch") else f"{word}s"


def _link(link: LinkReport) -> str:
    return f"{link.a.node}/{link.a.port} - {link.b.node}/{link.b.port}: {link.state}"


def _rate(rate: float | None, width: int | None) -> str:
    return f"{rate * 8 / 1e9:g} Gb/s over {width}X" if rate is not None else "unknown"


def _slow(links: Sequence[LinkReport]) -> Iterator[str]:
    usual: dict[str, float] = {}
    for tier in {link.tier for link in links}:
        rates = Counter(link.rate for link in links if link.tier == tier and link.rate is not None)
        if rates:
            usual[tier] = rates.most_common(1)[0][0]
    for link in links:
        if link.rate is not None and link.rate < usual[link.tier]:
            most = _rate(usual[link.tier], None).partition(" over")[0]
            ends = f"{link.a.node}/{link.a.port} - {link.b.node}/{link.b.port}"
            yield f"{ends}: {_rate(link.rate, link.width)}, most have {most}"


def _worst(ports: Sequence[PortReport]) -> list[PortReport]:
    bad = [port for port in ports if port.errors]
    return sorted(bad, key=lambda port: (-sum(port.errors.values()), natural(port.node), port.port))


def _port(port: PortReport) -> str:
    counted = ", ".join(f"{name} {value:g}" for name, value in sorted(port.errors.items(), key=lambda e: -e[1]))
    return f"{port.node}/{port.port} -> {port.remote}: {counted}"


def _tiers(told: Report) -> Iterator[tuple[str, ...]]:
    ends = {(port.guid, port.port): port for port in told.ports}
    for tier in sorted({link.tier for link in told.links}):
        links = [link for link in told.links if link.tier == tier]
        rates = Counter(_rate(link.rate, link.width) for link in links)
        both = [(end.guid, end.port) for link in links for end in (link.a, link.b)]
        ports = [ends[end] for end in both if end in ends]
        yield (
            tier, str(len(links)), str(sum(link.state == "active" for link in links)),
            ", ".join(f"{count} x {rate}" for rate, count in rates.most_common()),
            str(sum(bool(port.errors) for port in ports)),
            str(sum(bool(port.counters.get("xmit_wait_ticks")) for port in ports)),
        )  # fmt: skip


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
