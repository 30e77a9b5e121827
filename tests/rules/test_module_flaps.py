"""Ports of one module that fall in turn flap as one, whatever each does alone."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind
from fabricmon.rules.link_flapping import LinkFlappingParams, evidence, of_module
from fabricmon.rules.module_flaps import Down
from tests.rules.bench_of_ports import Ports


def of_two(serials: tuple[str, str] = ("A", "A")) -> Ports:
    """A host with four ports, of which the first two share a module where their serial numbers say so."""
    own = {(0, nic): {"module_serial": serials[nic] if nic < 2 else f"other-{nic}"} for nic in range(4)}
    ports = Ports(nics=4, own=own)
    ports.polls(30)
    return ports


def fall(ports: Ports, *nics: int) -> set[str]:
    """Each of some ports falls once, a minute apart; what is reported then."""
    for nic in nics:
        ports.flap(0, nic)
        ports.polls(6)
    return {f"{symptom.rule} {symptom.component.name}" for symptom in ports.open("link_flapping")}


BOTH = {"link_flapping mlx5_0/1", "link_flapping mlx5_1/1"}


@pytest.mark.parametrize(
    ("falls", "reported"),
    [((0, 1, 0), BOTH), ((0, 1, 1), BOTH), ((0, 1), set()), ((0, 0), set()), ((0, 0, 2), set()), ((2, 3, 2), set())],
)
def test_three_falls_of_a_module_are_a_flap_of_both_its_ports(falls: tuple[int, ...], reported: set[str]) -> None:
    assert fall(of_two(), *falls) == reported


def test_ports_of_two_modules_are_not_counted_together() -> None:
    assert fall(of_two(("A", "B")), 0, 1, 0, 1) == set()


def test_both_ports_that_fall_at_one_moment_fell_once() -> None:
    ports = of_two()
    for _ in range(2):
        ports.flap(0, 0)
        ports.flap(0, 1)
        ports.polls(6)
    assert not ports.open("link_flapping")


def test_a_fall_with_ports_of_other_modules_is_not_of_the_module() -> None:
    ports = of_two()
    for nic in range(4):
        ports.flap(0, nic)
    ports.polls(6)
    assert fall(ports, 0, 1) == set()
    assert fall(ports, 0) == BOTH, "the third at which no other port fell"


@pytest.mark.parametrize(
    ("leaves", "batches", "reported"),
    [
        ([0, 1], ["", ""], BOTH),
        ([0, 0], ["", ""], set()),
        ([-1, -1], ["", ""], set()),  # they may be of one leaf
        ([0, 1, 2, 2, 2], ["old", "old", "new", "new", "new"], set()),
        ([0, 1, 2], ["old", "old", "new"], BOTH),  # what most ports are of takes none along
    ],
)
def test_falls_elsewhere_are_nothing_against_a_module(
    leaves: list[int], batches: list[str], reported: set[str]
) -> None:
    """Two ports of another host fall whenever one of the module does."""
    batch = {(host, nic): {"firmware": label} for host, label in enumerate(batches) for nic in range(4) if label}
    module = {(0, nic): batch.get((0, nic), {}) | {"module_serial": "A"} for nic in range(2)}
    ports = Ports(hosts=len(leaves), nics=4, own=batch | module)
    domains = ports.fleet.tables[Kind.PORT].domains
    assert domains is not None
    domains.ids["leaf"][:] = np.repeat(leaves, 4)
    ports.polls(30)
    for nic in (0, 1, 0):
        ports.flap(0, nic)
        ports.flap(1, 0)
        ports.flap(1, 2)
        ports.polls(6)
    found = [symptom for symptom in ports.open("link_flapping") if symptom.component.node == ports.node(0)]
    assert {f"{symptom.rule} {symptom.component.name}" for symptom in found} == reported


def test_a_port_that_flaps_alone_takes_its_neighbour_not_along() -> None:
    ports = of_two()
    assert fall(ports, 0, 0, 0, 1) == {"link_flapping mlx5_0/1"}
    ports.polls(120)  # the penalty of the one is below its limit now, that of both is not
    assert fall(ports) == {"link_flapping mlx5_0/1"}


def test_the_reading_is_that_of_the_module_and_it_clears_as_a_link_does() -> None:
    ports = of_two()
    fall(ports, 0, 1, 0)
    symptom = ports.open("link_flapping")[0]
    assert symptom.evidence[0].text.startswith("3 downs of the 2 ports of its module (")
    ports.polls(90)
    assert ports.open("link_flapping"), "after 15 minutes it is at 1300"
    ports.polls(120)
    assert not ports.open("link_flapping")


@pytest.mark.parametrize("falls", [(0, 0, 0), (0, 1, 0)], ids=["port", "module"])
def test_the_downs_are_evidence_for_a_flap_until_it_is_over(falls: tuple[int, ...]) -> None:
    ports = of_two()
    fall(ports, *falls)

    def now() -> Evidence:
        return evidence(View(ports.fleet.tables[Kind.PORT], ports.now), 0, LinkFlappingParams())[0]

    assert (now().for_it, now().limit) == (True, 2.0)
    ports.polls(90)
    assert (now().for_it, now().limit) == (True, 0.75), "below the limit that raises, and it still flaps"
    assert 0.75 < (now().value or 0.0) < 2.0
    ports.polls(120)
    assert not ports.open("link_flapping")
    assert not now().for_it


@pytest.mark.parametrize(("apart", "penalty", "began"), [(0.0, 3000.0, 1000.0), (900.0, 1750.0, 1900.0)])
def test_the_penalty_of_a_module_decays_as_that_of_a_link(apart: float, penalty: float, began: float) -> None:
    """After one half-life half of one down is left, which is below the level at which a series ends."""
    downs = [Down(1000.0 + n * apart, 1, n % 2) for n in range(3)]
    assert of_module(downs, downs[-1].at, LinkFlappingParams()) == (penalty, began)
    assert of_module(downs, downs[-1].at + 900.0, LinkFlappingParams())[0] == penalty / 2
