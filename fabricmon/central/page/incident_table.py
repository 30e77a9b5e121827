"""The table of open incidents: sorted, grouped, with a box to select each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from fabricmon.central.page.cards import NEW, about, badges, order, severity_badge
from fabricmon.central.page.markup import address, e, moment
from fabricmon.central.page.scene import Scene
from fabricmon.central.page.search_filter import Filter
from fabricmon.forms.natural import natural
from fabricmon.forms.readable import kind_words
from fabricmon.model import Incident
from fabricmon.notify.silence import silenced_by

COLUMNS: dict[str, tuple[str, Callable[[Incident], Any]]] = {
    "severity": ("severity", lambda i: -i.severity.rank),
    "kind": ("kind", lambda i: i.kind),
    "component": ("component", lambda i: natural(i.component)),
    "title": ("title", lambda i: natural(i.title)),
    "members": ("members", lambda i: -i.members.bad),
    "jobs": ("jobs", lambda i: -(i.impact.total if i.impact is not None else 0)),
    "since": ("started", lambda i: -i.since),
}
"""Name in the address -> heading, and key of the first order: the worst, most or newest first."""

FALLING = frozenset({"severity", "members", "jobs", "since"})  # whose first order is descending


def arranged(shown: Sequence[Incident], scene: Scene, wanted: Filter) -> list[Incident]:
    """In the order of the list: by group, then by the chosen column, then as cards are."""
    rows = sorted(shown, key=order)
    if wanted.view != "table":
        return rows
    if wanted.sort:
        rows.sort(key=COLUMNS[wanted.sort.removeprefix("-")][1], reverse=wanted.sort.startswith("-"))
    if not wanted.group:
        return rows
    worst: dict[str, int] = {}
    for i in rows:
        name = group_of(i, scene, wanted)
        worst[name] = min(worst.get(name, 0), -i.severity.rank)
    return sorted(rows, key=lambda i: (worst[name := group_of(i, scene, wanted)], natural(name)))


def group_of(i: Incident, scene: Scene, wanted: Filter) -> str:
    """The name of its group: the kind, or the smallest place that it is in as a whole."""
    return kind_words(i.kind) if wanted.group == "kind" else scene.place(i).domain or i.component.partition("(")[0]


def incident_table(rows: Sequence[Incident], scene: Scene, clock: float | None, wanted: Filter) -> str:
    """The table of these rows, in their order, and the bar of what can be done with the selected ones."""
    if wanted.group:
        groups = groupby(rows, key=lambda i: group_of(i, scene, wanted))
        bodies = "".join(_group(name, list(inside), scene, clock) for name, inside in groups)
    else:
        bodies = f'<tbody id="rows">{_rows(rows, scene, clock)}</tbody>'
    return (
        '<div id="bulk" class="bulk" hidden><b></b> <button class="button" type="button" data-bulk="acknowledge">'
        'Acknowledge</button> <button class="button" type="button" data-bulk="silence">Silence</button> '
        '<button class="quietly" type="button" data-bulk="none">Clear selection</button></div>'
        "<div class='wide' tabindex='0' role='region' aria-label='Open incidents'><table class='dense'><thead><tr>"
        f"{_box('all', 'Select all incidents')}{''.join(_head(name, wanted) for name in COLUMNS)}</tr></thead>"
        f"{bodies}</table></div>"
    )


def _box(group: str, label: str) -> str:
    """A box that selects several rows; without a script it does nothing and is not shown."""
    box = f'<input type="checkbox" data-group="{e(group)}" aria-label="{e(label)}">'
    return f"<{'th' if group == 'all' else 'td'} class='box'>{box}</{'th' if group == 'all' else 'td'}>"


def _head(name: str, wanted: Filter) -> str:
    chosen, turned = wanted.sort.removeprefix("-") == name, wanted.sort == f"-{name}"
    where = wanted.link(sort="" if turned else f"-{name}" if chosen else name)
    falling = (name in FALLING) is not turned
    state = f" aria-sort='{'descending' if falling else 'ascending'}'" if chosen else ""
    mark = f' <i aria-hidden="true">{"▼" if falling else "▲"}</i>' if chosen else ""
    return f'<th class="c-{name}" scope="col"{state}><a href="{e(where)}" data-keep>{COLUMNS[name][0]}{mark}</a></th>'


def _group(name: str, rows: Sequence[Incident], scene: Scene, clock: float | None) -> str:
    label = f"Select {len(rows)} incidents of {name}"
    return (
        f'<tbody id="group/{e(name)}"><tr class="group">{_box(name, label)}'
        f'<th colspan="{len(COLUMNS)}" scope="rowgroup">{e(name)} <span class="n">{len(rows)}</span></th></tr>'
        f"{_rows(rows, scene, clock)}</tbody>"
    )


def _rows(rows: Iterable[Incident], scene: Scene, clock: float | None) -> str:
    return "".join(_row(i, scene, clock) for i in rows)


def _row(i: Incident, scene: Scene, clock: float | None) -> str:
    taken, silence = scene.taken.get(i.id), silenced_by(i, scene.silences, scene.at)
    title, component = e(i.title), e(i.component)
    quiet = " quiet" if taken or silence else ""
    members = f"{i.members.bad} of {i.members.of}" if i.members.of else ""
    jobs = f"{i.impact.total}" if i.impact is not None and i.impact.total else ""
    return (
        f'<tr class="incident {i.severity.value}{quiet}" id="row/{e(i.id)}" {about(i)}>'
        f'<td class="box"><input type="checkbox" aria-label="Select {title}"></td>'
        f'<td class="c-severity">{severity_badge(i)}</td><td class="c-kind">{e(kind_words(i.kind))}</td>'
        f'<td class="c-component"><code title="{component}">{component}</code></td><td class="c-title">'
        f'<a class="title" href="{address("incident", id=i.id)}" title="{title}">{title}</a> '
        f'{NEW}{badges(taken, silence)}<code class="small">{component}</code></td>'
        f'<td class="c-members">{members}</td><td class="c-jobs">{jobs}</td>'
        f'<td class="c-since">{moment(i.since, clock)}</td></tr>'
    )
