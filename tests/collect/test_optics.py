"""Modules: each map's monitors and limits in units, what copper has not, and where the agent may not read."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.phy import LIMITS
from fabricmon.collect import COLLECTORS
from fabricmon.collect.parse import mlxlink_text, module_memory
from fabricmon.collect.parse.module_memory import Map, Piece
from fabricmon.host.protocol import HostError
from tests.collect.drivers import labels, machine, rdma_port, rows
from tests.collect.modules import cmis, qsfp, sfp
from tests.host.trees import put

optics = COLLECTORS["optics"]


def session(tmp_path: Path, memory: object, **config: object):
    host, drivers = machine(tmp_path, "eth0")
    if memory is not None:
        drivers.memory["eth0"] = memory if callable(memory) else refuse(memory)
    return optics.open(host, optics.config(**config)).sessions()["eth0"]


def refuse(error: object):
    def answer(*_: int) -> bytes:
        raise error  # type: ignore[misc]

    return answer


def limits(found: dict[str, float], name: str) -> list[float]:
    return [found[f"module_{name}_limit_{limit}"] for limit in LIMITS]


def test_cmis(tmp_path: Path) -> None:
    memory = cmis()
    reading = session(tmp_path, memory).read()
    found = rows(reading)["eth0"]
    assert set(found) <= set(CATALOGUE)
    assert found["module_temperature"] == 54.5
    assert found["module_voltage"] == pytest.approx(3.3)
    assert found["module_state"] == 3
    for lane in range(4):
        assert found[f"module_tx_power_lane{lane}"] == pytest.approx((10000 + lane) * 1e-7)
        assert found[f"module_tx_bias_lane{lane}"] == pytest.approx((4000 + lane) * 4e-6)
        assert found[f"module_rx_power_lane{lane}"] == pytest.approx((9000 + lane) * 1e-7)
    assert "module_rx_power_lane4" not in found  # the module has four lanes
    assert limits(found, "temperature") == [75, -5, 70, 0]
    assert limits(found, "voltage") == pytest.approx([3.63, 2.97, 3.465, 3.135])
    assert limits(found, "tx_power") == pytest.approx([3.1623e-3, 1.41e-4, 2.5119e-3, 2.239e-4])
    assert limits(found, "tx_bias") == pytest.approx([0.03, 0.004, 0.026, 0.008])
    assert limits(found, "rx_power") == pytest.approx([3.9811e-3, 9.1e-5, 3.1623e-3, 1.82e-4])
    assert labels(reading)["eth0"] == {"netdev": "eth0", "module_type": "OSFP", "module_vendor": "MAKER",
                                       "module_part": "OSFP-PART", "module_serial": "SN0001"}  # fmt: skip


def test_cmis_monitors_that_the_module_has_not_are_absent(tmp_path: Path) -> None:
    found = rows(session(tmp_path, cmis(monitors=0b100, bias=0)).read())["eth0"]
    assert "module_rx_power_lane0" in found
    assert not any("tx_power" in column or "tx_bias" in column for column in found)


def test_passive_copper_has_nothing_to_read_and_is_no_fault(tmp_path: Path) -> None:
    reading = session(tmp_path / "cmis", cmis(flat=True)).read()
    assert rows(reading) == {"eth0": {"module_state": 3}}
    assert reading.faults == ()
    found = rows(session(tmp_path / "qsfp", qsfp(technology=10)).read())["eth0"]
    assert not any("power" in column or "bias" in column for column in found)
    assert rows(session(tmp_path / "sfp", sfp(diagnostics=0)).read()) == {}


def test_sff_8636(tmp_path: Path) -> None:
    found = rows(session(tmp_path, qsfp()).read())["eth0"]
    assert found["module_temperature"] == -3.5
    assert found["module_voltage"] == pytest.approx(3.2912)
    for lane in range(4):
        assert found[f"module_rx_power_lane{lane}"] == pytest.approx((1 + lane) * 1e-7)
        assert found[f"module_tx_bias_lane{lane}"] == pytest.approx((5 + lane) * 2e-6)
        assert found[f"module_tx_power_lane{lane}"] == pytest.approx((9 + lane) * 1e-7)
    assert limits(found, "temperature") == [75, -5, 70, 0]
    assert limits(found, "rx_power") == pytest.approx([4e-7, 1e-7, 3e-7, 2e-7])
    assert limits(found, "tx_bias") == pytest.approx([16e-6, 10e-6, 14e-6, 12e-6])
    assert limits(found, "tx_power") == pytest.approx([12e-7, 9e-7, 11e-7, 10e-7])


def test_sff_8472(tmp_path: Path) -> None:
    found = rows(session(tmp_path, sfp()).read())["eth0"]
    assert found["module_temperature"] == 40
    assert found["module_tx_bias_lane0"] == pytest.approx(2e-3)
    assert found["module_tx_power_lane0"] == pytest.approx(501.2e-6)
    assert found["module_rx_power_lane0"] == pytest.approx(398.1e-6)
    assert limits(found, "rx_power") == pytest.approx([4e-7, 1e-7, 3e-7, 2e-7])


@pytest.mark.parametrize(
    ("made", "address", "flags"),
    # latched until read: CMIS bytes 8 to 13, SFF-8636 bytes 3 to 21, SFF-8472 bytes 112 to 117 of the second address
    [(cmis, 0x50, range(8, 14)), (qsfp, 0x50, range(3, 22)), (sfp, 0x51, range(112, 118))],
)
def test_bytes_whose_reading_clears_alarms_are_left_alone(tmp_path: Path, made, address: int, flags: range) -> None:
    memory = made()
    one = session(tmp_path, memory)
    for _ in range(3):
        one.read()
    lower = [piece for piece in memory.read if piece.address == address and piece.offset < 128]
    assert lower
    for piece in lower:
        assert not set(range(piece.offset, piece.offset + piece.length)) & set(flags), piece
    assert not any(piece.page == 0x11 and piece.offset < 154 for piece in memory.read)  # flags of the lanes


def test_the_module_is_asked_for_little_once_it_is_known(tmp_path: Path) -> None:
    memory = cmis()
    one = session(tmp_path, memory)
    first = one.read()
    memory.read.clear()
    second = one.read()
    assert memory.read == [Piece(0, 3, 1), Piece(0, 14, 4), Piece(0x11, 154, 48)]
    assert second.parts is first.parts


def test_a_module_that_is_pulled_out_is_unknown_and_another_one_is_seen(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    drivers.memory["eth0"] = cmis()
    one = optics.open(host, optics.config()).sessions()["eth0"]
    first = one.read()
    drivers.memory["eth0"] = refuse(HostError("MODULE_EEPROM_GET", errno.EIO, "Input/output error"))
    gone = one.read()
    assert gone.parts is first.parts or labels(gone) == labels(first)
    assert gone.faults
    assert math.isnan(rows(gone)["eth0"]["module_temperature"])
    assert one.read().parts == ()  # nothing is in the cage: no fault
    drivers.memory["eth0"] = qsfp()
    one._session._again = -math.inf
    assert labels(one.read())["eth0"]["module_type"] == "QSFP28"


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO])
def test_where_the_agent_may_not_read_hwmon_gives_the_temperatures(tmp_path: Path, error: int) -> None:
    at = tmp_path / "devices/pci0000:80/0000:81:00.0/hwmon/hwmon3"
    one = session(tmp_path, HostError("MODULE_EEPROM_GET", error, "refused"))
    for sensor, (label, value, critical) in enumerate((("asic", 61000, 105000), ("Module0", 48500, 70000)), 1):
        put(at / f"temp{sensor}_label", f"{label}\n")
        put(at / f"temp{sensor}_input", f"{value}\n")
        put(at / f"temp{sensor}_crit", f"{critical}\n")
    reading = one.read()
    assert rows(reading)["eth0"] == {
        "nic_temperature": 61, "nic_temperature_limit": 105,
        "module_temperature": 48.5, "module_temperature_limit_high_alarm": 70,
    }  # fmt: skip
    assert reading.faults == ()
    put(at / "temp2_input", "many\n")
    again = one.read()
    assert again.parts is reading.parts
    assert math.isnan(rows(again)["eth0"]["module_temperature"])


PIECES = {Piece(0, 0, 3), *(p for made in (cmis, qsfp, sfp) for p in module_memory.first_pieces(made()(0, 0, 3, 0x50)))}
PIECES |= {Piece(2, 128, 72), Piece(0x11, 154, 48), Piece(3, 128, 72), Piece(0, 22, 36), Piece(0, 14, 4)}


@given(st.dictionaries(st.sampled_from(sorted(PIECES)), st.binary(max_size=160)))
def test_no_memory_breaks_the_decoder(memory: dict[Piece, bytes]) -> None:
    try:
        module_memory.first_pieces(memory.get(module_memory.IDENTIFIER, b""))
        module = module_memory.module_of(memory)
        found = module_memory.monitors(module, memory) | module_memory.limits(module, memory)
    except ValueError:
        return
    assert module.map in (*Map, None)
    assert set(found) <= set(CATALOGUE)
    assert all(math.isfinite(value) for value in found.values())


TEXT = """
Module Info
-----------
Temperature [C]                    : 47 [-10..80]
Voltage [mV]                       : 3301.5 [2970..3630]
Bias Current [mA]                  : 7.5,7.6 [2..15]
Rx Power Current [dBm]             : 0,-10 [-10..10]
Tx Power Current [dBm]             : N/A
Vendor Name                        : MAKER
Vendor Serial Number               : N/A
"""


def test_what_mlxlink_prints() -> None:
    values, names = mlxlink_text.parse(TEXT)
    assert names == {"module_vendor": "MAKER"}
    assert values == pytest.approx({
        "module_temperature": 47, "module_temperature_limit_high_alarm": 80, "module_temperature_limit_low_alarm": -10,
        "module_voltage": 3.3015, "module_voltage_limit_high_alarm": 3.63, "module_voltage_limit_low_alarm": 2.97,
        "module_tx_bias_lane0": 7.5e-3, "module_tx_bias_lane1": 7.6e-3,
        "module_tx_bias_limit_high_alarm": 0.015, "module_tx_bias_limit_low_alarm": 0.002,
        "module_rx_power_lane0": 1e-3, "module_rx_power_lane1": 1e-4,
        "module_rx_power_limit_high_alarm": 1e-2, "module_rx_power_limit_low_alarm": 1e-4,
    })  # fmt: skip


@given(st.text(alphabet="ABCtempRx [].:,-+0123456789eE\n", max_size=200))
def test_no_text_breaks_the_reader_of_mlxlink(text: str) -> None:
    values, _ = mlxlink_text.parse(text)
    assert set(values) <= set(CATALOGUE)


def test_mlxlink_from_files_named_after_interface_or_device(tmp_path: Path) -> None:
    host, _ = machine(tmp_path, "eth0", "eth1")
    rdma_port(tmp_path, "mlx5_1", "eth1")
    put(tmp_path / "text/mlx5_1", TEXT)
    sessions = optics.open(host, optics.config(mlxlink=str(tmp_path / "text"))).sessions()
    assert sessions["eth0"].read().parts == ()
    reading = sessions["eth1"].read()
    assert rows(reading)["mlx5_1/1"]["module_temperature"] == 47
    assert labels(reading)["mlx5_1/1"]["module_vendor"] == "MAKER"
