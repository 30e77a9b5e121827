"""Names in a silence or a maintenance window that nothing in the fabric has: a typing error covers nothing. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from fabricmon.catalogue.kinds import KINDS
from fabricmon.forms.glob import NamePatterns
from fabricmon.model import Severity
from fabricmon.notify.matchers import Matcher, Op, accepts

COMPARED = 5000
"""Names that are compared with an unknown one for a hint: about 50 ms."""


class FabricNames(Struct, frozen=True):
    """What a matcher or a window may name.

    nodes       of targets and of the topology
    incidents   ids of incidents that fire or were resolved within the hour
    components  the words of all components, made when they are needed: "leaf(su1/rail2)"
    """

    nodes: Collection[str]
    incidents: Collection[str]
    components: Callable[[], Iterable[str]]


def unknown_in_matchers(matchers: Sequence[Matcher], names: FabricNames) -> str:
    """A sentence about the first matcher whose value nothing has; "" where there is none. Jobs and labels come and go:
    their values are not checked."""
    for matcher in matchers:
        known = _values(matcher.name, names)
        if known is None or any(accepts(matcher, value) for value in known()):
            continue
        what = "matches no" if matcher.op in (Op.LIKE, Op.UNLIKE) else "is no known"
        return f"{str(matcher)!r}: {matcher.value!r} {what} {matcher.name}{_hint(matcher.value, known())}"
    return ""


def unknown_in_window(hosts: Sequence[str], components: Sequence[str], names: FabricNames) -> str:
    """A sentence about the first name or pattern that nothing has; "" where there is none."""
    for word, patterns, known in (("node", hosts, lambda: names.nodes), ("component", components, names.components)):
        for pattern in patterns:
            fits = NamePatterns([pattern])
            if not any(fits.match(name) for name in known()):
                return f"{pattern!r} is no known {word}{_hint(pattern, known())}"
    return ""


def _values(name: str, names: FabricNames) -> Callable[[], Iterable[str]] | None:
    """The values under a matcher's name; None where they are not known."""
    known: dict[str, Callable[[], Iterable[str]]] = {
        "node": lambda: names.nodes,
        "id": lambda: names.incidents,
        "component": names.components,
        "kind": lambda: KINDS,
        "severity": lambda: [severity.value for severity in Severity],
        "status": lambda: ("firing", "resolved"),
    }
    return known.get(name)


def _hint(wanted: str, known: Iterable[str]) -> str:
    """ "; did you mean host-007?" or ""."""
    some = [name for _, name in zip(range(COMPARED), known, strict=False)]
    near = difflib.get_close_matches(wanted, some, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
