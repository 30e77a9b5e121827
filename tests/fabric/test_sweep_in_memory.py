"""Walking and sweeping a played fabric: what is found, what silence and lateness cost. Time is the played one."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fabricmon.commands import fabric_text
from fabricmon.fabric import mad
from fabricmon.fabric.discover import discover
from fabricmon.fabric.dump import ibnetdiscover as dump
from fabricmon.fabric.exchange import Exchange, Pace
from fabricmon.fabric.names import CASTS, COLUMN, DATA, ERRORS, NAMES
from fabricmon.fabric.report import SweepReport, report
from fabricmon.fabric.subnet import At, Subnet, graph_of, remember
from fabricmon.fabric.sweep import MOST_DETAILS, Sweep, Values
from fabricmon.fabric.transport import TransportError
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sources.formats import ibnetdiscover
from fabricmon.topology.graph import Finding, Graph
from fabricmon.topology.names import NodeNames
from tests.fabric.played import Played

SMALL = rail_fabric(nodes=4, rails=2, unit=2, spines=2, parallel=2)


def walked(played: Played, pace: Pace | None = None, known: Subnet | None = None) -> tuple[Exchange, Subnet]:
    exchange = Exchange(played, pace or Pace(), played.clock)
    return exchange, discover(exchange, played.now + 60, known)


def all_ports(subnet: Subnet) -> list[At]:
    return sorted(At(node.guid, port.number) for node, port in subnet.linked())


def swept(exchange: Exchange, subnet: Subnet, played: Played, budget: float = 60.0) -> tuple[Sweep, Values]:
    sweep = Sweep(exchange, subnet, all_ports(subnet))
    return sweep, sweep.run(played.now + budget)


def cell(sweep: Sweep, values: Values, at: At, name: str) -> float:
    return float(values.cells[sweep.ports.index(at), COLUMN[name]])


def shape_of(graph: Graph) -> object:
    return (
        {s.id: s.name for s in graph.switches.values()},
        {a.id: (a.host, a.name) for a in graph.adapters.values()},
        {(c.a, c.b) for c in graph.cables},
    )


# --- the walk


def test_a_walk_finds_every_node_and_cable() -> None:
    plan = SMALL
    _, subnet = walked(Played(plan))
    assert shape_of(graph_of(subnet)) == shape_of(plan)
    assert subnet.whole
    assert not subnet.cut
    assert {c.rate for c in graph_of(subnet).cables} == {50e9}
    assert all(node.capabilities == (0x1300, 0) for node in subnet.nodes.values())


def test_our_dump_reads_back_as_the_same_graph() -> None:
    plan = SMALL
    _, subnet = walked(Played(plan))
    read = ibnetdiscover.parse(dump(subnet), "ours", NodeNames())
    assert shape_of(read) == shape_of(plan)
    assert not read.findings
    assert {(c.rate, c.width) for c in read.cables} == {(50e9, 4)}


def test_two_switches_in_a_ring_with_parallel_cables() -> None:
    plan = rail_fabric(nodes=1, rails=2, unit=1, spines=1, parallel=4)
    _, subnet = walked(Played(plan))
    assert shape_of(graph_of(subnet)) == shape_of(plan)


def test_a_walk_that_is_cut_short_says_so() -> None:
    played = Played(SMALL, latency=0.005)
    exchange = Exchange(played, Pace(window=1), played.clock)
    subnet = discover(exchange, played.now + 0.05)
    assert subnet.cut
    assert not subnet.whole


# --- the sweep


def test_every_counter_of_every_linked_port_is_read_zeros_included() -> None:
    plan = SMALL
    played, rng = Played(plan), random.Random(1)
    exchange, subnet = walked(played)
    wide = {*DATA, *CASTS}
    for at in all_ports(subnet):
        for name in rng.sample((*ERRORS, *DATA, *CASTS), 12):
            played.counters[at][name] = rng.randrange(2**48 if name in wide else 16)
    sweep, values = swept(exchange, subnet, played)
    assert len(sweep.ports) == 2 * len(plan.cables)
    for at in sweep.ports:
        for name in (*ERRORS, *DATA, *CASTS):
            expected = math.nan if name == "qp1_dropped" else played.counters[at].get(name, 0)
            assert cell(sweep, values, at, name) == pytest.approx(expected, nan_ok=True), (at, name)
        states = [cell(sweep, values, at, n) for n in ("state", "phys_state", "width", "rate")]
        assert states == [4, 5, 4, 50e9]
    assert not values.silent
    assert not values.refused
    assert not values.cut
    assert not played.refuse


def test_one_datagram_a_port_where_the_errors_are_in_the_extended_counters() -> None:
    played = Played(SMALL, usual=(0x9300, 2))
    exchange, subnet = walked(played)
    at = all_ports(subnet)[0]
    played.counters[at] = {"symbol_error": 70_000, "link_downed": 300, "port_xmit_wait": 2**40, "qp1_dropped": 3}
    played.asked.clear()
    sweep, values = swept(exchange, subnet, played)
    assert played.asked[mad.PORT_COUNTERS.id] == 0
    assert played.asked[mad.PORT_COUNTERS_EXTENDED.id] == len(sweep.ports)
    for name, value in played.counters[at].items():
        assert cell(sweep, values, at, name) == value


def test_counters_that_a_node_does_not_promise_are_unknown() -> None:
    played = Played(SMALL)
    at = next(at for at in played.far if at.node in played.switches)
    played.capable[at.node] = (0, 0)  # neither 64 bits nor PortXmitWait
    played.counters[at] = {"port_xmit_wait": 9, "port_xmit_data": 2**40, "port_rcv_data": 77, "symbol_error": 1}
    exchange, subnet = walked(played)
    sweep, values = swept(exchange, subnet, played)
    assert math.isnan(cell(sweep, values, at, "port_xmit_wait"))
    assert math.isnan(cell(sweep, values, at, "unicast_xmit_packets"))
    assert math.isnan(cell(sweep, values, at, "port_xmit_data"))  # 32 bits, all of them set: at least so much
    assert cell(sweep, values, at, "port_rcv_data") == 77
    assert cell(sweep, values, at, "symbol_error") == 1


def test_details_are_asked_for_when_their_sum_rises_only() -> None:
    played = Played(SMALL)
    exchange, subnet = walked(played)
    sweep, values = swept(exchange, subnet, played)
    at, other = sweep.ports[0], sweep.ports[1]
    assert played.asked[mad.RCV_ERROR_DETAILS.id] == 0
    played.counters[at] = {"port_rcv_errors": 5, "local_physical_errors": 3, "malformed_packet_errors": 2}
    played.counters[other] = {"port_xmit_discards": 4, "sw_hoq_lifetime_limit_discards": 4}
    values = sweep.run(played.now + 60)
    assert cell(sweep, values, at, "local_physical_errors") == 3
    assert cell(sweep, values, other, "sw_hoq_lifetime_limit_discards") == 4
    assert math.isnan(cell(sweep, values, other, "local_physical_errors"))
    asked = dict(played.asked)
    values = sweep.run(played.now + 60)
    assert cell(sweep, values, at, "local_physical_errors") == 3  # stands as it was read
    for attribute in (mad.RCV_ERROR_DETAILS, mad.XMIT_DISCARD_DETAILS):
        assert played.asked[attribute.id] == asked[attribute.id] == 1


def test_a_storm_of_errors_does_not_stretch_the_sweep() -> None:
    played = Played(rail_fabric(nodes=64, rails=4, unit=32, spines=4, parallel=4))
    exchange, subnet = walked(played)
    sweep = Sweep(exchange, subnet, all_ports(subnet))
    assert len(sweep.ports) > MOST_DETAILS
    for at in sweep.ports:
        played.counters[at] = {"port_rcv_errors": 1, "local_physical_errors": 1}
    sweep.run(played.now + 60)
    assert played.asked[mad.RCV_ERROR_DETAILS.id] == MOST_DETAILS
    values = sweep.run(played.now + 60)
    read = np.isfinite(values.cells[:, COLUMN["local_physical_errors"]])
    assert np.count_nonzero(read) == min(len(sweep.ports), 2 * MOST_DETAILS)


def test_a_node_without_details_is_asked_once() -> None:
    played = Played(SMALL)
    exchange, subnet = walked(played)
    at = all_ports(subnet)[0]
    played.refuse[at.node, mad.RCV_ERROR_DETAILS.id] = 0xC
    played.counters[at] = {"port_rcv_errors": 5}
    sweep, values = swept(exchange, subnet, played)
    played.counters[at] = {"port_rcv_errors": 6}
    sweep.run(played.now + 60)
    assert played.asked[mad.RCV_ERROR_DETAILS.id] == 1
    assert not values.refused


def test_a_refusal_is_reported_and_leaves_the_rest_known() -> None:
    played = Played(SMALL)
    exchange, subnet = walked(played)
    at = all_ports(subnet)[0]
    played.refuse[at.node, mad.PORT_COUNTERS.id] = 0xC
    sweep, values = swept(exchange, subnet, played)
    assert math.isnan(cell(sweep, values, at, "symbol_error"))
    assert cell(sweep, values, at, "port_xmit_data") == 0
    assert {(sweep.ports[row].node, name, status) for row, name, status in values.refused} == {
        (at.node, "PortCounters", 0xC)
    }
    assert not values.silent


# --- links that change


def test_a_cut_cable_is_down_at_both_its_ends_and_keeps_them() -> None:
    plan = SMALL
    played = Played(plan)
    exchange, before = walked(played)
    leaf_end = next(at for at, far in played.far.items() if far.node in played.adapters and far != played.origin)
    adapter_end = played.far[leaf_end]
    sweep, values = swept(exchange, before, played)
    played.pull(leaf_end)
    values = sweep.run(played.now + 60)
    for at in (leaf_end, adapter_end):
        assert [cell(sweep, values, at, n) for n in ("state", "phys_state")] == [1, 2]
        assert math.isnan(cell(sweep, values, at, "rate"))
    assert math.isnan(cell(sweep, values, adapter_end, "symbol_error"))  # nobody reaches it: unknown, not 0
    assert cell(sweep, values, leaf_end, "symbol_error") == 0
    merged = remember(before, discover(exchange, played.now + 60, before), 100.0, 3600.0)
    assert shape_of(graph_of(merged)) == shape_of(plan)
    assert merged.nodes[adapter_end.node].missing == 100.0
    sweep, values = swept(exchange, merged, played)
    assert [cell(sweep, values, at, "state") for at in (leaf_end, adapter_end)] == [1, 1]
    assert not values.silent  # what is known to be out of reach is not asked


def test_what_vanished_is_forgotten_in_time_and_a_moved_cable_at_once() -> None:
    played = Played(SMALL)
    exchange, before = walked(played)
    ends = [at for at, far in played.far.items() if at.node in played.switches and far.node in played.adapters]
    one, two = [at for at in ends if played.far[at] != played.origin][:2]
    played.pull(one)
    now = discover(exchange, played.now + 60, before)
    merged = remember(before, now, 100.0, 50.0)
    lost = played.far[one]
    assert merged.port(one).far == lost
    later = remember(merged, discover(exchange, played.now + 60, merged), 151.0, 50.0)
    assert lost.node not in later.nodes
    assert later.port(one).far is None
    # the adapter at `two` is plugged into `one` instead
    moved = played.far[two]
    played.cut.clear()
    del played.far[two]
    played.far[one], played.far[moved] = moved, one
    merged = remember(before, discover(exchange, played.now + 60, before), 100.0, 50.0)
    assert merged.port(one).far == moved
    assert merged.port(two).far is None
    assert merged.port(lost).far is None


def test_a_link_narrowed_to_one_lane() -> None:
    played = Played(SMALL)
    exchange, subnet = walked(played)
    at = next(at for at in played.far if at.node in played.switches and played.far[at].node in played.switches)
    for end in (at, played.far[at]):
        played.width[end] = 1
    sweep, values = swept(exchange, subnet, played)
    for end in (at, played.far[at]):
        assert [cell(sweep, values, end, n) for n in ("width", "rate")] == [1, 12.5e9]


# --- silence and lateness


def big() -> Graph:
    """2,048 adapters, 4,096 cables, 8,192 ports."""
    return rail_fabric(nodes=256, rails=8, unit=32, spines=32, parallel=1)


def test_a_sweep_over_a_late_transport_takes_a_window_at_a_time() -> None:
    played = Played(big(), latency=0.005)
    exchange, subnet = walked(played)
    sweep = Sweep(exchange, subnet, all_ports(subnet))
    assert len(sweep.ports) == 8192
    values = Values(np.full((8192, len(NAMES)), np.nan))
    started = played.now
    sweep.counters(values, started + 30)
    took = played.now - started
    assert took < 6.0  # one at a time: 81.9 s
    assert np.isfinite(values.cells[:, COLUMN["symbol_error"]]).all()
    assert np.isfinite(values.cells[:, COLUMN["port_xmit_data"]]).all()
    # a dead switch costs its own deadline only, and its ports alone are unknown
    dead = next(guid for guid, switch in played.switches.items() if switch.level == 1)
    played.dead.add(dead)
    started = played.now
    values = Values(np.full((8192, len(NAMES)), np.nan))
    sweep.counters(values, started + 30)
    assert played.now - started < took + exchange.pace.tries * exchange.pace.timeout + 0.1
    unknown = {sweep.ports[row] for row in np.flatnonzero(np.isnan(values.cells[:, COLUMN["symbol_error"]]))}
    assert unknown == {at for at in sweep.ports if at.node == dead}
    assert values.silent == {dead}


def test_a_dead_node_is_probed_once_a_sweep_and_believed_when_it_comes_back() -> None:
    played = Played(SMALL, latency=0.001)
    exchange, subnet = walked(played)
    sweep, values = swept(exchange, subnet, played)
    full, dead = values.sent, next(iter(played.switches))
    played.dead.add(dead)
    first = sweep.run(played.now + 60)
    again = sweep.run(played.now + 60)
    assert first.silent == again.silent == {dead}
    mine = [at for at in sweep.ports if at.node == dead]
    saved = full - again.sent
    assert saved >= 2 * len(mine) - 2  # its counters were not asked for, but for a probe
    far = played.far[mine[0]]
    if far.node in played.switches:  # its other end tells of the link's state
        assert cell(sweep, again, mine[0], "state") == 4
    played.dead.clear()
    values = sweep.run(played.now + 60)
    assert not values.silent
    assert np.isfinite(values.cells[:, COLUMN["symbol_error"]]).all()


def test_many_dead_nodes_end_by_the_deadline_and_cost_no_port_of_the_others_it_had_time_for() -> None:
    played = Played(big(), latency=0.005)
    exchange, subnet = walked(played)
    sweep = Sweep(exchange, subnet, all_ports(subnet))
    played.dead |= set(random.Random(2).sample(sorted(played.adapters), 600))
    started = played.now
    values = sweep.run(started + 2.0)
    assert played.now - started <= 2.0 + exchange.pace.timeout
    assert values.cut


@pytest.mark.parametrize("window", [1, 3, 16])
def test_never_more_outstanding_than_the_window(window: int) -> None:
    played = Played(SMALL, latency=0.001)
    most = 0
    send = played.send

    def counted(packed: object, at: int, tid: int, timeout: float) -> None:
        nonlocal most
        send(packed, at, tid, timeout)  # type: ignore[arg-type]
        most = max(most, len(played._due))

    played.send = counted  # type: ignore[method-assign]
    exchange, subnet = walked(played, Pace(window=window))
    swept(exchange, subnet, played)
    assert most == window


def test_a_port_that_loses_datagrams_is_an_error_not_a_wait_for_ever() -> None:
    played = Played(SMALL)
    exchange, _ = walked(played)
    played.send = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(TransportError, match="neither answered"):
        discover(exchange, played.now + 60)


def test_late_answers_to_one_batch_are_not_taken_for_the_next() -> None:
    played = Played(SMALL, latency=0.005)
    exchange, subnet = walked(played)
    at = all_ports(subnet)[0]
    sweep = Sweep(exchange, subnet, all_ports(subnet))
    played.counters[at] = {"symbol_error": 1}
    assert sweep.run(played.now + 0.004).cut  # leaves a window of answers behind
    played.counters[at] = {"symbol_error": 2}
    values = sweep.run(played.now + 60)
    assert cell(sweep, values, at, "symbol_error") == 2
    assert np.isfinite(values.cells[:, COLUMN["symbol_error"]]).all()


def test_a_node_that_answers_late_under_load_is_not_silent() -> None:
    """The first two tries of each of its requests time out, the third has four times as long."""
    played = Played(SMALL, latency=0.5)
    exchange = Exchange(played, Pace(timeout=0.2, tries=3), played.clock)
    subnet = discover(exchange, played.now + 1e4)
    assert (len(subnet.nodes), subnet.mute, subnet.whole) == (len(SMALL.switches) + len(SMALL.adapters), [], True)
    values = Sweep(exchange, subnet, all_ports(subnet)).run(played.now + 1e4)
    assert not values.silent
    assert np.isfinite(values.cells[:, COLUMN["symbol_error"]]).all()


# --- the report of the command


def reported(played: Played) -> SweepReport:
    exchange, subnet = walked(played)
    ports = [*all_ports(subnet), *subnet.open_ports()]
    values = Sweep(exchange, subnet, ports).run(played.now + 60)
    return report(subnet, ports, values, None, 1.0, 1.0)


def test_a_port_that_is_down_is_reported_with_its_counters() -> None:
    plan = rail_fabric(nodes=8, rails=4, unit=8, spines=2, parallel=1)
    played = Played(plan)
    link = next(c for c in plan.cables if c.a.node in plan.switches and c.b.node in plan.switches)
    leaf = At(int(link.a.node, 16), link.a.port)
    played.pull(leaf)
    played.counters[leaf] = {"link_downed": 2, "VL15_dropped": 5, "port_rcv_switch_relay_errors": 6}
    found = reported(played)
    (port,) = [p for p in found.ports if (p.guid, p.port) == (link.a.node, link.a.port)]
    assert (port.state, port.remote, port.counters["link_downed"]) == ("down", "", 2)
    assert port.errors == {"link_downed": 2, "vl15_dropped": 5, "rcv_switch_relay_errors": 6}
    assert Finding("port_down", (plan.describe(link.a),), "down, went down 2 times") in found.lost
    assert f"{plan.describe(link.a)}: down" in fabric_text.render(found)
    assert found.whole


def test_a_switch_that_went_down_is_one_line() -> None:
    plan = rail_fabric(nodes=8, rails=8, unit=8, spines=8, parallel=1)
    played = Played(plan)
    spine = [s for s in plan.switches.values() if s.level == 1][3]
    for link in plan.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if far.node == spine.id:
                played.pull(At(int(near.node, 16), near.port))
                played.counters[At(int(near.node, 16), near.port)] = {"link_downed": 1}
    more = next(c for c in plan.cables if {c.a.node, c.b.node} <= plan.switches.keys() and spine.id not in (c.a.node,
                c.b.node))  # fmt: skip
    leaf = next(end for end in (more.a, more.b) if plan.switches[end.node].level == 0)  # lacks a second cable
    played.pull(At(int(leaf.node, 16), leaf.port))
    played.counters[At(int(leaf.node, 16), leaf.port)] = {"link_downed": 1}
    lost, *rest = reported(played).lost
    assert (plan.describe(leaf),) in [finding.components for finding in rest]
    assert lost.kind == "missing_switch"
    assert "8 of the 8 switches with the same neighbours have lost an uplink" in lost.why
    ports = {plan.describe(n) for c in plan.cables for n, f in ((c.a, c.b), (c.b, c.a)) if f.node == spine.id}
    assert set(lost.components) == {spine.name, *ports}


def test_a_node_without_answer_makes_the_report_partial() -> None:
    played = Played(SMALL)
    spine = next(s for s in SMALL.switches.values() if s.level == 1)
    played.dead = {int(spine.id, 16)}
    found = reported(played)
    assert not found.whole
    assert len(found.mute) == sum(spine.id in (c.a.node, c.b.node) for c in SMALL.cables)
    played = Played(SMALL)
    exchange, subnet = walked(played)
    played.dead = {int(spine.id, 16)}  # it answers the walk, but not the sweep
    ports = all_ports(subnet)
    found = report(subnet, ports, Sweep(exchange, subnet, ports).run(played.now + 60), None, 1.0, 1.0)
    assert (found.silent, found.whole) == ((spine.name,), False)
