"""The fleet as squares for browsers without scripts: one per node, or per group of nodes where there are many. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from fabricmon.model import Incident, NodeView, Presence, Severity

MAX_CELLS = 1024  # squares on the page: they travel with every update
FEW = 160  # squares up to which they are drawn large

# By importance; a group of nodes shows its worst.
STATES = ("critical", "warning", "unknown", "symptom", "maintenance", "ok")


def mosaic(nodes: Sequence[NodeView], firing: Iterable[Incident]) -> str:
    """A section with the squares in node order and a legend; "" without nodes."""
    if not nodes:
        return ""
    worst = _worst(firing)
    cells = [(state_of(node, worst.get(node.node)), node.node) for node in sorted(nodes, key=lambda n: n.node)]
    size = -(-len(cells) // MAX_CELLS)
    squares = []
    for start in range(0, len(cells), size):
        group = cells[start : start + size]
        state = min((state for state, _ in group), key=STATES.index)
        if size == 1:
            title = f"{group[0][1]}: {state}"
        else:
            bad = sum(s == state for s, _ in group)
            title = f"{group[0][1]} to {group[-1][1]}: {bad} of {len(group)} {state}"
        squares.append(f'<i class="{state}" title="{html.escape(title)}"></i>')
    present = {state for state, _ in cells}
    legend = "".join(f'<span><i class="{s}"></i>{s}</span>' for s in STATES if s in present)
    each = f"; one square: {size} nodes, worst state" if size > 1 else ""
    few = " few" if len(squares) <= FEW else ""
    return (
        f'<section class="fleet"><h2>Nodes <span class="n">{len(cells):,}</span></h2>'
        f'<p class="note legend">{legend}{each}</p><div class="mosaic{few}">{"".join(squares)}</div></section>'
    )


def state_of(node: NodeView, incident: Severity | None) -> str:
    """State of a node: open incident, maintenance, presence, symptom, in this order."""
    if incident is not None and incident is not Severity.INFO:
        return incident.value
    if node.maintenance:
        return "maintenance"
    if node.presence is not Presence.LIVE:
        return "unknown"
    return "symptom" if node.symptoms else "ok"


def _worst(firing: Iterable[Incident]) -> dict[str, Severity]:
    """Node -> highest severity of an incident that names one of its parts."""
    worst: dict[str, Severity] = {}
    for incident in firing:
        for part in incident.parts:
            node = part.split("/", 1)[0]
            if node not in worst or incident.severity.rank > worst[node].rank:
                worst[node] = incident.severity
    return worst
