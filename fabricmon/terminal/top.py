"""`fabricmon top`: the screen, and the effect of keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fabricmon.forms.readable import count
from fabricmon.forms.times import clock_time, span
from fabricmon.terminal import explain, nodes, status, table
from fabricmon.terminal import incidents as listing
from fabricmon.terminal.fitted_text import bare, clean, clip, cut, width
from fabricmon.terminal.style import TextView
from fabricmon.terminal.table import Cell, Column
from fabricmon.terminal.values import UNKNOWN, bar, share

SORTS = ("busy", "waiting", "pausing")
SORT_WORDS = {"busy": "utilisation", "waiting": "Tx wait", "pausing": "PFC pause sent"}
WIDE = 110
"""Terminal columns from which rails are shown beside ports."""
RAIL_BAR = 14
BESIDE = 2  # blanks between two blocks
LEAST = 3
"""Minimum lines of a section with its head."""
KEYS = "q quit   ↑↓ choose   enter explain   s sort ports   space freeze   ? keys"
HELP = (
    "q           quit",
    "↑ ↓ k j     choose an incident; in a text, scroll",
    "enter       explain the chosen incident; escape, q or ← goes back",
    "s           sort the ports by utilisation, Tx wait or PFC pause sent",
    "space       freeze the screen, and continue",
    "page up/dn  scroll by a screen; home and end: first and last line",
    "ctrl-l      redraw",
)
RAILS = (Column("RAIL", least=6), Column("RX", right=True), Column("", drop=1), Column("TX", right=True),
         Column("", drop=2), Column("KNOWN", right=True, drop=3))  # fmt: skip


@dataclass(frozen=True)
class Data:
    """Documents of the server and `at`, its time. `error`: why it does not answer now; `lost`: since when (on the clock
    of `now` in `lines`)."""

    overview: Mapping[str, Any] = field(default_factory=dict)
    incidents: Sequence[Mapping[str, Any]] = ()
    silent: Sequence[Mapping[str, Any]] = ()
    ports: Sequence[Mapping[str, Any]] = ()
    rails: Sequence[Mapping[str, Any]] = ()
    incident: Mapping[str, Any] | None = None
    at: float = 0.0
    where: str = ""
    error: str = ""
    lost: float = 0.0


@dataclass(frozen=True)
class TopState:
    """The state of the screen.

    chosen  number of the selected incident; its id is kept, so the selection stays when the list changes
    page    "list", "explain" or "keys"
    offset  first visible line of a page
    """

    chosen: int = 0
    chosen_id: str = ""
    page: str = "list"
    offset: int = 0
    sort: str = SORTS[0]
    held: bool = False
    done: bool = False


def press(state: TopState, key: str, data: Data, lines: int) -> TopState:
    """The state after a key. `lines` of the terminal are a page."""
    if key == "interrupt":
        return replace(state, done=True)
    if state.page != "list":
        return _press_page(state, key, lines)
    if key in ("q", "escape"):
        return replace(state, done=key == "q")
    if key in ("down", "j", "up", "k", "home", "end", "page up", "page down"):
        last = max(len(data.incidents) - 1, 0)
        step = {"down": 1, "j": 1, "up": -1, "k": -1, "page down": 10, "page up": -10, "home": -last, "end": last}[key]
        return _choose(state, min(max(state.chosen + step, 0), last), data)
    if key in ("enter", "right") and data.incidents:
        return replace(_choose(state, min(state.chosen, len(data.incidents) - 1), data), page="explain", offset=0)
    if key == "s":
        return replace(state, sort=SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)])
    if key == " ":
        return replace(state, held=not state.held)
    return replace(state, page="keys", offset=0) if key in ("?", "h") else state


def _press_page(state: TopState, key: str, lines: int) -> TopState:
    if key in ("q", "escape", "left", "back", "enter"):
        return replace(state, page="list", offset=0)
    step = {"down": 1, "j": 1, "up": -1, "k": -1, "page down": lines - 3, " ": lines - 3, "page up": 3 - lines,
            "home": -(1 << 30), "end": 1 << 30}.get(key, 0)  # fmt: skip
    return replace(state, offset=max(0, state.offset + step))


def _choose(state: TopState, number: int, data: Data) -> TopState:
    id = str(data.incidents[number].get("id", "")) if number < len(data.incidents) else ""
    return replace(state, chosen=number, chosen_id=id)


def follow(state: TopState, data: Data) -> TopState:
    """The state for a new list: the same incident is selected."""
    ids = [str(incident.get("id", "")) for incident in data.incidents]
    if state.chosen_id in ids:
        return replace(state, chosen=ids.index(state.chosen_id))
    if state.page == "explain":
        return state
    return _choose(state, min(state.chosen, max(len(ids) - 1, 0)), data)


def lines(state: TopState, data: Data, view: TextView, height: int | None, now: float) -> tuple[list[str], TopState]:
    """The screen, and the state with an offset within the page. `height` None: unlimited."""
    shown, state = _lines(state, data, view, height, now)
    return [line if view.columns is None else cut(line, view.columns) for line in shown[:height]], state


def _lines(state: TopState, data: Data, view: TextView, height: int | None, now: float) -> tuple[list[str], TopState]:
    head = list(_head(state, data, view, now))
    if state.page == "list":
        body = list(_body(state, data, view, None if height is None else height - len(head) - 1))
    else:
        page = list(_page(state, data, view))
        room = max(1, (height or len(page) + 2) - len(head) - 1)
        state = replace(state, offset=min(state.offset, max(0, len(page) - room)))
        body = page[state.offset : state.offset + room]
    if height is None:
        return head + body, state
    foot = KEYS if state.page == "list" else "escape back   ↑↓ page up/down scroll   q back"
    room = max(0, height - 1 - len(head))
    body = body[:room] + [""] * (room - len(body))
    return [*head, *body, view.style(clip(foot, view.columns or 80), "faint")], state


def _head(state: TopState, data: Data, view: TextView, now: float) -> Iterator[str]:
    style = view.style
    if not data.overview:
        yield f"{style('fabricmon top', 'strong')}  {clean(data.error) or f'requesting {data.where} ...'}"
        yield ""
        return
    word, reason = status.verdict(data.overview)
    if data.error:
        word, reason = "unknown", f"no answer for {span(now - data.lost)}, the data below is stale"
    manner = {"pass": "good"}.get(word, word)
    name = clean(data.overview.get("fabric") or "fabric")
    clock = stamp_of(data.at)
    left = f"{word.upper()}  {name}: {reason}"
    right = f"{'FROZEN  ' if state.held else ''}{clock}"
    room = (view.columns or 100) - width(right) - 2
    left = clip(left, room)
    shown = left.replace(word.upper(), style(word.upper(), manner), 1)
    yield f"{shown}{' ' * (room - width(left))}  {style(right, 'faint')}"
    known = data.overview["nodes"]
    live = f"{known.get('live', 0):,}/{sum(known.values()):,} nodes live"
    facts = [*status.live_and_not(known, live, style), count(data.overview["ports"], "port")]
    if data.overview["ports_silent"]:
        facts.append(style(f"{data.overview['ports_silent']:,} unknown", "unknown"))
    yield ", ".join([*facts, status.evaluated(status.age(data.overview))])
    if data.error:
        yield style(clip(clean(data.error), view.columns or 200), "unknown")
    yield ""


def stamp_of(at: float) -> str:
    """The server's time of day."""
    return clock_time(at)[11:] if at else ""


def _body(state: TopState, data: Data, view: TextView, room: int | None) -> Iterator[str]:
    if not data.overview:
        return
    found = [list(_incidents(state, data, view, room))]
    if data.silent:
        found.append([view.style(f"NOT REPORTING ({status.silent(data.overview):,})", "head"),
                      *list(nodes.listed(data.silent, view, 2, silent=True))[1:]])  # fmt: skip
    rails = _rails(data, view)
    if rails and view.columns is not None and view.columns >= WIDE:
        broad = max(width(bare(line)) for line in rails) + BESIDE
        ports = _ports(state, data, view._replace(columns=view.columns - broad))
        found.append(_beside(rails, ports, broad))
    else:
        found += [rails, _ports(state, data, view)]
    yield from _stacked([part for part in found if part], room)


def _stacked(parts: Sequence[list[str]], room: int | None) -> Iterator[str]:
    """The parts with blank lines between. Without enough room the longest ones after the first are cut, and the number
    of lines cut is shown."""
    sizes = [len(part) for part in parts]
    if room is not None:
        while sum(sizes) + len(parts) - 1 > room:
            giving = [at for at in range(1, len(sizes)) if sizes[at] > LEAST] or [0]
            longest = max(giving, key=lambda at: sizes[at])
            if sizes[longest] <= 1:
                break
            sizes[longest] -= 1
    used = 0
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if room is not None and used + min(size, 2) > room:
            return
        if used:
            yield ""
        yield from part if size == len(part) or not number else part[: size - 1]
        if size < len(part) and number:
            yield f"  and {len(part) - size + 1} more"
        used += size + 1


def _incidents(state: TopState, data: Data, view: TextView, room: int | None) -> Iterator[str]:
    if not data.incidents:
        yield view.style("no open incidents", "good" if data.overview["nodes"].get("live") else "unknown")
        return
    short = listing.short_ids(data.incidents)
    rows = [listing.row(incident, short, view) for incident in data.incidents]
    shown = list(table.lines(listing.COLUMNS, rows, view.style, view.columns, 2))
    if room is None:
        yield from shown
        return
    most = max(LEAST, room * 2 // 5)
    first = max(0, min(state.chosen - most // 2, len(rows) - most))
    yield shown[0]
    for number in range(first, min(len(rows), first + most)):
        line = shown[1 + number]
        yield f"{view.style('>', 'strong')} {line[2:]}" if number == state.chosen else line
    open_count = sum(data.overview["firing"].values())
    if open_count > min(len(rows), first + most):
        yield view.style(f"  and {open_count - min(len(rows), first + most):,} more", "faint")


def _rails(data: Data, view: TextView) -> list[str]:
    rows = [
        [
            Cell(clean(rail.get("name", ""))),
            Cell(share(rail.get("receive_ratio")), nodes.manner(rail.get("receive_ratio"))),
            Cell(bar(rail.get("receive_ratio"), RAIL_BAR).rstrip() or " ", "info"),
            Cell(share(rail.get("transmit_ratio")), nodes.manner(rail.get("transmit_ratio"))),
            Cell(bar(rail.get("transmit_ratio"), RAIL_BAR).rstrip() or " ", "info"),
            Cell("" if rail.get("known") == rail.get("ports") else f"{rail.get('known', UNKNOWN)}/{rail.get('ports')}",
                 "unknown"),
        ]
        for rail in data.rails
    ]  # fmt: skip
    if not rows:
        return []
    return list(table.lines(RAILS, rows, view.style, view.columns, 2))


def _ports(state: TopState, data: Data, view: TextView) -> list[str]:
    if not data.ports:
        return []
    title = view.style(f"  PORTS by {SORT_WORDS[state.sort]}", "head")
    return [title, *nodes.port_table(data.ports, view, 2)]


def _beside(left: Sequence[str], right: Sequence[str], broad: int) -> list[str]:
    """Two blocks side by side, the right one at column `broad`."""
    rows = []
    for at in range(max(len(left), len(right))):
        near = left[at] if at < len(left) else ""
        far = right[at] if at < len(right) else ""
        rows.append((near + " " * (broad - width(bare(near))) + far).rstrip())
    return rows


def _page(state: TopState, data: Data, view: TextView) -> Iterator[str]:
    if state.page == "keys":
        yield from (f"  {line}" for line in HELP)
    elif data.incident is None or data.incident.get("id") != state.chosen_id:
        yield f"  requesting {clean(state.chosen_id)} ..."
    else:
        yield from explain.explanation(data.incident, view, data.where)
