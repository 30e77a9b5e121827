"""Rules that compare a port with others, against plain tellings of them, with values at and beside each limit."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from fabricmon.fleet import freshness
from fabricmon.fleet.pressure import MARKS, NOTICES, PACKETS, RECEIVE
from fabricmon.fleet.view import View
from fabricmon.model import Kind
from fabricmon.rules import flow_loss, incast, link_degraded, nic_fault, telemetry_quality
from fabricmon.rules.packet_loss import PacketLossParams
from fabricmon.units import Duration
from tests.fleet.site import Site
from tests.rules.test_row_by_row import HOSTS, NAN, Rows, agree, mean_of_others, seeds
from tests.rules.test_rules_of_devices import shown


def roles_of(rows: Rows, *words: str) -> list[str]:
    """Give each port a role at random; codes as the words are found."""
    facts, roles = rows.tracks.facts, rows.some(*words)
    facts.role_names = {"": 0}
    facts.role[: rows.n] = [facts.role_names.setdefault(role, len(facts.role_names)) for role in roles]
    return roles


@seeds
def test_incast_is_a_full_or_marked_receiver_apart_from_its_peers_with_senders_slowed_down(seed: int) -> None:
    rows = Rows(seed)
    params = incast.IncastParams(full=0.875, marked=0.0625, loaded=0.75, apart=1.5, senders=1 + seed % 2, pausing=0.125)
    pressure, n, here = rows.tracks.pressure, rows.n, slice(0, rows.n)
    receive = rows.some(0.25, 0.25, 0.25, 0.75, 0.875, 1.0, NAN)
    marks, notices, before = rows.some(0.0, 0.0, 1.0, 2.0), rows.some(0, 10, 10, 9.5, 40), rows.some(NAN, 0, 5, 6)
    pausing, waits = rows.some(0, 0, NAN, 0.125, 0.125, 0.25), rows.some(0, 0, 0.05, 0.0625)
    busy = rows.some(1, 1, 1, 1, 1, 0)
    packets = [16.0] * n
    late = rows.some(0, 0, 0, 0, 0, 1)
    role = roles_of(rows, *["compute"] * 6, "storage", "management")
    pressure.traffic.recent[RECEIVE, here], pressure.arrivals.recent[MARKS, here] = receive, marks
    pressure.arrivals.recent[PACKETS, here], pressure.arrivals.recent[NOTICES, here] = packets, notices
    pressure.notified.mean[here], pressure.pausing.recent[0, here] = before, pausing
    pressure.stalled.recent[0, here], pressure.scale[here], pressure.busy[here] = waits, 1.0, busy
    for slots in (pressure.traffic, pressure.arrivals, pressure.stalled):
        slots.until[here] = [rows.now - one for one in late]
    marked = [marks[r] / packets[r] for r in range(n)]
    slow = [notices[r] >= 10 and not notices[r] < 2 * before[r] and not late[r] and rows.present[r] for r in range(n)]
    waiting = [waits[r] >= 0.05 and not late[r] and rows.present[r] for r in range(n)]

    def others(shows: list[Any], r: int) -> int:
        return sum(shows[o] for o in range(n) if o != r and rows.rail[o] == rows.rail[r])

    def apart(values: list[float], r: int) -> bool:
        return not values[r] < 1.5 * mean_of_others(values, [b and v == v for b, v in zip(busy, values, strict=True)],
                                                    rows.rail, r)  # fmt: skip

    def told(r: int) -> tuple[bool, bool, bool, float]:
        full, signs = receive[r] >= 0.875, marked[r] > 0.0625 and receive[r] >= 0.75
        looked = bool(busy[r]) and not pausing[r] > 0.125 and role[r] == "compute"
        alone = apart(receive, r) and (full or apart([m if b else NAN for m, b in zip(marked, busy, strict=True)], r))
        senders = others(slow, r)
        senders = senders if senders >= params.senders else others(waiting, r)
        fire = looked and (full or signs) and alone and senders >= params.senders
        clear = not full and not (looked and signs) and not fire
        return fire, clear, rows.present[r] and rows.up[r] and receive[r] == receive[r] and not late[r], receive[r]

    verdicts = rows.test("incast", params)
    assert any(fire for fire, *_ in verdicts)
    agree(verdicts, told)
    for r in range(n):
        texts = {e.measure: e.for_it for e in incast.evidence(rows.view, r, params)}
        assert texts["incast.senders"] is bool(max(others(slow, r), others(waiting, r)) >= params.senders)
        if receive[r] == receive[r]:
            assert texts["incast.receive"] is (receive[r] >= 0.875)
            assert texts["incast.marked"] is (marked[r] > 0.0625)
        if pausing[r] == pausing[r]:
            assert texts["incast.pausing"] is (pausing[r] <= 0.125)


@seeds
def test_counters_are_frozen_if_they_stand_still_while_most_of_their_role_on_the_host_move(seed: int) -> None:
    rows = Rows(seed)
    params = telemetry_quality.TelemetryQualityParams(
        frozen=Duration(600), alone=Duration(120), alike=2.0, moving=0.75, peers=1 + seed % 3
    )
    tracks, n, lately = rows.tracks, rows.n, 2 * freshness.LEAST
    role = roles_of(rows, "compute", "compute", "storage")
    moved = rows.ago(0.0, 0.0, lately - 1, lately, 119.0, 120.0, 599.0, 600.0, NAN)
    first, since = rows.ago(9000.0, 9000.0, 600.0, 119.0), rows.ago(9000.0, 9000.0, 600.0, 599.0, NAN)
    pace = rows.some(1e9, 1e9, 1e9, 1.5e9, *((0.0, 2.5e9) if seed % 2 else ()))
    tracks.movement.moved[:n], tracks.first[:n], tracks.since[:n] = moved, first, since
    tracks.movement.paces[0, :n] = pace
    tracks.facts.swept[:n] = swept = rows.some(False, False, False, True)
    watched = [rows.present[r] and rows.up[r] and not swept[r] for r in range(n)]

    def still(r: int, seconds: float) -> bool:
        old = [rows.now - at >= seconds for at in (first[r], since[r]) if at == at]
        return watched[r] and not rows.now - moved[r] < seconds and all(old)

    def stopped(r: int) -> bool:
        mates = [o for o in range(n) if o != r and watched[o] and (rows.node[o], role[o]) == (rows.node[r], role[r])]
        go_on = sum(rows.now - moved[o] < lately for o in mates) >= 0.75 * len(mates)
        return watched[r] and rows.now - moved[r] >= lately and len(mates) >= params.peers and go_on

    def told(r: int) -> tuple[bool, bool]:
        others = [o for o in range(n) if o != r and watched[o] and (rows.node[o], role[o]) == (rows.node[r], role[r])]
        moving = [o for o in others if rows.now - moved[o] < lately]
        if len(others) < params.peers or len(moving) < 0.75 * len(others):
            return False, False
        alike = pace[r] > 0 and all(pace[o] <= 2 * pace[r] and pace[r] <= 2 * pace[o] for o in moving)
        down = [rows.present[o] and not rows.up[o] and not swept[o] for o in range(n)]
        when = {o: since[o] if down[o] else moved[o] for o in range(n) if down[o] or stopped(o)}
        elsewhere = [o for o in when if rows.node[o] != rows.node[r] and rows.rail[o] == rows.rail[r]]
        near = [o for o in elsewhere if abs(when[o] - moved[r]) <= lately]
        alone = still(r, 120.0) and alike and not near
        return still(r, 600.0) or alone, alone

    found = telemetry_quality.problems(rows.view, params)
    bits = telemetry_quality.FROZEN, telemetry_quality.ALONE
    assert [tuple(bool(found[r] & bit) for bit in bits) for r in range(n)] == [told(r) for r in range(n)]


@seeds
def test_a_device_is_missing_for_its_time_or_a_driver_reload_s_where_all_of_its_node_are(seed: int) -> None:
    rows = Rows(seed)
    params = nic_fault.NicFaultParams()
    tracks, table, n = rows.tracks, rows.view.table, rows.n
    ago = rows.ago(19.9, 20.0, 119.9, 120.0, NAN)
    gone = [NAN if there else at for there, at in zip(rows.present, ago, strict=True)]
    if seed % 2:  # a node of which every device is gone
        for r in range(n):
            if rows.node[r] == 0:
                gone[r] = rows.now - (119.9 if seed == 1 else 120.0)
        rows.present = [one and rows.node[r] != 0 for r, one in enumerate(rows.present)]
    hardware, booted = rows.some(True, True, True, False), [rows.rng.choice((119.9, 120.0)) for _ in range(HOSTS)]
    count, last, since = rows.some(0.0, 1.0, 3.0), rows.ago(NAN, NAN, 300.0, 300.1), rows.ago(400.0)
    table.present[:n], table.gone[:n], tracks.facts.hardware[:n] = rows.present, gone, hardware
    table.begun[:n] = [rows.now - booted[node] for node in rows.node]
    tracks.devices.count[:n], tracks.devices.last[:n], tracks.devices.since[:n] = count, last, since
    size = Counter(node for node, one in zip(rows.node, hardware, strict=True) if one)
    missing = [hardware[r] and not rows.present[r] and gone[r] == gone[r] for r in range(n)]
    away = Counter(node for node, one in zip(rows.node, missing, strict=True) if one)

    def told(r: int) -> tuple[bool, bool, bool, float]:
        node, at = rows.node[r], rows.now - gone[r]
        reload = away[node] == size[node] > 1 and at < 120.0
        broken = rows.present[r] and rows.now - last[r] <= 300.0
        fire = (missing[r] and at >= 20.0 and not reload) or broken
        known = hardware[r] and ((missing[r] and booted[node] >= 120.0) or rows.present[r])
        return fire, rows.present[r] and not broken, known, at if missing[r] else count[r] if broken else 0.0

    agree(rows.test("nic_fault", params), told)


@seeds
def test_the_expected_rate_is_that_of_the_role_else_of_most_of_its_tier_rail_host_or_make(seed: int) -> None:
    rows = Rows(seed)
    params = link_degraded.LinkDegradedParams(expected={"storage": 4e9}, least=2 + seed % 2)
    n, facts, domains = rows.n, rows.tracks.facts, rows.view.table.domains
    assert domains is not None
    tier, rail = rows.some(-1, -1, -1, -1, 0, 1), rows.some(-1, 0, 1, 2, 3)
    domains.ids |= {"tier": np.array(tier, np.int32), "rail": np.array(rail, np.int32)}
    role, make = roles_of(rows, "compute", "compute", "storage"), rows.some(0, 1, 1, 2)
    facts.make[:n], facts._makes = make, {(str(code),): code for code in range(3)}
    rate = [one if up else NAN for one, up in zip(rows.some(1e9, 2e9, 2e9, 2e9, 2e9, NAN), rows.up, strict=True)]

    def of(groups: list[Any], r: int, least: int, share: float = 0.5) -> float:
        mine = [rate[o] for o in range(n) if groups[o] is not None and groups[o] == groups[r]
                and rows.present[o] and rate[o] == rate[o]]  # fmt: skip
        if groups[r] is None or len(mine) < least or not mine:
            return NAN
        common, number = Counter(mine).most_common(1)[0]
        return common if number > share * len(mine) else NAN

    by_rail = [(rail[r], make[r]) if rail[r] >= 0 else None for r in range(n)]
    by_tier = [one if one >= 0 else None for one in tier]
    by_host = [(rows.node[r], make[r]) if make[r] else None for r in range(n)]
    by_make = [one or None for one in make]

    def told(r: int) -> float:
        if role[r] == "storage":
            return 4e9
        found = of(by_tier, r, params.least) if by_tier[r] is not None else of(by_rail, r, params.least)
        for groups, least, share in ((by_host, params.least, 0.5), (by_make, 2 * params.least, link_degraded.ALIKE)):
            found = of(groups, r, least, share) if math.isnan(found) else found
        return found

    table = rows.view.table
    for column in ("rate", "netdev_rate"):
        table.cells[table.column(column), :n] = rate
    found = link_degraded.references(rows.view, params)
    wanted = [told(r) for r in range(n)]
    assert sum(one == one for one in wanted) > n / 2
    assert found.tolist() == pytest.approx(wanted, nan_ok=True)


def test_a_flow_of_probes_is_known_while_they_come_and_its_port_is_there() -> None:
    site, cases = Site(), [(True, False), (False, True), (False, False)]
    shown(site, "h", Kind.FLOW, {f"f{n}": {"flow_late": 0.0} for n in range(3 * len(cases))}, peer="n2/mlx5_0/1")
    view = View(site.fleet.tables[Kind.FLOW], site.now)
    probes = view.probes
    for row in range(view.n):
        probes.bad[row], probes.clean[row] = cases[row % 3]
        probes.at[row] = view.now - (flow_loss.RECENT + 0.1 if row // 3 == 1 else flow_loss.RECENT)
        view.table.present[row] = row // 3 != 2
        probes.lost[0, row], probes.sent[:2, row] = 3.0, 6.0
    found = flow_loss.test(view, PacketLossParams())
    assert found.known.tolist() == [True, True, False] + [False] * 6
    assert found.fire.tolist() == [True, False, False] * 3
    assert found.clear.tolist() == [False, True, False] * 3
    assert found.value.tolist() == [0.25, 0.0, 0.0] * 3


