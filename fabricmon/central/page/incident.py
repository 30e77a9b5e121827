"""One incident in full: diagnosis, evidence, other possible causes, affected jobs, history. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fabricmon.central.page.cards import about, badges, buttons, extent, jobs_of, severity_badge
from fabricmon.central.page.markup import Link, charts, e, moment, more, prose
from fabricmon.forms.readable import kind_words
from fabricmon.forms.times import span
from fabricmon.model import ComponentId, Evidence, HistoryEntry, Incident, RuledOut
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.deciding import with_limit
from fabricmon.notify.silence import Silence

MAX_CHARTS = 4  # of each member whose readings are drawn
MAX_JOBS = 32  # as many as an incident keeps
MAX_EVIDENCE = 64
MAX_HISTORY = 200
MAX_RULED_OUT = 16


def incident_detail(
    i: Incident,
    history: Sequence[HistoryEntry],
    taken: Acknowledgement | None,
    silence: Silence | None,
    clock: float | None,
    link: Link,
    drawn: Sequence[ComponentId] = (),
) -> str:
    """The main part of its page. `history` is oldest first; `taken` and `silence` are those in force now; `drawn`:
    members whose readings are drawn."""
    ended = i.resolved or i.updated
    state = (
        f"started {moment(i.since, clock)}"
        if i.status == "firing"
        else f"resolved {moment(ended, clock)}, after {span(ended - i.since)}"
    )
    firing = i.status == "firing"
    return f"""<div class="incident {i.severity.value if firing else "over"}" {about(i)}>
<div class="lead">{severity_badge(i)}<span class="kind">{e(kind_words(i.kind))}</span>{badges(taken, silence)}
<span>{state}</span>{extent(i)}</div>
<h2 id="panel-title" tabindex="-1">{e(i.title)}</h2>
<p class="where">{link(i.component)}</p>
<div class="do">{buttons(i, taken) if firing else ""}<a class="runbook" href="runbooks/{e(i.kind)}">Runbook</a></div>
</div>
{_section("Acknowledged by", _acknowledged(taken, clock))}
{_section("Next step", f"<p class='action'>{prose(i.action)}</p>")}
{_section("Diagnosis", f"<p>{prose(i.why)}</p>")}
{_section("Affected jobs", jobs_of(i, MAX_JOBS))}
{_evidence(i.evidence, link)}
{"".join(charts(f"Readings of {link(str(one))}", one, MAX_CHARTS) for one in drawn)}
{_section("Other possible causes", _names(i.candidates, link))}
{_ruled_out(i.ruled_out, link)}
{_section(f"Members <span class='n'>{len(i.parts)}</span>", _names(i.parts, link))}
{_history(history, clock)}
{_section("Labels", _labels(i))}
<p class="id">id <code>{e(i.id)}</code> · <a href="api/v1/incidents/{e(i.id)}">as JSON</a></p>"""


def _section(heading: str, inside: str) -> str:
    return f"<section><h3>{heading}</h3>{inside}</section>" if inside else ""


def _acknowledged(taken: Acknowledgement | None, clock: float | None) -> str:
    if taken is None:
        return ""
    comment = f": {taken.comment}" if taken.comment else ""
    return f"<p>{e(taken.author or 'unknown')}, {moment(taken.at, clock)}{e(comment)}</p>"


def _names(names: Sequence[str], link: Link) -> str:
    return f"<p class='names'>{' '.join(map(link, names))}</p>" if names else ""


def _labels(i: Incident) -> str:
    names = " ".join(f"<code>{e(k)}={e(v)}</code>" for k, v in sorted(i.labels.items()))
    return f"<p class='names'>{names}</p>" if names else ""


def _evidence(evidence: Sequence[Evidence], link: Link) -> str:
    """Evidence for it, then evidence against it."""
    blocks = []
    for heading, side, is_for in (("Evidence", "for", True), ("Evidence against", "against", False)):
        found = [v for v in evidence if v.for_it is is_for]
        if found:
            rows = "".join(
                f'<li class="{side}">{link(v.component)} {e(with_limit(v))}'
                + (_calculation(v.formula) if v.formula else "")
                + "</li>"
                for v in found[:MAX_EVIDENCE]
            )
            count = f"{heading} <span class='n'>{len(found)}</span>"
            blocks.append(_section(count, f"<ul class='evidence'>{rows}</ul>{more(len(found), MAX_EVIDENCE)}"))
    return "\n".join(blocks)


def _calculation(formula: str) -> str:
    return f'<details class="formula"><summary>Show calculation</summary>{e(formula)}</details>'


def _ruled_out(others: Sequence[RuledOut], link: Link) -> str:
    rows = "".join(f"<li>{link(o.component)} {e(o.reason)}</li>" for o in others[:MAX_RULED_OUT])
    return _section("Ruled out", f"<ul class='evidence ruled-out'>{rows}</ul>" if rows else "")


def _history(history: Sequence[HistoryEntry], clock: float | None) -> str:
    rows = "".join(
        f"<li>{moment(h.at, clock)} <b>{e(h.change)}</b> {e(h.reason)}</li>" for h in reversed(history[-MAX_HISTORY:])
    )
    return _section("History", f"<ol class='history'>{rows}</ol>{more(len(history), MAX_HISTORY)}" if rows else "")
