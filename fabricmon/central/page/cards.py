"""Incidents on the status page: a card for each that is open, a line for each that ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fabricmon.central.page.scene import Scene
from fabricmon.central.page.text import address, bar, e, moment, more, prose
from fabricmon.central.words import certainty, clock_time, count, kind_words, span
from fabricmon.jobs.impact import title
from fabricmon.jobs.model import PARTLY, UNKNOWN
from fabricmon.model import Incident, JobImpact
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.silence import Silence, silenced_by

MAX_OPEN = 100  # open incidents on the page; the API has all
MAX_RESOLVED = 20
MAX_JOBS = 4  # of one incident on its card; its own page has all that are kept

SIGNS = {"critical": "✕", "warning": "▲", "info": "●"}
"""What says the severity where colours do not."""


def order(incident: Incident) -> tuple[int, float, str]:
    """The severest first, then the newest."""
    return (-incident.severity.rank, -incident.since, incident.id)


def opened(shown: Sequence[Incident], total: int, scene: Scene, clock: float | None) -> str:
    """The section of open incidents: those that are looked for, of `total`."""
    number = f"{len(shown):,} of {total:,}" if len(shown) != total else f"{total:,}"
    heading = f'<h2>Open incidents <span class="n">{number}</span></h2>'
    if not shown:
        said = "Nothing is wrong with what is seen." if scene.overview.known else "Nothing can be said yet."
        if total:
            said = "No open incident matches."
        return f'<section id="open" class="open">{heading}<p class="none">{said}</p></section>'
    cards = "".join(_card(i, scene, clock) for i in shown[:MAX_OPEN])
    rest = more(len(shown), MAX_OPEN, "api/v1/incidents")
    return f'<section id="open" class="open"{_choices(shown)}>{heading}<div class="cards">{cards}</div>{rest}</section>'


def _choices(shown: Sequence[Incident]) -> str:
    """The kinds and rails there are, for the search."""
    kinds = e("\n".join(sorted({i.kind for i in shown})))
    rails = e("\n".join(sorted({i.labels["rail"] for i in shown if i.labels.get("rail")})))
    return f' data-kinds="{kinds}" data-rails="{rails}"'


def _card(i: Incident, scene: Scene, clock: float | None) -> str:
    taken, silence = scene.taken.get(i.id), silenced_by(i, scene.silences, scene.at)
    quiet = " quiet" if taken or silence else ""
    first = next((v.text for v in i.evidence if v.for_it), "")
    reading = f'<p class="reading">{e(first)}</p>\n' if first else ""
    where = address("incident", id=i.id)
    name = e(i.id)
    return f"""<article class="incident {i.severity.value}{quiet}" id="incident/{name}" data-id="{name}" {about(i)}>
<div class="lead">{severity_badge(i)}<span class="kind">{e(kind_words(i.kind))}</span>{badges(taken, silence)}
<span class="grow"></span>{moment(i.since, clock)}</div>
<h3><a href="{where}">{e(i.title)}</a></h3>
<div class="lead"><code class="component">{e(i.component)}</code>{extent(i)}</div>
{reading}{jobs_of(i, MAX_JOBS)}<p class="action"><b>Do</b> {prose(i.action)}</p>
<div class="do"><a class="button" href="{where}">Why</a>
{buttons(i, taken)}
<a class="runbook" href="runbooks/{e(i.kind)}">Runbook</a></div>
</article>
"""


def about(i: Incident) -> str:
    """Attributes from which the page's script proposes what a silence covers."""
    return f'data-kind="{e(i.kind)}" data-component="{e(i.component)}"'


def badges(taken: Acknowledgement | None, silence: Silence | None) -> str:
    """Who has an incident, and who does not want it told."""
    made = _badge("acknowledged", taken.author, taken.comment) if taken else ""
    return made + (_badge("silenced", silence.author, silence.comment) if silence else "")


def _badge(word: str, author: str, comment: str) -> str:
    by = f" by {author}" if author else ""
    return f'<span class="badge {word}" title="{e(comment)}">{word}{e(by)}</span>'


def buttons(i: Incident, taken: Acknowledgement | None) -> str:
    """What a person does about an open incident: take it on, or no longer, and silence it. The page's script acts."""
    act, words = ("withdraw", "Withdraw acknowledgement") if taken else ("acknowledge", "Acknowledge")
    name = e(i.id)
    return (
        f'<button class="button" type="button" data-{act}="{name}">{words}</button>'
        f'<button class="button" type="button" data-silence="{name}">Silence</button>'
    )


def severity_badge(i: Incident) -> str:
    sign = SIGNS.get(i.severity.value, "")
    return f'<span class="severity"><i aria-hidden="true">{sign}</i>{i.severity.value}</span>'


def extent(i: Incident) -> str:
    """How many of how many, and how sure."""
    chance = f'<span title="confidence in this cause">{certainty(i.confidence)} sure</span>' if i.confidence else ""
    members = ""
    if i.members.of:
        members = f"{i.members.bad} of {i.members.of}"
        if i.members.of > 1:
            members += bar((("bad", i.members.bad), ("rest", i.members.of - i.members.bad)))
        members = f'<span class="members">{members}</span>'
    return members + chance


def jobs_of(i: Incident, most: int) -> str:
    """Whom it hits: a line a job, the worst first."""
    impact = i.impact
    if impact is None:
        return ""
    lines = [
        f'<li class="{job.verdict.value}"><b>{job.verdict.value.replace("_", " ")}</b> <code>{e(title(job))}</code> '
        f"{e(job.user)} · {job.hit} of {count(job.of, 'node')} · {e(job.reason)}{_gone(job)}</li>"
        for job in impact.jobs[:most]
    ]
    if impact.state == UNKNOWN:
        lines.append("<li>which jobs it hits is unknown: no scheduler answers</li>")
    elif impact.state == PARTLY:
        lines.append("<li>not all schedulers answer; there may be more</li>")
    return f"<ul class='jobs'>{''.join(lines)}</ul>{more(impact.total, most)}" if lines else ""


def _gone(job: JobImpact) -> str:
    return "" if job.gone is None else f" · not running since {e(clock_time(job.gone))}"


def resolved_lines(resolved: Sequence[Incident], clock: float | None) -> str:
    """The section of those that ended within the hour; "" without any."""
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
        f'<section id="resolved" class="resolved"><h2>Resolved within the hour <span class="n">{len(resolved)}</span>'
        "</h2><div class='wide' tabindex='0' role='region' aria-label='Resolved incidents'><table><thead><tr><th>kind"
        "</th><th>component</th><th>what</th><th>resolved</th><th>lasted</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{rest}</section>"
    )
