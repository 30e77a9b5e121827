"""Each fault leaves the traces its scenario describes, on what it hits and nowhere else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.model import Kind
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.layout import Layout
from fabricmon.sim.links import ACTIVE, DOWN, INIT
from fabricmon.sim.machine import inventory
from fabricmon.sim.script import ExpectedIncident, InjectedFault, Script
from fabricmon.sim.traffic import TrafficJob
from fabricmon.sim.world import World

LAYOUT = Layout.named("rail-optimised", units=2, hosts=4, rails=4, spines=2, parallel=2, planes=True, power_hosts=4)
ROCE = Layout.named(
    "rail-optimised", units=2, hosts=4, rails=4, spines=2, parallel=2, planes=True, power_hosts=4, link_layer="Ethernet"
)
PORT, HOST, LEAF, SPINE = "host-002/mlx5_1/1", "host-003", "su1/rail2", "plane1-spine-001"
ROW = LAYOUT.port(PORT)

Seen = list[dict[str, np.ndarray]]


def world(layout: Layout = LAYOUT, seed: int = 7, pattern: str = "all_to_all", **more: Any) -> World:
    return World(layout, seed, jobs=[TrafficJob("train", layout.hosts, pattern, peers=4)], flows=True, **more)


def play(fault: InjectedFault, until: float, step: float = 1.0) -> tuple[World, Seen]:
    """The world after `until` seconds and a copy of the raw counters after every step."""
    made, script = world(), Script([fault])
    seen = []
    for tick in range(int(until / step)):
        script.play(made, (tick + 1) * step)
        seen.append({name: raw.copy() for name, raw in made.ports.raw.items()} | {"state": made.links.state.copy()})
    return made, seen


def moved(fault: InjectedFault, layout: Layout, until: float = 60.0) -> dict[tuple[Kind, str], set[int]]:
    """Which rows of which columns a fault changes by more than chance would: against the same world without it."""
    struck, sound, first = world(layout), world(layout), world(layout)
    Script([fault]).play(struck, until)
    sound.advance(until)
    found: dict[tuple[Kind, str], set[int]] = {}
    for kind in (Kind.PORT, Kind.FLOW, Kind.GPU, Kind.NVLINK, Kind.PCIE, Kind.NODE):
        for column in struck.columns(kind):
            a, b = struck.column(kind, column), sound.column(kind, column)
            spread = 0.03 * np.abs(b - first.column(kind, column)) + 1e5 * (column == "xmit_wait_ticks")
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= spread)
            if not same.all():
                found[kind, column] = set(np.flatnonzero(~same).tolist())
    return found


def test_a_flapping_cable_counts_each_down_and_is_down_in_between() -> None:
    fault = FAULTS["link_flap"](LAYOUT, PORT, start=5, downs=(0, 10, 20), down_for=3)
    before = int(world().ports.raw["link_downed"][ROW])
    _, seen = play(fault, 40)
    states = [snap["state"][ROW] for snap in seen]
    down = [t for t, state in enumerate(states, 1) if state != ACTIVE]
    assert down == [5, 6, 7, 8, 15, 16, 17, 18, 25, 26, 27, 28]
    assert int(seen[-1]["link_downed"][ROW]) == before + 3
    assert 3 * 20 <= int(seen[-1]["symbol_errors"][ROW]) < 3 * 60
    others = [row for row in range(LAYOUT.ports) if row != ROW]
    assert all((snap["state"][others] == ACTIVE).all() for snap in seen)
    assert fault.expected == (ExpectedIncident("link_flapping", "link(host-002/mlx5_1/1)"),)


def test_a_dead_leaf_takes_its_links_and_no_other() -> None:
    found, _ = play(FAULTS["leaf_down"](LAYOUT, LEAF, start=2), 6)
    below = set(LAYOUT.leaf_rows(LAYOUT.switch(LEAF)).tolist())
    assert {row for row in range(LAYOUT.ports) if found.links.state[row] == DOWN} == below
    assert len(below) == 4
    assert np.isnan(found.column(Kind.PORT, "rate")[list(below)]).all()


def test_a_link_with_two_reasons_to_be_down_needs_both_to_end() -> None:
    made = world()
    count = made.ports.raw["link_downed"][0]
    made.hold_down((0,))
    made.hold_down((0,))
    made.let_up((0,))
    assert made.links.state[0] == DOWN
    made.let_up((0,))
    assert made.links.state[0] == INIT
    made.advance(1)
    assert made.links.state[0] == ACTIVE
    assert made.ports.raw["link_downed"][0] == count + 1


def test_a_degrading_link_has_the_errors_its_ratio_says() -> None:
    found, seen = play(FAULTS["degrading_link"](LAYOUT, PORT, ramp=60, first=1e-13, last=1e-10), 180)
    late = int(seen[-1]["symbol_errors"][ROW]) - int(seen[79]["symbol_errors"][ROW])
    mean = 400e9 * 1e-10 * 100
    assert abs(late - mean) < 6 * math.sqrt(mean)
    assert found.links.ber(found.now)[ROW] == pytest.approx(1e-10)
    assert int(seen[9]["symbol_errors"][ROW]) < 20, "the first tenth of the ramp is still near 1e-13"
    assert seen[-1]["symbol_errors"].sum() == seen[-1]["symbol_errors"][ROW]


def test_a_dirty_optic_gets_less_light_until_it_has_errors() -> None:
    found = world()
    script = Script([FAULTS["dirty_optic"](LAYOUT, PORT, ramp=600, decibels=-10)])
    before = found.column(Kind.PORT, "module_rx_power_lane2")
    script.play(found, 300)
    half = found.column(Kind.PORT, "module_rx_power_lane2") / before
    script.play(found, 600)
    whole = found.column(Kind.PORT, "module_rx_power_lane2") / before
    assert (half[ROW], whole[ROW]) == pytest.approx((0.316, 0.1), rel=0.1)
    assert np.delete(whole, ROW) == pytest.approx(1.0, abs=0.1)
    assert found.column(Kind.PORT, "symbol_errors")[ROW] > 100


def test_a_replaced_cable_is_clean() -> None:
    found, _ = play(FAULTS["degrading_link"](LAYOUT, PORT, ramp=10, repaired=30), 60)
    assert found.ports.raw["symbol_errors"][ROW] == 0
    assert found.links.state[ROW] == ACTIVE
    assert found.links.ber(found.now)[ROW] < 1e-15


def test_a_reboot_is_silence_then_zeros_and_another_boot() -> None:
    made, script = world(), Script([fault := FAULTS["node_reboot"](LAYOUT, HOST, start=2, lasts=6)])
    rows = LAYOUT.host_rows(3)
    script.play(made, 4)
    assert made.hosts.silent.tolist() == [host == 3 for host in range(8)]
    assert (made.links.state[rows] == DOWN).all()
    script.play(made, 10)
    assert not made.hosts.silent.any()
    assert made.hosts.boots[3] == 1
    assert made.hosts.monotonic(made.now)[3] == pytest.approx(2)
    assert (made.links.state[rows] == ACTIVE).all()
    assert not made.ports.raw["link_downed"][rows].any()
    assert fault.expected == ()


def test_power_takes_whole_hosts() -> None:
    found, _ = play(FAULTS["power_loss"](LAYOUT, "power-1", start=1), 3)
    assert found.hosts.silent.tolist() == [False] * 4 + [True] * 4


def test_peers_of_a_dead_host_wait_for_it_and_others_do_not() -> None:
    found, _ = play(FAULTS["host_crash"](LAYOUT, HOST), 40, 5.0)
    flows = found.flows
    dead = set(LAYOUT.host_rows(3).tolist())
    senders = {int(s) for s, t in zip(flows.source, flows.target, strict=True) if int(t) in dead} - dead
    timeouts, gave_up = found.column(Kind.PORT, "ack_timeout"), found.column(Kind.PORT, "retries_exceeded")
    assert set(np.flatnonzero(timeouts).tolist()) == senders
    assert set(np.flatnonzero(gave_up).tolist()) == senders, "after 30 s the queue pairs give up"
    lost = found.column(Kind.FLOW, "flow_lost")
    assert set(flows.target[lost > 0].tolist()) <= dead


def test_a_gray_spine_costs_only_flows_through_it_the_share_it_loses() -> None:
    found, _ = play(FAULTS["switch_gray"](LAYOUT, SPINE, ratio=0.01), 60, 10.0)
    lost, sent = found.column(Kind.FLOW, "flow_lost"), found.column(Kind.FLOW, "flow_packets")
    through = np.array([SPINE in [word.partition(":")[0] for word in words.split()] for words in found.flows.words])
    assert through.any()
    assert not lost[~through].any()
    assert (lost[through] / sent[through]) == pytest.approx(0.01, rel=0.05)
    naks = found.column(Kind.PORT, "seq_nak_rx") + found.column(Kind.PORT, "ack_timeout")
    assert set(np.flatnonzero(naks).tolist()) == set(found.flows.source[through].tolist())
    assert not found.column(Kind.PORT, "symbol_errors").any(), "nothing else shows"


def test_half_a_gray_spine_costs_about_half_of_its_flows() -> None:
    layout = Layout.named("r1")
    found = World(layout, 3, jobs=[TrafficJob("train", layout.hosts, "all_to_all", peers=12)], flows=True)
    faults = [FAULTS["plane_gray"](layout, "5"), FAULTS["switch_gray"](layout, "plane3-spine-003", pairs=0.5)]
    Script(faults).play(found, 20)
    lossy = found.flows.loss > 0
    for name, least, most in (("plane5-", 1.0, 1.0), ("plane3-spine-003", 0.3, 0.7)):
        through = np.array([name in words for words in found.flows.words])
        assert least <= lossy[through].mean() <= most
    elsewhere = np.array(["plane5" not in words and "plane3-spine-003" not in words for words in found.flows.words])
    assert not lossy[elsewhere].any()


def test_a_gray_cable_is_not_its_parallel_twin() -> None:
    fault = FAULTS["uplink_gray"](LAYOUT, LEAF, "plane2-spine-000", ratio=0.02, parallel=1)
    found, _ = play(fault, 10, 10.0)
    name = fault.expected[0].component  # link(su1-rail2-leaf/6, plane2-spine-000/...)
    near, far = (end.strip() for end in name.removeprefix("link(").removesuffix(")").split(","))
    words = {near.replace("/", ":"), far.replace("/", ":")}
    hit = np.array([bool(words & set(text.split())) for text in found.flows.words])
    # a path names a cable by the port that it leaves by, so a flow the other way has the spine's port
    assert hit.any()
    assert np.array_equal(found.flows.loss > 0, hit)


def test_sprayed_flows_share_what_a_spine_loses_and_tell_no_path() -> None:
    made = world(spray=True)
    Script([FAULTS["switch_gray"](LAYOUT, SPINE, ratio=0.01)]).play(made, 30)
    assert not any(made.flows.words)
    across = (LAYOUT.rail[made.flows.source] == 1) & (
        LAYOUT.leaf[made.flows.source] != LAYOUT.leaf[made.flows.target]
    )
    assert (made.flows.loss[across] > 0).all()
    assert (made.flows.loss[across] < 0.01).all()
    assert not made.flows.loss[~across].any()


def test_routes_go_around_a_dead_spine_and_come_back() -> None:
    made = world()
    script = Script([FAULTS["switch_down"](LAYOUT, SPINE, start=5, lasts=20)])
    before = list(made.flows.words)
    script.play(made, 5.5)
    assert (made.flows.loss > 0).any(), "what is under way is lost"
    script.play(made, 8)
    assert not any(SPINE in words for words in made.flows.words)
    assert not made.flows.loss.any()
    script.play(made, 40)
    assert made.flows.words == before


def test_a_slow_host_pauses_its_senders_and_its_neighbours_less() -> None:
    fault = FAULTS["pcie_retrain"](ROCE, PORT)
    made = world(ROCE)
    Script([fault]).play(made, 60)
    pausing = made.column(Kind.PORT, "pfc_tx_pause_prio3") / 60
    paused = made.column(Kind.PORT, "pfc_rx_pause_prio3") / 60
    assert set(np.flatnonzero(pausing).tolist()) == {ROW}
    assert pausing[ROW] > 0.7
    senders = sorted(set(made.flows.source[made.flows.target == ROW].tolist()))
    assert (paused[senders] > 0.2).all()
    assert made.column(Kind.PCIE, "pcie_path_width")[ROCE.pcie_of[ROW]] == 0.25
    sound = world(ROCE)
    sound.advance(60)
    rcv = "rdma_rx_bytes"
    before = world(ROCE).column(Kind.PORT, rcv)
    share = (made.column(Kind.PORT, rcv) - before) / (sound.column(Kind.PORT, rcv) - before)
    assert share[ROW] < 0.35


def test_incast_marks_at_the_receiver_and_slows_the_senders() -> None:
    layout = Layout.named("rail-optimised", units=1, hosts=16, rails=2, link_layer="Ethernet")
    made = World(layout, 3, steady=0.2)
    Script([FAULTS["incast"](layout, "host-003/mlx5_0", senders=10)]).play(made, 30)
    row = layout.port("host-003/mlx5_0")
    marks = made.column(Kind.PORT, "ecn_marked_rx")
    assert set(np.flatnonzero(marks).tolist()) == {row}
    packets = 30 * 50e9 * 0.97 / 4122
    assert 0.05 < marks[row] / packets < 0.1
    assert len(np.flatnonzero(made.column(Kind.PORT, "cnp_handled"))) == 10
    assert not made.column(Kind.PORT, "pfc_tx_pause_prio3").any(), "the receiver sends no pause"


CASES: dict[str, tuple[Callable[[Layout], InjectedFault], set[str]]] = {
    "straggler": (
        lambda layout: FAULTS["straggler"](layout, PORT),
        {"xmit", "rdma", "phy", "flow_packets", "unicast", "nvlink", "rcv"},
    ),
    "link_errors": (
        lambda layout: FAULTS["link_errors"](layout, PORT, ratio=1e-10),
        {"symbol", "fec", "phy_uncorrected"},
    ),
    "nvlink_errors": (lambda layout: FAULTS["nvlink_errors"](layout, "host-003/gpu3"), {"nvlink"}),
    "rail_congestion": (lambda layout: FAULTS["rail_congestion"](layout, "su0/rail2"), {"wait", "pfc_rx"}),
    "counter_reset": (lambda layout: FAULTS["counter_reset"](layout, [PORT], start=50), {""}),
    "retransmits": (
        lambda layout: FAULTS["retransmits"](layout, ["host-001"]),
        {"nak", "timeout", "sequence", "duplicate", "flow_lost"},
    ),
    "lossy_nic": (
        lambda layout: FAULTS["lossy_nic"](layout, PORT),
        {"nak", "timeout", "sequence", "duplicate", "flow_lost"},
    ),
}


@pytest.mark.parametrize("layout", [LAYOUT, ROCE], ids=["InfiniBand", "Ethernet"])
@pytest.mark.parametrize("name", CASES)
def test_a_fault_moves_what_it_should_and_nothing_else(name: str, layout: Layout) -> None:
    make, words = CASES[name]
    found = moved(make(layout), layout)
    assert found
    for kind, column in found:
        assert any(word in column for word in words), f"{name} moved {kind} {column} of {sorted(found[kind, column])}"


def test_every_fault_can_be_made_of_names_and_refuses_others() -> None:
    given_: dict[str, tuple[Any, ...]] = {
        "power_loss": ("power-1",), "plane_gray": ("1",), "uplink_gray": (LEAF, "plane2-spine-000"),
        "uplink_down": (LEAF, "plane2-spine-000"), "incast": (PORT, 0.0, 4),
    }  # fmt: skip
    by_first = {
        "port": PORT, "leaf": LEAF, "switch": SPINE, "host": HOST, "hosts": [HOST], "gpu": "host-003/gpu3",
        "ports": [PORT], "start": 0.0,
    }  # fmt: skip


    for name, make in FAULTS.items():
        first = list(inspect.signature(make).parameters)[1]
        where = given_.get(name) or (by_first[first],)
        fault = make(ROCE if name == "ecn_marks" else LAYOUT, *where)
        assert fault.steps, name
        Script([fault]).play(world(), 30)
        if first != "start":
            wrong = ["nowhere"] if isinstance(where[0], list) else "nowhere"
            with pytest.raises(ValueError, match="nowhere"):
                make(LAYOUT, wrong, *where[1:])


def test_marks_are_a_share_of_what_arrives_and_need_ethernet() -> None:
    made = world(ROCE)
    Script([FAULTS["ecn_marks"](ROCE, share=0.5, ratio=0.12, lasts=60)]).play(made, 60)
    before, marked = world(ROCE), made.column(Kind.PORT, "ecn_marked_rx")
    packets = made.column(Kind.PORT, "rcv_packets") - before.column(Kind.PORT, "rcv_packets")
    rows = np.flatnonzero(marked)
    assert len(rows) == ROCE.ports // 2
    assert marked[rows] / packets[rows] == pytest.approx(0.12, rel=0.1)
    made.advance(90)
    assert (made.column(Kind.PORT, "ecn_marked_rx") == marked).all(), "it has ended"
    with pytest.raises(ValueError, match="InfiniBand receives ECN marks"):
        FAULTS["ecn_marks"](LAYOUT)


def test_benign_waits_are_of_a_share_of_the_ports_for_a_while() -> None:
    made, sound = world(background=False), world(background=False)
    Script([FAULTS["benign_waits"](LAYOUT, share=0.25, ratio=0.3, lasts=30)]).play(made, 60)
    sound.advance(60)
    waits = made.column(Kind.PORT, "xmit_wait_ticks") - sound.column(Kind.PORT, "xmit_wait_ticks")
    assert np.count_nonzero(waits > 1e6) == LAYOUT.ports // 4
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        FAULTS["benign_waits"](LAYOUT, share=2)


def test_pcie_links_of_idle_hosts_run_slowly_until_they_are_woken() -> None:
    busy = [*LAYOUT.hosts[:4]]
    made = World(LAYOUT, 7, steady=0.0, jobs=[TrafficJob("train", tuple(busy))])
    script = Script([FAULTS["idle_pcie"](LAYOUT, share=1, gigatransfers=8, lasts=50)])
    script.play(made, 20)
    share = made.column(Kind.PCIE, "pcie_path_speed")[LAYOUT.pcie_of]
    of_busy = LAYOUT.host_of < len(busy)
    assert (share[~of_busy] == 0.25).all()
    assert (share[of_busy] == 1.0).all()
    script.play(made, 60)
    assert (made.column(Kind.PCIE, "pcie_path_speed")[LAYOUT.pcie_of] == 1.0).all()


def test_a_driver_that_is_loaded_anew_brings_its_devices_back_with_counters_from_zero() -> None:
    made, script = world(), Script([FAULTS["driver_reload"](LAYOUT, [HOST], start=5, lasts=15)])
    rows = LAYOUT.host_rows(3)
    script.play(made, 10)
    assert not made.present[rows].any()
    assert made.column(Kind.NODE, "node_hcas_lost")[3] == 4
    script.play(made, 40)
    assert made.present[rows].all()
    assert (made.links.state[rows] == ACTIVE).all()
    assert (made.ports.raw["link_downed"][rows] == 2).all()


def test_a_script_takes_its_steps_in_time_order_once() -> None:
    one = FAULTS["leaf_down"](LAYOUT, LEAF, start=3, lasts=4)
    two = FAULTS["node_reboot"](LAYOUT, HOST, start=5, lasts=1)
    script, made = Script([one, two]), world()
    taken = [step.at for until in (2.0, 4.0, 4.0, 20.0) for step in script.play(made, until)]
    assert taken == [3, 5, 6, 7]
    assert script.ends == 7
    assert script.expected == one.expected


def test_an_expectation_knows_a_link_by_its_first_end() -> None:
    expected = ExpectedIncident("link_flapping", "link(host-002/mlx5_1/1)")
    assert expected.matches("link_flapping", "link(host-002/mlx5_1/1)")
    assert expected.matches("link_flapping", "link(host-002/mlx5_1/1, leaf/3)")
    assert not expected.matches("link_down", "link(host-002/mlx5_1/1)")
    assert not expected.matches("link_flapping", "link(host-002/mlx5_1/11)")


@given(st.lists(st.integers(0, 70000), min_size=1, max_size=5))
def test_counters_stop_at_their_width(amounts: list[int]) -> None:
    made = World(LAYOUT, 1)
    for amount in amounts:
        made.count((3,), "symbol_errors", amount)
        made.count((3,), "local_link_integrity_errors", amount)
    assert made.ports.raw["symbol_errors"][3] == min(sum(amounts), 65535)
    assert made.ports.raw["local_link_integrity_errors"][3] == min(sum(amounts), 15)


def test_a_new_subnet_manager_configures_ports_whose_links_never_went_down() -> None:
    world = World(Layout.named("rail-optimised", units=1, hosts=4, rails=2, spines=2), 1)
    downs = world.column(Kind.PORT, "link_downed").copy()
    world.links.hold(np.array([3]))
    world.links.reconfigure(np.arange(4), 6.0)
    assert world.links.state[:4].tolist() == [2.0, 2.0, 2.0, 1.0]
    world.advance(7.0)
    assert world.links.state[:4].tolist() == [4.0, 4.0, 4.0, 1.0]
    assert (world.column(Kind.PORT, "link_downed") == downs).all()


def test_an_efa_device_shows_loss_as_retransmitted_packets() -> None:
    layout = Layout.named("cloud", hosts=8, adapters=4, link_layer="EFA", storage=0)
    world = World(layout, 1)
    world.lose("bad", ports={3: 0.01})
    world.advance(30.0)
    again = world.column(Kind.PORT, "retrans_packets")
    assert again[3] > 1000
    assert layout.labels(3)["driver"] == "efa"
    assert again[2] == 0


def test_labels_of_a_port_and_bridges_of_a_device_may_be_its_own() -> None:
    layout = Layout.named("nvl72", racks=1, storage=0)
    layout.marks[5] = {"firmware": "28.40.1000", "bond": "bond0"}
    layout.bridges[layout.pci(1)] = "0000:00:01.0 0000:20:00.0"
    node = inventory(World(layout, 1), 1, 0.0)
    ports = {component.name: component.labels for component in node.parts[0].components}
    assert ports["mlx5_1/1"]["firmware"] == "28.40.1000"
    assert ports["mlx5_0/1"].get("bond", "") == ""
    by_kind = {part.kind: part for part in node.parts}
    assert by_kind[Kind.GPU].components[0].labels["clique"] == "32766"
    assert by_kind[Kind.PCIE].components[1].labels["path"] == "0000:00:01.0 0000:20:00.0"
