"""The section of open incidents: its heading and controls, then cards or a table, a page of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fabricmon.central.page.cards import card
from fabricmon.central.page.incident_table import arranged, incident_table
from fabricmon.central.page.markup import e
from fabricmon.central.page.places import rail_number
from fabricmon.central.page.scene import Scene
from fabricmon.central.page.search_filter import Filter
from fabricmon.forms.natural import natural
from fabricmon.model import Incident
from fabricmon.notify.acknowledge import opened as opened_at

PAGE = {"": 100, "table": 500}  # open incidents of one page, by form; the API has all
MAX_NEW = 1000  # openings from which the number of new ones is counted
MAX_CHOICES = 200  # entries of one list of the search form
GROUPS = (("", "nothing"), ("domain", "domain"), ("kind", "kind"))


def opened(shown: Sequence[Incident], total: int, scene: Scene, clock: float | None, wanted: Filter) -> str:
    """The section: those that match the search, of `total`."""
    number = f"{len(shown):,} of {total:,}" if len(shown) != total else f"{total:,}"
    heading = f'<h2>Open incidents <span class="n">{number}</span></h2>'
    if not shown:
        text = "No open incidents on reporting nodes." if scene.overview.known else "No data yet."
        if total:
            text = f'No open incident matches. <a href="{e(_all(wanted))}" data-keep>Show all</a>'
        return f'<section id="open" class="open"{_choices(scene)}>{heading}<p class="none">{text}</p></section>'
    rows = arranged(shown, scene, wanted)
    size = PAGE[wanted.view]
    first = (min(wanted.page, -(-len(rows) // size)) - 1) * size
    part = rows[first : first + size]
    if wanted.view == "table":
        inside = incident_table(part, scene, clock, wanted)
    else:
        inside = f'<div class="cards">{"".join(card(i, scene, clock) for i in part)}</div>'
    times = " ".join(f"{at:.0f}" for at in sorted(map(opened_at, shown), reverse=True)[:MAX_NEW])
    return (
        f'<section id="open" class="open {wanted.view or "carded"}"{_choices(scene)} data-openings="{times}">'
        f'<div class="over">{heading}<button id="news" class="quietly" type="button" hidden></button>'
        f'<span class="grow"></span>{_controls(wanted)}</div>{inside}{pages(first, len(part), len(rows), size, wanted)}'
        "</section>"
    )


def _all(wanted: Filter) -> str:
    """The address without the search."""
    return Filter(view=wanted.view, sort=wanted.sort, group=wanted.group, map=wanted.map).link()


def _controls(wanted: Filter) -> str:
    """Links: cards or table, and how the table is grouped."""
    forms = _chosen([("Cards", wanted.link(view=""), wanted.view == ""),
                     ("Table", wanted.link(view="table"), wanted.view == "table")])  # fmt: skip
    if wanted.view != "table":
        return f'<nav class="choose" aria-label="Form of the list">{forms}</nav>'
    groups = _chosen([(words, wanted.link(group=name), wanted.group == name) for name, words in GROUPS])
    return (
        f'<nav class="choose" aria-label="Group by"><span>Group by</span>{groups}</nav>'
        f'<nav class="choose" aria-label="Form of the list">{forms}</nav>'
    )


def _chosen(links: Iterable[tuple[str, str, bool]]) -> str:
    marks = {True: ' aria-current="true"', False: ""}
    return "".join(f'<a href="{e(where)}" data-keep{marks[now]}>{words}</a>' for words, where, now in links)


def pages(first: int, part: int, total: int, size: int, wanted: Filter) -> str:
    """Links to the page before and after; "" where all is on one page."""
    if total <= size:
        return ""
    number = first // size + 1
    links = [("Previous", number - 1)] * (first > 0) + [("Next", number + 1)] * (first + part < total)
    steps = " ".join(f'<a href="{e(wanted.link(page=page))}" data-keep>{words}</a>' for words, page in links)
    return f'<nav class="more" aria-label="Pages">{first + 1:,} to {first + part:,} of {total:,} {steps}</nav>'


def choices(scene: Scene) -> dict[str, list[str]]:
    """Parameter of the search -> what the open incidents offer, in order."""
    found: dict[str, set[str]] = {"kind": set(), "rail": set(), "leaf": set(), "job": set()}
    for incident in scene.incidents:
        place = scene.place(incident)
        found["kind"].add(incident.kind)
        found["rail"].update(map(rail_number, place.rails))
        found["leaf"].update(place.leaves)
        if incident.impact is not None:
            found["job"].update(job.title for job in incident.impact.jobs)
    return {name: sorted(words, key=natural)[:MAX_CHOICES] for name, words in found.items()}


def _choices(scene: Scene) -> str:
    """As attributes, for the script."""
    lists = {name: e("\n".join(words)) for name, words in choices(scene).items()}
    return "".join(f' data-{name}s="{words}"' for name, words in lists.items())


