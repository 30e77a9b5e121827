"""One node, or one of its components, in full: state, incidents, symptoms, readings. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fabricmon.catalogue import technology
from fabricmon.catalogue.counter import Category
from fabricmon.central.page.cards import SIGNS, order
from fabricmon.central.page.components import PortRow, Value
from fabricmon.central.page.document import PRESENCE
from fabricmon.central.page.markup import Link, address, charts, component_link, e, moment, named_link, node_link
from fabricmon.central.page.named import OF_WORD
from fabricmon.forms.quantities import quantity
from fabricmon.forms.readable import kind_words
from fabricmon.forms.times import span
from fabricmon.model import ComponentId, Incident, NodeView, Presence, Symptom

MAX_SYMPTOMS = 64
MAX_INCIDENTS = 24
MAX_UNREAD = 8

CATEGORIES = {
    Category.ERROR: "Errors",
    Category.CONGESTION: "Congestion",
    Category.RETRANSMISSION: "Retransmissions",
    Category.TRAFFIC: "Traffic",
    Category.STATE: "State",
    Category.CONFIGURATION: "Configuration",
    Category.MANAGEMENT: "Management",
    None: "Not in the catalogue",
}


UNITS = {"amperes": "A", "celsius": "°C", "seconds": "s", "volts": "V", "watts": "W"}
CONVERTED = ("bytes", "bytes_per_second", "transfers_per_second", "ratio")
"""Units with a prefix, and shares."""


def node_detail(
    n: NodeView,
    ports: Sequence[PortRow],
    others: Sequence[tuple[ComponentId, dict[str, str]]],
    incidents: Sequence[Incident],
    symptoms: Sequence[Symptom],
    clock: float | None,
    link: Link,
    around: str = "",
) -> str:
    """The main part of a node's page. `incidents` name the node or one of its components."""
    word = "live" if n.presence is Presence.LIVE else "stale"
    last = moment(n.last_frame, clock) if n.last_frame is not None else "never"
    facts = [
        ("since", moment(n.since, clock)),
        ("last frame", last),
        ("detail", e(n.detail)),
        ("agent", e(n.version)),
        ("ports", str(n.ports or "")),
        ("GPUs", str(n.gpus or "")),
        ("checked", e(_checked(n))),
        ("maintenance", e(n.maintenance)),
    ]
    unseen = (
        ""
        if n.presence is Presence.LIVE
        else "<p class='note'>Node not reporting: the values below are its last readings, not its current state.</p>"
    )
    return f"""<div class="lead"><span class="presence {n.presence.value} {word}">{e(PRESENCE[n.presence])}</span></div>
<h2 id="panel-title" tabindex="-1"><code>{e(n.node)}</code></h2>
{unseen}{facts_list(facts)}
{incident_list(incidents)}
{_symptoms(symptoms, link, clock)}
{around_section(around)}
{port_table(ports)}
{_others(others)}
<p class="id"><a href="{address("api/v1/ports", node=n.node)}">ports as JSON</a></p>"""


def _checked(n: NodeView) -> str:
    """What of the node was checked, and some of what was not."""
    if n.checked is None:
        return ""
    if not n.checked.counts:
        return "nothing expected" if n.checked.none_expected else "nothing to check"
    parts = [technology.words(n.checked.counts) or "nothing"]
    if n.checked.unknown:
        named = ", ".join(f"{one.component}: {one.why}" for one in n.checked.unread[:MAX_UNREAD])
        parts.append(f"not checked: {technology.words(n.checked.counts, checked=False)} ({named})")
    return "; ".join(parts)


def component_detail(
    component: ComponentId,
    labels: dict[str, str],
    places: dict[str, str],
    values: Sequence[Value],
    incidents: Sequence[Incident],
    symptoms: Sequence[Symptom],
    live: bool,
    clock: float | None,
    link: Link,
    around: str = "",
) -> str:
    """The main part of a component's page; the script draws the charts at `data-history`."""
    kind, node, name = component
    facts = [(place, named_link(OF_WORD[place], words)) for place, words in places.items()]
    facts += [(key, e(value)) for key, value in sorted(labels.items()) if value and key not in places]
    unseen = (
        ""
        if live
        else "<p class='note'>Node not reporting: the values below are the last readings, not the current state.</p>"
    )
    return f"""<div class="lead"><span class="kind">{e(kind.value)} of</span> {node_link(node)}</div>
<h2 id="panel-title" tabindex="-1"><code>{e(name)}</code></h2>
{unseen}{incident_list(incidents)}
{_symptoms(symptoms, link, clock)}
{charts("Last hours", component)}
<section><h3>Location</h3>{facts_list(facts)}</section>
{around_section(around)}
{_values(values)}"""


def facts_list(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{e(name)}</dt><dd>{value}</dd></div>" for name, value in facts if value)
    return f"<dl class='facts'>{rows}</dl>" if rows else ""


def incident_list(incidents: Sequence[Incident]) -> str:
    if not incidents:
        return ""
    rows = "".join(
        f'<li class="{i.severity.value}"><i aria-hidden="true">{SIGNS.get(i.severity.value, "")}</i> '
        f'<a href="{address("incident", id=i.id)}">{e(i.title)}</a> <span class="n">{e(i.severity.value)}, '
        f"{'open' if i.status == 'firing' else 'resolved'}</span></li>"
        for i in sorted(incidents, key=order)[:MAX_INCIDENTS]
    )
    return f"<section><h3>Incidents</h3><ul class='brief'>{rows}</ul></section>"


def _symptoms(symptoms: Sequence[Symptom], link: Link, clock: float | None) -> str:
    if not symptoms:
        return ""
    rows = "".join(
        f'<li class="{s.severity.value}">{link(str(s.component))} {e(kind_words(s.kind))} '
        f"{e(s.evidence[0].text if s.evidence else '')} · {moment(s.since, clock)}</li>"
        for s in symptoms[:MAX_SYMPTOMS]
    )
    return f"<section><h3>Symptoms</h3><ul class='brief'>{rows}</ul></section>"


def around_section(drawn: str) -> str:
    """The drawing of what is around it."""
    if not drawn:
        return ""
    return (
        "<section><h3>Neighbourhood</h3><div class='wide drawn' tabindex='0' role='region' "
        f"aria-label='Drawing of the neighbourhood'>{drawn}</div>"
        "<p class='note'>A line is a cable: its width the load, its colour state and incidents. "
        "Between switches it stands for all cables of the two; dashed: nothing reads them.</p></section>"
    )


def port_table(ports: Sequence[PortRow], by_node: bool = False) -> str:
    """A table of ports; `by_node`: of several nodes."""
    if not ports:
        return ""
    rows = "".join(_port(line, by_node) for line in ports)
    return (
        "<section><h3>Ports</h3><div class='wide' tabindex='0' role='region' aria-label='Ports'><table class='ports'>"
        "<thead><tr><th>port</th><th>state</th><th>rail</th><th>leaf</th><th class='n'>rate</th><th class='n'>Rx</th>"
        f"<th class='n'>Tx</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _port(line: PortRow, by_node: bool) -> str:
    state = "unknown" if line.up is None else "up" if line.up else "down"
    sign = {"up": "", "down": "✕ ", "unknown": "? "}[state]
    rate = f"{line.rate * 8 / 1e9:.0f} Gb/s" if math.isfinite(line.rate) else "unknown"
    rail, leaf = (named_link(place, line.places[place]) if line.places.get(place) else "" for place in ("rail", "leaf"))
    return (
        f"<tr><td>{component_link(line.id, str(line.id) if by_node else line.id.name)}</td><td class='{state}'>"
        f"{sign}{state}</td><td>{rail}</td><td>{leaf}</td><td class='n'>{rate}</td>"
        f"<td class='n'>{_share(line.receive)}</td><td class='n'>{_share(line.transmit)}</td></tr>"
    )


def _share(ratio: float) -> str:
    if not math.isfinite(ratio):
        return "<span class='faint'>unknown</span>"
    width = max(0.0, min(1.0, ratio)) * 100
    filled = f"<rect class='live' width='{width:.0f}%' height='100%'/>"
    return f"{ratio:.0%} <svg class='load' aria-hidden='true'>{filled}</svg>"


def _others(others: Sequence[tuple[ComponentId, dict[str, str]]]) -> str:
    if not others:
        return ""
    kinds: dict[str, list[str]] = {}
    for component, _ in others:
        kinds.setdefault(component.kind.value, []).append(component_link(component, component.name))
    return "".join(
        f"<section><h3>{e(kind)} <span class='n'>{len(links)}</span></h3>"
        f"<p class='names'>{' '.join(links)}</p></section>"
        for kind, links in kinds.items()
    )


def _values(values: Sequence[Value]) -> str:
    """Readings by category; those at 0 are folded."""
    blocks = []
    for category, heading in CATEGORIES.items():
        found = [v for v in values if v.category is category]
        if not found:
            continue
        loud = [v for v in found if v.value != 0]
        quiet = [v for v in found if v.value == 0]
        rows = "".join(map(_value, loud))
        table = f"<table class='values'><tbody>{rows}</tbody></table>" if rows else ""
        names = " ".join(f"<code title='{e(v.help)}'>{e(v.name)}</code>" for v in quiet)
        folded = f"<details><summary>{len(quiet)} at 0</summary><p class='names'>{names}</p></details>" if quiet else ""
        blocks.append(f"<section><h3>{e(heading)}</h3>{table}{folded}</section>")
    return "".join(blocks)


def _value(v: Value) -> str:
    old = "" if v.fresh else f" <span class='faint'>read {e(span(v.age))} ago</span>"
    name = f"<th scope='row'><code>{e(v.name)}</code></th>"
    return f"<tr title='{e(v.help)}'>{name}<td class='n'>{amount(v)}{old}</td></tr>"


def amount(v: Value) -> str:
    """A reading with its unit, or the name of a state, as HTML; where it is converted, the number as read is a tip."""
    value, unit = v.value, v.unit
    if not math.isfinite(value):
        return "unknown"
    if v.word:
        return e(v.word if v.word in ("yes", "no") else f"{number(value)} ({v.word})")
    if unit in CONVERTED:
        return f"<span title='{number(value)} {unit.replace('_', ' ')}'>{quantity(value, unit)}</span>"
    return f"{number(value)} {e(UNITS.get(unit, unit))}".rstrip()


def number(value: float) -> str:
    """ "12", "1,234,567", "0.0021", "4.1e-12", "unknown"."""
    if not math.isfinite(value):
        return "unknown"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"
