"""Small pieces of HTML. All text from outside (names, incident texts, errors) goes through `e`. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from fabricmon.forms.times import ago, clock_time, rfc3339, span
from fabricmon.model import ComponentId

e = html.escape

Link = Callable[[str], str]
"""HTML for a component name ("host-007/mlx5_3/1"): a link where it is a row of the fleet, else code."""


def prose(text: str) -> str:
    """Text of a rule, backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", e(text))


def moment(wall: float, clock: float | None, form: str = "ago") -> str:
    """A time. `form` "ago" or "until". `clock` is now, or None where the script writes the relative time: the HTML then
    changes only with the data."""
    exact = clock_time(wall)
    if clock is None:
        words = exact
    elif form == "until":
        words = f"in {span(wall - clock)}" if wall > clock else "now"
    else:
        words = ago(clock - wall)
    if exact == "unknown":
        return exact
    return f'<time datetime="{rfc3339(wall)}" data-form="{form}" title="{exact}">{words}</time>'


def address(page: str, **query: str) -> str:
    """A relative URL, as attribute value."""
    return e(f"{page}?{urlencode(query)}")


def node_link(name: str) -> str:
    return f'<a href="{address("node", name=name)}"><code>{e(name)}</code></a>'


def named_link(kind: str, name: str, words: str = "") -> str:
    """A link to the page of a named thing (named.py): a leaf, a rail, a cable, a job."""
    return f'<a href="{address("named", kind=kind, name=name)}"><code>{e(words or name)}</code></a>'


def component_link(component: ComponentId, words: str = "") -> str:
    """A link to the page of a component, or of its node for the row of the node."""
    if not component.name:
        return node_link(component.node)
    where = address("component", kind=component.kind.value, node=component.node, name=component.name)
    return f'<a href="{where}"><code>{e(words or str(component))}</code></a>'


def more(total: int, shown: int, link: str = "") -> str:
    """Number of rows left out; "" for none."""
    if total <= shown:
        return ""
    text = f"and {total - shown:,} more"
    return f'<p class="more"><a href="{link}">{text}</a></p>' if link else f'<p class="more">{text}</p>'


def bar(shares: Sequence[tuple[str, int]]) -> str:
    """A stacked bar, as SVG: the Content-Security-Policy allows no style attributes."""
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


def charts(heading: str, component: ComponentId, most: int = 0) -> str:
    """A section in which the script draws the last hours of a component; `most` charts, 0: all."""
    where = address("api/v1/history", kind=component.kind.value, node=component.node, name=component.name)
    few = f' data-most="{most}"' if most else ""
    return f"""<section><h3>{heading}</h3><div class="charts" data-history="{where}"{few}><p class="note">Charts need
JavaScript; <a href="{where}">as JSON</a>.</p></div></section>"""
