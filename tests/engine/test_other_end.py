"""What one end of a link was read to be is over where the other one shows it, and only there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.symptom_index import SWEEP, SymptomIndex, observations_of, up_at_other_end
from fabricmon.engine.domains.link_ends import LinkReads
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.symptoms.rule_state import RuleState
from fabricmon.model import ComponentId, Kind
from fabricmon.rules import link_down
from fabricmon.rules.rule import Outcome
from fabricmon.topology.groups import DOMAINS, Domains

OWN, SWEPT, OTHER = range(3)
IDS = [ComponentId(Kind.PORT, "a", "mlx5_0/1"), ComponentId(Kind.PORT, "s", "leaf/1"), ComponentId(Kind.PORT, "b", "x")]


NEVER = (np.nan, np.nan, np.nan)


def reads(
    read: Sequence[float], period: Sequence[float] = (1.0, 30.0, 1.0), came: Sequence[float] = NEVER
) -> LinkReads:
    return LinkReads(*(np.array(each, np.float64) for each in (read, period, came)))


def domains(swept: Sequence[bool] = (False, True, False)) -> RowDomains:
    """The port of a host and the port of a leaf at its cable, which a sweep reports; and another port."""
    ids = {domain: np.full(3, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["host"] = np.array([0, 0, 1], np.int32), np.array([0, -1, 1], np.int32)
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    names["link"], names["host"] = ["a/mlx5_0/1, leaf/1", "b/x"], ["a", "b"]
    return RowDomains(Domains(ids, names, {}, np.array(swept), np.full(3, -1, np.int32)), {}, [])


def state(down: list[int], known: list[int], now: float, before: RuleState | None = None) -> RuleState:
    held = before or RuleState(link_down.RULE, link_down.RULE.params())
    fire, read = np.isin(range(3), down), np.isin(range(3), known)
    outcome = Outcome(fire=fire, clear=~fire, known=read, value=np.zeros(3))
    held.advance(outcome, IDS, now, lambda _row: ((), None))
    return held


@pytest.mark.parametrize(
    ("known", "down", "at", "up"),
    [
        ([SWEPT, OTHER], [], 290.0, True),
        ([SWEPT, OTHER], [], 199.0, False),
        ([OWN, SWEPT], [OWN], 290.0, False),
        ([OTHER], [], 290.0, False),
        ([SWEPT], [SWEPT], 290.0, False),
    ],
    ids=["silent, read up later", "silent, read up before", "both read", "neither read", "read down by the sweep"],
)
def test_what_a_silent_agent_read_last_yields_to_the_other_end(
    known: list[int], down: list[int], at: float, up: bool
) -> None:
    held = state([OWN], [OWN, SWEPT, OTHER], 100.0)
    held = state([OWN], [OWN, SWEPT, OTHER], 200.0, held)
    assert OWN in held.open
    held = state(down, known, 300.0, held)
    when = reads([200.0, at, 300.0])
    assert up_at_other_end(SymptomType.LINK_DOWN, held, OWN, domains(), when) is up
    assert not up_at_other_end(SymptomType.LINK_ERRORS, held, OWN, domains(), when), "each end counts its own"


def swept_down(at: float) -> RuleState:
    """The sweep read the link down, its host's port is known to be up."""
    held = state([], [OWN, SWEPT], at - 10.0)
    held = state([SWEPT], [OWN, SWEPT], at, held)
    return state([SWEPT], [OWN, SWEPT], at + 6.0, held)


@pytest.mark.parametrize(
    ("period", "came", "up"),
    [(1.0, np.nan, True), (600.0, np.nan, False), (600.0, 305.0, True), (600.0, 295.0, False)],
    ids=["read often", "read rarely", "came up since", "came up before"],
)
def test_a_sweep_yields_to_an_end_that_is_read_more_often_or_came_up_since(
    period: float, came: float, up: bool
) -> None:
    when = reads([290.0, 300.0, 0.0], [period, 30.0, 1.0], [came, np.nan, np.nan])
    assert up_at_other_end(SymptomType.LINK_DOWN, swept_down(300.0), SWEPT, domains(), when) is up


@pytest.mark.parametrize(
    ("down", "read", "came", "up"),
    [
        (OWN, (300.0, 300.0), (np.nan, 100.0), False),
        (OWN, (300.0, 315.0), (np.nan, 315.0), True),
        (SWEPT, (315.0, 300.0), (315.0, np.nan), True),
        (SWEPT, (315.0, 300.0), (100.0, np.nan), False),
    ],
    ids=["at the same moment", "came up later", "came up later, the other end", "was up all the time"],
)
def test_of_two_swept_ends_the_one_that_came_up_later_counts(
    down: int, read: tuple[float, float], came: tuple[float, float], up: bool
) -> None:
    """A link that works in one direction only is up at one end in all sweeps, and is reported."""
    held = state([], [OWN, SWEPT], 290.0)
    held = state([down], [OWN, SWEPT], 300.0, held)
    held = state([down], [OWN, SWEPT], 306.0, held)
    when = reads([*read, 0.0], [30.0, 30.0, 1.0], [*came, np.nan])
    both = domains((True, True, False))
    assert up_at_other_end(SymptomType.LINK_DOWN, held, down, both, when) is up


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("aside", [False, True], ids=["as usual", "after a reload"])
def test_a_port_that_is_up_overrides_an_old_sweep_however_lately_it_came_up(aside: bool, both: bool) -> None:
    """In the boot grace it is no evidence against a larger fault, and yet its link is up."""
    held = state([], [OWN, SWEPT], 270.0)
    for now, rows in ((280.0, [OWN, SWEPT]), (290.0, [OWN, SWEPT]), (300.0, [SWEPT]), (312.0, [SWEPT])):
        held = state([*rows, OWN] if both else rows, [OWN, SWEPT], now, held)
    when = reads([312.0, 290.0, 0.0], came=(299.0, *NEVER[1:]))
    index = SymptomIndex(domains(), {SymptomType.LINK_DOWN: [held]}, {Kind.PORT: IDS}, when)
    set_aside = {Kind.PORT: np.array([aside, False, False])}
    found = observations_of(index, set_aside, lambda _key: False, {}, {}, 312.0)[SymptomType.LINK_DOWN]
    assert (found.rows.tolist() == [OWN]) is both


@pytest.mark.parametrize(("read", "since"), [([SWEPT], SWEEP), ([OTHER], 20.0)])
def test_what_a_sweep_shows_may_have_begun_since_the_sweep_before(read: list[int], since: float) -> None:
    """Of a link whose agent is silent; what is evaluated in between is what the sweep before read."""
    index = SymptomIndex(domains(), {SymptomType.LINK_DOWN: [state(read, read, 290.0, well(read))]}, {Kind.PORT: IDS})
    index.rule_states[SymptomType.LINK_DOWN][0].advance(fires(read), IDS, 310.0, lambda _row: ((), None))
    none = {Kind.PORT: np.zeros(3, np.bool_)}
    found = observations_of(index, none, lambda _key: False, {}, {}, 310.0)[SymptomType.LINK_DOWN]
    assert found.rows.tolist() == [OWN if read == [SWEPT] else OTHER], "the host's port stands for the link"
    assert found.before is not None
    assert found.before.tolist() == [290.0 - since]


def well(read: list[int]) -> RuleState:
    return state([], read, 270.0)


def fires(rows: list[int]) -> Outcome:
    fire = np.isin(range(3), rows)
    return Outcome(fire=fire, clear=~fire, known=fire, value=np.zeros(3))
