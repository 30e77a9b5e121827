"""A link whose own agent is silent is up where a sweep reads its other end up."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.symptom_index import up_at_other_end
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
