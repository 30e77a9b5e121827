"""The list of nodes, and the details of one node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricmon.forms.readable import count
from fabricmon.forms.times import ago, wall_time
from fabricmon.terminal import incidents as listing
from fabricmon.terminal import table
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.style import PRESENCE, TextView
from fabricmon.terminal.table import Cell, Column
from fabricmon.terminal.values import PRESENCE_WORDS, PRESENCES, UNKNOWN, bar, gigabits, share, since

COLUMNS = (
    Column("NODE", least=16),
    Column("STATE"),
    Column("FOR", right=True),
    Column("LAST REPORT", right=True, drop=2),
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
    Column("RX", right=True),
    Column("", drop=4),
    Column("TX", right=True),
    Column("", drop=4),
    Column("TX WAIT", right=True, drop=1),
    Column("PAUSE SENT", right=True, drop=1),
    Column("RAIL", drop=3),
    Column("LINK", least=16, drop=5),
)
BAR = 8


def order(node: Mapping[str, Any]) -> tuple[int, str]:
    """Sort key: nodes not reporting first, by presence, then by name."""
    presence = node.get("presence", "")
    rank = ("unreachable", "refused", "cloned", "incompatible", "slow", "never")
    return (rank.index(presence) if presence in rank else len(rank), str(node.get("node", "")))


def listed(
    nodes: Sequence[Mapping[str, Any]], view: TextView, indent: int = 0, *, silent: bool = False
) -> Iterator[str]:
    """A line per node; `silent`: with the columns for nodes not reporting."""
    rows = [_row(node, view, silent) for node in nodes]
    yield from table.lines(SILENT if silent else COLUMNS, rows, view.style, view.columns, indent)


def _row(node: Mapping[str, Any], view: TextView, silent: bool) -> list[Cell]:
    presence = clean(node.get("presence", ""))
    detail = clean(node.get("detail", ""))
    if node.get("maintenance"):
        detail = f"{detail + '; ' if detail else ''}maintenance {clean(node['maintenance'])}"
    symptoms = node.get("symptoms") or 0
    first = [
        Cell(clean(node.get("node", "")), "strong" if presence != "live" else ""),
        Cell(presence_text(presence), PRESENCE.get(presence, "unknown")),
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


def presence_text(presence: str) -> str:
    """The presence in words."""
    return PRESENCE_WORDS.get(presence, presence)


def _last(node: Mapping[str, Any], view: TextView) -> str:
    at = wall_time(node.get("last_frame"))
    return "never" if at is None else ago(view.now - at)


def one(
    node: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]], symptoms: Sequence[Mapping[str, Any]],
    ports: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]], view: TextView,
) -> Iterator[str]:  # fmt: skip
    """The details of a node."""
    style = view.style
    presence = clean(node.get("presence", ""))
    state = style(presence_text(presence), PRESENCE.get(presence, "unknown"))
    head = f"{style(clean(node['node']), 'strong')}  {state}"
    yield f"{head} for {since(node.get('since'), view.now)}{'  ' + clean(node['detail']) if node.get('detail') else ''}"
    last = _last(node, view)
    version, boot = clean(node.get("version") or UNKNOWN), clean(node.get("boot_id") or UNKNOWN)
    yield f"  last report {last}, agent {version}, boot {boot}"
    if node.get("maintenance"):
        yield f"  in maintenance window {clean(node['maintenance'])}"
    yield f"  {count(node.get('ports', 0), 'port')}, {count(node.get('gpus', 0), 'GPU')}"
    if presence in PRESENCES:
        yield style("  the data below is stale: the state now is unknown", "unknown")
    if incidents:
        yield from view.section("INCIDENTS", listing.listed(incidents, view, 2))
    else:
        yield from ("", "no open incidents")
    yield from view.section("SYMPTOMS", (line for symptom in symptoms for line in _symptom(symptom, view)))
    yield from view.section("JOBS", (
        f"  {clean(job.get('name', ''))}#{clean(job.get('id', ''))}  {clean(job.get('user', ''))}" for job in jobs
    ))  # fmt: skip
    if ports:
        yield ""
        yield from port_table(ports, view, named=False)


def _symptom(symptom: Mapping[str, Any], view: TextView) -> Iterator[str]:
    component = symptom.get("component") or {}
    severity = clean(symptom.get("severity", ""))
    evidence = "; ".join(clean(e.get("text", "")) for e in symptom.get("evidence") or ())
    name = clean(component.get("name") or component.get("node", ""))
    text = f"{clean(symptom.get('rule', ''))} {name}, for {since(symptom.get('since'), view.now)}: {evidence}"
    yield from view.hanging(f"  {view.style(f'{severity:<8}', severity)}  ", 12, text)


def port_table(
    ports: Sequence[Mapping[str, Any]], view: TextView, indent: int = 2, *, named: bool = True
) -> Iterator[str]:
    """A line per port with its utilisation and waiting; `named`: with the node's name."""
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
    """Style of a share: `unknown` if it is not known."""
    return "" if isinstance(ratio, int | float) else "unknown"


def held(ratio: object) -> str:
    """Style of a share of waiting: a warning from 10 % on."""
    if not isinstance(ratio, int | float):
        return "faint"
    return "warning" if ratio >= 0.1 else ""
