"""The agent on a real kernel's ethtool and dcbnl: every value that was set arrives under its canonical name.

One virtual machine is booted for all tests; `inside_vm_ethernet.py` drives it and reports, these tests compare.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.qos import COMPARED
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules.config_drift import RULE
from fabricmon.topology.domains import assign

pytestmark = pytest.mark.vm

# concepts of docs/methods.md#ethernet-counters, written down apart from the catalogue: (name there, metric, scale)
PRIORITY = {
    "rx_prio{}_pause": ("pfc_rx_frames_total", 1),
    "tx_prio{}_pause": ("pfc_tx_frames_total", 1),
    "rx_prio{}_pause_duration": ("pfc_rx_pause_seconds_total", 1e-6),
    "tx_prio{}_pause_duration": ("pfc_tx_pause_seconds_total", 1e-6),
    "rx_prio{}_pause_transition": ("pfc_rx_transitions_total", 1),
    "rx_prio{}_bytes": ("prio_rx_bytes_total", 1),
    "tx_prio{}_bytes": ("prio_tx_bytes_total", 1),
    "rx_prio{}_packets": ("prio_rx_packets_total", 1),
    "tx_prio{}_packets": ("prio_tx_packets_total", 1),
    "rx_prio{}_discards": ("prio_rx_discards_total", 1),
    "rx_prio{}_buf_discard": ("prio_rx_buffer_discards_total", 1),
    "rx_prio{}_cong_discard": ("prio_rx_congestion_discards_total", 1),
    "rx_prio{}_marked": ("prio_ecn_marked_total", 1),
}
PLAIN = {
    "rx_out_of_buffer": ("netdev_out_of_buffer_total", 1),
    "rx_vport_rdma_unicast_packets": ("vport_rdma_rx_packets_total", 1),
    "rx_vport_rdma_unicast_bytes": ("vport_rdma_rx_bytes_total", 1),
    "tx_vport_rdma_unicast_packets": ("vport_rdma_tx_packets_total", 1),
    "tx_vport_rdma_unicast_bytes": ("vport_rdma_tx_bytes_total", 1),
    "tx_packets_phy": ("phy_tx_packets_total", 1),
    "rx_packets_phy": ("phy_rx_packets_total", 1),
    "tx_bytes_phy": ("phy_tx_bytes_total", 1),
    "rx_bytes_phy": ("phy_rx_bytes_total", 1),
    "rx_crc_errors_phy": ("eth_fcs_errors_total", 1),
    "rx_discards_phy": ("phy_rx_discards_total", 1),
    "tx_discards_phy": ("phy_tx_discards_total", 1),
    "tx_errors_phy": ("phy_tx_errors_total", 1),
    "link_down_events_phy": ("link_down_events_total", 1),
    "tx_pause_ctrl_phy": ("pause_tx_frames_total", 1),
    "rx_pause_ctrl_phy": ("pause_rx_frames_total", 1),
    "rx_pcs_symbol_err_phy": ("phy_uncorrected_symbols_total", 1),
    "rx_corrected_bits_phy": ("phy_corrected_bit_errors_total", 1),
    "rx_symbol_err_phy": ("eth_symbol_errors_total", 1),
    "tx_pause_storm_warning_events": ("pfc_storm_warning_total", 1),
    "tx_pause_storm_error_events": ("pfc_storm_error_total", 1),
    "module_unplug": ("module_unplugs_total", 1),
    "module_bad_shorted": ("module_shorted_total", 1),
    "outbound_pci_stalled_rd": ("pcie_stalled_read_ratio", 0.01),
    "outbound_pci_stalled_wr": ("pcie_stalled_write_ratio", 0.01),
    "rx_pci_signal_integrity": ("pcie_rx_signal_errors_total", 1),
    "tx_pci_signal_integrity": ("pcie_tx_signal_errors_total", 1),
    "std_fec_corrected_blocks": ("fec_corrected_blocks_total", 1),
    "std_fec_uncorrectable_blocks": ("fec_uncorrectable_blocks_total", 1),
    "std_fec_corrected_bits": ("fec_corrected_bit_errors_total", 1),
    "std_fcs_errors": ("mac_fcs_errors_total", 1),
    "std_symbol_errors": ("mac_symbol_errors_total", 1),
}
RAW = {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes"}  # the kernel's own traffic: under the driver's names
NEWER = {"ext_link_down_events": ("phy_link_down_events_total", 1)}  # kernel 6.12
PAUSE = {metric for name, (metric, _) in PRIORITY.items() if "pause" in name}

Page = dict[tuple[str, str, str], float]


def read(path: Path) -> Page:
    """(metric without its prefix, device, priority, lane or file) -> value."""
    found: Page = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            if sample.name.startswith("fabricmon_port_"):
                labels = sample.labels
                which = labels.get("priority") or labels.get("lane") or labels.get("file") or labels.get("limit") or ""
                found[sample.name.removeprefix("fabricmon_port_"), labels.get("device", ""), which] = sample.value
    return found


def place(name: str, kernel: str) -> tuple[str, str, float] | None:
    """Where a value that was set has to be: metric, priority or lane, scale. None: nowhere on this kernel."""
    if name in PLAIN:
        return PLAIN[name][0], "", PLAIN[name][1]
    if name in NEWER:
        return (NEWER[name][0], "", 1) if not kernel.startswith("6.1.") else None
    if match := re.fullmatch(r"rx_err_lane_(\d)_phy", name):
        return "lane_corrected_bit_errors_total", match[1], 1
    if name in RAW:
        return "raw", name, 1
    match = re.fullmatch(r"([rt]x_prio)(\d)(_\w+)", name)
    assert match, name
    metric, scale = PRIORITY[f"{match[1]}{{}}{match[3]}"]
    return metric, match[2], scale


@pytest.fixture(scope="module")
def facts(vm):
    """What `inside_vm_ethernet.py` reported."""
    return json.loads((vm / "facts-ethernet.json").read_text())


@pytest.fixture(scope="module")
def first(vm) -> Page:
    return read(vm / "first.prom")


def test_every_value_that_was_set_arrives_under_its_canonical_name(first, facts):
    wrong, compared = [], 0
    for port, values in facts["set"].items():
        device = f"mlx5_{port[-1]}"
        for name, value in values.items():
            where = place(name, facts["kernel"])
            if where is None:
                continue
            metric, which, scale = where
            compared += 1
            shown = first.get((metric, device, which), math.nan)
            if not math.isclose(shown, value * scale, rel_tol=1e-12):
                wrong.append(f"{port} {name}: set {value}, {metric} {which} shows {shown}")
    assert wrong == []
    assert compared >= 8 * (35 + 13 * 8 + 5)


def test_settings_are_read(first, facts):
    def of(metric: str) -> list[float]:
        return [first[metric, f"mlx5_{n}", ""] for n in range(8)]

    assert of("pfc_enabled") == [8, 8, 8, 8, 8, 16, 8, 8]
    assert of("pfc_classes") == [8] * 8
    assert of("app_entries") == [1] * 8
    assert of("dscp_trusted") == [1] * 8
    assert of("pause_rx_enabled") == [0, 0, 0, 1, 0, 0, 0, 0]
    assert of("qos_mtu_bytes") == [4200] * 6 + [1500, 4200]
    assert of("fec_mode") == [50] * 8
    assert [first["ets_class", "mlx5_0", str(prio)] for prio in range(8)] == list(range(8))


def test_ports_that_are_set_otherwise_are_found_and_named(first, facts):
    """The eight ports as one rail of eight hosts, under the server's own rule."""
    columns = [c for c in (*COMPARED, "qos_fingerprint") if (CATALOGUE[c].metric[15:], "mlx5_0", "") in first]
    fleet, now = Fleet(), 1000.0
    for n in range(8):
        component = Component("mlx5_0/1", {"device": "mlx5_0", "port": "1", "role": "compute"})
        part = Part("qos", Kind.PORT, tuple(columns), (component,), 4.0)
        fleet.inventory(f"host-{n}", Inventory(1, Identity(f"host-{n}", "b", f"a{n}", "1", 1.0), (part,)), now)
    table = fleet.tables[Kind.PORT]
    table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {})
    for n in range(8):
        values = np.array([first[CATALOGUE[c].metric[15:], f"mlx5_{n}", ""] for c in columns])
        assert fleet.frame(f"host-{n}", Frame(1, 1, now, np.array([now]), None, values), now)
    fleet.advance(now)
    view, params = View(table, now), RULE.params()
    outcome = RULE.test(view, params)
    odd = {table.ids[row].node: RULE.info(view, row, params)["differs"] for row in np.flatnonzero(outcome.fire)}
    assert odd == {
        "host-3": "global pause Rx, ETS",
        "host-5": "priority flow control",
        "host-6": "MTU",
    }
    assert outcome.known.all()


@pytest.mark.parametrize("enabled", [8, 16, 24, 136])
def test_names_that_move_between_reads_do_no_harm(vm, facts, enabled):
    page = read(vm / f"pfc-{enabled}.prom")
    check_pause(page, facts["set"]["fabeth1"], {p for p in range(8) if enabled >> p & 1})


def test_names_that_move_during_reads_do_no_harm(vm, facts):
    pages = sorted(vm.glob("mixed-*.prom"))
    assert len(pages) >= 2
    for path in pages:
        page = read(path)
        shown = {int(which) for metric, device, which in page if device == "mlx5_1" and metric in PAUSE}
        # One at a time, none while they moved, or what was enabled before they began to move.
        assert len(shown) <= 1 or shown == {3, 7}
        check_pause(page, facts["set"]["fabeth1"], shown)


def check_pause(page: Page, values: dict[str, int], enabled: set[int]) -> None:
    """Pause counters of mlx5_1 are those of the enabled priorities, each with the value that was set for it."""
    for name, (metric, scale) in PRIORITY.items():
        for prio in range(8):
            shown = page.get((metric, "mlx5_1", str(prio)))
            if "pause" in name and prio not in enabled:
                assert shown is None, (metric, prio)
            elif shown is not None:
                assert math.isclose(shown, values[name.format(prio)] * scale, rel_tol=1e-12), (metric, prio)


def test_a_driver_that_answers_late_costs_only_its_own(vm, facts):
    page = read(vm / "slow.prom")
    for n in (0, 1, 3, 4, 5, 6, 7):
        assert page["phy_rx_discards_total", f"mlx5_{n}", ""] == 77_000 + n
    late = page.get(("phy_rx_discards_total", "mlx5_2", ""), math.nan)
    assert math.isnan(late) or late in (facts["set"]["fabeth2"]["rx_discards_phy"], 77_002)


def test_why_a_link_is_down(vm):
    page = read(vm / "slow.prom")
    assert page["link_down_reason", "mlx5_7", ""] == 4  # no cable
    assert ("link_down_reason", "mlx5_0", "") not in page


def test_a_modules_memory_is_read(first):
    assert first["module_temperature_celsius", "mlx5_0", ""] == 54
    assert first["module_voltage_volts", "mlx5_0", ""] == pytest.approx(3.3)
    for lane in range(4):
        assert first["module_rx_power_watts", "mlx5_0", str(lane)] == pytest.approx((9000 + lane) * 1e-7)
        assert first["module_tx_bias_amperes", "mlx5_0", str(lane)] == pytest.approx((4000 + lane) * 2e-6)
    assert first["module_temperature_limit_celsius", "mlx5_0", "high_alarm"] == 75


def test_a_lost_carrier_is_reported_as_an_event(facts):
    told = facts["flap"]["event"]["event"]
    assert told["component"] == "mlx5_4/1"
    assert told["fields"]["carrier"] == 0


def test_agent_stops_cleanly(facts):
    assert facts["exit"] == 0
