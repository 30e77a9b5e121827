"""Nodes as a list, and one node with what hangs on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricmon.central.words import ago, count
from fabricmon.terminal import incidents as listing
from fabricmon.terminal import table
from fabricmon.terminal.style import PRESENCE
from fabricmon.terminal.table import Cell, Column
from fabricmon.terminal.text import clean, wrapped
from fabricmon.terminal.view import View
from fabricmon.terminal.words import PRESENCES, UNKNOWN, bar, gigabits, share, since, wall

COLUMNS = (
    Column("NODE", least=16),
    Column("PRESENCE"),
    Column("FOR", right=True),
    Column("LAST FRAME", right=True, drop=2),
    Column("PORTS", right=True, drop=4),
    Column("GPUS", right=True, drop=5),
    Column("SYMPTOMS", right=True),
    Column("VERSION", drop=3),
    Column("DETAIL", least=12, drop=1),
)
SILENT = (*COLUMNS[:4], Column("PORTS", right=True, drop=4), Column("DETAIL", least=12, drop=1))

PORTS = (
    Column("PORT"),
    Column("RATE", right=True, drop=2),
    Column("RECEIVE", right=True),
    Column("", drop=4),
    Column("TRANSMIT", right=True),
    Column("", drop=4),
    Column("WAITING", right=True, drop=1),
    Column("PAUSING", right=True, drop=1),
    Column("RAIL", drop=3),
    Column("LINK", least=16, drop=5),
)
BAR = 8


def order(node: Mapping[str, Any]) -> tuple[int, str]:
    """The ones that a person should look at first: silent by sort, then by name."""
    presence = node.get("presence", "")
    rank = ("unreachable", "refused", "cloned", "incompatible", "slow", "never")
    return (rank.index(presence) if presence in rank else len(rank), str(node.get("node", "")))


def listed(
    nodes: Sequence[Mapping[str, Any]], view: View, indent: int = 0, *, silent: bool = False
) -> Iterator[str]:
    """A line a node."""
    rows = [_row(node, view, silent) for node in nodes]
    yield from table.lines(SILENT if silent else COLUMNS, rows, view.style, view.columns, indent)


def _row(node: Mapping[str, Any], view: View, silent: bool) -> list[Cell]:
    presence = clean(node.get("presence", ""))
    detail = clean(node.get("detail", ""))
    if node.get("maintenance"):
        detail = f"{detail + '; ' if detail else ''}maintenance {clean(node['maintenance'])}"
    symptoms = node.get("symptoms") or 0
    first = [
        Cell(clean(node.get("node", "")), "strong" if presence != "live" else ""),
        Cell(presence, PRESENCE.get(presence, "unknown")),
        Cell(since(node.get("since"), view.now)),
        Cell(_last(node, view)),
        Cell(f"{node.get('ports', 0)}"),
    ]
    if silent:
        return [*first, Cell(detail)]
    return [
        *first,
        Cell(f"{node.get('gpus', 0)}"),
        Cell(f"{symptoms}" if presence == "live" or symptoms else UNKNOWN, "warning" if symptoms else ""),
        Cell(clean(node.get("version", "")), "faint"),
        Cell(detail),
    ]


def _last(node: Mapping[str, Any], view: View) -> str:
    at = wall(node.get("last_frame"))
    return "never" if at is None else ago(view.now - at)


def one(
    node: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]], symptoms: Sequence[Mapping[str, Any]],
    ports: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]], view: View,
) -> Iterator[str]:  # fmt: skip
    """All that the centre knows of a node."""
    style = view.style
    presence = clean(node.get("presence", ""))
    head = f"{style(clean(node['node']), 'strong')}  {style(presence, PRESENCE.get(presence, 'unknown'))}"
    yield f"{head} for {since(node.get('since'), view.now)}{'  ' + clean(node['detail']) if node.get('detail') else ''}"
    last = _last(node, view)
    version, boot = clean(node.get("version") or UNKNOWN), clean(node.get("boot_id") or UNKNOWN)
    yield f"  last frame {last}, agent {version}, boot {boot}"
    if node.get("maintenance"):
        yield f"  under maintenance {clean(node['maintenance'])}"
    yield f"  {count(node.get('ports', 0), 'port')}, {count(node.get('gpus', 0), 'GPU')}"
    if presence in PRESENCES:
        yield style("  what follows is as it was last seen: unknown now, not healthy", "unknown")
    yield ""
    if incidents:
        yield style("INCIDENTS", "head")
        yield from listing.listed(incidents, view, 2)
    else:
        yield "no open incident names it"
    if symptoms:
        yield ""
        yield style("SYMPTOMS", "head")
        for symptom in symptoms:
            yield from _symptom(symptom, view)
    if jobs:
        yield ""
        yield style("JOBS", "head")
        for job in jobs:
            yield f"  {clean(job.get('name', ''))}#{clean(job.get('id', ''))}  {clean(job.get('user', ''))}"
    if ports:
        yield ""
        yield from port_table(ports, view, named=False)


def _symptom(symptom: Mapping[str, Any], view: View) -> Iterator[str]:
    component = symptom.get("component") or {}
    severity = clean(symptom.get("severity", ""))
    evidence = "; ".join(clean(e.get("text", "")) for e in symptom.get("evidence") or ())
    name = clean(component.get("name") or component.get("node", ""))
    said = f"{clean(symptom.get('rule', ''))} {name}, for {since(symptom.get('since'), view.now)}: {evidence}"
    columns = None if view.columns is None else view.columns - 12
    for number, line in enumerate(wrapped(said, columns)):
        yield f"  {view.style(f'{severity:<8}', severity) if not number else ' ' * 8}  {line}"


def port_table(
    ports: Sequence[Mapping[str, Any]], view: View, indent: int = 2, *, named: bool = True
) -> Iterator[str]:
    """Ports and how busy and held up they are; `named` with their node's name."""
    rows = [_port(port, named) for port in ports]
    yield from table.lines(PORTS, rows, view.style, view.columns, indent)


def _port(port: Mapping[str, Any], named: bool) -> list[Cell]:
    name = clean(port.get("port", ""))
    receive, transmit = port.get("receive_ratio"), port.get("transmit_ratio")
    about = "~" if port.get("waiting_estimated") and port.get("waiting_ratio") is not None else ""
    return [
        Cell(f"{clean(port.get('node', ''))}/{name}" if named else name),
        Cell(gigabits(port.get("rate")), "faint"),
        Cell(share(receive), manner(receive)),
        Cell(bar(receive, BAR).rstrip(), "faint"),
        Cell(share(transmit), manner(transmit)),
        Cell(bar(transmit, BAR).rstrip(), "faint"),
        Cell(about + share(port.get("waiting_ratio")), held(port.get("waiting_ratio"))),
        Cell(share(port.get("pausing_ratio")), held(port.get("pausing_ratio"))),
        Cell(clean(port.get("rail") or ""), "faint"),
        Cell(clean(port.get("link") or ""), "faint"),
    ]


def manner(ratio: object) -> str:
    """What is unknown is told apart."""
    return "" if isinstance(ratio, int | float) else "unknown"


def held(ratio: object) -> str:
    """From a tenth of the time on it is worth a look."""
    if not isinstance(ratio, int | float):
        return "faint"
    return "warning" if ratio >= 0.1 else ""
