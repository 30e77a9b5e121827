"""The status page: one HTML document that needs no script, and its main part alone for updates. Pure.

The Content-Security-Policy allows no inline script or style and no other host: text from a node cannot become code, and
the page works without internet access. `clock` is the current time where relative times are written here; None where
the script writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fabricmon import __version__
from fabricmon.central.documents.overview import TROUBLED
from fabricmon.central.page.cards import order, resolved_lines
from fabricmon.central.page.map_levels import WORDS as LEVELS
from fabricmon.central.page.markup import bar, e, moment, more, node_link
from fabricmon.central.page.mosaic import mosaic
from fabricmon.central.page.open_incidents import choices, opened
from fabricmon.central.page.scene import Scene, headline
from fabricmon.central.page.search_filter import Filter
from fabricmon.forms.natural import natural
from fabricmon.forms.readable import count, kind_words
from fabricmon.forms.times import clock_time
from fabricmon.model import NodeView, Presence, Severity

MAX_NOT_REPORTING = 100  # nodes that are not live
MAX_WINDOWS = 20  # silences, and as many maintenance windows

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)

PRESENCE = {
    Presence.LIVE: "live",
    Presence.SLOW: "slow (frames late)",
    Presence.REFUSED: "agent down (connection refused)",
    Presence.UNREACHABLE: "node unreachable",
    Presence.CLONED: "duplicate node name",
    Presence.INCOMPATIBLE: "incompatible protocol version",
    Presence.NEVER: "never seen",
}


_STATES = (
    ("ok", "OK"),
    ("symptom", "symptom"),
    ("warning", "warning"),
    ("critical", "critical"),
    ("unknown", "unknown"),
    ("maintenance", "maintenance"),
    ("off", "down, no symptom"),
)

MAP = f"""<div id="beside"><section id="map" class="map" hidden aria-labelledby="map-title">
<div class="over"><h2 id="map-title">Fabric <span class="n count"></span> <a class="focused" href="" hidden></a></h2>
<span class="grow"></span><button type="button" class="quietly all">All units</button>
<span class="choose modes" role="group" aria-label="The map shows">{"".join(
    f'<button type="button" data-mode="{mode}" aria-pressed="{"false" if mode else "true"}">{mode or "state"}</button>'
    for mode in ("", *LEVELS)
)}</span></div>
<p class="legend" data-scale="">{"".join(
    f'<span data-state="{state}"><i class="{state}" aria-hidden="true"></i>{words} <b></b></span>'
    for state, words in _STATES
)}</p>
{"".join(
    f'<p class="legend" data-scale="{name}" hidden>'
    + "".join(f'<span><i class="l{at}" aria-hidden="true"></i>{words}</span>' for at, words in enumerate(levels))
    + '<span><i class="unknown" aria-hidden="true"></i>unknown</span></p>'
    for name, levels in LEVELS.items()
)}<div class="frame">
<canvas tabindex="0" role="application" aria-roledescription="map" aria-label="Map of the fabric"></canvas>
<div class="ring" hidden></div><div class="tip" hidden></div></div>
<div class="unseen" role="status" aria-live="polite"></div>
<p class="note key">Column: node. Row: rail. Square above a column: the node. Dot before a row: its leaf
switch.</p>
<details><summary>As a table</summary><div class="wide" tabindex="0" role="region" aria-label="Units"><table>
<thead><tr><th>unit</th><th class="n">nodes</th><th class="n">lines</th><th class="n">critical</th>
<th class="n">warning</th><th class="n">unknown</th><th class="n">symptom</th><th class="n">maintenance</th>
</tr></thead>
<tbody></tbody></table></div></details>
</section></div>
"""
"""The frame of the map; the script fills it. Counts are nodes plus ports. It sticks within the box around it."""


def document(scene: Scene, wanted: Filter | None = None) -> str:
    """The whole page."""
    wanted = wanted or Filter()
    return shell(
        headline(scene)[1],
        scene.overview.fabric,
        f'<div id="live">\n{fragment(scene, wanted, scene.at)}\n</div>\n{MAP}'
        f"<noscript>{mosaic(scene.nodes, [i for i in scene.incidents if i.status == 'firing'])}</noscript>",
        f"as of <time>{clock_time(scene.at)}</time>",
        _search(scene, wanted),
        refresh=True,
    )


_FOOT = f"""<footer class="foot">
<a href=".?view=table">Incidents</a> <a href="archive">History</a> <a href="runbooks/">Runbooks</a>
<a href="operations">HTTP API</a>
<span class="grow"></span><span>fabricmon {e(__version__)}</span>
</footer>
"""


def shell(title: str, fabric: str, main: str, pulse: str, search: str = "", refresh: bool = False) -> str:
    """A page around its middle. `main`, `pulse` and `search` are HTML, title and fabric text; `refresh`: reload every
    10 s where scripts are off."""
    again = '<noscript><meta http-equiv="refresh" content="10"></noscript>\n' if refresh else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{e(f"{title} · {fabric or 'fabricmon'}")}</title>
<link rel="icon" href="static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="static/page.css">
<link rel="stylesheet" href="static/map.css">
<link rel="stylesheet" href="static/detail.css">
<link rel="stylesheet" href="static/table.css">
<script type="module" src="static/main.js"></script>
{again}</head>
<body>
<a class="skip" href="#main">Skip to open incidents</a>
<header class="bar">
<a class="brand" href="." aria-label="fabricmon">
<img src="static/icon.svg" alt="" width="26" height="26"><b>fabricmon</b></a>
<span class="fabric">{e(fabric)}</span>
{search or '<span class="grow"></span>'}
<a class="quietly" href="probes">Probes</a>
<a class="quietly" href="archive">History</a>
<span id="pulse" class="pulse">{pulse}</span>
<button id="theme" class="quietly" type="button" hidden>auto</button>
</header>
<main id="main" tabindex="-1">
{main}
</main>
<aside id="panel" class="panel" aria-labelledby="panel-title" hidden></aside>
<div id="status" class="unseen" role="status" aria-live="polite"></div>
{_FOOT}</body>
</html>
"""


def fragment(scene: Scene, wanted: Filter | None = None, clock: float | None = None) -> str:
    """The main part; the script replaces the previous one with it."""
    wanted = wanted or Filter()
    firing = sorted((i for i in scene.incidents if i.status == "firing"), key=order)
    resolved = sorted((i for i in scene.incidents if i.status != "firing"), key=lambda i: -(i.resolved or i.updated))
    shown = [i for i in firing if wanted.incident(i, scene.place(i))]
    return "\n".join(
        part
        for part in (
            _warnings(scene.warnings),
            _headline(scene),
            _tiles(scene),
            opened(shown, len(firing), scene, clock, wanted),
            _not_reporting(scene, wanted, clock),
            _windows(scene, clock),
            resolved_lines([i for i in resolved if wanted.incident(i, scene.place(i))], clock),
        )
        if part
    )


def _headline(scene: Scene) -> str:
    state, text = headline(scene)
    o = scene.overview
    live = f"{count(o.ports, 'port')} on {o.live:,} of {count(o.expected, 'node')} live"
    stale = f", {count(o.ports_silent, 'port')} stale" if o.ports_silent else ""
    below = "set `central.targets` or `--target` to the agents" if not o.expected else live + stale
    return (
        f'<section id="headline" class="headline {state}" data-title="{e(text)}"><h1>{e(text)}</h1>'
        f"<p>{e(below)}</p></section>"
    )


def _warnings(warnings: Iterable[str]) -> str:
    lines = "".join(f'<p class="alarm" role="alert">{e(text)}</p>' for text in warnings)
    return f'<div id="warnings">{lines}</div>' if lines else ""


# --------------------------------------------------------------------------------------------------------
# Search


def _search(scene: Scene, wanted: Filter) -> str:
    severities = [(s.value, s.value if s is Severity.CRITICAL else f"{s.value} or worse") for s in reversed(Severity)]
    words: dict[str, Callable[[str], str]] = {"kind": kind_words, "rail": lambda rail: f"rail {rail}"}
    lists = "".join(
        _select(name, name, [(value, words.get(name, str)(value)) for value in _with(offered, chosen)], chosen)
        for name, offered in choices(scene).items()
        for chosen in [getattr(wanted, name)]
    )
    form = "".join(f'<input type="hidden" name="{name}" value="{e(getattr(wanted, name))}">' for name in _FORM)
    return (
        '<form id="search" class="search" role="search" method="get" action=".">'
        f'<input type="search" name="q" value="{e(wanted.q)}" placeholder="Node, component, kind …" maxlength="256" '
        'aria-label="Search incidents and nodes" autocomplete="off" spellcheck="false">'
        f'<input name="host" value="{e(wanted.host)}" placeholder="any host" maxlength="256" aria-label="Host" '
        'autocomplete="off" spellcheck="false">'
        + _select("severity", "Severity", severities, wanted.severity)
        + lists
        + form
        + '<noscript><button type="submit">Search</button></noscript></form>'
    )


_FORM = ("view", "sort", "group", "map")


def _with(offered: Sequence[str], chosen: str) -> Sequence[str]:
    """What is chosen stays on offer when no open incident has it."""
    return offered if not chosen or chosen in offered else sorted([*offered, chosen], key=natural)


def _select(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> str:
    rows = "".join(
        f'<option value="{e(value)}"{" selected" if value == chosen else ""}>{e(words)}</option>'
        for value, words in options
    )
    every = f"any {label.lower()}"
    return f'<select name="{name}" aria-label="{label.capitalize()}"><option value="">{every}</option>{rows}</select>'


# --------------------------------------------------------------------------------------------------------
# Numbers


def _tiles(scene: Scene) -> str:
    o = scene.overview
    tiles = [
        _tile(severity.value, severity.value, str(o.firing[severity]), "open", bool(o.firing[severity]))
        for severity in reversed(Severity)
    ]
    share = [(p.value, o.nodes[p]) for p in Presence]
    troubled = ", ".join(f"{o.nodes[p]} {p.value}" for p in TROUBLED if o.nodes[p])
    text = troubled or ("all live" if o.expected else "none expected")
    tiles.append(_tile("nodes", "nodes live", f"{o.live:,}<small>/{o.expected:,}</small>", text, True, bar(share)))
    shared = [("live", o.ports), ("unreachable", o.ports_silent)]
    text = f"{o.ports_silent:,} stale" if o.ports_silent else "none stale"
    tiles.append(_tile("ports", "ports live", f"{o.ports:,}", text, True, bar(shared)))
    waiting = sum(r.waiting for r in scene.receivers)
    broken = [r for r in scene.receivers if r.error]
    if not scene.receivers:
        text = "no receiver configured"
    elif broken:
        text = f"{broken[0].name}: {broken[0].error}"
    else:
        text = f"{count(len(scene.receivers), 'receiver')}, queue empty" if not waiting else "sending"
    tiles.append(_tile("delivery" + (" bad" if broken else ""), "notifications queued", str(waiting), text, True))
    return f'<section id="tiles" class="tiles" aria-label="Counts">{"".join(tiles)}</section>'


def _tile(name: str, label: str, value: str, text: str, lit: bool, below: str = "") -> str:
    dim = "" if lit else " dim"
    return (
        f'<div class="tile {name}{dim}"><span class="label">{e(label)}</span><b>{value}</b>{below}'
        f'<span class="text" title="{e(text)}">{e(text)}</span></div>'
    )


# --------------------------------------------------------------------------------------------------------
# Nodes not reporting, silences and maintenance


def _not_reporting(scene: Scene, wanted: Filter, clock: float | None) -> str:
    rank = {presence: i for i, presence in enumerate(TROUBLED)}
    found = [n for n in scene.nodes if n.presence in rank and wanted.node(n)]
    found.sort(key=lambda n: (rank[n.presence], n.node))
    if not found:
        return ""
    rows = "".join(_not_reporting_row(n, clock) for n in found[:MAX_NOT_REPORTING])
    return (
        f'<section id="stale" class="stale"><h2>Nodes not reporting <span class="n">{len(found):,}</span></h2>'
        "<p class='note'>State unknown: these nodes count neither as healthy nor as failed.</p>"
        "<div class='wide' tabindex='0' role='region' aria-label='Nodes not reporting'><table><thead><tr><th>node</th>"
        "<th>presence</th><th>detail</th><th>since</th><th>last frame</th><th>ports</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{more(len(found), MAX_NOT_REPORTING, 'api/v1/nodes')}</section>"
    )


def _not_reporting_row(n: NodeView, clock: float | None) -> str:
    last = moment(n.last_frame, clock) if n.last_frame is not None else "never"
    work = ' <span class="badge">maintenance</span>' if n.maintenance else ""
    words = e(PRESENCE[n.presence])
    return (
        f'<tr><td>{node_link(n.node)}{work}</td><td><span class="presence {n.presence.value}" title="{words}">'
        f"{n.presence.value}</span></td><td>{e(n.detail)}</td><td>{moment(n.since, clock)}</td><td>{last}</td>"
        f"<td>{n.ports or ''}</td></tr>"
    )


def _windows(scene: Scene, clock: float | None) -> str:
    rows = []
    for s in sorted((s for s in scene.silences if s.ends > scene.at), key=lambda s: s.ends)[:MAX_WINDOWS]:
        what = " ".join(f"<code>{e(str(m))}</code>" for m in s.matchers)
        what += f" <strong>disabled: {e(s.disabled)}</strong>" if s.disabled else ""
        rows.append(_window("silence", s.id, what, (s.starts, s.ends), s.author, s.comment, scene.at, clock))
    for w in sorted((w for w in scene.windows if w.ends > scene.at), key=lambda w: w.ends)[:MAX_WINDOWS]:
        what = " ".join(f"<code>{e(name)}</code>" for name in (*w.hosts, *w.components)[:12])
        rows.append(_window("maintenance", w.id, what, (w.starts, w.ends), w.author, w.comment, scene.at, clock))
    if not rows:
        return ""
    return (
        "<section id='windows' class='windows'><h2>Silences and maintenance</h2><div class='wide' tabindex='0' "
        "role='region' aria-label='Silences and maintenance'><table><thead><tr><th>type</th><th>covers</th>"
        f"<th>time</th><th>author</th><th>comment</th><th></th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _window(
    word: str, id: str, what: str, span: tuple[float, float], author: str, comment: str, at: float, clock: float | None
) -> str:
    starts, ends = span
    when = f"starts {moment(starts, clock, 'until')}" if starts > at else f"ends {moment(ends, clock, 'until')}"
    api = "silences" if word == "silence" else "maintenance"
    end = f'<button class="quietly" type="button" data-end="{api}/{e(id)}">End now</button>'
    return (
        f'<tr id="{e(id)}"><td><span class="badge">{word}</span></td><td>{what}</td><td>{when}</td>'
        f"<td>{e(author)}</td><td>{e(comment)}</td><td class='do'>{end}</td></tr>"
    )
