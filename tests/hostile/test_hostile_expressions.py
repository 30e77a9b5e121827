"""Hostile expressions in every place that takes one: each is refused with its error, or its answer comes at once.

With backtracking each of them would run for ages on NAME: the limit of the test ends it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fabricmon.central.page.search_filter import filter_of
from fabricmon.engine.incidents.maintenance import Windows
from fabricmon.model import Incident
from fabricmon.notify.matchers import MatcherError
from fabricmon.notify.settings import NotifyConfig
from fabricmon.notify.silence import SilenceError, maintenance, silence
from fabricmon.senders.routing import Routing
from tests.notify.made import T0, incident

NAME = "a" * 250
EXPRESSIONS = {
    "optional characters": ".?" * 60 + "b" * 60,
    "nested repeats": "(a*)*" * 8 + "b",
    "alternatives": "(a|aa|aaa)+b",
    "eight stars": "*a" * 8 + "*b",
    "a thousand stars": "*" * 1000 + "b",
    "counted repeats": "(a{1,60}){1,60}b",
    "a repeat of a repeat": "((((a{50}){50}){50}){50})",
    "a look behind": r"(?<=a)b|(a)\1",
    "open brackets": "(" * 5000,
    "a lone surrogate": "\ud800",
    "long": "a" * 200_000,
}


def _silence(text: str) -> Callable[[Incident], bool]:
    made = silence("s", [f"node=~{text}"], T0, T0 + 9, "mara")
    assert not made.disabled
    return made.covers


def _route(text: str) -> Callable[[Incident], bool]:
    routing = Routing(match=(f"node=~{text}",))
    routing.check()
    return routing.receiver("ops", NotifyConfig(), False, False).takes


def _maintenance(text: str) -> Callable[[Incident], bool]:
    windows = Windows([maintenance("m", T0, T0 + 9, [text], [text])])
    return lambda i: bool(windows.covering(T0, i.component, frozenset({NAME})) or windows.hosts(T0, [NAME]))


def _page(text: str) -> Callable[[Incident], bool]:
    return filter_of({"q": text}).incident


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
@pytest.mark.parametrize("place", [_silence, _route, _maintenance, _page])
def test_a_hostile_expression_is_refused_or_answered(
    place: Callable[[str], Callable[[Incident], bool]], text: str
) -> None:
    try:
        covers = place(text)
    except (MatcherError, SilenceError, ValueError):
        return
    assert not covers(incident(component=f"link({NAME}/mlx5_0/1)", parts=(f"link({NAME}/mlx5_0/1)",)))


@pytest.mark.parametrize("place", [_silence, _route, _maintenance, _page])
def test_a_good_expression_beside_them_holds(place: Callable[[str], Callable[[Incident], bool]]) -> None:
    good = incident(component=f"link({NAME}/mlx5_0/1)", parts=(f"link({NAME}/mlx5_0/1)",))
    assert place(NAME)(good)
