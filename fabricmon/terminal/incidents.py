"""The list of incidents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fabricmon.terminal import table
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.style import Style, TextView
from fabricmon.terminal.table import Cell, Column
from fabricmon.terminal.values import UNKNOWN, since, stamp

SHORTEST_ID = 4
"""Minimum characters of a short id."""

COLUMNS = (
    Column("SEVERITY"),
    Column("ID"),
    Column("SINCE", right=True),
    Column("BAD", right=True, drop=2),
    Column("INCIDENT", least=24),
    Column("COMPONENT", least=18, drop=3),
    Column("", drop=1),
)


def short_ids(incidents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Id -> unique prefix; all prefixes have the same length."""
    ids = {clean(incident.get("id", "")) for incident in incidents}
    length = SHORTEST_ID
    while length < max(map(len, ids), default=0) and len({id[:length] for id in ids}) < len(ids):
        length += 1
    return {id: id[:length] for id in ids}


def listed(
    incidents: Sequence[Mapping[str, Any]], view: TextView, indent: int = 0, *, full: bool = False
) -> Iterator[str]:
    """A line per incident; `full`: with full ids."""
    short = short_ids(incidents)
    rows = [row(incident, short, view, full=full) for incident in incidents]
    yield from table.lines(COLUMNS, rows, view.style, view.columns, indent)


def row(incident: Mapping[str, Any], short: Mapping[str, str], view: TextView, *, full: bool = False) -> list[Cell]:
    """The cells of one line."""
    ended = incident.get("status") != "firing"
    severity = clean(incident.get("severity", ""))
    manner = "faint" if ended else severity
    id = clean(incident.get("id", ""))
    return [
        Cell("resolved" if ended else severity, "good" if ended else manner),
        Cell(id if full else short.get(id, id), "strong" if not ended else "faint"),
        Cell(since(incident.get("since"), view.now), "faint" if ended else ""),
        Cell(bad(incident), "faint" if ended else ""),
        Cell(what(incident), "faint" if ended else ""),
        Cell(clean(incident.get("component", "")), "faint"),
        Cell(notes(incident), "faint"),
    ]


def what(incident: Mapping[str, Any]) -> str:
    """The title without the component at its end, which has a column of its own."""
    title, component = clean(incident.get("title", "")), clean(incident.get("component", ""))
    before, _, name = title.rpartition(": ")
    return before if before and name and f"({name})" in component else title


def bad(incident: Mapping[str, Any]) -> str:
    """ "32/32"; "" for one member."""
    members = incident.get("members") or {}
    return f"{members.get('bad')}/{members.get('of')}" if (members.get("of") or 0) > 1 else ""


def notes(incident: Mapping[str, Any]) -> str:
    """Silence, acknowledgement and affected jobs."""
    found = []
    if incident.get("silenced_by"):
        found.append("silenced")
    if by := incident.get("acknowledged"):
        found.append(f"acknowledged by {clean(by.get('author') or UNKNOWN)}")
    if jobs := (incident.get("labels") or {}).get("jobs"):
        found.append(f"jobs: {clean(jobs)}")
    return "; ".join(found)


def change_line(incident: Mapping[str, Any], style: Style) -> str:
    """One line for `--watch`: state, title and latest change."""
    severity = clean(incident.get("severity", ""))
    history = incident.get("history") or [{}]
    last = history[-1]
    ended = incident.get("status") != "firing"
    word = "resolved" if ended else severity
    news = clean(last.get("change", ""))
    text = clean(incident.get("title", ""))
    if news not in ("", "opened", "resolved"):
        text += f" ({news}: {clean(last.get('reason', ''))})"
    when = stamp(incident.get("updated"))
    return (
        f"{style(when, 'faint')}  {style(f'{word:<8}', 'good' if ended else severity)}  "
        f"{clean(incident.get('id', ''))}  {text}  {style(clean(incident.get('component', '')), 'faint')}"
    )
