"""The infiniband collector on machines of files: every value, its unit, and what one bad file costs."""

from __future__ import annotations

import errno
import math
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE, RAW, column_of, counter_at
from fabricmon.collect import COLLECTORS
from fabricmon.collect.cost.refusal import Patience
from fabricmon.collect.infiniband import CounterSession
from fabricmon.collect.machine import files, port_counters
from fabricmon.collect.machine.port_counters import CounterFile, Tier
from fabricmon.collect.parse import attributes
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError, RdmaDevice
from fabricmon.model import Reading
from tests.host.trees import HW, build_hca_tree, link, put

infiniband = COLLECTORS["infiniband"]
infiniband_errors = COLLECTORS["infiniband_errors"]
infiniband_rare = COLLECTORS["infiniband_rare"]

PORT = "class/infiniband/mlx5_0/ports/1"
TIERS = (infiniband, infiniband_errors, infiniband_rare)


def cells(reading: Reading) -> dict[tuple[str, str], float]:
    """{(row, column): value}"""
    found: dict[tuple[str, str], float] = {}
    at = 0
    for part in reading.parts:
        for component in part.components:
            for column in part.columns:
                assert (component.name, column) not in found, "a column came twice"
                found[component.name, column] = reading.values[at]
                at += 1
    assert at == len(reading.values)
    return found


def read_all(host: LiveHost, **config: object) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for module in TIERS:
        for session in module.open(host, module.config(**config)).sessions().values():
            new = cells(session.read())
            assert not found.keys() & new.keys(), "two collectors have a column"
            found |= new
    return found


def read_one(host: LiveHost) -> dict[tuple[str, str], float]:
    (session,) = infiniband.open(host, infiniband.config()).sessions().values()
    return cells(session.read())


def test_every_file_of_the_408_is_exported_in_its_unit(tmp_path: Path) -> None:
    values = build_hca_tree(tmp_path)
    assert len(values) == 408
    found = read_all(LiveHost(str(tmp_path)))
    for path, value in values.items():
        *_, device, _, port, directory, name = path.split("/")
        if name == "link_downed":
            continue  # infiniband_state's
        counter = counter_at(directory, name)
        assert counter is not None, name
        factor = 4 if name in ("port_xmit_data", "port_rcv_data") else 1
        assert found[f"{device}/{port}", counter.name] == factor * value, path
    assert len(found) == 408 - 8 + 8  # without link_downed, with `supported`
    assert "lifespan" not in {column for _, column in found}


WANTED_OFTEN = {"symbol_error", "port_xmit_data", "port_rcv_data", "port_xmit_wait"}


@pytest.mark.parametrize(
    ("layer", "paces"),
    [
        ("InfiniBand", {"infiniband": (10, 4, 4), "infiniband_errors": (30, 35, 35), "infiniband_rare": (120, 11, 11)}),
        ("Ethernet", {"infiniband": (10, 2, 2), "infiniband_errors": (30, 30, 30), "infiniband_rare": (120, 18, 18)}),
    ],
)
def test_each_counter_is_read_as_often_as_it_is_wanted(
    tmp_path: Path, layer: str, paces: dict[str, tuple[float, int, int]]
) -> None:
    """Period, counters and what they cost; all 30 hw_counters together cost three commands."""
    build_hca_tree(tmp_path, devices=1)
    put(tmp_path / PORT / "link_layer", f"{layer}\n")
    found = {}
    for module in TIERS:
        (session,) = module.open(LiveHost(str(tmp_path)), module.config()).sessions().values()
        reading = session.read()
        (part,) = reading.parts
        assert part.collector == module.name
        files = [c for c in part.columns if c != "supported"]
        hw = module is infiniband_errors
        found[module.name] = (part.period, len(files), reading.queries - 3 + 30 if hw else reading.queries)
        sources = {key for column in files if column in CATALOGUE for key in CATALOGUE[column].keys}
        if layer == "InfiniBand":
            assert (module is infiniband) == (sources >= WANTED_OFTEN)
        windowed = [c for c in files if c in CATALOGUE and CATALOGUE[c].window]
        if module is infiniband_rare and layer == "InfiniBand":
            assert windowed == [], "a rule looks at a counter that is read seldom"
    assert found == paces


def test_where_there_is_no_counters_directory_all_is_read_often(tmp_path: Path) -> None:
    put(tmp_path / PORT / "hw_counters/np_cnp_sent", "5\n")
    assert read_one(LiveHost(str(tmp_path))) == {("mlx5_0/1", "supported"): 1, ("mlx5_0/1", "cnp_sent"): 5}
    for module in (infiniband_errors, infiniband_rare):
        (session,) = module.open(LiveHost(str(tmp_path)), module.config()).sessions().values()
        assert session.read().parts == ()


def test_labels_say_what_the_port_is(tmp_path: Path) -> None:
    build_hca_tree(tmp_path / "sys", devices=2)
    put(tmp_path / "proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "ib1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n")  # fmt: skip
    gpu = tmp_path / "sys/devices/pci0000:10/0000:10:01.0/0000:12:00.0"
    gpu.mkdir()
    link(tmp_path / "sys/bus/pci/drivers/nvidia/0000:12:00.0", gpu)
    sessions = infiniband.open(LiveHost(str(tmp_path / "sys"), str(tmp_path / "proc")), infiniband.config()).sessions()
    (part,) = sessions["mlx5_0"].read().parts
    assert part.components[0].labels == {
        "device": "mlx5_0",
        "port": "1",
        "netdev": "ib0",
        "link_layer": "InfiniBand",
        "node_guid": "0200:0000:0000:0000",
        "port_guid": "0200:0000:0000:0000",
        "sys_image_guid": "0200:0000:0000:0000",
        "firmware": "28.41.1000",
        "board": "FAB_0000000001",
        "hca_type": "MT4129",
        "pci": "0000:11:00.0",
        "driver": "mlx5_core",
        "role": "compute",
    }
    assert sessions["mlx5_1"].read().parts[0].components[0].labels["role"] == "management"


BAD = {
    "N/A (no PMA)\n": "no PMA",
    "": "empty",
    "0x10\n": "0x10",
    "-3\n": "-3",
    "123456789012345678901234567890\n": "64 bits",
    "18446744073709551615\n": "all 64 bits",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_costs_that_value_only(tmp_path: Path, text: str) -> None:
    build_hca_tree(tmp_path, devices=1)
    good = read_one(LiveHost(str(tmp_path)))
    put(tmp_path / PORT / "counters/symbol_error", text)
    (session,) = infiniband.open(LiveHost(str(tmp_path)), infiniband.config()).sessions().values()
    reading = session.read()
    (fault,) = reading.faults
    assert BAD[text] in fault.error
    assert fault.source == "/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error"
    assert fault.component == "mlx5_0/1"
    now = cells(reading)
    assert math.isnan(now.pop(("mlx5_0/1", "symbol_errors")))
    del good["mlx5_0/1", "symbol_errors"]
    assert now == good


def test_a_directory_where_a_file_should_be(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    (tmp_path / PORT / "hw_counters/surprise").mkdir()
    (session,) = infiniband_errors.open(LiveHost(str(tmp_path)), infiniband_errors.config()).sessions().values()
    reading = session.read()
    assert math.isnan(cells(reading)["mlx5_0/1", f"{RAW}hw_counters/surprise"])
    assert [f.error for f in reading.faults] == ["Is a directory"]


def test_drivers_without_counters_directory(tmp_path: Path) -> None:
    """EFA: hw_counters of port and device, no counters/ (docs/methods.md#rdma-driver-differences)."""
    device = tmp_path / "class/infiniband/rdmap0s6"
    for name, value in {"tx_bytes": 5, "retrans_timeout_events": 6, "impaired_remote_conn_events": 7}.items():
        put(device / "ports/1/hw_counters" / name, f"{value}\n")
    for name, value in {"submitted_cmds": 8, "keep_alive_rcvd": 9, "new_in_this_driver": 10}.items():
        put(device / "hw_counters" / name, f"{value}\n")
    found = read_all(LiveHost(str(tmp_path)))
    assert found == {
        ("rdmap0s6/1", "supported"): 1,
        ("rdmap0s6/1", "rdma_tx_bytes"): 5,
        ("rdmap0s6/1", "ack_timeout"): 6,
        ("rdmap0s6/1", "remote_impaired"): 7,
        ("rdmap0s6/1", "device_submitted_commands"): 8,
        ("rdmap0s6/1", "device_keep_alives"): 9,
        ("rdmap0s6/1", f"{RAW}device_hw_counters/new_in_this_driver"): 10,
    }


def test_old_devices_keep_64_bits_in_a_directory_of_their_own(tmp_path: Path) -> None:
    at = tmp_path / "class/infiniband/mlx4_0/ports/2"
    put(at / "counters/port_xmit_data", "4294967295\n")
    put(at / "counters_ext/port_xmit_data_64", "5000000000\n")
    found = read_all(LiveHost(str(tmp_path)))
    assert found["mlx4_0/2", "xmit"] == 20e9
    assert found["mlx4_0/2", f"{RAW}counters/port_xmit_data"] == 4294967295


def test_two_names_of_one_concept_lose_nothing(tmp_path: Path) -> None:
    at = tmp_path / "class/infiniband/mlx5_0/ports/1/hw_counters"
    put(at / "rp_cnp_handled", "3\n")
    put(at / "cc_rx_cnp_pkts", "4\n")
    found = read_all(LiveHost(str(tmp_path)))
    assert found["mlx5_0/1", "cnp_handled"] == 3
    assert found["mlx5_0/1", f"{RAW}hw_counters/cc_rx_cnp_pkts"] == 4


def test_absent_hardware_is_no_fault(tmp_path: Path) -> None:
    assert infiniband.open(LiveHost(str(tmp_path)), infiniband.config()).sessions() == {}
    (tmp_path / "class/infiniband/siw0/ports/1").mkdir(parents=True)
    (session,) = infiniband.open(LiveHost(str(tmp_path)), infiniband.config()).sessions().values()
    reading = session.read()
    assert (reading.parts, reading.values, reading.faults) == ((), array("d"), ())


def test_the_shape_is_one_object_while_it_stands(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    config = infiniband_errors.config(rediscover=0.0)
    (session,) = infiniband_errors.open(LiveHost(str(tmp_path)), config).sessions().values()
    first = session.read().parts
    assert session.read().parts is first
    put(tmp_path / PORT / "hw_counters/later", "1\n")
    later = session.read()
    assert later.parts is not first
    assert cells(later)["mlx5_0/1", f"{RAW}hw_counters/later"] == 1


def test_a_device_that_went_is_an_error_and_one_that_came_back_is_read_again(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    collector = infiniband.open(LiveHost(str(tmp_path)), infiniband.config())
    sessions = collector.sessions()
    sessions["mlx5_0"].read()
    at = tmp_path / "class/infiniband/mlx5_0"
    target = at.readlink()
    at.unlink()
    assert list(collector.sessions()) == ["mlx5_1"]
    at.symlink_to(target)
    assert sorted(collector.sessions()) == ["mlx5_0", "mlx5_1"]
    assert collector.sessions()["mlx5_1"] is sessions["mlx5_1"]
    gone = CounterSession(Tier.FAST, LiveHost(str(tmp_path)), infiniband.config(), "mlx5_7")
    with pytest.raises(HostError) as caught:
        gone.read()
    assert caught.value.errno == errno.ENOENT


def test_virtual_functions_are_not_opened(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    (tmp_path / "class/infiniband/mlx5_1/device/physfn").mkdir()

    class Watched(LiveHost):
        opened: list[str] = []

        def read(self, path: str, limit: int = 65536) -> bytes:
            self.opened.append(path)
            return super().read(path, limit)

        def bulk(self, paths):  # type: ignore[no-untyped-def]
            self.opened.extend(paths)
            return super().bulk(paths)

    host = Watched(str(tmp_path))
    for module in TIERS:
        sessions = module.open(host, module.config()).sessions()
        assert list(sessions) == ["mlx5_0"]
        sessions["mlx5_0"].read()
    assert host.opened
    assert not [p for p in host.opened if "mlx5_0" not in p and "/class/infiniband/" in p]


class Kernel(LiveHost):
    """A host whose RDMA netlink answers what the test says."""

    counters: dict[str, int] | HostError = {}
    asked = 0

    def rdma_devices(self) -> list[RdmaDevice]:
        return [RdmaDevice(5, "mlx5_0", 1, "", "", "ib")]

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        assert (device, port) == (5, 1)
        self.asked += 1
        if isinstance(self.counters, HostError):
            raise self.counters
        return self.counters


def test_netlink_takes_the_place_of_the_hw_counters_files(tmp_path: Path) -> None:
    values = build_hca_tree(tmp_path, devices=1)
    host = Kernel(str(tmp_path))
    names = [p.rsplit("/", 1)[-1] for p in values if "/hw_counters/" in p]
    host.counters = {name: 1_000_000 + i for i, name in enumerate(names)} | {"only_told": 17}
    (session,) = infiniband_errors.open(host, infiniband_errors.config()).sessions().values()
    found = cells(session.read())
    for i, name in enumerate(names):
        counter = counter_at("hw_counters", name)
        assert counter is not None
        assert found["mlx5_0/1", counter.name] == 1_000_000 + i
    assert found["mlx5_0/1", f"{RAW}hw_counters/only_told"] == 17
    assert session.read().queries == 5 + 3  # a command a file of counters/, one refresh of the hw_counters
    assert found["mlx5_0/1", "rcv_errors"] == values["/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors"]


def test_where_netlink_fails_the_files_are_read(tmp_path: Path) -> None:
    values = build_hca_tree(tmp_path, devices=1)
    host = Kernel(str(tmp_path))
    host.counters = {"np_cnp_sent": 5}
    (session,) = infiniband_errors.open(host, infiniband_errors.config()).sessions().values()
    assert cells(session.read())["mlx5_0/1", "cnp_sent"] == 5
    host.counters = HostError("RDMA STAT_GET device 5 port 1", errno.EINVAL, "Invalid argument")
    once = session.read()
    assert math.isnan(cells(once)["mlx5_0/1", "cnp_sent"])
    assert [f.source for f in once.faults] == ["RDMA STAT_GET device 5 port 1"]
    then = session.read()
    assert then.faults == ()
    assert cells(then)["mlx5_0/1", "cnp_sent"] == values["/sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent"]


def test_a_field_the_driver_cannot_decode_is_unknown(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = Kernel(str(tmp_path))
    host.counters = {"np_cnp_sent": 2**64 - 1, "rp_cnp_handled": 4}
    (session,) = infiniband_errors.open(host, infiniband_errors.config()).sessions().values()
    reading = session.read()
    assert math.isnan(cells(reading)["mlx5_0/1", "cnp_sent"])
    assert cells(reading)["mlx5_0/1", "cnp_handled"] == 4
    assert "np_cnp_sent" in reading.faults[0].source


class Refusing(LiveHost):
    """Every file of counters of a limited function fails as the firmware makes it fail."""

    now = 0.0
    refuses = True
    opened = 0

    def monotonic(self) -> float:
        return self.now

    def bulk(self, paths):  # type: ignore[no-untyped-def]
        host, inner = self, super().bulk(paths)

        class Reader:
            def read(self, out, base):  # type: ignore[no-untyped-def]
                host.opened += 1
                if not host.refuses:
                    return inner.read(out, base)
                for i in range(len(paths)):
                    out[base + i] = math.nan
                return [(i, HostError(p, errno.EINVAL, "Invalid argument")) for i, p in enumerate(paths)]

            def close(self) -> None:
                inner.close()

        return Reader()


def test_a_device_that_never_answers_is_left_alone_for_hours(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = Refusing(str(tmp_path))
    (session,) = infiniband.open(host, infiniband.config()).sessions().values()
    for _ in range(10):
        reading = session.read()
        host.now += 10
    assert host.opened == 3
    found = cells(reading)
    assert found.pop(("mlx5_0/1", "supported")) == 0.0
    assert all(math.isnan(v) for v in found.values())
    host.now += 3600
    session.read()
    assert host.opened == 4
    host.now += 3600
    session.read()
    assert host.opened == 4, "the second pause is longer"
    host.refuses = False
    host.now += 3700
    assert cells(session.read())["mlx5_0/1", "supported"] == 1.0


def test_a_device_that_answered_before_is_asked_on(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = Refusing(str(tmp_path))
    host.refuses = False
    (session,) = infiniband.open(host, infiniband.config()).sessions().values()
    session.read()
    host.refuses = True
    for _ in range(10):
        assert len(session.read().faults) == 4
        host.now += 10
    host.refuses = False
    assert session.read().faults == ()


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_patience_asks_at_least_every_six_hours_and_never_gives_up_on_one_that_answered(answers: list[bool]) -> None:
    patience, now, answered = Patience(), 0.0, False
    for answer in answers:
        waited = 0.0
        while patience.waits(now):
            now += 600
            waited += 600
        assert waited <= 6 * 3600
        assert not (answered and waited)
        answered = answered or answer
        patience.saw(3, [] if answer else [errno.EINVAL] * 3, now)
        now += 1


@given(st.lists(st.tuples(st.sampled_from(["counters", "counters_ext", "hw_counters"]), st.sampled_from(
    ["port_xmit_data", "port_xmit_data_64", "rp_cnp_handled", "cc_rx_cnp_pkts", "x", "vport_out_of_buffer",
     "out_of_buffer", "tx_bytes", "rdma_tx_bytes"])), unique=True))  # fmt: skip
def test_each_file_has_a_column_of_its_own(names: list[tuple[str, str]]) -> None:
    files = [CounterFile(directory, name, f"/{directory}/{name}") for directory, name in names]
    found = port_counters.columns(files)
    assert len(set(found.values())) == len(files)
    for file, column in found.items():
        if column.startswith(RAW):
            assert column == f"{RAW}{file.directory}/{file.name}"
        else:
            assert counter_at(file.directory, file.name) is CATALOGUE[column]


def test_of_too_many_files_the_known_counters_are_kept(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    hw = tmp_path / "class/infiniband/mlx5_0/ports/1/hw_counters"
    for n in range(1200):  # before the known ones by name
        put(hw / f"a_vendor_counter_{n:04}", "1\n")
    found = port_counters.find(LiveHost(str(tmp_path)), "mlx5_0", 1, False)
    names = {file.name for file in found.files if file.directory == "hw_counters"}
    assert len(names) == 1024
    assert {file.name for file in found.files if file.directory == "hw_counters" and file.name in HW} == set(HW)
    assert [error.text for error in found.errors] == ["1231 files, 1024 of them are read"]


@pytest.mark.parametrize(("source", "key", "column"), [
    ("hw_counters", "tx_rdma_ack_timeout", "ack_timeout"),
    ("hw_counters", "tx_rdma_retx_pkts", "retrans_packets"),
    ("hw_counters", "tx_rdma_retx_bytes", "retrans_bytes"),
    ("ethtool", "mac_rx_fcs_err_pkt_num", "eth_fcs_errors"),
    ("ethtool", "rx_bytes_cos3", "cos_rx_queue3"),
    ("ethtool", "tx_packets_cos7", "cos_tx_packets_queue7"),
    # its unit is documented nowhere: exported under its own name, not as a pause time
    ("ethtool", "mac_rx_pfc_pri3_xoff_time", "raw:ethtool/mac_rx_pfc_pri3_xoff_time"),
])  # fmt: skip
def test_names_of_newer_drivers(source: str, key: str, column: str) -> None:
    assert column_of(source, key) == column


@pytest.mark.parametrize("text", ["+5", "-5", "1_0", "0x", "5 5", ""])
def test_what_is_no_number(text: str, tmp_path: Path) -> None:
    put(tmp_path / "class/n", text)
    assert files.number(LiveHost(str(tmp_path)), "/sys/class/n") is None
    with pytest.raises(ValueError, match="local identifier"):
        attributes.identifier(text)
