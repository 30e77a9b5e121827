"""The agent on a real kernel's RDMA interfaces: its values are those that were set, and bad ports cost only themselves.

One virtual machine is booted for all tests; `inside_vm.py` drives it and reports, these tests compare.
"""

import json
import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fabricmon.catalogue import CATALOGUE
from tests.vm.guest import metric

pytestmark = pytest.mark.vm

# Widths of the counters of the performance management class: the kernel shows a narrow one at its top as full.
TOPS = {"link_downed": 255}
# Bytes are counted in 4-byte words at the source.
WORDS = {"port_xmit_data", "port_rcv_data"}


class Page:
    """Samples of one /metrics page by metric name and (device, port)."""

    def __init__(self, path: Path) -> None:
        self.samples: dict[str, dict[tuple[str, str], float]] = {}
        self.full: set[tuple[str, str]] = set()
        for family in text_string_to_metric_families(path.read_text()):
            for sample in family.samples:
                where = (sample.labels.get("device", ""), sample.labels.get("port", ""))
                cells = self.samples.setdefault(sample.name, {})
                cells[where] = cells.get(where, 0.0) + sample.value  # summed over labels that no test looks at
                if sample.name == "fabricmon_port_saturated" and sample.value:
                    self.full.add((where[0], sample.labels["counter"]))

    def value(self, metric: str, device: str) -> float:
        """NaN where the page has no such sample."""
        return self.samples.get(metric, {}).get((device, "1"), math.nan)


@pytest.fixture(scope="session")
def facts(vm):
    return json.loads((vm / "facts.json").read_text())


def differences(page: Page, wanted: dict[str, dict[str, int]]) -> list[str]:
    """Every counter of every device that the page does not show with the value that was set."""
    wrong = []
    for device, counters in wanted.items():
        for key, raw in counters.items():
            value = min(raw, TOPS.get(key, raw)) * (4 if key in WORDS else 1)
            shown = page.value(metric(key), device)
            if shown != value:
                wrong.append(f"{device} {key}: set {value}, shown {shown}")
    return wrong


@pytest.mark.parametrize("path", ["netlink", "files"])
def test_every_counter_has_the_value_that_was_set(vm, facts, path):
    wanted = facts["first"]
    wanted["mlx5_8"]["link_downed"] = 999
    assert sum(map(len, wanted.values())) == 9 * 49
    assert differences(Page(vm / f"first-{path}.prom"), wanted) == []


@pytest.mark.parametrize("path", ["netlink", "files"])
def test_counter_at_its_top_is_shown_as_saturated_and_no_other(vm, path):
    assert Page(vm / f"first-{path}.prom").full == {("mlx5_8", "link_downed")}


@pytest.mark.parametrize("path", ["netlink", "files"])
def test_state_and_rate_of_each_port(vm, facts, path):
    page = Page(vm / f"first-{path}.prom")
    for device in facts["devices"]:
        assert page.value("fabricmon_port_state", device) == 4  # active
        assert page.value("fabricmon_port_phys_state", device) == 5  # link_up
        assert page.value("fabricmon_port_rate_bytes_per_second", device) == 400e9 / 8
        assert page.value("fabricmon_port_width_lanes", device) == 4
    assert page.value("fabricmon_port_lid", "mlx5_8") == 9


def test_slow_and_failing_port_cost_only_themselves(vm, facts):
    page = Page(vm / "faulty.prom")
    bad = {facts["slow"], facts["failing"]}
    healthy = {device: counters for device, counters in facts["moved"].items() if device not in bad}
    healthy["mlx5_8"]["link_downed"] = 999
    assert differences(page, healthy) == []


def test_failing_port_is_unknown_and_not_zero(vm, facts):
    page = Page(vm / "faulty.prom")
    for key in facts["first"][facts["failing"]]:
        assert math.isnan(page.value(metric(key), facts["failing"])), key


def test_slow_port_never_shows_a_value_that_was_not_set(vm, facts):
    page = Page(vm / "faulty.prom")
    shown = page.value(metric("symbol_error"), facts["slow"])
    old, new = (facts[when][facts["slow"]]["symbol_error"] for when in ("first", "moved"))
    assert math.isnan(shown) or shown in (old, new)


def test_faults_are_counted_where_they_are(vm, facts):
    faults = Page(vm / "faulty.prom").samples["fabricmon_collector_device_faults"]
    assert {device for (device, _), count in faults.items() if count} >= {facts["failing"]}


def test_recovered_ports_are_read_again(vm, facts):
    wanted = facts["moved"]
    wanted["mlx5_8"]["link_downed"] = 999
    assert differences(Page(vm / "recovered.prom"), wanted) == []


KINDS = ("clean", "loss", "reordering")
RXE = ("rxe0", "rxe1")


def moved(facts, kind: str, device: str, name: str) -> int:
    seen = facts["traffic"][kind]
    return int(seen["after"][device][name]) - int(seen["before"][device][name])


@pytest.mark.parametrize("kind", KINDS)
def test_soft_roce_counters_are_the_same_by_files_by_rdma_tool_and_on_the_page(vm, facts, kind):
    seen, page = facts["traffic"][kind], Page(vm / f"traffic-{kind}.prom")
    known = {key for counter in CATALOGUE.values() if counter.source == "hw_counters" for key in counter.keys}
    for device in RXE:
        counters = {name: int(text) for name, text in seen["after"][device].items() if name in known}
        assert len(counters) >= 12
        shown = {name: page.value(metric(name, "hw_counters"), device) for name in counters}
        assert shown == counters  # RDMA netlink, by the agent
        assert {name: seen["rdma"][device][name] for name in counters} == counters  # RDMA netlink, by iproute2


@pytest.mark.parametrize("kind", KINDS)
def test_traffic_moves_the_soft_roce_counters_that_the_agent_reads(facts, kind):
    assert facts["traffic"][kind]["exit"] == 0, facts["traffic"][kind]["told"]
    assert moved(facts, kind, "rxe0", "sent_pkts") >= 1200
    assert moved(facts, kind, "rxe1", "rcvd_pkts") >= 1200  # 300 messages of 4096 bytes, 1024 in a packet


def test_loss_and_reordering_move_the_counters_that_stand_for_them(facts):
    for kind in ("loss", "reordering"):
        assert moved(facts, kind, "rxe1", "out_of_seq_request") > moved(facts, "clean", "rxe1", "out_of_seq_request")
        assert moved(facts, kind, "rxe0", "rcvd_seq_err") > moved(facts, "clean", "rxe0", "rcvd_seq_err")
        # the way back was whole, and nobody's link went down
        assert moved(facts, kind, "rxe0", "out_of_seq_request") == moved(facts, kind, "rxe1", "link_downed") == 0


def test_carrier_flap_is_reported_at_once_as_an_event_of_the_rdma_port(facts):
    assert facts["down"] == "0"
    event = facts["events"][-1]
    assert event["type"] == "event"
    assert "mlx5_0/1" in json.dumps(event)


def test_agent_stops_cleanly(facts):
    assert facts["exit"] == [0]
