"""The Markdown of the runbooks as HTML: the few constructs that they use, all text escaped. Pure.

Headings, paragraphs, lists (one level), tables, fenced code; in lines: code, bold, emphasis, links. Nothing of the text
reaches the page as markup: every character of it passes `html.escape`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

Link = Callable[[str], str]
"""Address in the text -> address on the page; "" where there is none, and then the words stand alone."""

_HEADING = re.compile(r"(#{1,4}) (.*)")
_ITEM = re.compile(r"([*-]|\d+\.) +(.*)")
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\[(?P<words>(?:`[^`]*`|[^\]`])*)\]\((?P<to>[^)\s]+)\)|\*\*(?P<bold>.+?)\*\*|\*(?P<em>[^*\s][^*]*)\*"
)
_SPLIT = re.compile(r"(?<!\\)\|")


def render(text: str, link: Link) -> str:
    """The HTML of a text."""
    lines = text.splitlines()
    made: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("<!--"):
            at += 1
        elif line.startswith("```"):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            made.append(f"<pre><code>{html.escape(chr(10).join(lines[at + 1 : end]))}</code></pre>")
            at = end + 1
        elif heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            made.append(f'<h{level} id="{anchor(heading[2])}">{inline(heading[2], link)}</h{level}>')
            at += 1
        else:
            end = at + 1
            while end < len(lines) and lines[end].strip() and not _begins(lines[end], line):
                end += 1
            made.append(_block(lines[at:end], link))
            at = end
    return "\n".join(made)


def anchor(heading: str) -> str:
    """The name of a heading in links: "Confirm by hand" -> "confirm-by-hand"."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def inline(text: str, link: Link) -> str:
    """One line's worth of text."""
    made, at = [], 0
    for found in _INLINE.finditer(text):
        made.append(html.escape(text[at : found.start()]))
        at = found.end()
        if found["code"] is not None:
            made.append(f"<code>{html.escape(found['code'])}</code>")
        elif found["to"] is not None:
            to, words = link(found["to"]), inline(found["words"], link)
            made.append(f'<a href="{html.escape(to)}">{words}</a>' if to else words)
        elif found["bold"] is not None:
            made.append(f"<strong>{inline(found['bold'], link)}</strong>")
        else:
            made.append(f"<em>{inline(found['em'], link)}</em>")
    return "".join(made) + html.escape(text[at:])


def _begins(line: str, first: str) -> bool:
    """Whether a line ends the block that began with `first`."""
    if line.startswith("```") or _HEADING.fullmatch(line):
        return True
    if first.startswith("|") != line.startswith("|"):
        return True
    return not _ITEM.match(first) and not first.startswith("|") and _ITEM.match(line) is not None


def _block(lines: Sequence[str], link: Link) -> str:
    if lines[0].startswith("|"):
        return _table(lines, link)
    if _ITEM.match(lines[0]):
        return _list(lines, link)
    return f"<p>{inline(' '.join(line.strip() for line in lines), link)}</p>"


def _list(lines: Sequence[str], link: Link) -> str:
    items: list[str] = []
    for line in lines:
        if (item := _ITEM.match(line)) is not None:
            items.append(item[2])
        else:
            items[-1] += " " + line.strip()
    tag = "ol" if lines[0][0].isdigit() else "ul"
    return f"<{tag}>" + "".join(f"<li>{inline(item, link)}</li>" for item in items) + f"</{tag}>"


def _table(lines: Sequence[str], link: Link) -> str:
    rows = [[cell.strip().replace("\\|", "|") for cell in _SPLIT.split(line.strip())[1:-1]] for line in lines]
    head, body = (rows[0], rows[2:]) if len(rows) > 1 and all(set(c) <= set("-: ") for c in rows[1]) else ([], rows)
    made = [_row("th", head, link)] if any(head) else []
    made += [_row("td", row, link) for row in body]
    return f'<div class="wide"><table>{"".join(made)}</table></div>'


def _row(tag: str, cells: Sequence[str], link: Link) -> str:
    return "<tr>" + "".join(f"<{tag}>{inline(cell, link)}</{tag}>" for cell in cells) + "</tr>"
