"""Rules about GPUs, PCIe links, flows and nodes, row by row: what they find, and what they do not know."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest

from fabricmon.fleet.probes import LEARN, STARTING
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, ComponentId, Evidence, Kind, Part, Presence, Severity
from fabricmon.rules import agent_silent, latency, nvlink_degraded, nvlink_down, path_lost, pcie_degraded, unreachable
from fabricmon.rules.rule import Outcome, reading
from fabricmon.units import Duration
from tests.fleet.site import Site

NAN = math.nan
STALE = 31.0  # seconds after which a reading of a collector with 10 s is no reading


def part(kind: Kind, rows: dict[str, dict[str, float]], **labels: str) -> Part:
    columns = tuple({column: None for shown in rows.values() for column in shown})
    return Part("x", kind, columns, tuple(Component(name, dict(labels)) for name in rows), 10.0)


def shown(site: Site, node: str, kind: Kind, rows: dict[str, dict[str, float]], **labels: str) -> dict[str, int]:
    """Enter a node whose components show these values; row of each."""
    site.inventory(node, part(kind, rows, **labels))
    read(site, node, rows)
    return {name: site.fleet.nodes[node].rows[kind][name] for name in rows}


def read(site: Site, node: str, rows: dict[str, dict[str, float]], taken: float = 100.0) -> None:
    (wanted,) = site.inventories[node].parts
    values = [rows[component.name].get(column, NAN) for component in wanted.components for column in wanted.columns]
    site.frames += 1
    frame = Frame(site.inventories[node].id, site.frames, site.now, np.full(1, taken), None, np.array(values))
    assert site.fleet.frame(node, frame, site.now)


def of(outcome: Outcome, row: int) -> str:
    """What an outcome says of a row: "bad", "well", "between", or "" where it does not know."""
    if not outcome.known[row]:
        return ""
    return "bad" if outcome.fire[row] else "well" if outcome.clear[row] else "between"


# --- PCIe


@pytest.mark.parametrize("width", [1.0, 0.5, NAN])
@pytest.mark.parametrize("speed", [1.0, 0.25, NAN])
@pytest.mark.parametrize("work", ["works", "worked lately", "idle for long", "has no port"])
def test_a_pcie_link_below_its_capability(width: float, speed: float, work: str) -> None:
    """The speed of a device that does nothing shows nothing: devices lower it. Its width counts always."""
    site, rule = Site(), pcie_degraded
    ports = Part("p", Kind.PORT, ("state",), (Component("mlx5_0/1"),), 10.0)
    values = {"pcie_path_width": width, "pcie_path_speed": speed}
    pcie = Part("x", Kind.PCIE, tuple(values), (Component("0000:1a:00.0", {"owner": "mlx5_0"}),), 10.0)
    site.inventory("h", *([ports] if work != "has no port" else []), pcie)
    site.send("h", {("0000:1a:00.0", column): value for column, value in values.items()}, 100.0)
    site.tick()
    if work != "has no port":
        pressure = View(site.fleet.tables[Kind.PORT], site.now).tracks.pressure
        pressure.busy[0], pressure.worked[0] = work == "works", site.now - (61.0 if work == "idle for long" else 60.0)
    table = site.fleet.tables[Kind.PCIE]
    found = rule.test(View(table, site.now), rule.PcieDegradedParams())
    narrow, slow = width == 0.5, speed == 0.25
    if math.isnan(width) and math.isnan(speed):
        wanted = ""
    elif narrow or (slow and work == "works"):
        wanted = "bad"
    elif not slow:
        wanted = "well"
    else:
        wanted = "between" if work == "worked lately" else ""
    assert of(found, 0) == wanted
    assert np.array_equal(found.value[0], np.fmin(width, speed), equal_nan=True)
    assert of(rule.test(View(table, site.now + STALE), rule.PcieDegradedParams()), 0) == ""
    evidence = rule.evidence(View(table, site.now), 0, rule.PcieDegradedParams())
    shown = [(one.value, one.for_it) for one in evidence if not math.isnan(one.value or NAN)]
    known = [(share, bad) for share, bad in ((width, narrow), (speed, slow)) if not math.isnan(share)]
    assert shown == sorted(known, key=lambda one: not one[1]), "what speaks for it comes first"


@pytest.mark.parametrize(("moved", "works"), [(2e9, True), (5e8, False)])
def test_an_adapter_whose_line_rate_is_unknown_works_from_a_thousandth_of_the_fastest_ports_rate(
    moved: float, works: bool
) -> None:
    """EFA devices publish no rate: their PCIe speed counts while they carry 100 MB/s, as that of others does."""
    site, sent = Site(), 0.0
    ports = Part("p", Kind.PORT, ("rdma_tx_bytes", "rdma_rx_bytes"), (Component("rdmap28s0/1"),), 10.0)
    device = Component("0000:1a:00.0", {"owner": "rdmap28s0"})
    pcie = Part("x", Kind.PCIE, ("pcie_path_speed", "pcie_path_width"), (device,), 10.0)
    site.inventory("h", ports, pcie)
    for _ in range(3):
        site.now, sent = site.now + 10.0, sent + moved
        cells = {("rdmap28s0/1", "rdma_tx_bytes"): sent, ("rdmap28s0/1", "rdma_rx_bytes"): sent}
        cells |= {("0000:1a:00.0", "pcie_path_speed"): 0.25, ("0000:1a:00.0", "pcie_path_width"): 1.0}
        site.send("h", cells, site.now)
        site.tick()
    view = View(site.fleet.tables[Kind.PCIE], site.now)
    assert view.adapter_work(np.array([0])).now.tolist() == [works]
    assert of(pcie_degraded.test(view, pcie_degraded.PcieDegradedParams()), 0) == ("bad" if works else "")


# --- NVLink


def test_fewer_active_nvlinks_than_a_gpu_has_behind_switches_or_than_its_best_peer() -> None:
    """Without NVSwitches some links of a board may be unconnected: there the other GPUs of the node decide."""
    site, rule = Site(), nvlink_down

    def gpus(*active: float, **more: float) -> dict[str, dict[str, float]]:
        return {f"gpu{n}": {"gpu_nvlinks": 18.0, "gpu_nvlinks_active": value} | more for n, value in enumerate(active)}

    switched = shown(site, "switched", Kind.GPU, gpus(18.0, 17.0, NAN, gpu_nvlinks_to_switch=1.0))
    domain = shown(site, "domain", Kind.GPU, gpus(18.0, 0.0, gpu_fabric_state=3.0))
    board = shown(site, "board", Kind.GPU, gpus(12.0, 11.0, NAN, gpu_nvlinks_to_switch=0.0))
    dark = shown(site, "dark", Kind.GPU, gpus(0.0, 0.0, gpu_nvlinks_to_switch=0.0))
    bare = shown(site, "bare", Kind.GPU, {"gpu0": {"gpu_nvlinks": 0.0, "gpu_nvlinks_active": 0.0}})
    view, params = View(site.fleet.tables[Kind.GPU], site.now), rule.NvlinkDownParams()

    def states(view: View = view, params: nvlink_down.NvlinkDownParams = params) -> list[list[str]]:
        found = rule.test(view, params)
        return [[of(found, row) for row in rows.values()] for rows in (switched, domain, board, dark, bare)]

    assert states() == [["well", "bad", ""], ["well", "bad"], ["well", "bad", ""], ["", ""], [""]]
    assert rule.test(view, params).value[[switched["gpu1"], board["gpu1"]]].tolist() == [1.0, 1.0]
    fixed = rule.NvlinkDownParams(expected=12)
    assert states(view, fixed) == [["well", "well", ""], ["well", "bad"], ["well", "bad", ""], ["bad", "bad"], [""]]
    assert all(state == "" for node in states(View(view.table, site.now + STALE)) for state in node)
    view.table.begun[:2] = site.now - 119.0
    assert states()[0] == ["well", "", ""]
    view.table.begun[:2] = site.now - 120.0
    assert states()[0] == ["well", "bad", ""]
    view.table.leave(switched["gpu1"], site.now, known_absence=False)
    assert states()[0] == ["well", "", ""]
    (evidence,) = rule.evidence(view, switched["gpu1"], params)
    assert (evidence.text, evidence.for_it) == ("17 of 18 NVLinks active", True)
    assert (evidence.value, evidence.limit) == (17.0, 18.0)


@pytest.mark.parametrize(
    ("rises", "ber", "load"),
    [
        ({}, NAN, 0.0),
        ({"gpu_nvlink_crc_errors": 1000.0}, NAN, 1.0),
        ({"gpu_nvlink_crc_errors": 999.0}, NAN, 0.999),
        ({"gpu_nvlink_crc_errors": 400.0}, 3e-13, 0.4),
        ({"gpu_nvlink_replay_errors": 1.0}, 1e-13, 1.0),
        ({"gpu_nvlink_recoveries": 2.0}, NAN, 2.0),
        ({"gpu_nvlink_critical_errors": 1.0}, 2e-12, 2.0),
        ({}, 1e-12, 1.0),
        ({}, 5e-13, 0.5),
    ],
)
def test_the_worst_of_the_nvlink_counters_decides(rises: dict[str, float], ber: float, load: float) -> None:
    site, rule, params = Site(), nvlink_degraded, nvlink_degraded.NvlinkDegradedParams()
    counters = ("gpu_nvlink_crc_errors", "gpu_nvlink_replay_errors", "gpu_nvlink_recoveries",
                "gpu_nvlink_critical_errors")  # fmt: skip
    values = dict.fromkeys(counters, 5.0) | {"gpu_nvlink_effective_ber": ber, "gpu_nvlinks": 18.0}
    shown(site, "h", Kind.GPU, {"gpu0": values})
    site.tick()
    site.now += 10.0
    read(site, "h", {"gpu0": {column: value + rises.get(column, 0.0) for column, value in values.items()}}, 110.0)
    site.tick()
    table = site.fleet.tables[Kind.GPU]
    found = rule.test(View(table, site.now), params)
    assert found.value[0] == pytest.approx(load)
    assert of(found, 0) == ("bad" if load >= 1 else "well" if load < 0.5 else "between")
    assert of(rule.test(View(table, site.now + STALE), params), 0) == ""
    table.begun[0] = site.now - 119.9
    assert of(rule.test(View(table, site.now), params), 0) == ""
    worst = rule.evidence(View(table, site.now), 0, params)[0]
    assert worst.for_it is (load >= 1)


def test_a_gpu_without_counters_of_its_nvlinks_is_unknown() -> None:
    site = Site()
    shown(site, "h", Kind.GPU, {"gpu0": {"gpu_nvlinks": 18.0, "gpu_nvlink_effective_ber": NAN}})
    view = View(site.fleet.tables[Kind.GPU], site.now)
    assert of(nvlink_degraded.test(view, nvlink_degraded.NvlinkDegradedParams()), 0) == ""
    (evidence,) = nvlink_degraded.evidence(view, 0, nvlink_degraded.NvlinkDegradedParams())
    assert (evidence.text, evidence.for_it) == ("no readable counter of its NVLinks", False)


# --- flows


def flows(site: Site, number: int) -> View:
    shown(site, "h", Kind.FLOW, {f"f{n}": {"flow_late": 0.0} for n in range(number)}, peer="n2/mlx5_0/1")
    return View(site.fleet.tables[Kind.FLOW], site.now)


def test_a_path_that_loses_everything_while_its_peer_answers_others() -> None:
    every, most, none, one, gap = (20.0,) * 3, (20.0, 20.0, 19.0), (0.0,) * 3, (1.0,) * 3, (20.0, 0.0, 20.0)
    cases = [(every, every, True), (every, most, True), (every, every, False), (none, none, True), (one, one, True),
             (gap, gap, True)]  # fmt: skip
    view, params = flows(Site(), len(cases)), unreachable.UnreachableParams()
    for row, (sent, lost, reached) in enumerate(cases):
        view.probes.sent[:3, row], view.probes.lost[:3, row], view.probes.reached[row] = sent, lost, reached
        view.probes.sent[3:, row] = 20.0  # earlier turns do not count
        view.probes.at[row] = view.now
    found = path_lost.test(view, params)
    assert [of(found, row) for row in range(len(cases))] == ["bad", "well", *["between"] * 4]
    assert found.value.tolist() == [60.0, 59.0, 60.0, 0.0, 3.0, 40.0]
    view.probes.at[:] = view.now - path_lost.RECENT - 1.0
    assert not path_lost.test(view, params).known.any()
    view.probes.at[:] = view.now
    assert path_lost.test(view, params).known.all()
    assert not path_lost.test(View(view.table, view.now + STALE), params).known.any()
    back = []
    for share in (NAN, 0.0, 0.75):
        view.probes.back[0] = share
        back.append([(evidence.text.partition("this port ")[2], evidence.for_it)
                     for evidence in path_lost.evidence(view, 0, params)[1:]])  # fmt: skip
    assert back == [[], [("is lost as well: the pair fails both ways", True)], [("is answered (75%)", False)]]


def test_numbers_of_arrays_can_be_stored_and_sent() -> None:
    found = reading("text", "", np.float64(0.5), np.int64(2), np.bool_(True))  # type: ignore[arg-type]
    assert msgspec.json.decode(msgspec.json.encode(found), type=Evidence) == found
    assert (found.value, found.limit, found.for_it) == (0.5, 2.0, True)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("learned", [LEARN - 1, LEARN])
def test_a_round_trip_is_compared_with_the_larger_of_its_own_usual_one_and_that_of_its_class(
    apart: bool, learned: int
) -> None:
    view = flows(Site(), 3)
    params, probes = latency.LatencyParams(times=3.0, least=20e-6), view.probes
    probes.class_usual = {False: 10e-6, True: 40e-6}
    probes.usual[:3], probes.seen[:3], probes.apart[:3], probes.at[:3] = 20e-6, learned, apart, view.now
    usual = max(20e-6 if learned == LEARN else 0.0, 40e-6 if apart else 10e-6)
    limit = max(3.0 * usual, usual + 20e-6)
    assert latency.limits(view, params)[:3] == pytest.approx([limit] * 3)
    probes.rtts[:, 0] = limit + 1e-6
    probes.rtts[:, 1] = (limit + 1e-6, limit - 1e-6, limit + 1e-6)
    probes.rtts[:, 2] = ((20e-6 + limit) / 2 - 1e-6, limit + 1e-6, limit + 1e-6)
    found = latency.test(view, params)
    assert [of(found, row) for row in range(3)] == ["bad", "between", "well"]
    assert found.value[0] == pytest.approx(limit + 1e-6)
    probes.rtts[0, 2] = (20e-6 + limit) / 2 + 1e-6
    assert of(latency.test(view, params), 2) == "between"
    probes.rtts[0, 1], probes.at[2] = NAN, view.now - latency.RECENT - 1.0
    assert [of(latency.test(view, params), row) for row in range(3)] == ["bad", "", ""]
    probes.class_usual = {False: NAN, True: NAN}
    assert of(latency.test(view, params), 0) == ("bad" if learned == LEARN else "")


# --- adapters that nobody reaches


def test_an_adapter_is_unreachable_if_several_flows_get_no_answer_while_its_agent_is_up() -> None:
    site = Site()
    names = [f"mlx5_{n}/1" for n in range(4)]
    shown(site, "h", Kind.PORT, {name: {"state": 4.0, "probe_packets": 5.0} for name in names})
    view, params = View(site.fleet.tables[Kind.PORT], site.now), unreachable.UnreachableParams()
    reach = view.tracks.reach
    reach.began[:], reach.counted[:] = site.now - STARTING, 5.0
    for row, (asked, many, answered) in enumerate(
        [(params.probes, params.flows, 0), (params.probes - 1, params.flows, 0), (params.probes, params.flows - 1, 0),
         (params.probes, params.flows, 1)]
    ):  # fmt: skip
        reach.asked[row], reach.flows[row], reach.answered[row], reach.at[row] = asked, many, answered, site.now

    def states(after: float = 0.0) -> list[str]:
        found = unreachable.test(View(view.table, site.now + after), params)
        return [of(found, row) for row in range(4)]

    assert states() == ["bad", "between", "between", "well"]
    assert states(unreachable.UP) == ["bad", "between", "between", "well"]
    reach.at[:] = site.now + unreachable.UP
    assert states(unreachable.UP + 0.1) == ["well"] * 4  # its node is silent: that is another symptom
    reach.at[:] = site.now - unreachable.RECENT - 0.1
    assert states() == [""] * 4
    reach.at[:] = site.now
    reach.counted[0], reach.began[1], reach.counted[2] = 6.0, site.now - STARTING + 0.1, NAN
    assert states() == ["", "", "", "well"]  # agents that began anew a moment ago
    texts = []
    for sent, returned in ((10.0, 4.0), (10.0, 0.0), (0.0, 0.0)):
        reach.sent[0], reach.returned[0] = sent, returned
        texts.append(unreachable.evidence(view, 0, params)[1].text.partition(":")[0])
    assert texts == ["4 of its own 10 probes were answered", "none of its own 10 probes was answered either",
                     "it sent no probes of its own in this time"]  # fmt: skip


# --- agents


@pytest.mark.parametrize("presence", list(Presence))
@pytest.mark.parametrize("reported", [False, True])
def test_a_node_is_silent_after_its_limit_and_at_once_where_what_it_sends_is_refused(
    presence: Presence, reported: bool
) -> None:
    params = agent_silent.AgentSilentParams(after=Duration(30), unanswered=Duration(20), intervals=3.0)
    site = Site()
    began = site.now
    site.fleet.presence("h", presence, "why", site.now)
    if reported:
        shown(site, "h", Kind.PORT, {"p/1": {"state": 4.0}})
        site.fleet.presence("h", presence, "why", site.now)
    table = site.fleet.tables[Kind.NODE]
    row = table.row(ComponentId(Kind.NODE, "h", ""))
    assert row is not None
    vanished = presence is Presence.UNREACHABLE and reported
    refused = presence in (Presence.CLONED, Presence.INCOMPATIBLE)
    limit = 20.0 if vanished else 30.0
    for after, late in itertools.product((limit - 0.1, limit), (NAN, 20.0)):
        table.cells[table.column("interval"), row] = late
        most = 20.0 if vanished else max(30.0, 3.0 * late if late == late else 0.0)
        found = agent_silent.test(View(table, began + after), params)
        assert bool(found.known[row])
        assert bool(found.fire[row]) is not bool(found.clear[row]) is (not (after >= most or refused))
        warned = vanished or presence is Presence.CLONED
        assert found.severity is not None
        assert found.severity[row] == (Severity.WARNING if warned else Severity.INFO).rank
        assert found.value[row] == pytest.approx(after, abs=1e-6)
        assert found.since is not None
        assert math.isnan(found.since[row]) if refused else found.since[row] == pytest.approx(began, abs=1e-6)
    assert agent_silent.info(View(table, site.now), row, params) == {"presence": presence.value}
