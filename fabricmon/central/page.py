"""The status page: one HTML document that is complete without a script, and its middle part by itself for updates.

Pure: takes what `Centre.look` and others know and gives text. Everything that came from outside (names, words of
incidents, errors) goes through `e`, and the page's Content-Security-Policy allows no inline script or style, so a
node cannot write into it even if one place were forgotten.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabricmon import __version__
from fabricmon.central.cards import bar, more, opened, order, resolved_lines
from fabricmon.central.mosaic import mosaic
from fabricmon.central.overview import TROUBLED, Overview
from fabricmon.central.words import ago, clock_time, count, span
from fabricmon.model import Incident, Maintenance, NodeView, Presence, Severity
from fabricmon.notify.silence import Silence

MAX_SILENT = 100  # nodes that are not live
MAX_WINDOWS = 20  # silences, and as many maintenance windows

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)

e = html.escape

_PRESENCE = {
    Presence.LIVE: "live",
    Presence.SLOW: "slow: connected, frames are late",
    Presence.REFUSED: "agent dead: the node answers, nothing listens",
    Presence.UNREACHABLE: "unreachable: no answer from the node",
    Presence.CLONED: "cloned: two agents use this name",
    Presence.INCOMPATIBLE: "incompatible: speaks another version",
    Presence.NEVER: "never seen",
}


@dataclass(frozen=True, slots=True)
class Receiver:
    """How telling one receiver goes: notifications waiting and what is wrong, "" if nothing is."""

    name: str
    waiting: int
    error: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything the page shows, at one moment.

    warnings  what is wrong with the centre itself, one sentence each
    """

    at: float
    overview: Overview
    nodes: Sequence[NodeView]
    incidents: Sequence[Incident]
    silences: Sequence[Silence] = ()
    windows: Sequence[Maintenance] = ()
    receivers: Sequence[Receiver] = ()
    warnings: Sequence[str] = ()


def document(scene: Scene) -> str:
    """The whole page."""
    name = scene.overview.fabric
    title = e(f"{headline(scene)[1]} · {name or 'fabricmon'}")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="static/page.css">
<script src="static/page.js" defer></script>
<noscript><meta http-equiv="refresh" content="10"></noscript>
</head>
<body>
<header class="bar">
<a class="brand" href="."><img src="static/icon.svg" alt="" width="26" height="26"><b>fabricmon</b></a>
<span class="fabric">{e(name)}</span>
<span class="grow"></span>
<span id="pulse" class="pulse" role="status">as of <time>{clock_time(scene.at)}</time></span>
<button id="theme" class="theme" type="button" hidden>theme</button>
</header>
<main id="live">
{fragment(scene)}
</main>
<footer class="foot">
<a href="api/v1/incidents">incidents</a> <a href="api/v1/symptoms">symptoms</a> <a href="api/v1/nodes">nodes</a>
<a href="api/v1/topology">topology</a> <a href="api/v1/jobs">jobs</a>
<a href="api/v1/silences">silences</a> <a href="metrics">metrics</a>
<span class="grow"></span><span>fabricmon {e(__version__)}</span>
</footer>
</body>
</html>
"""


def fragment(scene: Scene) -> str:
    """What changes: the page's script puts it in place of the one before."""
    o = scene.overview
    firing = sorted((i for i in scene.incidents if i.status == "firing"), key=order)
    resolved = sorted((i for i in scene.incidents if i.status != "firing"), key=lambda i: -(i.resolved or i.updated))
    return "\n".join(
        part
        for part in (
            _warnings(scene.warnings),
            _headline(scene),
            _tiles(scene),
            opened(firing, scene.silences, scene.at, o.known),
            mosaic(scene.nodes, firing),
            _silent(scene),
            _windows(scene),
            resolved_lines(resolved, scene.at),
        )
        if part
    )


def headline(scene: Scene) -> tuple[str, str]:
    """State word and sentence: what somebody across the room should take in.

    The state is "good" only if everything expected is seen: with silent nodes the fabric is not known to be well.
    """
    o = scene.overview
    if not o.expected:
        return "unknown", "No agents yet"
    if not o.known:
        return "unknown", f"Nothing seen: none of {count(o.expected, 'node')} is live"
    if o.worst in (Severity.CRITICAL, Severity.WARNING):
        counts = [count(o.firing[s], words) for s, words in _SEVERITY_WORDS if o.firing[s]]
        return o.worst.value, " · ".join(counts)
    if o.live < o.expected:
        return "partly", f"No open problem on what is seen; {count(o.expected - o.live, 'node')} not seen"
    return "good", "All well"


_SEVERITY_WORDS = ((Severity.CRITICAL, "critical incident"), (Severity.WARNING, "warning"))


def _headline(scene: Scene) -> str:
    state, text = headline(scene)
    o = scene.overview
    seen = f"{count(o.ports, 'port')} on {o.live} of {count(o.expected, 'node')} seen live"
    silent = f", {count(o.ports_silent, 'port')} silent" if o.ports_silent else ""
    below = "point `central.targets` or `--target` at the agents" if not o.expected else seen + silent
    return f'<section class="headline {state}" data-title="{e(text)}"><h1>{e(text)}</h1><p>{e(below)}</p></section>'


def _warnings(warnings: Iterable[str]) -> str:
    return "".join(f'<p class="alarm" role="alert">{e(text)}</p>' for text in warnings)


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
    tiles.append(_tile("nodes", "nodes live", f"{o.live}<small>/{o.expected}</small>", text, True, bar(share)))
    shared = [("live", o.ports), ("unreachable", o.ports_silent)]
    text = f"{o.ports_silent} silent" if o.ports_silent else "none silent"
    tiles.append(_tile("ports", "ports live", f"{o.ports:,}", text, True, bar(shared)))
    waiting = sum(r.waiting for r in scene.receivers)
    broken = [r for r in scene.receivers if r.error]
    if not scene.receivers:
        text = "no receiver configured"
    elif broken:
        text = f"{broken[0].name}: {broken[0].error}"
    else:
        text = f"{count(len(scene.receivers), 'receiver')}, all delivered" if not waiting else "being delivered"
    tiles.append(_tile("told" + (" bad" if broken else ""), "notifications waiting", str(waiting), text, True))
    return f'<section class="tiles">{"".join(tiles)}</section>'


def _tile(name: str, label: str, value: str, text: str, lit: bool, below: str = "") -> str:
    dim = "" if lit else " dim"
    return (
        f'<div class="tile {name}{dim}"><span class="label">{e(label)}</span><b>{value}</b>{below}'
        f'<span class="text" title="{e(text)}">{e(text)}</span></div>'
    )


# --------------------------------------------------------------------------------------------------------
# What is silent, and what was announced


def _silent(scene: Scene) -> str:
    rank = {presence: i for i, presence in enumerate(TROUBLED)}
    silent = sorted((n for n in scene.nodes if n.presence in rank), key=lambda n: (rank[n.presence], n.node))
    if not silent:
        return ""
    rows = "".join(_silent_row(n, scene.at) for n in silent[:MAX_SILENT])
    return (
        f'<section class="silent"><h2>Not seen <span class="n">{len(silent)}</span></h2>'
        "<p class='note'>Nothing is known of these: they count neither as healthy nor as broken.</p>"
        "<div class='wide'><table><tr><th>node</th><th>presence</th><th>detail</th><th>since</th><th>last frame</th>"
        f"<th>ports</th></tr>{rows}</table></div>{more(len(silent), MAX_SILENT, 'api/v1/nodes')}</section>"
    )


def _silent_row(n: NodeView, at: float) -> str:
    last = ago(at - n.last_frame) if n.last_frame is not None else "never"
    work = ' <span class="badge">maintenance</span>' if n.maintenance else ""
    words = e(_PRESENCE[n.presence])
    return (
        f'<tr><td><code>{e(n.node)}</code>{work}</td><td><span class="presence {n.presence.value}" title="{words}">'
        f"{n.presence.value}</span></td><td>{e(n.detail)}</td><td>{e(ago(at - n.since))}</td><td>{e(last)}</td>"
        f"<td>{n.ports or ''}</td></tr>"
    )


def _windows(scene: Scene) -> str:
    rows = []
    for s in sorted((s for s in scene.silences if s.ends > scene.at), key=lambda s: s.ends)[:MAX_WINDOWS]:
        what = " ".join(f"<code>{e(str(m))}</code>" for m in s.matchers)
        rows.append(_window("silence", what, s.starts, s.ends, s.author, s.comment, scene.at))
    for w in sorted((w for w in scene.windows if w.ends > scene.at), key=lambda w: w.ends)[:MAX_WINDOWS]:
        what = " ".join(f"<code>{e(name)}</code>" for name in (*w.hosts, *w.components)[:12])
        rows.append(_window("maintenance", what, w.starts, w.ends, w.author, w.comment, scene.at))
    if not rows:
        return ""
    return (
        f"<section class='windows'><h2>Announced</h2><div class='wide'><table>{''.join(rows)}</table></div></section>"
    )


def _window(word: str, what: str, starts: float, ends: float, author: str, comment: str, at: float) -> str:
    when = f"begins in {span(starts - at)}" if starts > at else f"ends in {span(ends - at)}"
    return (
        f'<tr><td><span class="badge">{word}</span></td><td>{what}</td><td title="{e(clock_time(ends))}">{e(when)}</td>'
        f"<td>{e(author)}</td><td>{e(comment)}</td></tr>"
    )


def receivers(deliveries: Mapping[str, tuple[int, str]]) -> list[Receiver]:
    """Receivers from name -> (waiting, error), those in trouble first."""
    made = [Receiver(name, waiting, error) for name, (waiting, error) in deliveries.items()]
    return sorted(made, key=lambda r: (not r.error, r.name))
