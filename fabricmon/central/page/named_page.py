"""The page of a named thing: facts, incidents, what is around it, both ends of a cable, its ports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricmon.catalogue.counter import Category
from fabricmon.central.page.components import PortRow, Tally, Value
from fabricmon.central.page.markup import e, more, named_link, node_link
from fabricmon.central.page.named import KINDS, NamedThing
from fabricmon.central.page.node import amount, around_section, facts_list, incident_list, port_table
from fabricmon.model import Incident, NodeView, Presence

MAX_NODES = 128
SHOWN = (Category.STATE, Category.ERROR, Category.CONGESTION, Category.TRAFFIC, Category.RETRANSMISSION)


def named_detail(
    thing: NamedThing,
    tally: Tally,
    ports: Sequence[PortRow],
    ends: Sequence[tuple[str, Sequence[Value]]],
    incidents: Sequence[Incident],
    nodes: Mapping[str, NodeView],
    around: str,
) -> str:
    """The main part of the page.

    ports   some of those that `tally` counts
    ends    name and readings of both ends of a cable
    around  the drawing
    """
    facts = [(key, _fact(key, value)) for key, value in thing.about.items()]
    facts += [("ports", _states(tally)), ("utilisation", _load(tally)), ("nodes", str(len(thing.nodes) or ""))]
    seen = {key: value for key, value in facts if value and thing.about.get(key) != thing.name}
    if thing.about.get("id") == thing.about.get("guid"):
        seen.pop("id", None)
    return f"""<div class="lead"><span class="kind">{e(KINDS[thing.kind].title)}</span></div>
<h2 id="panel-title" tabindex="-1"><code>{e(thing.name)}</code></h2>
{facts_list(list(seen.items()))}
{incident_list(incidents)}
{around_section(around)}
{_ends(ends)}
{_nodes(thing, nodes)}
{port_table(ports, by_node=True)}{more(tally.up + tally.down + tally.unknown, len(ports))}"""


def _fact(key: str, value: str) -> str:
    if key == "leaf":
        return named_link("leaf", value)
    if key == "switch":
        return named_link("switch", value)
    if key == "unit":
        return named_link("unit", value)
    return e(value)


def _states(tally: Tally) -> str:
    """ "31 up, 1 down"; "" without ports."""
    words = ((tally.up, "up"), (tally.down, "down"), (tally.unknown, "unknown"))
    return ", ".join(f"{number:,} {word}" for number, word in words if number)


def _load(tally: Tally) -> str:
    if not tally.known:
        return ""
    total = tally.up + tally.down + tally.unknown
    part = "" if tally.known == total else f" (of {tally.known:,} ports)"
    return f"Rx {tally.receive:.0%}, Tx {tally.transmit:.0%}{part}"


def _nodes(thing: NamedThing, nodes: Mapping[str, NodeView]) -> str:
    if not thing.nodes:
        return ""
    bad = [n for n in thing.nodes if n not in nodes or nodes[n].presence is not Presence.LIVE]
    links = " ".join(map(node_link, [*bad, *(n for n in thing.nodes if n not in set(bad))][:MAX_NODES]))
    stale = f"<p class='note'>{len(bad):,} not reporting, listed first.</p>" if bad else ""
    return (
        f"<section><h3>Nodes <span class='n'>{len(thing.nodes):,}</span></h3>{stale}<p class='names'>{links}</p>"
        f"{more(len(thing.nodes), MAX_NODES)}</section>"
    )


def _ends(ends: Sequence[tuple[str, Sequence[Value]]]) -> str:
    """Both ends of a cable side by side; a counter that only one end has is empty at the other."""
    if not ends:
        return ""
    blocks = []
    for category in SHOWN:
        sides = [{v.name: v for v in values if v.category is category} for _, values in ends]
        every = dict.fromkeys(name for side in sides for name in side)
        names = [name for name in every if any(name in side and side[name].value != 0 for side in sides)]
        if names:
            head = f"<th colspan='{1 + len(ends)}' scope='rowgroup'>{e(category.value)}</th>"
            blocks.append(f"<tr class='group'>{head}</tr>")
        for name in names:
            cells = "".join(f"<td class='n'>{_reading(side.get(name))}</td>" for side in sides)
            blocks.append(f"<tr><th scope='row'><code>{e(name)}</code></th>{cells}</tr>")
    heads = "".join(f"<th class='n' scope='col'>{e(name)}</th>" for name, _ in ends)
    unread = "".join(f"<p class='note'>{e(name)}: not monitored.</p>" for name, values in ends if not values)
    return (
        "<section><h3>Both ends</h3><div class='wide' tabindex='0' role='region' aria-label='Both ends'><table "
        f"class='values both'><thead><tr><th scope='col'>counters that are not 0</th>{heads}</tr></thead>"
        f"<tbody>{''.join(blocks)}</tbody></table></div>{unread}</section>"
    )


def _reading(value: Value | None) -> str:
    if value is None:
        return ""
    text = amount(value)
    return text if value.fresh else f"<span class='faint'>{text} (old)</span>"
