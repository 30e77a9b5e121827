"""All rules together: parameters, what one of them hides of another, what is healthy, ports that are not in use."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.engine.symptoms.rule_states import ParamsError, RuleStates, parameters
from fabricmon.fleet.view import View, Views
from fabricmon.model import Kind, Maintenance, Severity
from fabricmon.rules import RULES
from fabricmon.rules.link_down import LinkDownParams
from fabricmon.rules.rule import Outcome, RuleParams, Scope, never
from fabricmon.units import Duration
from tests.rules.bench_of_ports import DOWN, Ports

BY_NAME = {rule.name: rule for rule in RULES}


def test_parameters_are_the_defaults_unless_given_as_a_struct_or_as_written() -> None:
    mine = LinkDownParams(hold=Duration(7))
    found = parameters(RULES, {"link_down": mine, "link_errors": {"hold": "3m", "clear": 4}})
    assert found.keys() == BY_NAME.keys()
    assert found["link_down"] is mine
    assert (float(found["link_errors"].hold), float(found["link_errors"].clear)) == (180.0, 4.0)
    assert found["nic_fault"] == BY_NAME["nic_fault"].params()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"link_dwon": {}}, "rules.link_dwon: no such rule, did you mean 'link_down'?"),
        ({"zzz": {}}, "rules.zzz: no such rule"),
        ({"link_down": {"hold": "soon"}}, "rules.link_down: "),
        ({"link_down": {"held": 1}}, "rules.link_down: "),
    ],
)
def test_parameters_that_cannot_be_used_are_refused_by_their_path(given: dict[str, object], text: str) -> None:
    with pytest.raises(ParamsError) as refused:
        parameters(RULES, given)
    assert str(refused.value).startswith(text)
    assert str(refused.value) == text or text.endswith(": ")


def test_new_parameters_hold_from_the_next_tick_and_bad_ones_change_nothing() -> None:
    ports = Ports(nics=2)
    ports.polls(14)
    ports.down(0, 0)
    ports.poll()
    ports.rule_states.configure({"link_down": {"hold": "1h"}})
    ports.polls(3)
    assert ports.open("link_down") == []
    with pytest.raises(ParamsError):
        ports.rule_states.configure({"link_down": {"hold": "0s"}, "link_errors": {"x": 1}})
    ports.polls(3)
    assert ports.open("link_down") == []
    ports.rule_states.configure({})
    ports.poll()
    assert len(ports.open("link_down")) == 1
    assert ports.rule_states.open_by_rule()["link_down"] == 1


def test_a_rule_of_slow_readings_is_tested_once_a_second_and_at_once_on_new_rows() -> None:
    tested: list[tuple[float, int]] = []

    def test(view: View, params: RuleParams) -> Outcome:
        tested.append((view.now, view.n))
        return never(view, params)

    slow, quick = (replace(BY_NAME["link_errors"], test=test, slow=slow) for slow in (True, False))
    for rule, step, expected in ((slow, 0.25, 3), (slow, 1.0, 9), (quick, 0.25, 9)):
        ports, states = Ports(nics=2), RuleStates([rule], {})
        tested.clear()
        for tick in range(9):
            states.run(Views(ports.fleet.tables, ports.now + step * tick))
        assert len(tested) == expected
        ports.fleet.inventory("late", ports.fleet.nodes[next(iter(ports.fleet.nodes))].inventory, ports.now)
        states.run(Views(ports.fleet.tables, ports.now + step * 8.0 + 0.01))
        assert tested[-1][1] > tested[0][1]


def test_an_effect_yields_to_its_cause_on_the_same_port_and_only_while_both_are_open() -> None:
    ports = Ports(nics=3)
    states = ports.rule_states
    ports.polls(14)
    assert states.yielded() == {}
    effect, cause = states.by_rule["link_down"], states.by_rule["nic_fault"]
    assert "nic_fault" in effect.rule.yields_to
    ports.down(0, 0)
    ports.down(0, 2)
    ports.polls(3)
    assert states.yielded() == {}
    rows = [ports.row(0, nic) for nic in range(3)]
    held = effect.open[rows[0]]
    cause.open[rows[0]] = cause.open[rows[1]] = held
    (mask,) = states.yielded().values()
    assert [bool(mask[row]) for row in rows] == [True, True, False]
    effect.open.clear()
    assert states.yielded() == {}


def test_healthy_is_what_the_deciding_rules_know_and_none_holds_against() -> None:
    ports = Ports(hosts=2, nics=2)
    ports.polls(14)
    healthy, table = ports.rule_states.healthy, BY_NAME["link_down"].table
    ports.silent.add(1)
    ports.down(0, 0)
    ports.polls(5)
    rows = [ports.row(*at) for at in ((0, 0), (0, 1), (1, 0))]
    assert [healthy(row, table, "link_down") for row in rows] == [False, True, False]
    assert [healthy(row, table, "unknown kind") for row in rows] == [False, True, False]
    assert not healthy(10_000, table, "link_down")
    ports.up(0, 0)
    ports.poll()
    assert not healthy(rows[0], table, "link_down")  # it clears, but is not over
    ports.polls(3)
    assert healthy(rows[0], table, "link_down")


def test_ports_of_a_plane_that_is_not_in_use_have_no_symptoms_and_lose_those_they_had() -> None:
    ports = Ports(nics=3, own={(0, 1): {"role": "idle"}})
    ports.polls(14)
    for nic in (0, 1):
        ports.down(0, nic)
    ports.polls(4)
    assert [symptom.component.name for symptom in ports.open("link_down")] == ["mlx5_0/1"]
    ports.own[0, 0] = {"role": "idle"}
    ports.enter(0)
    ports.polls(4)
    assert ports.open("link_down") == []
    assert not ports.rule_states.waiting()


def test_symptoms_are_listed_by_severity_then_age() -> None:
    ports = Ports(nics=4)
    ports.polls(14)
    ports.down(0, 2)
    ports.polls(2)
    ports.down(0, 0)
    ports.polls(2)
    listed = [(symptom.rule, symptom.component.name) for symptom in ports.rule_states.symptoms()]
    assert listed == [("link_down", "mlx5_2/1"), ("link_down", "mlx5_0/1")]
    state = ports.rule_states.by_rule["link_down"]
    row = ports.row(0, 0)
    held = state.open[row]
    state.open[row] = replace(held, symptom=msgspec.structs.replace(held.symptom, severity=Severity.CRITICAL))
    assert [symptom.component.name for symptom in ports.rule_states.symptoms()] == ["mlx5_0/1", "mlx5_2/1"]


def test_a_row_that_stands_for_another_port_closes_what_was_open_on_it() -> None:
    ports = Ports(nics=2)
    ports.polls(14)
    ports.down(0, 0)
    ports.polls(2)
    row = ports.row(0, 0)
    table = ports.fleet.tables[BY_NAME["link_down"].table]
    table.generation[row] += 1
    changes, moved = ports.rule_states.run(Views(ports.fleet.tables, ports.now))
    assert moved[table.kind] == [row]
    assert [(change.symptom.rule, change.opened, change.reason) for change in changes[:2]] == [
        ("link_down", False, "the component left the fabric"), ("link_down", True, "raise condition met, held 5 s"),
    ]  # fmt: skip
    assert ports.rule_states.run(Views(ports.fleet.tables, ports.now))[1][table.kind] == []


def test_a_rule_that_raises_keeps_its_states_and_the_others_run() -> None:
    def broken(_view: object, _params: object) -> None:
        raise ValueError("odd")

    ports = Ports(nics=2)
    ports.polls(14)
    ports.down(0, 0)
    ports.polls(2)
    ports.rule_states.by_rule["link_down"].rule = replace(BY_NAME["link_down"], test=broken)  # type: ignore[arg-type]
    ports.port[0, 1]["rate"] = math.nan
    ports.port[0, 1] |= DOWN
    ports.now += 10.0
    ports.rule_states.run(Views(ports.fleet.tables, ports.now))
    assert len(ports.open("link_down")) == 1
    assert ports.rule_states.failures.counts == {"link_down": 1}
    assert "odd" in ports.rule_states.failures.last["link_down"]


# --- the tick


def test_a_window_that_begins_or_ends_is_an_incident_at_the_next_tick() -> None:
    """Although less than a second passed since the last diagnosis and no symptom changed."""
    ports = Ports(nics=1)
    engine = Engine(Scope.FLEET, None, {}, "test")
    engine.inventory("host-000", ports.inventories[0], ports.now)
    engine.maintenance([Maintenance("m-1", ports.now + 0.3, ports.now + 5.3, ("host-000",))])
    assert engine.tick(ports.now).incidents == []
    assert engine.tick(ports.now + 0.2).incidents == []
    (begun,) = engine.tick(ports.now + 0.4).incidents
    assert (begun.kind, begun.component) == ("maintenance", "host(host-000)")
    assert [node.maintenance for node in engine.nodes()] == ["m-1"]
    engine.tick(ports.now + 5.0)
    (ended,) = engine.tick(ports.now + 5.35).incidents
    assert (ended.id, ended.status) == (begun.id, "resolved")
    assert [node.maintenance for node in engine.nodes()] == [""]


def test_without_news_a_diagnosis_is_made_once_a_second_and_after_a_clock_that_was_set_back() -> None:
    engine, made = Engine(Scope.FLEET, None, {}, "test"), []

    class Timer:
        def __enter__(self) -> None:
            made.append(True)

        def __exit__(self, *_: object) -> None: ...

    engine.time_steps(Timer, nullcontext)
    now, counts = 1_700_000_000.0, []
    for step in (0.0, 0.5, 0.49, 0.02, 0.5, -30.0, 0.1):
        now += step
        engine.tick(now)
        counts.append(len(made))
    assert counts == [1, 1, 1, 2, 2, 3, 3]
    assert engine.counters()["ticks"] == 7.0


def test_a_row_on_the_way_to_fire_was_not_seen_without() -> None:
    """Ports that wait since the first reading are reported after three windows: that nothing began is known."""
    ports = Ports(nics=1)
    state = RuleStates([BY_NAME["link_down"]], {}).by_rule["link_down"]

    def tick(now: float, fire: bool, nearing: bool) -> None:
        outcome = Outcome(
            np.array([fire]), np.array([False]), np.array([True]), np.zeros(1), nearing=np.array([nearing])
        )
        state.advance(outcome, [ports.fleet.tables[Kind.PORT].ids[0]], now, lambda _row: ((), {}))

    tick(1000.0, fire=False, nearing=True)
    tick(1010.0, fire=True, nearing=True)
    tick(1020.0, fire=True, nearing=True)
    assert not state.open[0].witnessed
    state.drop([0], 1030.0, "test")
    tick(1040.0, fire=False, nearing=False)
    tick(1050.0, fire=True, nearing=True)
    tick(1060.0, fire=True, nearing=True)
    assert state.open[0].witnessed
