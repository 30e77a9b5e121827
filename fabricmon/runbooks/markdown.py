"""The Markdown of the runbooks as HTML, by markdown-it: CommonMark and tables, raw HTML escaped. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

PageAddress = Callable[[str], str]
"""Address in the text -> address on the page; "": no link, plain text."""

_COMMENT = re.compile(r"^<!--.*-->\n", re.M)


def render(text: str, link: PageAddress) -> str:
    """The HTML of a text. Comment lines are left out; all HTML is escaped."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(_COMMENT.sub("", text))
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            before.attrSet("id", anchor(token.content))
        if token.children:
            token.children = _linked(token.children, link)
    html = str(markdown.renderer.render(tokens, markdown.options, {}))
    html = html.replace("<pre>", '<pre tabindex="0">')  # what scrolls takes the focus
    return html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")


def _linked(tokens: Sequence[Token], link: PageAddress) -> list[Token]:
    """The tokens of one line with the addresses of the page; links without an address become plain text."""
    kept: list[Token] = []
    leads: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            to = link(str(token.attrs["href"]))
            leads.append(bool(to))
            token.attrSet("href", to)
        if token.type not in ("link_open", "link_close") or leads[-1]:
            kept.append(token)
        if token.type == "link_close":
            leads.pop()
    return kept


def anchor(heading: str) -> str:
    """The anchor of a heading: "Confirm by hand" -> "confirm-by-hand"."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
