"""Templates of messages: text with `{field}` and without code. Pure.

    What: {what}
    Affected jobs: {jobs}

`{{` and `}}` are braces. A line that names fields which are all empty is left out. What stands before the first ": "
of a line, and before any field, is the line's heading; receivers that can show it so set it in bold. Values with
several lines go below the heading. All of it is plain text: no receiver takes markup from a template or from a value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct

from fabricmon.model import Incident, Notification
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.message_fields import FIELDS, field_values, label_value

MAX_TEMPLATE = 8192  # characters
MAX_LINES = 100
RENAMED = {"sure": "confidence", "taken": "acknowledged"}
LABEL = "label."

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

TITLE = "[{state}] {title}"
BODY = """\
Affected jobs: {jobs}
Next step: {first_step}
Reading: {reading}
Where: {where}
Confidence: {confidence}
Next best cause: {next_cause}
Since: {since}, for {lasted}
Acknowledged: {acknowledged}
Reason: {reason}
Incident: {url}
Runbook: {runbook}
Dashboard: {dashboard}
"""
ENDED = """\
Where: {where}
Began: {since}
Ended: {resolved}, after {lasted}
Affected jobs: {jobs}
Reason: {reason}
Incident: {url}
"""


class TemplateError(ValueError):
    """An invalid template; the text has the place and the reason."""


class MessageLine(NamedTuple):
    """One line of a message. `heading` "" for a line that has none; `text` may have several lines."""

    heading: str
    text: str


class _Piece(NamedTuple):
    text: str
    field: bool


class Template(Struct, frozen=True):
    """A checked template: for each line its heading and its pieces."""

    lines: tuple[tuple[str, tuple[_Piece, ...]], ...]

    def has(self, field: str) -> bool:
        """Whether a line has this field."""
        return any(piece.field and piece.text == field for _, pieces in self.lines for piece in pieces)

    def render(self, value: Callable[[str], str]) -> list[MessageLine]:
        """The message's lines; `value` gives the text of a field by its name."""
        made = []
        for heading, pieces in self.lines:
            values = [value(piece.text) if piece.field else piece.text for piece in pieces]
            named = [text for piece, text in zip(pieces, values, strict=True) if piece.field]
            if named and not any(named):
                continue
            made.append(MessageLine(heading, "".join(values).strip()))
        return made


def parse(text: str) -> Template:
    """A template from its text. TemplateError names the place: "line 2, column 7: unknown field 'tittle', ..."."""
    if len(text) > MAX_TEMPLATE:
        raise TemplateError(f"at most {MAX_TEMPLATE} characters, this has {len(text)}")
    rows = text.rstrip("\n").split("\n")
    if len(rows) > MAX_LINES:
        raise TemplateError(f"at most {MAX_LINES} lines, this has {len(rows)}")
    return Template(tuple(_line(row.rstrip(), number) for number, row in enumerate(rows, 1)))


def values(incident: Incident, notification: Notification, links: IncidentLinks) -> Callable[[str], str]:
    """Field name -> value of one incident, for `Template.render`."""
    known: Mapping[str, str] = field_values(incident, notification, links)

    def value(name: str) -> str:
        return label_value(incident, name.removeprefix(LABEL)) if name.startswith(LABEL) else known[name]

    return value


def one_line(lines: list[MessageLine]) -> str:
    """A title: the lines as one."""
    return " ".join(f"{line.heading}: {line.text}" if line.heading else line.text for line in lines).replace("\n", "; ")


def plain_text(lines: list[MessageLine]) -> str:
    """A message as plain text: values of several lines are set below their heading."""
    made = []
    for heading, words in lines:
        if not heading:
            made.append(words)
        elif "\n" in words:
            made += [f"{heading}:", *(f"  - {row}" for row in words.split("\n"))]
        else:
            made.append(f"{heading}: {words}")
    return "\n".join(made)


def _line(row: str, number: int) -> tuple[str, tuple[_Piece, ...]]:
    pieces: list[_Piece] = []
    end = 0
    for token in _TOKEN.finditer(row):
        if token.start() > end:
            pieces.append(_Piece(row[end : token.start()], False))
        end = token.end()
        word = token[0]
        if word in ("{{", "}}"):
            pieces.append(_Piece(word[0], False))
        elif token[1] is None:
            raise TemplateError(f"{_place(number, token)}: a single {word!r}; write {word * 2!r} for a brace")
        else:
            pieces.append(_Piece(_known(token[1], _place(number, token)), True))
    if end < len(row):
        pieces.append(_Piece(row[end:], False))
    heading = ""
    if pieces and not pieces[0].field and len(pieces) > 1 and ": " in pieces[0].text:
        heading, _, rest = pieces[0].text.partition(": ")
        pieces[0] = _Piece(rest, False)
    return heading.strip(), tuple(pieces)


def _place(line: int, token: re.Match[str]) -> str:
    return f"line {line}, column {token.start() + 1}"


def _known(name: str, place: str) -> str:
    if re.fullmatch(r"label\.[A-Za-z0-9_.-]{1,64}", name) or name in FIELDS:
        return name
    if name in RENAMED:
        raise TemplateError(f"{place}: field {name!r} was renamed to {RENAMED[name]!r}")
    near = difflib.get_close_matches(name, list(FIELDS), 1, 0.6)
    if re.search(r"[^A-Za-z0-9_]", name):
        raise TemplateError(f"{place}: {{{name[:40]}}} is no field: only a name may stand in braces")
    if near:
        raise TemplateError(f"{place}: unknown field {name[:40]!r}, did you mean {near[0]!r}?")
    raise TemplateError(f"{place}: unknown field {name[:40]!r}; fields are {', '.join(FIELDS)}, label.NAME")
