"""Incidents as a list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fabricmon.terminal import table
from fabricmon.terminal.style import Style
from fabricmon.terminal.table import Cell, Column
from fabricmon.terminal.text import clean
from fabricmon.terminal.view import View
from fabricmon.terminal.words import since, stamp

SHORTEST_ID = 4
"""Characters of an id that are shown at least."""

COLUMNS = (
    Column("SEVERITY"),
    Column("ID"),
    Column("SINCE", right=True),
    Column("BAD", right=True, drop=2),
    Column("WHAT", least=24),
    Column("WHERE", least=18, drop=3),
    Column("", drop=1),
)


def short_ids(incidents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Beginnings of ids that tell them apart, as long as one another."""
    ids = {clean(incident.get("id", "")) for incident in incidents}
    length = SHORTEST_ID
    while length < max(map(len, ids), default=0) and len({id[:length] for id in ids}) < len(ids):
        length += 1
    return {id: id[:length] for id in ids}


def listed(incidents: Sequence[Mapping[str, Any]], view: View, indent: int = 0, *, full: bool = False) -> Iterator[str]:
    """A line an incident; `full` writes ids and places in full."""
    short = short_ids(incidents)
    rows = [row(incident, short, view, full=full) for incident in incidents]
    yield from table.lines(COLUMNS, rows, view.style, view.columns, indent)


def row(incident: Mapping[str, Any], short: Mapping[str, str], view: View, *, full: bool = False) -> list[Cell]:
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
    """The title, without the component's name at its end, which stands beside it."""
    title, component = clean(incident.get("title", "")), clean(incident.get("component", ""))
    before, _, name = title.rpartition(": ")
    return before if before and name and f"({name})" in component else title


def bad(incident: Mapping[str, Any]) -> str:
    """ "32 of 32"; nothing where it has one member."""
    members = incident.get("members") or {}
    return f"{members.get('bad')}/{members.get('of')}" if (members.get("of") or 0) > 1 else ""


def notes(incident: Mapping[str, Any]) -> str:
    """What somebody did about it, and what it does to jobs."""
    said = []
    if incident.get("silenced_by"):
        said.append("silenced")
    if taken := incident.get("acknowledged"):
        said.append(f"taken on by {clean(taken.get('author') or 'somebody')}")
    if jobs := (incident.get("labels") or {}).get("jobs"):
        said.append(f"jobs: {clean(jobs)}")
    return "; ".join(said)


def told(incident: Mapping[str, Any], style: Style) -> str:
    """One line for `--watch`: what is the news of it."""
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
