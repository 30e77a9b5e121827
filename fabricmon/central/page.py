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
from fabricmon.central.mosaic import mosaic
from fabricmon.central.overview import TROUBLED, Overview
from fabricmon.central.words import ago, clock_time, count, kind_words, span
from fabricmon.model import Evidence, Incident, Maintenance, NodeView, Presence, Severity
from fabricmon.notify.silence import Silence

MAX_OPEN = 100  # open incidents on the page; the API has all
MAX_RESOLVED = 20
MAX_SILENT = 100  # nodes that are not live
MAX_EVIDENCE = 24
MAX_HISTORY = 24
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
<a href="api/v1/topology">topology</a> <a href="api/v1/silences">silences</a> <a href="metrics">metrics</a>
<span class="grow"></span><span>fabricmon {e(__version__)}</span>
</footer>
</body>
</html>
"""


def fragment(scene: Scene) -> str:
    """What changes: the page's script puts it in place of the one before."""
    firing = sorted((i for i in scene.incidents if i.status == "firing"), key=_order)
    resolved = sorted((i for i in scene.incidents if i.status != "firing"), key=lambda i: -(i.resolved or i.updated))
    return "\n".join(
        part
        for part in (
            _warnings(scene.warnings),
            _headline(scene),
            _tiles(scene),
            _open(firing, scene),
            mosaic(scene.nodes, firing),
            _silent(scene),
            _windows(scene),
            _resolved(resolved, scene.at),
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
    tiles.append(_tile("nodes", "nodes live", f"{o.live}<small>/{o.expected}</small>", text, True, _bar(share)))
    shared = [("live", o.ports), ("unreachable", o.ports_silent)]
    text = f"{o.ports_silent} silent" if o.ports_silent else "none silent"
    tiles.append(_tile("ports", "ports live", f"{o.ports:,}", text, True, _bar(shared)))
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


def _bar(shares: Sequence[tuple[str, int]]) -> str:
    """A stacked bar; SVG, for the Content-Security-Policy allows no style attributes."""
    total = sum(n for _, n in shares)
    if not total:
        return '<svg class="share" aria-hidden="true"></svg>'
    at, pieces = 0.0, []
    for name, n in shares:
        if n:
            width = 100 * n / total
            pieces.append(f'<rect class="{name}" x="{at:.2f}%" width="{width:.2f}%" height="100%"/>')
            at += width
    return f'<svg class="share" aria-hidden="true">{"".join(pieces)}</svg>'


# --------------------------------------------------------------------------------------------------------
# Incidents


def _order(incident: Incident) -> tuple[int, float, str]:
    return (-incident.severity.rank, -incident.since, incident.id)


def _open(firing: Sequence[Incident], scene: Scene) -> str:
    heading = f'<h2>Open incidents <span class="n">{len(firing)}</span></h2>'
    if not firing:
        said = "Nothing is wrong with what is seen." if scene.overview.known else "Nothing can be said yet."
        return f'<section class="open">{heading}<p class="none">{said}</p></section>'
    cards = "".join(_card(i, scene) for i in firing[:MAX_OPEN])
    return f'<section class="open">{heading}{cards}{_more(len(firing), MAX_OPEN, "api/v1/incidents")}</section>'


def _card(i: Incident, scene: Scene) -> str:
    silence = next((s for s in scene.silences if s.active(scene.at) and s.covers(i)), None)
    badge = f'<span class="badge" title="{e(silence.comment)}">silenced</span>' if silence else ""
    chance = f'<span title="confidence in this cause">{i.confidence:.0%} sure</span>' if i.confidence else ""
    members = ""
    if i.members.of:
        members = f"<span>{i.members.bad} of {i.members.of}</span>"
        if i.members.of > 1:
            members += _bar((("bad", i.members.bad), ("rest", i.members.of - i.members.bad)))
    quiet = " quiet" if silence else ""
    return f"""<article class="incident {i.severity.value}{quiet}" id="{e(i.id)}">
<div class="lead"><span class="severity">{i.severity.value}</span><span class="kind">{e(kind_words(i.kind))}</span>
<code class="component">{e(i.component)}</code>{badge}<span class="grow"></span>
<span class="members">{members}</span>{chance}
<time title="{e(clock_time(i.since))}">{e(ago(scene.at - i.since))}</time></div>
<h3>{e(i.title)}</h3>
<p class="why">{e(i.why)}</p>
<p class="action"><b>Do</b> {e(i.action)}</p>
{_details(i)}
</article>
"""


def _details(i: Incident) -> str:
    blocks = []
    if i.evidence:
        rows = "".join(map(_evidence, i.evidence[:MAX_EVIDENCE]))
        blocks.append(f"<h4>Evidence</h4><ul class='evidence'>{rows}</ul>{_more(len(i.evidence), MAX_EVIDENCE)}")
    if i.candidates:
        names = " ".join(f"<code>{e(c)}</code>" for c in i.candidates)
        blocks.append(f"<h4>The evidence cannot tell these apart</h4><p class='names'>{names}</p>")
    if len(i.parts) > 1:
        names = " ".join(f"<code>{e(p)}</code>" for p in i.parts)
        blocks.append(f"<h4>Members</h4><p class='names'>{names}</p>")
    if i.labels:
        names = " ".join(f"<code>{e(k)}={e(v)}</code>" for k, v in sorted(i.labels.items()))
        blocks.append(f"<h4>Labels</h4><p class='names'>{names}</p>")
    if i.history:
        rows = "".join(
            f"<li><time>{e(clock_time(h.at))}</time><b>{e(h.change)}</b> {e(h.reason)}</li>"
            for h in reversed(i.history[-MAX_HISTORY:])
        )
        blocks.append(f"<h4>History</h4><ul class='history'>{rows}</ul>")
    if not blocks:
        return ""
    count_of = count(len(i.evidence), "reading")
    blocks.append(f'<p class="id">id <code>{e(i.id)}</code></p>')
    return (
        f'<details data-id="{e(i.id)}"><summary>Evidence and history, {count_of}</summary>{"".join(blocks)}</details>'
    )


def _evidence(v: Evidence) -> str:
    side = "for" if v.for_it else "against"
    formula = f'<span class="formula">{e(v.formula)}</span>' if v.formula else ""
    return f'<li class="{side}"><code>{e(v.component)}</code> {e(v.text)}{formula}</li>'


def _more(total: int, shown: int, link: str = "") -> str:
    if total <= shown:
        return ""
    text = f"and {total - shown:,} more"
    return f'<p class="more"><a href="{link}">{text}</a></p>' if link else f'<p class="more">{text}</p>'


def _resolved(resolved: Sequence[Incident], at: float) -> str:
    if not resolved:
        return ""
    rows = "".join(
        f'<tr id="{e(i.id)}"><td class="kind">{e(kind_words(i.kind))}</td><td><code>{e(i.component)}</code></td>'
        f"<td>{e(i.title)}</td><td>{e(ago(at - (i.resolved or i.updated)))}</td>"
        f"<td>after {e(span((i.resolved or i.updated) - i.since))}</td></tr>"
        for i in resolved[:MAX_RESOLVED]
    )
    more = _more(len(resolved), MAX_RESOLVED, "api/v1/incidents")
    return (
        f'<section class="resolved"><h2>Resolved within the hour <span class="n">{len(resolved)}</span></h2>'
        f'<div class="wide"><table>{rows}</table></div>{more}</section>'
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
        f"<th>ports</th></tr>{rows}</table></div>{_more(len(silent), MAX_SILENT, 'api/v1/nodes')}</section>"
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
