"""expected_inventory, config_drift and telemetry_quality against plain tellings, over random tables of few values."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from fabricmon.catalogue.machines import Certainty
from fabricmon.fleet.view import View
from fabricmon.model import Component, Kind, Part, Severity
from fabricmon.rules import RULES
from fabricmon.rules.config_drift import RULE as DRIFT
from fabricmon.rules.config_drift import ConfigDriftParams, drift, setting_text
from fabricmon.rules.expected_inventory import RULE as INVENTORY
from fabricmon.rules.expected_inventory import ExpectedInventoryParams
from fabricmon.rules.telemetry_quality import TelemetryQualityParams
from tests.fleet.site import Site
from tests.rules.bench_of_ports import Ports
from tests.rules.test_config_drift import Rails

NAN = math.nan
NODE = (
    "node_hcas_found", "node_hcas_lost", "node_hcas_expected", "node_hcas_certainty", "node_machine", "node_gpus_found",
    "node_gpus_lost", "node_gpus_expected", "node_uverbs_missing", "node_netdevs_misplaced", "node_umad_missing",
)  # fmt: skip
WHOLE = dict.fromkeys(NODE, 0.0) | {
    "node_hcas_found": 8.0, "node_hcas_expected": 8.0, "node_hcas_certainty": float(Certainty.BUILT),
    "node_machine": 1.0, "node_gpus_found": 8.0, "node_gpus_expected": 8.0,
}  # fmt: skip


class Machines:
    """Nodes whose inventory columns are set by hand; `of[node]` is a dict of them, `labels[node]` of labels."""

    def __init__(self, count: int) -> None:
        self.of = [dict(WHOLE) for _ in range(count)]
        self.labels: list[dict[str, str]] = [{} for _ in range(count)]

    def view(self) -> View:
        site = Site()
        for number, values in enumerate(self.of):
            part = Part("inventory", Kind.NODE, NODE, (Component("", self.labels[number]),), 10.0)
            site.inventory(f"n{number}", part)
            site.send(f"n{number}", {("", column): value for column, value in values.items()}, 5.0)
        site.tick()
        return View(site.fleet.tables[Kind.NODE], site.now)

    def outcome(self, **params: object) -> list[tuple[bool, str]]:
        """Whether each node is short of something, and how bad that is."""
        found = INVENTORY.test(self.view(), ExpectedInventoryParams(**params))
        assert found.severity is not None
        unlisted = [any(math.isnan(of[f"node_{sort}_found"]) and not math.isnan(of[f"node_{sort}_expected"])
                        for sort in ("hcas", "gpus")) for of in self.of]  # fmt: skip
        assert found.clear.tolist() == [not (bad or unseen) for bad, unseen in zip(found.fire, unlisted, strict=True)]
        assert found.known.all()
        words = list(Severity)
        return [(bool(fire), str(words[rank])) for fire, rank in zip(found.fire, found.severity, strict=True)]

    def texts(self, node: int) -> list[str]:
        return [one.text for one in INVENTORY.evidence(self.view(), node, ExpectedInventoryParams())]


def usual_of_peers(values: list[float], builds: list[float], node: int) -> float:
    """The count of at least three quarters of at least three nodes of a build."""
    peers = [v for v, b in zip(values, builds, strict=True) if b == builds[node] and v == v]
    if math.isnan(builds[node]) or math.isnan(values[node]) or len(peers) < 3:
        return NAN
    count, many = max(Counter(peers).items(), key=lambda item: (item[1], -item[0]))
    return count if many >= 0.75 * len(peers) else NAN


@pytest.mark.parametrize("seed", range(8))
def test_devices_are_missed_by_the_configuration_the_type_or_the_peers(seed: int) -> None:
    rng, machines = random.Random(seed), Machines(12)
    for number, values in enumerate(machines.of):
        values["node_machine"] = rng.choice((1.0, 1.0, 2.0, NAN))
        values["node_hcas_found"] = rng.choice((8.0, 8.0, 8.0, 8.0, 7.0, NAN)) if number else 8.0
        values["node_hcas_lost"] = rng.choice((0.0, 0.0, 0.0, 1.0))
        values["node_hcas_certainty"] = float(rng.choice(list(Certainty)))
        values["node_hcas_expected"] = rng.choice((8.0, 7.0, 9.0, NAN))
        values["node_gpus_found"] = rng.choice((8.0, 8.0, 8.0, 7.0))
        values["node_gpus_lost"] = rng.choice((0.0, 0.0, 1.0)) if values["node_gpus_found"] == 7.0 else 0.0
        values["node_gpus_expected"] = rng.choice((8.0, NAN, NAN))
        for column in ("node_uverbs_missing", "node_netdevs_misplaced", "node_umad_missing"):
            values[column] = float(rng.random() < 0.1)
    of = machines.of
    hcas = [v["node_hcas_found"] + v["node_hcas_lost"] for v in of]
    gpus = [v["node_gpus_found"] + v["node_gpus_lost"] for v in of]
    builds = [v["node_machine"] for v in of]
    expected = []
    for number, v in enumerate(of):
        usual, usual_gpus = usual_of_peers(hcas, builds, number), usual_of_peers(gpus, builds, number)
        wanted, certainty = v["node_hcas_expected"], v["node_hcas_certainty"]
        by_peers = usual == usual and (
            certainty <= Certainty.USUAL or (certainty == Certainty.BUILT and usual > wanted)
        )
        few = hcas[number] < (usual if by_peers else wanted)
        wanted_gpus = v["node_gpus_expected"]
        few_gpus = v["node_gpus_found"] < (wanted_gpus if wanted_gpus == wanted_gpus else usual_gpus)
        useless = v["node_uverbs_missing"] > 0 or v["node_netdevs_misplaced"] > 0
        fire = few or few_gpus or useless or v["node_umad_missing"] > 0
        sure = few_gpus or useless or (few and (by_peers or certainty != Certainty.USUAL))
        expected.append((fire, "warning" if sure else "info"))
    found = machines.outcome()
    assert [one[0] for one in found] == [one[0] for one in expected]
    assert [one for one in found if one[0]] == [one for one in expected if one[0]]


@pytest.mark.parametrize(("nodes", "whole", "peers", "share", "missed"), [
    (3, 2, 3, 0.6, True), (3, 2, 3, 0.75, False), (3, 2, 4, 0.6, False), (4, 3, 4, 0.75, True), (4, 3, 4, 0.76, False),
])  # fmt: skip
def test_limits_of_peers(nodes: int, whole: int, peers: int, share: float, missed: bool) -> None:
    machines = Machines(nodes)
    for number, values in enumerate(machines.of):
        values |= {"node_gpus_expected": NAN, "node_gpus_found": 8.0 if number < whole else 7.0}
    found = machines.outcome(peers=peers, share=share)
    assert [fire for fire, _ in found] == [number >= whole and missed for number in range(nodes)]


def test_texts_of_what_is_missing() -> None:
    machines = Machines(5)
    for number in range(5):
        machines.labels[number] = {"machine": "DGX H100", "hcas": "mlx5_0, mlx5_1, mlx5_2"}
    machines.labels[1]["hcas"] = "mlx5_1"
    machines.labels[2] = {"hcas": "mlx5_0, mlx5_1", "missing": "mlx5_9", "access": "mlx5_4"}
    machines.of[0]["node_gpus_found"] = 7.0
    machines.of[1]["node_hcas_found"] = 6.0
    machines.of[1]["node_hcas_certainty"] = float(Certainty.CONFIGURED)
    machines.of[2]["node_hcas_certainty"] = NAN
    for values in machines.of[3:]:
        values |= {"node_hcas_found": 0.0, "node_hcas_expected": 0.0, "node_gpus_expected": NAN, "node_machine": 5.0}
        values["node_gpus_found"] = NAN
    machines.labels[4]["hcas"] = ""
    assert machines.texts(0) == [
        "adapters: expected 8, found 8 (machine type DGX H100)", "GPUs: expected 8, found 7 (machine type DGX H100)",
    ]  # fmt: skip
    assert machines.texts(1) == [
        "adapters: expected 8, found 6 (configured)", "GPUs: expected 8, found 8 (configured)", "missing: mlx5_0",
    ]  # fmt: skip
    assert machines.texts(2)[-2:] == ["present and not usable: mlx5_4", "missing: mlx5_9"]
    assert machines.texts(3) == ["the expected devices are unknown"]
    view = machines.view()
    infos = [INVENTORY.info(view, node, ExpectedInventoryParams()) for node in range(3)]
    assert infos == [{}, {"missing": "mlx5_0"}, {"missing": "mlx5_9"}]
    assert [one.for_it for one in INVENTORY.evidence(view, 0, ExpectedInventoryParams())] == [False, True]


# --- config_drift


@pytest.mark.parametrize("seed", range(10))
def test_the_reference_is_what_more_than_half_of_a_rail_has(seed: int) -> None:
    rng, rails = random.Random(seed), Rails(7, 3)
    choices = [rng.choice(((8.0,), (8.0, 8.0, 8.0, 0.0), (8.0, 0.0), (8.0, 0.0, 4.0))) for _ in range(3)]
    for (_, nic), of in rails.settings.items():
        of["pfc_enabled"] = rng.choice(choices[nic])
        of["dcbx_mode"] = rng.choice((1.0, 1.0, 1.0, 1.0, 2.0, NAN))
    rails.send()
    found = drift(rails.view(), ConfigDriftParams(least=seed % 8 + 1))
    for nic in range(3):
        of = [rails.settings[host, nic] for host in range(7)]
        marks = Counter((one["pfc_enabled"], str(one["dcbx_mode"])) for one in of)
        (pfc, mode), many = marks.most_common(1)[0]
        for host, mine in enumerate(of):
            row = 3 * host + nic
            reference = 2 * many > 7 and seed % 8 + 1 <= 7
            loses = reference and mine["pfc_enabled"] != pfc
            other = reference and "nan" not in (mode, str(mine["dcbx_mode"])) and str(mine["dcbx_mode"]) != mode
            assert bool(found.known[row]) == reference
            assert (bool(found.loses[row]), bool(found.differs[row])) == (loses, loses or other), (nic, host)
            if reference:
                like = rails.settings[divmod(int(found.like[row]), 3)]
                assert (like["pfc_enabled"], str(like["dcbx_mode"])) == (pfc, mode)
            else:
                assert found.like[row] == -1


def test_evidence_where_the_first_port_is_the_reference() -> None:
    rails = Rails(4, 1)
    rails.settings[3, 0]["qos_mtu"] = 1500.0
    rails.send()
    view, params = rails.view(), ConfigDriftParams()
    (one,) = DRIFT.evidence(view, 3, params)
    assert one.text == "MTU: 1500 here, 4200 on most ports of rail 0"
    assert one.formula == "more than half of the rail's ports agree, 3 of them here"
    assert DRIFT.info(view, 3, params) == {"differs": "MTU"}
    for row in (0, 1):
        assert [(one.text, one.for_it) for one in DRIFT.evidence(view, row, params)] == [
            ("same configuration as the other ports of its rail", False)
        ]
        assert DRIFT.info(view, row, params) == {}


@pytest.mark.parametrize(("column", "value", "text"), [
    ("pfc_enabled", 0.0, "off"), ("pfc_enabled", 129.0, "on priority 0, 7"),
    ("ecn_marks_answered", 8.0, "on priority 3"),
    ("dscp_trusted", 1.0, "on"), ("ets_willing", 0.0, "off"), ("qos_mtu", 4200.0, "4200"),
    ("ets_fingerprint", 255.0, "#00000000000ff"),
])  # fmt: skip
def test_settings_in_words(column: str, value: float, text: str) -> None:
    assert setting_text(column, value) == text


# --- telemetry_quality

QUALITY = next(rule for rule in RULES if rule.name == "telemetry_quality")


def problem(ports: Ports, host: int, nic: int, **params: object) -> str:
    return QUALITY.info(ports.view(), ports.row(host, nic), TelemetryQualityParams(**params))["problem"]


def test_each_problem_by_its_name() -> None:
    ports = Ports(1, 8)
    ports.polls(60)
    assert {problem(ports, 0, nic) for nic in range(8)} == {""}
    ports.port[0, 1]["symbol_errors"] = 65535.0
    ports.port[0, 2]["rcv_errors"] = NAN
    ports.port[0, 3] |= dict.fromkeys(("xmit", "rcv"), 0.0)
    ports.poll()
    assert [problem(ports, 0, nic) for nic in range(5)] == ["", "saturated", "unreadable", "reset", ""]
    assert problem(ports, 0, 1, ignore=("symbol_errors",)) == ""
    texts = [one.text for one in QUALITY.evidence(ports.view(), ports.row(0, 1), TelemetryQualityParams())]
    assert texts == ["symbol_errors is saturated at 65535: a lower bound that cannot rise"]


@pytest.mark.parametrize(("after", "shown"), [(290.0, "reset"), (300.0, "")])
def test_a_reset_is_shown_for_five_minutes(after: float, shown: str) -> None:
    ports = Ports(1, 2)
    ports.polls(3)
    ports.port[0, 0] |= dict.fromkeys(("xmit", "rcv"), 0.0)
    ports.poll(ticks=True)
    ports.polls(int(after / 10.0))
    assert problem(ports, 0, 0) == shown


@pytest.mark.parametrize(("others", "moving", "still", "frozen"), [
    (4, 4, 600.0, True), (4, 4, 590.0, False), (4, 3, 600.0, True), (4, 2, 600.0, False), (2, 2, 600.0, False),
])  # fmt: skip
def test_a_port_is_frozen_while_most_of_the_others_move(others: int, moving: int, still: float, frozen: bool) -> None:
    """Three quarters of at least three others."""
    ports = Ports(1, others + 1)
    ports.polls(4)
    tracks, n = ports.view().tracks, others + 1
    tracks.first[:n] = tracks.since[:n] = ports.now - 86_400.0
    tracks.movement.moved[:n] = [ports.now - still, *[ports.now] * moving, *[ports.now - 60.0] * (others - moving)]
    tracks.movement.paces[:, 0] = 0.0  # what it carried is not known
    assert problem(ports, 0, 0) == ("frozen" if frozen else "")
    assert all(problem(ports, 0, nic) == "" for nic in range(1, n))
