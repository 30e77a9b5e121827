"""GPUs and NVLinks through nvidia-ml-py, against a C library that plays H100, GB200 and an old driver."""

from __future__ import annotations

import ctypes
import errno
import math
import queue
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.gpu import fabric_health
from fabricmon.catalogue.nvlink import LINK_FIELDS, bit_error_ratio
from fabricmon.collect import COLLECTORS
from fabricmon.host import archive_file
from fabricmon.host.live import LiveHost
from fabricmon.host.nvml import Nvml, pci_address
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.host.recorded import RecordedHost
from fabricmon.host.recording import RecordingHost
from fabricmon.model import Event, Kind, Reading

gpu = COLLECTORS["gpu"]
nvlink = COLLECTORS["nvlink"]

LINKS = 18
Cells = dict[tuple[str, str], float]


def cells(reading: Reading) -> Cells:
    found: Cells = {}
    at = 0
    for part in reading.parts:
        for component in part.components:
            for column in part.columns:
                assert (component.name, column) not in found
                found[component.name, column] = reading.values[at]
                at += 1
    assert at == len(reading.values)
    return found


def sessions(module: ModuleType, host: Host | None = None, **config: Any) -> dict[str, Any]:
    return dict(module.open(host or LiveHost(), module.config(**config)).sessions())


def raw(gpu: int, link: int, field: int) -> float:
    """What the stand-in counts."""
    return gpu * 1e6 + link * 1e4 + field


@pytest.fixture
def h100(plan: Any) -> Any:
    plan.only("class h100")
    return plan


@pytest.fixture
def gb200(plan: Any) -> Any:
    plan.only("class gb200", "gpus 4")
    return plan


# --- what healthy machines tell


def test_every_link_of_an_h100_has_its_own_values(h100: Any) -> None:
    found = sessions(nvlink)
    assert list(found) == [f"gpu{n}" for n in range(8)]
    for n, session in enumerate(found.values()):
        reading = session.read()
        known = cells(reading)
        assert reading.faults == ()
        for link in range(LINKS):
            row = f"gpu{n}/link{link}"
            expected = {
                "nvlink_state": 1.0,
                "nvlink_version": 6.0,
                "nvlink_power_state": 0.0,
                "nvlink_speed": 26562e6,
                "nvlink_tx": 1024 * raw(n, link, 138),
                "nvlink_rx": 1024 * raw(n, link, 139),
                "nvlink_tx_raw": 1024 * raw(n, link, 140),
                "nvlink_rx_raw": 1024 * raw(n, link, 141),
                "nvlink_replay_errors": raw(n, link, 161),
                "nvlink_recovery_errors": raw(n, link, 162),
                "nvlink_crc_errors": raw(n, link, 163),
            }
            assert {c: v for (r, c), v in known.items() if r == row} == expected
        row = f"gpu{n}"
        assert known[row, "gpu_nvlinks"] == known[row, "gpu_nvlinks_active"] == 18
        assert known[row, "gpu_nvlinks_to_switch"] == 18
        assert known[row, "gpu_nvlinks_inactive_mask"] == 0
        assert known[row, "gpu_nvlink_crc_errors"] == sum(raw(n, link, 163) for link in range(LINKS))
        assert known[row, "gpu_nvlink_replay_errors"] == sum(raw(n, link, 161) for link in range(LINKS))
        assert known[row, "gpu_nvlink_recoveries"] == sum(raw(n, link, 162) for link in range(LINKS))
        assert known[row, "gpu_nvlink_worst"] == 17
        assert math.isnan(known[row, "gpu_nvlink_critical_errors"])
        assert math.isnan(known[row, "gpu_nvlink_effective_ber"])


def test_nvlink_5_counts_otherwise(gb200: Any) -> None:
    gb200.say("value 1 220 5 1036", "value 1 222 5 65535", "value 1 293 5 2055")  # 4e-12; none, beyond 12 bits; 8e-7
    session = sessions(nvlink)["gpu1"]
    known = cells(session.read())
    row = "gpu1/link5"
    for column, field in {
        "nvlink_tx": 202, "nvlink_rx": 204, "nvlink_tx_packets": 201, "nvlink_rx_packets": 203,
        "nvlink_malformed_packet_errors": 206, "nvlink_buffer_overrun_errors": 207, "nvlink_rcv_errors": 208,
        "nvlink_rcv_remote_errors": 209, "nvlink_rcv_general_errors": 210, "nvlink_local_link_integrity_errors": 211,
        "nvlink_xmit_discards": 212, "nvlink_recoveries_successful": 213, "nvlink_recoveries_failed": 214,
        "nvlink_recoveries": 215, "nvlink_effective_errors": 219, "nvlink_symbol_errors": 221,
        **{f"nvlink_fec_corrected_{bin}": 235 + bin for bin in range(16)},
    }.items():  # fmt: skip
        assert known[row, column] == raw(1, 5, field), column
    assert known[row, "nvlink_speed"] == 53125e6
    assert known[row, "nvlink_effective_ber"] == pytest.approx(4e-12)
    assert known[row, "nvlink_symbol_ber"] == 0.0
    assert known[row, "nvlink_raw_ber"] == pytest.approx(8e-7)
    assert known["gpu1/link4", "nvlink_effective_ber"] == 0.0
    assert known["gpu1", "gpu_nvlink_effective_ber"] == pytest.approx(4e-12)
    assert math.isnan(known["gpu1", "gpu_nvlink_crc_errors"])
    bad = (206, 207, 208, 210, 211, 212, 214, 221)
    assert known["gpu1", "gpu_nvlink_critical_errors"] == sum(raw(1, n, f) for n in range(LINKS) for f in bad)
    assert not {c for _, c in known} & {"nvlink_crc_errors", "nvlink_replay_errors", "nvlink_tx_raw"}


def test_the_histogram_of_corrected_codewords_can_be_left_out(gb200: Any) -> None:
    known = cells(sessions(nvlink, fec_histogram=False)["gpu0"].read())
    assert not [column for _, column in known if "fec_corrected" in column]
    assert ("gpu0/link0", "nvlink_symbol_errors") in known


def test_an_old_driver_has_fields_by_link_and_tells_states_by_call(plan: Any) -> None:
    plan.only("class a100", "links 12", "state 2 11 0")
    known = cells(sessions(nvlink)["gpu2"].read())
    for link in range(12):
        at = 32 + link if link < 6 else 96 + link - 6
        assert known[f"gpu2/link{link}", "nvlink_crc_flit_errors"] == raw(2, 0, at)
        assert known[f"gpu2/link{link}", "nvlink_speed"] == 25781e6
        assert known[f"gpu2/link{link}", "nvlink_state"] == (link != 11)
    assert known["gpu2", "gpu_nvlinks_active"] == 11
    assert known["gpu2", "gpu_nvlinks_inactive_mask"] == 1 << 11
    flits = [32 + n for n in range(6)] + [96 + n for n in range(6)]
    data = [39 + n for n in range(6)] + [102 + n for n in range(6)]
    assert known["gpu2", "gpu_nvlink_crc_errors"] == sum(raw(2, 0, f) for f in flits + data)


def test_the_row_of_a_gpu(h100: Any) -> None:
    reading = sessions(gpu)["gpu3"].read()
    known = {column: value for (_, column), value in cells(reading).items()}
    labels = reading.parts[0].components[0].labels
    assert labels == {
        "gpu": "3", "uuid": "GPU-00000000-0000-0000-0000-000000000003", "pci": "0000:4b:00.0",
        "model": "NVIDIA H100 80GB HBM3", "driver": "580.105.08",
    }  # fmt: skip
    assert (known["gpu_pcie_generation"], known["gpu_pcie_max_generation"]) == (4, 5)
    assert (known["gpu_pcie_width"], known["gpu_pcie_max_width"]) == (8, 16)
    assert known["gpu_pcie_replays"] == raw(3, 0, 94)
    assert (known["gpu_fabric_state"], known["gpu_fabric_status"]) == (3, 0)
    assert math.isnan(known["gpu_fabric_degraded_bandwidth"])
    assert [p.wire for p in reading.parts] == [True, False]
    for part in reading.parts:
        assert {CATALOGUE[c].wire for c in part.columns} == {part.wire}


def test_pcie_traffic_is_the_mean_since_the_last_reading(h100: Any, loaded: ctypes.CDLL) -> None:
    held = loaded.fake_samples_held()
    h100.say("traffic 3 1000 20")
    session = sessions(gpu)["gpu3"]
    assert math.isnan(cells(session.read())["gpu3", "gpu_pcie_tx"])
    for _ in range(3):
        known = cells(session.read())
        assert (known["gpu3", "gpu_pcie_tx"], known["gpu3", "gpu_pcie_rx"]) == (1000 * 2**20, 20 * 2**20)
    assert loaded.fake_samples_held() == held + 1
    for call in ("nvmlGpmSampleGet", "nvmlGpmMetricsGet"):
        h100.only("class h100", f"call {call} 3 999")
        known = cells(session.read())
        assert math.isnan(known["gpu3", "gpu_pcie_tx"])
        assert known["gpu3", "gpu_pcie_width"] == 8
    assert loaded.fake_samples_held() <= held + 1


def test_costly_fields_are_read_once_a_minute(h100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that rules evaluate each time; the others keep their value, or its error, meanwhile."""
    host, now = LiveHost(), [1000.0]
    monkeypatch.setattr(host, "monotonic", lambda: now[0])
    session = sessions(gpu, host)["gpu3"]
    session.read()
    h100.say("value 3 94 0 7", "value 3 176 0 8", "code 3 177 0 999")
    seen = []
    for _ in range(13):
        now[0] += 10
        reading = session.read()
        known = cells(reading)
        seen.append((known["gpu3", "gpu_pcie_replays"], known["gpu3", "gpu_pcie_bad_tlp"], len(reading.faults)))
    assert seen[:5] == [(7, raw(3, 0, 176), 0)] * 5
    assert seen[5:] == [(7, 8, 1)] * 8


def test_a_gpu_without_gpm_has_no_pcie_traffic(plan: Any) -> None:
    plan.only("class a100")
    session = sessions(gpu)["gpu0"]
    assert not any(column in {"gpu_pcie_tx", "gpu_pcie_rx"} for _ in "12" for _, column in cells(session.read()))


def test_a_gpu_that_supports_no_fabric_has_no_columns_of_one(h100: Any) -> None:
    """As one H100 that a hypervisor gave to a virtual machine answers."""
    h100.say("fabric 0 0 0 0 0 0 0")
    assert not {column for _, column in cells(sessions(gpu)["gpu0"].read()) if column.startswith("gpu_fabric")}


def test_place_and_partition_of_a_rack_are_labels(gb200: Any) -> None:
    session = sessions(gpu)["gpu1"]
    first = session.read()
    labels = first.parts[0].components[0].labels
    assert {k: labels[k] for k in ("cluster", "clique", "chassis", "slot", "tray", "module")} == {
        "cluster": "00000000-0000-0000-0000-000000000001", "clique": "2", "chassis": "1820000000001",
        "slot": "200", "tray": "4", "module": "2",
    }  # fmt: skip
    known = cells(first)
    assert known["gpu1", "gpu_fabric_degraded_bandwidth"] == 0
    assert known["gpu1", "gpu_fabric_partition_assigned"] == 1
    assert known["gpu1", "gpu_fabric_incorrect_configuration"] == 1
    assert session.read().parts is first.parts
    gb200.say("fabric 1 3 0 9 1 0x1200 2")  # another clique, no supported bit but "partition" and "configuration"
    later = session.read()
    assert later.parts[0].components[0].labels["clique"] == "9"
    assert later.parts[0].components[0].labels["cluster"] == "01010101-0101-0101-0101-010101010101"
    known = cells(later)
    assert known["gpu1", "gpu_fabric_incorrect_configuration"] == 2
    assert known["gpu1", "gpu_fabric_partition_assigned"] == 1
    assert math.isnan(known["gpu1", "gpu_fabric_route_unhealthy"])


def test_a_registration_that_is_not_complete_has_no_outcome(gb200: Any) -> None:
    gb200.say("fabric * 2 0 0 0 0 0")
    reading = sessions(gpu)["gpu0"].read()
    assert cells(reading)["gpu0", "gpu_fabric_state"] == 2
    assert math.isnan(cells(reading)["gpu0", "gpu_fabric_status"])
    assert "clique" not in reading.parts[0].components[0].labels


@pytest.mark.parametrize(("links", "slots"), [(12, 18), (0, 18), (18, 36), (18, 0)])
def test_a_number_that_no_link_has_is_no_link(links: int, slots: int, h100: Any) -> None:
    """As NVIDIA's nvml-mock answers for an A100 of 12 links, and for a B200 without any."""
    h100.say(f"links {links}", f"slots {slots}")
    known = cells(sessions(nvlink)["gpu1"].read())
    assert len({row for row, _ in known if "/" in row}) == links
    assert known.get(("gpu1", "gpu_nvlinks_active"), 0.0) == links


def test_the_last_link_that_goes_down_is_still_counted(h100: Any) -> None:
    """Where the driver counts the links that are active: NVML field 91 of nvml-mock."""
    session = sessions(nvlink)["gpu0"]
    session.read()
    h100.say("state 0 17 0", "value 0 91 0 17")
    session.read()
    known = cells(session.read())
    assert (known["gpu0", "gpu_nvlinks"], known["gpu0", "gpu_nvlinks_active"]) == (18, 17)
    assert known["gpu0", "gpu_nvlinks_inactive_mask"] == 1 << 17


def test_a_far_end_outside_the_machine_has_no_address(gb200: Any) -> None:
    (_, part) = sessions(nvlink)["gpu0"].read().parts
    assert {(row.labels["remote"], "remote_pci" in row.labels) for row in part.components} == {("switch", False)}


# --- what goes wrong


def test_a_field_in_trouble_costs_itself_only(h100: Any) -> None:
    session = sessions(nvlink)["gpu2"]
    session.read()
    h100.say("code 2 161 5 999")
    reading = session.read()
    known = cells(reading)
    assert math.isnan(known["gpu2/link5", "nvlink_replay_errors"])
    assert known["gpu2/link5", "nvlink_recovery_errors"] == raw(2, 5, 162)
    assert [(f.component, f.source) for f in reading.faults] == [("gpu2/link5", "NVML field 161")]
    assert "999" in reading.faults[0].error


def test_a_field_the_driver_has_not_is_no_column(h100: Any) -> None:
    h100.say("code * 140 * 3", "code * 141 * 2")
    reading = sessions(nvlink)["gpu0"].read()
    assert reading.faults == ()
    assert not [column for _, column in cells(reading) if "raw" in column]


def test_a_link_that_goes_down_keeps_its_share_of_the_sums(h100: Any) -> None:
    session = sessions(nvlink)["gpu3"]
    before = cells(session.read())
    h100.say("state 3 7 0")
    session.read()
    known = cells(session.read())
    assert known["gpu3/link7", "nvlink_state"] == 0
    assert known["gpu3", "gpu_nvlinks_active"] == 17
    assert known["gpu3", "gpu_nvlinks_inactive_mask"] == 1 << 7
    assert known["gpu3", "gpu_nvlinks_to_switch"] == 18
    assert math.isnan(known["gpu3/link7", "nvlink_crc_errors"])
    assert known["gpu3", "gpu_nvlink_crc_errors"] == before["gpu3", "gpu_nvlink_crc_errors"]
    h100.only("class h100")
    session.read()
    assert repr(cells(session.read())) == repr(before)


def test_a_gpu_off_the_bus_fails_alone_and_is_not_forgotten(h100: Any) -> None:
    collector = nvlink.open(LiveHost(), nvlink.config())
    before = collector.sessions()
    before["gpu3"].read()
    h100.say("call nvmlDeviceGetFieldValues 3 15", "call nvmlDeviceGetUUID 3 15")
    with pytest.raises(HostError) as caught:
        before["gpu3"].read()
    assert caught.value.errno == errno.ENODEV
    assert "NVML 15" in caught.value.text
    after = collector.sessions()
    assert after == before
    assert len(cells(after["gpu4"].read())) > 100
    h100.only("class h100")
    assert collector.sessions() == before
    before["gpu3"].read()


def test_a_gpu_that_was_lost_before_the_agent_came_is_reported(h100: Any) -> None:
    h100.say("call nvmlDeviceGetHandleByIndex 5 15")
    found = sessions(gpu)
    with pytest.raises(HostError, match="NVML 15"):
        found["gpu5"].read()
    found["gpu6"].read()


def test_another_gpu_under_the_same_number_is_another_session(h100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = LiveHost()
    collector = gpu.open(host, gpu.config())
    before = collector.sessions()
    told = host.gpus.gpus()
    left = [*told[:6], msgspec.structs.replace(told[7], index=6)]  # number 6 is gone, the last moved up
    monkeypatch.setattr(host.gpus, "gpus", lambda: left)
    after = collector.sessions()
    assert after["gpu0"] is before["gpu0"]
    assert after["gpu6"] is not before["gpu6"]
    assert after["gpu6"].gpu.uuid == told[7].uuid
    assert "gpu7" not in after


def test_a_driver_that_is_not_loaded_or_absent_is_quiet(plan: Any, tmp_path: Path) -> None:
    plan.path.unlink()
    assert sessions(gpu) == {}
    assert sessions(nvlink) == {}
    with pytest.raises(Unsupported, match="no NVIDIA driver library"):
        Nvml(str(tmp_path / "libnvidia-ml.so.1")).gpus()


def test_a_driver_replaced_under_the_agent_is_reported_and_taken_up_again(h100: Any) -> None:
    host = LiveHost()
    collector = gpu.open(host, gpu.config())
    session = collector.sessions()["gpu0"]
    h100.say("call nvmlDeviceGetFieldValues * 1", "call nvmlInit * 18")
    with pytest.raises(HostError, match="NVML 1"):
        session.read()
    with pytest.raises(HostError, match="NVML 18"):
        collector.sessions()
    h100.only("class h100")
    assert collector.sessions()["gpu0"] is session
    session.read()


# --- events


def test_xid_errors_come_at_once_and_are_counted(h100: Any) -> None:
    collector = gpu.open(LiveHost(), gpu.config())
    session = collector.sessions()["gpu2"]
    heard: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    stop = collector.watch(heard.put)
    assert cells(session.read())["gpu2", "gpu_xid_events"] == 0
    assert math.isnan(cells(session.read())["gpu2", "gpu_last_xid"])
    h100.say("xid 2 74", "xid 2 79")
    first, second = heard.get(timeout=120), heard.get(timeout=120)
    stop()
    assert first is not None
    assert second is not None
    assert (first.kind, first.of, first.component, first.fields) == ("xid", Kind.GPU, "gpu2", {"xid": 74.0})
    assert "Xid 79" in second.text
    assert "0000:3b:00.0" in second.text
    known = cells(session.read())
    assert (known["gpu2", "gpu_xid_events"], known["gpu2", "gpu_last_xid"]) == (2, 79)


def test_without_events_their_number_is_unknown(h100: Any) -> None:
    collector = gpu.open(LiveHost(), gpu.config(xid=False))
    collector.watch(lambda event: None)()
    assert math.isnan(cells(collector.sessions()["gpu0"].read())["gpu0", "gpu_xid_events"])


# --- recordings


@pytest.mark.parametrize("kind", ["h100", "gb200", "a100"])
def test_a_recording_answers_as_the_machine_did(kind: str, plan: Any, tmp_path: Path) -> None:
    plan.only(f"class {kind}", "gpus 2", "code 1 163 2 999", "call nvmlDeviceGetCurrPcieLinkWidth 1 3")
    recording = RecordingHost(LiveHost())
    told = {m.name: [s.read() for s in sessions(m, recording).values()] for m in (gpu, nvlink)}
    archive_file.save(recording.archive, str(tmp_path / "host.gz"))
    plan.path.unlink()
    again = RecordedHost(str(tmp_path / "host.gz"))
    for module in (gpu, nvlink):
        for before, session in zip(told[module.name], sessions(module, again).values(), strict=True):
            after = session.read()
            assert after.parts == before.parts
            assert [str(v) for v in after.values] == [str(v) for v in before.values]
            assert after.faults == before.faults
    with pytest.raises(Unsupported):
        again.gpus.watch(lambda event: None)


def test_an_anonymous_recording_does_not_name_the_gpus(gb200: Any) -> None:
    recording = RecordingHost(LiveHost())
    for session in sessions(gpu, recording).values():
        session.read()
    hidden = archive_file.anonymised(recording.archive, b"key")
    text = repr(hidden)
    for secret in ("GPU-00000000-0000-0000-0000-000000000001", "1820000000001"):
        assert secret in repr(recording.archive)
        assert secret not in text
    rows = [s.read().parts[0].components[0].labels for s in sessions(gpu, RecordedHost(hidden)).values()]
    assert len({labels["uuid"] for labels in rows}) == 4
    assert len({labels["cluster"] for labels in rows}) == 1


# --- arithmetic


@given(st.integers(0, 15), st.integers(0, 255), st.integers(0, 2**40))
def test_bit_error_ratios_are_mantissa_and_exponent(mantissa: int, exponent: int, above: int) -> None:
    found = bit_error_ratio(float(mantissa << 8 | exponent) + float(above >> 8) * 4096)
    if (mantissa, exponent) == (15, 255):
        assert found == 0
    else:
        assert found == pytest.approx(mantissa * 10.0**-exponent)


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_ratio_that_comes_as_one_is_kept(ratio: float) -> None:
    assert bit_error_ratio(ratio) == ratio


@given(st.integers(0, 2**16 - 1))
def test_two_bits_of_health_are_true_false_or_not_reported(mask: int) -> None:
    found = fabric_health(mask)
    for column, bit in (("gpu_fabric_degraded_bandwidth", 0), ("gpu_fabric_partition_assigned", 12)):
        two = mask >> bit & 3
        assert found[column] == {1: 1.0, 2: 0.0}[two] if two in (1, 2) else math.isnan(found[column])


def test_every_column_of_a_link_is_in_the_catalogue() -> None:
    for column in LINK_FIELDS:
        assert CATALOGUE[column].kind is Kind.NVLINK
        assert not CATALOGUE[column].wire


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0001:02:03.4", "0001:02:03.4"),
        ("", ""),
        ("none", ""),
        ("x:1:2.0", ""),
        ("FFFFFFFF:FF:FF.0", ""),
    ],
)
def test_pci_addresses_are_written_as_sysfs_does(text: str, address: str) -> None:
    assert pci_address(text) == address


def test_numbers_are_read_as_the_type_that_comes_with_them(h100: Any) -> None:
    host = LiveHost()
    h100.say(f"value 0 94 0 {2**63 - 1}")
    assert host.gpus.fields(0, [(94, 0)]).values == [float(2**63 - 1)]
    answer = host.gpus.fields(0, [(94, 0), (91, 0), (9999, 0)])
    assert answer.values[1] == 18
    assert answer.codes == [0, 0, 2]
    assert math.isnan(answer.values[2])
    assert host.gpus.fields(0, []) == ([], [])
