"""Incidents on the status page: a card for each that is open, a line for each that ended. Pure.

All words of an incident go through `e`: they may hold names that a node chose.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from fabricmon.central.words import ago, certainty, clock_time, count, kind_words, span
from fabricmon.jobs.impact import title
from fabricmon.jobs.model import PARTLY, UNKNOWN
from fabricmon.model import Evidence, Incident, JobImpact
from fabricmon.notify.silence import Silence

MAX_OPEN = 100  # open incidents on the page; the API has all
MAX_RESOLVED = 20
MAX_JOBS = 8  # of one incident; the API has more
MAX_EVIDENCE = 24
MAX_HISTORY = 24

e = html.escape


def prose(text: str) -> str:
    """Words of a rule, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", e(text))


def order(incident: Incident) -> tuple[int, float, str]:
    """The severest first, then the newest."""
    return (-incident.severity.rank, -incident.since, incident.id)


def opened(firing: Sequence[Incident], silences: Sequence[Silence], at: float, known: bool) -> str:
    """The section of open incidents; `known` is False while nothing at all is seen."""
    heading = f'<h2>Open incidents <span class="n">{len(firing)}</span></h2>'
    if not firing:
        said = "Nothing is wrong with what is seen." if known else "Nothing can be said yet."
        return f'<section class="open">{heading}<p class="none">{said}</p></section>'
    cards = "".join(_card(i, silences, at) for i in firing[:MAX_OPEN])
    return f'<section class="open">{heading}{cards}{more(len(firing), MAX_OPEN, "api/v1/incidents")}</section>'


def _card(i: Incident, silences: Sequence[Silence], at: float) -> str:
    silence = next((s for s in silences if s.active(at) and s.covers(i)), None)
    badge = f'<span class="badge" title="{e(silence.comment)}">silenced</span>' if silence else ""
    chance = f'<span title="confidence in this cause">{certainty(i.confidence)} sure</span>' if i.confidence else ""
    members = ""
    if i.members.of:
        members = f"<span>{i.members.bad} of {i.members.of}</span>"
        if i.members.of > 1:
            members += bar((("bad", i.members.bad), ("rest", i.members.of - i.members.bad)))
    quiet = " quiet" if silence else ""
    first = next((v.text for v in i.evidence if v.for_it), "")
    reading = f'<p class="reading">{e(first)}</p>\n' if first else ""
    return f"""<article class="incident {i.severity.value}{quiet}" id="{e(i.id)}">
<div class="lead"><span class="severity">{i.severity.value}</span><span class="kind">{e(kind_words(i.kind))}</span>
<code class="component">{e(i.component)}</code>{badge}<span class="grow"></span>
<span class="members">{members}</span>{chance}
<time title="{e(clock_time(i.since))}">{e(ago(at - i.since))}</time></div>
<h3>{e(i.title)}</h3>
{reading}{_jobs(i)}<p class="why">{prose(i.why)}</p>
<p class="action"><b>Do</b> {prose(i.action)} <a class="runbook" href="runbooks/{e(i.kind)}">runbook</a></p>
{_details(i)}
</article>
"""


def _jobs(i: Incident) -> str:
    """Whom it hits: a line a job, the worst first."""
    impact = i.impact
    if impact is None:
        return ""
    lines = [
        f'<li class="{job.verdict.value}"><b>{job.verdict.value.replace("_", " ")}</b> <code>{e(title(job))}</code> '
        f"{e(job.user)} · {job.hit} of {count(job.of, 'node')} · {e(job.reason)}{_gone(job)}</li>"
        for job in impact.jobs[:MAX_JOBS]
    ]
    if impact.state == UNKNOWN:
        lines.append("<li>which jobs it hits is unknown: no scheduler answers</li>")
    elif impact.state == PARTLY:
        lines.append("<li>not all schedulers answer; there may be more</li>")
    return f"<ul class='jobs'>{''.join(lines)}</ul>{more(impact.total, MAX_JOBS)}" if lines else ""


def _gone(job: JobImpact) -> str:
    return "" if job.gone is None else f" · not running since {e(clock_time(job.gone))}"


def _details(i: Incident) -> str:
    blocks = []
    if i.evidence:
        rows = "".join(map(_evidence, i.evidence[:MAX_EVIDENCE]))
        many = " many" if len(i.evidence) > 6 else ""
        blocks.append(f"<h4>Evidence</h4><ul class='evidence{many}'>{rows}</ul>{more(len(i.evidence), MAX_EVIDENCE)}")
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


def more(total: int, shown: int, link: str = "") -> str:
    """How many were left out, "" where none were."""
    if total <= shown:
        return ""
    text = f"and {total - shown:,} more"
    return f'<p class="more"><a href="{link}">{text}</a></p>' if link else f'<p class="more">{text}</p>'


def resolved_lines(resolved: Sequence[Incident], at: float) -> str:
    """The section of those that ended within the hour; "" without any."""
    if not resolved:
        return ""
    rows = "".join(
        f'<tr id="{e(i.id)}"><td class="kind">{e(kind_words(i.kind))}</td><td><code>{e(i.component)}</code></td>'
        f"<td>{e(i.title)}</td><td>{e(ago(at - (i.resolved or i.updated)))}</td>"
        f"<td>after {e(span((i.resolved or i.updated) - i.since))}</td></tr>"
        for i in resolved[:MAX_RESOLVED]
    )
    rest = more(len(resolved), MAX_RESOLVED, "api/v1/incidents")
    return (
        f'<section class="resolved"><h2>Resolved within the hour <span class="n">{len(resolved)}</span></h2>'
        f'<div class="wide"><table>{rows}</table></div>{rest}</section>'
    )


def bar(shares: Sequence[tuple[str, int]]) -> str:
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
