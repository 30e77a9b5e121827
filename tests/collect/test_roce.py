"""Driver statistics: each name under its concept, whatever the vendor; names that move between reads do no harm."""

from __future__ import annotations

import errno
import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.collect import COLLECTORS
from fabricmon.collect.parse import roce_names
from fabricmon.host.protocol import HostError
from tests.collect.drivers import labels, machine, rdma_port, rows

roce = COLLECTORS["roce"]

MLX5_PAUSE = ("rx_prio{}_pause", "rx_prio{}_pause_duration", "tx_prio{}_pause", "tx_prio{}_pause_duration",
              "rx_prio{}_pause_transition")  # fmt: skip


def columns(*names: str) -> dict[str, str]:
    return {names[place.at]: place.column for place in roce_names.plan(names).places}


@pytest.mark.parametrize(
    ("name", "column", "scale"),
    [
        ("rx_prio3_pause", "pfc_rx_frames_prio3", 1),
        ("tx_prio0_pause", "pfc_tx_frames_prio0", 1),
        ("rx_prio3_pause_duration", "pfc_rx_pause_prio3", 1e-6),
        ("tx_prio7_pause_duration", "pfc_tx_pause_prio7", 1e-6),
        ("rx_prio3_pause_transition", "pfc_rx_transitions_prio3", 1),
        ("rx_prio3_discards", "prio_rx_discards_prio3", 1),
        ("rx_prio3_buf_discard", "prio_rx_buffer_discards_prio3", 1),
        ("rx_prio3_cong_discard", "prio_rx_congestion_discards_prio3", 1),
        ("rx_prio3_marked", "prio_ecn_marked_prio3", 1),
        ("rx_prio3_bytes", "prio_rx_prio3", 1),
        ("tx_pause_storm_error_events", "pfc_storm_error", 1),
        ("rx_pause_ctrl_phy", "pause_rx_frames", 1),
        ("rx_pcs_symbol_err_phy", "phy_uncorrected_symbols", 1),
        ("rx_err_lane_2_phy", "lane_corrected_bit_errors_lane2", 1),
        ("link_down_events_phy", "link_down_events", 1),
        ("outbound_pci_stalled_rd", "pcie_stalled_read", 0.01),
        ("rx_pfc_ena_frames_pri4", "pfc_rx_frames_prio4", 1),  # bnxt_en
        ("pfc_pri4_tx_duration_us", "pfc_tx_pause_prio4", 1e-6),
        ("pfc_pri4_rx_transitions", "pfc_rx_transitions_prio4", 1),
        ("rx_bytes_pri4", "prio_rx_prio4", 1),
        ("rx_discard_packets_cos4", "cos_rx_discards_queue4", 1),
        ("rx_corrected_bits", "phy_corrected_bit_errors", 1),
        ("tx_priority_5_xoff.nic", "pfc_tx_frames_prio5", 1),  # ice
        ("rx_priority_5_xon.nic", "pfc_rx_xon_frames_prio5", 1),
        ("rx_crc_errors.nic", "eth_fcs_errors", 1),
        ("rx_pripause_6_1us_count", "pfc_rx_pause_prio6", 1e-6),  # ionic
        ("frames_rx_pripause", "pfc_rx_frames_all", 1),
        ("frames_tx_pri_6", "prio_tx_packets_prio6", 1),
        ("mac_rx_pfc_pri2_pkt_num", "pfc_rx_frames_prio2", 1),  # hns3
        ("pps_allowance_exceeded", "allowance_packets_exceeded", 1),  # ena
    ],
)
def test_every_drivers_name_leads_to_one_concept(name: str, column: str, scale: float) -> None:
    (place,) = roce_names.plan((name,)).places
    assert (place.column, place.scale) == (column, scale)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("rx_prio_2_pfc_frames", "pfc_rx_frames_prio2"),
        ("tx_priority_1_pause", "pfc_tx_frames_prio1"),
        ("port.rx_pfc_pri3", "pfc_rx_frames_prio3"),
        ("rx_pfc_prio5_duration_usec", "pfc_rx_pause_prio5"),
        ("rx_prio4_drop_pkts", "prio_rx_discards_prio4"),
        ("tx_prio_6_octets", "prio_tx_prio6"),
        ("mac_rx_fcs_errors", "eth_fcs_errors"),
        ("tx_pause_frames", "pause_tx_frames"),
    ],
)
def test_names_of_unknown_drivers_are_understood_by_their_words(name: str, column: str) -> None:
    assert columns(name) == {name: column}


@pytest.mark.parametrize(
    "name",
    [
        "mac_rx_pfc_pri3_xoff_time",  # in what unit is not said
        "rx_prio3_pause_duration_ns",
        "rx_prio3_latency_us",
        "prio3_pause",  # in which direction is not said
        "rx_prio2_prio3_pause",
        "rx_prio8_pause",
        "tx_crc_errors",
        "rx_pause_prio3_pause_resumed",
    ],
)
def test_what_is_not_clear_keeps_the_drivers_name(name: str) -> None:
    assert columns(name) == {name: f"raw:ethtool/{name}"}


@pytest.mark.parametrize(
    "name",
    ["rx0_packets", "tx12_bytes", "ch3_poll", "ch_events", "tx_3_pkts", "rx_15_alloc_err", "queue_0_rx_bytes",
     "rxq0_drops", "tx_queue_7_packets", "[0]: rx_ucast_packets", "rx_posted_desc[5]", "rx_xdp_drop", "tx_csum_none"],
)  # fmt: skip
def test_software_rings_are_dropped(name: str) -> None:
    assert columns(name) == {}


def test_two_names_of_one_concept_the_better_one_has_it() -> None:
    found = columns("rx_global_pause", "rx_pause_ctrl_phy", "hw_rx_dropped", "frames_rx_dropped")
    assert found == {
        "rx_pause_ctrl_phy": "pause_rx_frames",
        "rx_global_pause": "raw:ethtool/rx_global_pause",
        "hw_rx_dropped": "phy_rx_discards",
        "frames_rx_dropped": "raw:ethtool/frames_rx_dropped",
    }


def test_unknown_names_are_bounded_and_what_is_left_out_is_reported(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    drivers.counts["eth0"] = {f"made_by_firmware_{n}": n for n in range(500)} | {"rx_prio3_pause": 7}
    found = rows(roce.open(host, roce.config()).sessions()["eth0"].read())["eth0"]
    assert len(found) == roce_names.MOST_RAW + 2
    assert found["pfc_rx_frames_prio3"] == 7
    assert found["statistics_left_out"] == 500 - roce_names.MOST_RAW


@given(st.lists(st.text(max_size=31), max_size=60))
def test_any_names_give_each_column_once(names: list[str]) -> None:
    plan = roce_names.plan(names)
    assert len({place.column for place in plan.places}) == len(plan.places)
    assert all(0 <= place.at < len(names) for place in plan.places)
    for place in plan.places:
        assert place.column in CATALOGUE or place.column == f"raw:ethtool/{names[place.at]}"


OFTEN = roce.config(costly=0.0)
"""Read at each run, also where it costs firmware commands."""


def mlx5(enabled: tuple[int, ...], base: int = 0) -> dict[str, int]:
    """mlx5's statistics with PFC enabled on some priorities: other names, and for one priority as many, each time."""
    found = {"rx_packets_phy": base + 1, "link_down_events_phy": base + 2}
    for prio in range(8):
        found[f"rx_prio{prio}_discards"] = base + 100 + prio
        if prio in enabled:
            found |= {name.format(prio): base + 1000 * (prio + 1) + n for n, name in enumerate(MLX5_PAUSE)}
    return found


def expected(enabled: tuple[int, ...], base: int = 0) -> dict[str, float]:
    wanted = {"phy_rx_packets": base + 1.0, "link_down_events": base + 2.0, "statistics_left_out": 0.0}
    families = ("pfc_rx_frames", "pfc_rx_pause", "pfc_tx_frames", "pfc_tx_pause", "pfc_rx_transitions")
    for prio in range(8):
        wanted[f"prio_rx_discards_prio{prio}"] = base + 100.0 + prio
        if prio in enabled:
            for n, family in enumerate(families):
                scale = 1e-6 if family.endswith("_pause") else 1.0
                wanted[f"{family}_prio{prio}"] = pytest.approx((base + 1000 * (prio + 1) + n) * scale)
    return wanted


def test_names_that_move_between_reads_do_no_harm(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    session = roce.open(host, OFTEN).sessions()["eth0"]
    for enabled in ((3,), (4,), (3, 4), (), (4,)):
        drivers.counts["eth0"] = mlx5(enabled)
        assert rows(session.read())["eth0"] == expected(enabled)


@pytest.mark.parametrize("moves", [((3,), (4,)), ((3,), (3, 4)), ((3, 4), (4,)), ((3,), (4,), (5,))])
def test_names_that_move_during_a_read_do_no_harm(tmp_path: Path, moves: tuple[tuple[int, ...], ...]) -> None:
    """Each change happens after the names were asked for: the values that follow have other names."""
    host, drivers = machine(tmp_path, "eth0")
    session = roce.open(host, OFTEN).sessions()["eth0"]
    drivers.counts["eth0"] = mlx5(moves[0])
    session.read()

    def move(to: tuple[int, ...]):
        return lambda: drivers.counts.update(eth0=mlx5(to, base=7))

    drivers.counts["eth0"] = mlx5(moves[1], base=7)
    drivers.between = [move(to) for to in moves[2:]]
    found = session.read()
    assert rows(found)["eth0"] == expected(moves[-1], base=7)
    assert found.faults == ()


def test_names_that_moved_before_the_values_and_back_after_them_do_no_harm(tmp_path: Path) -> None:
    """An earlier read's names and those after the values are equal; the values have other names, and as many."""
    host, drivers = machine(tmp_path, "eth0")
    session = roce.open(host, OFTEN).sessions()["eth0"]
    drivers.counts["eth0"] = mlx5((7,))
    assert rows(session.read())["eth0"] == expected((7,))
    drivers.counts["eth0"] = mlx5((3,), base=5)
    drivers.after_values = [lambda: drivers.counts.update(eth0=mlx5((7,), base=6))]
    found = session.read()
    assert rows(found)["eth0"] == expected((7,), base=6)
    assert found.faults == ()


def test_names_that_never_stand_still_are_unknown_and_reported(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    session = roce.open(host, OFTEN).sessions()["eth0"]
    drivers.counts["eth0"] = mlx5((3,))
    session.read()
    drivers.counts["eth0"] = mlx5((4,))
    drivers.between = [lambda n=n: drivers.counts.update(eth0=mlx5((n % 8,))) for n in range(5, 40)]
    found = session.read()
    assert all(math.isnan(value) for value in found.values)
    assert "names changed" in found.faults[0].error
    drivers.between = []
    drivers.counts["eth0"] = mlx5((3,))
    assert rows(session.read())["eth0"] == expected((3,))


def test_a_read_costs_one_question_for_values_between_two_for_names(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    session = roce.open(host, OFTEN).sessions()["eth0"]
    drivers.counts["eth0"] = mlx5((3,))
    first = session.read()
    drivers.asked.clear()
    second = session.read()
    assert drivers.asked == ["names", "values", "names"]
    assert second.parts is first.parts
    assert second.queries == 43


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("driver", "period", "queries"), [("mlx5_core", 120.0, 43), ("bnxt_en", 10.0, 0)])
def test_a_driver_that_asks_its_firmware_is_read_seldom(
    tmp_path: Path, driver: str, period: float, queries: int
) -> None:
    """Between two reads the last one stands with its own time; from the first wait on, interfaces take turns."""
    host, drivers = machine(tmp_path, *(f"eth{n}" for n in range(8)), driver=driver)
    clock = Clock()
    host.monotonic = clock  # type: ignore[method-assign]
    sessions = roce.open(host, roce.config()).sessions()
    first = {}
    for name, session in sessions.items():
        drivers.counts[name] = mlx5((3,))
        first[name] = session.read()
        assert {part.period for part in first[name].parts} == {period}
        assert (first[name].taken, first[name].queries) == (1000.0, queries)
        drivers.counts[name] = mlx5((3,), base=5)
    reads: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(60):
        clock.now += 10.0
        for name, session in sessions.items():
            reading = session.read()
            fresh = reading.taken == clock.now
            if fresh:
                reads[name].append(clock.now)
            assert reading.queries == (queries if fresh else 0)
            assert clock.now - reading.taken < period
            base = 0 if not reads[name] else 5
            assert rows(reading)[name] == expected((3,), base=base)
    for times in reads.values():
        assert all(b - a == period for a, b in itertools.pairwise(times))
    if period > 10.0:
        assert len({times[0] for times in reads.values()}) > 3, "not all at once"


def test_what_the_server_has_no_use_for_stays_on_the_node(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    drivers.counts["eth0"] = {"made_by_firmware": 1, "rx_prio3_bytes": 2, "rx_prio3_pause": 3, "rx_prio3_discards": 4}
    reading = roce.open(host, roce.config()).sessions()["eth0"].read()
    assert {part.columns: part.wire for part in reading.parts} == {
        ("pfc_rx_frames_prio3", "prio_rx_discards_prio3"): True,
        ("prio_rx_prio3", "raw:ethtool/made_by_firmware", "statistics_left_out"): False,
    }
    assert list(reading.values) == [3, 4, 2, 1, 0]


def test_one_session_an_interface_and_a_failing_driver_costs_its_own_values(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0", "eth1", "eth2")
    drivers.counts = {"eth0": mlx5((3,)), "eth1": HostError("GSTATS", errno.EIO, "Input/output error")}
    sessions = roce.open(host, roce.config(exclude=("eth9",))).sessions()
    assert sorted(sessions) == ["eth0", "eth1", "eth2"]
    assert "eth0" in rows(sessions["eth0"].read())
    with pytest.raises(HostError, match="Input/output"):
        sessions["eth1"].read()
    assert sessions["eth2"].read().parts == ()  # its driver has no statistics
    assert sorted(roce.open(host, roce.config(exclude=("eth[12]",))).sessions()) == ["eth0"]


def test_the_interface_of_an_rdma_port_has_the_ports_row_and_says_which_roce(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0", "eth1", "eth2")
    for n, types in enumerate((("IB/RoCE v1", "RoCE v2"), ("IB/RoCE v1",), ())):
        port = rdma_port(tmp_path, f"mlx5_{n}", f"eth{n}")
        (port / "gid_attrs/types").mkdir()
        for i, kind in enumerate(types):
            (port / f"gid_attrs/types/{i}").write_text(f"{kind}\n")
        (port.parent.parent / "node_type").write_text("4: RNIC\n" if n == 2 else "1: CA\n")
        drivers.counts[f"eth{n}"] = mlx5((3,))
    sessions = roce.open(host, roce.config()).sessions()
    found = {name: labels(session.read()) for name, session in sessions.items()}
    assert found["eth0"] == {"mlx5_0/1": {"netdev": "eth0", "device": "mlx5_0", "port": "1"}}
    assert found["eth2"]["mlx5_2/1"]["rdma_protocol"] == "iwarp"

    class Known:
        def __init__(self, name: str) -> None:
            self.name, self.protocol = name, "roce"

    host.rdma_devices = lambda: [Known("mlx5_0"), Known("mlx5_1")]  # type: ignore[method-assign]
    sessions = roce.open(host, roce.config()).sessions()
    versions = {name: labels(s.read())[f"mlx5_{name[3:]}/1"].get("roce_version") for name, s in sessions.items()}
    assert versions == {"eth0": "v2", "eth1": "v1", "eth2": None}
