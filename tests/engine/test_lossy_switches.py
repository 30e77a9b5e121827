"""Several cables of one switch that begin to lose packets at one moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.lossy_switches import CABLE, IN_PART, gain_of, of_lossy_switches
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.topology.groups import DOMAINS, Domains, Many
from tests.engine.test_loss_of_packets import Run

LOSS = SymptomType.FLOW_LOSS
LEAVES = 8
RATIO = math.log(10.0)


@pytest.mark.parametrize(("observed", "nats"), [(8, 4.92), (18, 2.33), (19, 2.16)])
def test_two_cables_of_many_are_the_switch_up_to_eighteen(observed: int, nats: float) -> None:
    """2 x 8.0 + ln 60 - 9.9 + ln of 2! (n - 2)! / (n + 1)! x (n + 1) / (n - 1)."""
    gain = gain_of(IN_PART["spine"], [["1"], ["3"]], observed)
    assert gain == pytest.approx(nats, abs=0.005)
    assert (gain >= RATIO) == (observed <= 18)


def test_two_ports_of_one_module_are_the_module_sooner() -> None:
    assert gain_of(IN_PART["spine"], [["1"], ["2"]], 8) < 0.0
    assert gain_of(IN_PART["spine"], [["2"], ["3"]], 8) >= RATIO
    assert gain_of(IN_PART["spine"], [["swp1"], ["swp2"]], 8) >= RATIO  # which ports are one module is not known


def test_one_of_two_modules_is_in_the_switch_in_any_case() -> None:
    assert gain_of(IN_PART["spine"], [["1", "5"], ["2", "6"]], 8) >= RATIO


def test_ports_of_two_modules_are_these_and_half_of_the_switch_is_the_switch() -> None:
    assert gain_of(IN_PART["spine"], [["1"], ["2"], ["3"], ["4"]], 32) < RATIO
    assert gain_of(IN_PART["spine"], [[str(port)] for port in range(1, 33)], 64) >= RATIO


def spine(lossy: Sequence[int], onsets: Sequence[float]) -> tuple[list[FaultVerdict], Observation, RowDomains]:
    """Two spines with a cable to each of eight leaves, port 2 x leaf + 1, and a flow through each; verdicts on the
    lossy cables."""
    n = 2 * LEAVES
    ids = {domain: np.full(0, -1, np.int32) for domain in DOMAINS}
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    names["link"] = [f"leaf-{at % LEAVES}/9, spine-{at // LEAVES}/{2 * (at % LEAVES) + 1}" for at in range(n)]
    names["spine"] = ["spine-0", "spine-1"]
    domains = RowDomains(Domains(ids, names, {}, np.zeros(0, np.bool_), np.zeros(0, np.int32)), {}, [])
    start, each = np.arange(n + 1), np.arange(n, dtype=np.int32)
    none = Many(np.zeros(n + 1, np.int64), np.zeros(0, np.int32))
    groups = Groups({}, {"link": Many(start, each), "spine": Many(start, each // LEAVES), "core": none})
    rows = np.array(lossy, np.int64)
    flows = Observation(groups, rows, np.array(onsets), np.ones(n, np.bool_))
    verdicts = [
        FaultVerdict((CABLE,), at, 0.99, 0.99, 6.0, {LOSS: np.array([at])}, onset, {}, (), None)
        for at, onset in zip(lossy, onsets, strict=True)
    ]
    return verdicts, flows, domains


def test_two_cables_of_a_spine_at_one_moment_are_the_spine_with_these_cables() -> None:
    verdicts, flows, domains = spine([0, 3], [100.0, 104.0])
    (found,) = of_lossy_switches(verdicts, flows, domains)
    assert (found.mode, domains.names["spine"][found.group]) == (IN_PART["spine"], "spine-0")
    assert (found.cables, found.observed, found.explained[LOSS].tolist()) == ((0, 3), LEAVES, [0, 3])
    assert found.confidence == pytest.approx(1 / (1 + math.exp(-4.92)), abs=1e-3)


@pytest.mark.parametrize(
    ("lossy", "onsets"),
    [
        ([0], [100.0]),
        ([0, 3], [100.0, 130.0]),  # at moments of their own
        ([0, LEAVES + 3], [100.0, 100.0]),  # of two spines
    ],
)
def test_cables_that_share_no_switch_or_no_moment_are_cables(lossy: list[int], onsets: list[float]) -> None:
    verdicts, flows, domains = spine(lossy, onsets)
    assert of_lossy_switches(verdicts, flows, domains) == verdicts


def test_cables_through_which_nothing_is_observed_count_neither_way() -> None:
    verdicts, flows, domains = spine([0, 3], [100.0, 100.0])
    flows.known[1] = False
    assert of_lossy_switches(verdicts, flows, domains)[0].observed == LEAVES - 1


def test_two_lossy_cables_of_a_spine_are_one_incident_that_lists_them() -> None:
    run = Run(flows=True)
    for leaf in ("su0-rail0-leaf", "su2-rail0-leaf"):
        run.strike("uplink_gray", leaf, "plane0-spine-003", ratio=0.05)
    run.run(90)
    (incident,) = run.told()
    assert incident.component == "spine(plane0-spine-003)"
    assert any("2 of its 4 observed cables lose packets" in e.text for e in incident.evidence)
