"""A link whose own agent is silent is up where a sweep reads its other end up."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.symptom_index import SWEEP, SymptomIndex, observations_of, up_at_other_end
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.symptoms.rule_state import RuleState
from fabricmon.model import ComponentId, Kind
from fabricmon.rules import link_down
from fabricmon.rules.rule import Outcome
from fabricmon.topology.groups import DOMAINS, Domains

OWN, SWEPT, OTHER = range(3)
IDS = [ComponentId(Kind.PORT, "a", "mlx5_0/1"), ComponentId(Kind.PORT, "s", "leaf/1"), ComponentId(Kind.PORT, "b", "x")]


def domains() -> RowDomains:
    """The port of a host and the port of a leaf at its cable, which a sweep reports; and another port."""
    ids = {domain: np.full(3, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["host"] = np.array([0, 0, 1], np.int32), np.array([0, -1, 1], np.int32)
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    names["link"], names["host"] = ["a/mlx5_0/1, leaf/1", "b/x"], ["a", "b"]
    swept = np.array([False, True, False])
    return RowDomains(Domains(ids, names, {}, swept, np.full(3, -1, np.int32)), {}, [])


def state(down: list[int], known: list[int], now: float, before: RuleState | None = None) -> RuleState:
    held = before or RuleState(link_down.RULE, link_down.RULE.params())
    fire, read = np.isin(range(3), down), np.isin(range(3), known)
    outcome = Outcome(fire=fire, clear=~fire, known=read, value=np.zeros(3))
    held.advance(outcome, IDS, now, lambda _row: ((), None))
    return held


@pytest.mark.parametrize(
    ("known", "down", "up"),
    [
        ([SWEPT, OTHER], [], True),
        ([OWN, SWEPT], [OWN], False),
        ([OTHER], [], False),
        ([SWEPT], [SWEPT], False),
    ],
    ids=["silent, read up by the sweep", "both read", "neither read", "read down by the sweep"],
)
def test_what_a_silent_agent_read_last_yields_to_the_other_end(known: list[int], down: list[int], up: bool) -> None:
    held = state([OWN], [OWN, SWEPT, OTHER], 100.0)
    held = state([OWN], [OWN, SWEPT, OTHER], 200.0, held)
    assert OWN in held.open
    held = state(down, known, 300.0, held)
    assert up_at_other_end(SymptomType.LINK_DOWN, held, OWN, domains()) is up
    assert not up_at_other_end(SymptomType.LINK_ERRORS, held, OWN, domains()), "each end counts its own"


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
