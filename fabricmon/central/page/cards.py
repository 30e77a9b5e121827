"""Incidents on the status page: the card of an open one, a line for each resolved one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fabricmon.central.page.markup import address, bar, e, moment, more, named_link, prose
from fabricmon.central.page.scene import Scene
from fabricmon.forms.readable import certainty, count, first_step, kind_words
from fabricmon.forms.times import clock_time, span
from fabricmon.jobs.model import PARTLY, UNKNOWN
from fabricmon.model import Incident, JobImpact
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.acknowledge import opened as opened_at
from fabricmon.notify.deciding import reading
from fabricmon.notify.silence import Silence, silenced_by

MAX_RESOLVED = 20
MAX_JOBS = 4  # on a card; the page of the incident has all that are stored

MATCHED = ("leaf", "rail", "node")  # labels that incidents of one silence may have in common
NEW = '<span class="badge new" hidden>new</span>'
"""Shown by the script on what opened since the last look."""

SIGNS = {"critical": "✕", "warning": "▲", "info": "●"}
"""Severity without colours."""


def order(incident: Incident) -> tuple[int, float, str]:
    """Sort key: highest severity first, then newest."""
    return (-incident.severity.rank, -incident.since, incident.id)


def card(i: Incident, scene: Scene, clock: float | None) -> str:
    """One open incident."""
    taken, silence = scene.taken.get(i.id), silenced_by(i, scene.silences, scene.at)
    quiet = " quiet" if taken or silence else ""
    decided = reading(i)
    line = f'<p class="reading">{e(decided)}</p>\n' if decided else ""
    where = address("incident", id=i.id)
    name = e(i.id)
    return f"""<article class="incident {i.severity.value}{quiet}" id="incident/{name}" {about(i)}>
<div class="lead">{severity_badge(i)}{NEW}<span class="kind">{e(kind_words(i.kind))}</span>{badges(taken, silence)}
<span class="grow"></span>{moment(i.since, clock)}</div>
<h3><a class="title" href="{where}">{e(i.title)}</a></h3>
<div class="lead"><code class="component">{e(i.component)}</code>{extent(i)}</div>
{line}{jobs_of(i, MAX_JOBS)}<p class="action"><b>Next step</b> {prose(first_step(i.action))}</p>
<div class="do"><a class="button" href="{where}">Details</a>
{buttons(i, taken)}
<a class="runbook" href="runbooks/{e(i.kind)}">Runbook</a></div>
</article>
"""


def about(i: Incident) -> str:
    """Attributes for the script: id, when it opened (Unix seconds), and what becomes matchers of a proposed silence."""
    labels = "".join(f' data-{name}="{e(i.labels[name])}"' for name in MATCHED if i.labels.get(name))
    return (
        f'data-id="{e(i.id)}" data-opened="{opened_at(i):.0f}" data-kind="{e(i.kind)}" '
        f'data-component="{e(i.component)}"{labels}'
    )


def badges(taken: Acknowledgement | None, silence: Silence | None) -> str:
    """Badges: acknowledged by whom, silenced by whom."""
    made = _badge("acknowledged", taken.author, taken.comment) if taken else ""
    return made + (_badge("silenced", silence.author, silence.comment) if silence else "")


def _badge(word: str, author: str, comment: str) -> str:
    by = f" by {author}" if author else ""
    return f'<span class="badge {word}" title="{e(comment)}">{word}{e(by)}</span>'


def buttons(i: Incident, taken: Acknowledgement | None) -> str:
    """Buttons of an open incident: acknowledge or remove the acknowledgement, and silence."""
    act, words = ("withdraw", "Remove acknowledgement") if taken else ("acknowledge", "Acknowledge")
    name = e(i.id)
    return (
        f'<button class="button" type="button" data-{act}="{name}">{words}</button>'
        f'<button class="button" type="button" data-silence="{name}">Silence</button>'
    )


def severity_badge(i: Incident) -> str:
    sign = SIGNS.get(i.severity.value, "")
    return f'<span class="severity"><i aria-hidden="true">{sign}</i>{i.severity.value}</span>'


def extent(i: Incident) -> str:
    """Affected members and confidence."""
    confidence = f"<span>confidence {certainty(i.confidence)}</span>" if i.confidence else ""
    members = ""
    if i.members.of:
        members = f"{i.members.bad} of {i.members.of}"
        if i.members.of > 1:
            members += bar((("bad", i.members.bad), ("rest", i.members.of - i.members.bad)))
        members = f'<span class="members">{members}</span>'
    return members + confidence


def jobs_of(i: Incident, most: int) -> str:
    """Affected jobs, one line each, worst first."""
    impact = i.impact
    if impact is None:
        return ""
    lines = [
        f'<li class="{job.verdict.value}"><b>{job.verdict.value.replace("_", " ")}</b> {named_link("job", job.title)} '
        f"{e(job.user)} · {job.hit} of {count(job.of, 'node')} · {e(job.reason)}{_gone(job)}</li>"
        for job in impact.jobs[:most]
    ]
    if impact.state == UNKNOWN:
        lines.append("<li>affected jobs unknown: no scheduler responds</li>")
    elif impact.state == PARTLY:
        lines.append("<li>list may be incomplete: not all schedulers respond</li>")
    return f"<ul class='jobs'>{''.join(lines)}</ul>{more(impact.total, most)}" if lines else ""


def _gone(job: JobImpact) -> str:
    return "" if job.gone is None else f" · not running since {e(clock_time(job.gone))}"


def resolved_lines(resolved: Sequence[Incident], clock: float | None) -> str:
    """The section of incidents resolved within the hour; "" without any."""
    if not resolved:
        return ""
    rows = "".join(
        f'<tr id="resolved/{e(i.id)}"><td class="kind">{e(kind_words(i.kind))}</td>'
        f"<td><code>{e(i.component)}</code></td>"
        f'<td><a href="{address("incident", id=i.id)}">{e(i.title)}</a></td>'
        f"<td>{moment(i.resolved or i.updated, clock)}</td>"
        f"<td>after {e(span((i.resolved or i.updated) - i.since))}</td></tr>"
        for i in resolved[:MAX_RESOLVED]
    )
    rest = more(len(resolved), MAX_RESOLVED, "api/v1/incidents")
    return (
        f'<section id="resolved" class="resolved"><h2>Resolved in the last hour <span class="n">{len(resolved)}</span>'
        "</h2><div class='wide' tabindex='0' role='region' aria-label='Resolved incidents'><table><thead><tr><th>kind"
        "</th><th>component</th><th>title</th><th>resolved</th><th>duration</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{rest}</section>"
    )
