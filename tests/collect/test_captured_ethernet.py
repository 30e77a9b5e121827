"""Captured outputs of ethtool, mlxlink and lldpd: every line comes out, with its value in its unit.

The files are read here by other means than the product's, and turned into units by a table written from the facts.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from fabricmon.catalogue import metric_of
from fabricmon.collect import COLLECTORS
from fabricmon.collect.parse import lldp, mlxlink_text
from tests.collect.drivers import labels, machine, rows

neighbours = COLLECTORS["neighbours"]
roce = COLLECTORS["roce"]

# metric and scale of a statistic, from docs/methods.md#ethernet-counters and not from the catalogue; group 1: priority
METRICS = {
    r"rx_pripause_(\d)_1us_count": ("fabricmon_port_pfc_rx_pause_seconds_total", 1e-6),
    r"tx_pripause_(\d)_1us_count": ("fabricmon_port_pfc_tx_pause_seconds_total", 1e-6),
    r"frames_rx_pri_(\d)": ("fabricmon_port_prio_rx_packets_total", 1),
    r"frames_tx_pri_(\d)": ("fabricmon_port_prio_tx_packets_total", 1),
    r"frames_rx_pripause": ("fabricmon_port_pfc_rx_frames_all_total", 1),
    r"frames_tx_pripause": ("fabricmon_port_pfc_tx_frames_all_total", 1),
    r"frames_rx_pause": ("fabricmon_port_pause_rx_frames_total", 1),
    r"rx_pause_1us_count": ("fabricmon_port_pause_rx_pause_seconds_total", 1e-6),
    r"frames_rx_bad_fcs": ("fabricmon_port_eth_fcs_errors_total", 1),
    r"frames_rx_stomped_crc": ("fabricmon_port_eth_stomped_crc_total", 1),
    r"hw_rx_dropped": ("fabricmon_port_phy_rx_discards_total", 1),
    r"octets_rx_ok": ("fabricmon_port_phy_rx_bytes_total", 1),
    r"bw_in_allowance_exceeded": ("fabricmon_port_allowance_rx_bandwidth_exceeded_total", 1),
    r"bw_out_allowance_exceeded": ("fabricmon_port_allowance_tx_bandwidth_exceeded_total", 1),
    r"pps_allowance_exceeded": ("fabricmon_port_allowance_packets_exceeded_total", 1),
    r"conntrack_allowance_exceeded": ("fabricmon_port_allowance_connections_exceeded_total", 1),
    r"linklocal_allowance_exceeded": ("fabricmon_port_allowance_link_local_exceeded_total", 1),
    r"conntrack_allowance_available": ("fabricmon_port_allowance_connections_available", 1),
    r"wd_expired": ("fabricmon_port_device_watchdog_total", 1),
}
RINGS = re.compile(r"(rx|tx)_\d+_|queue_\d+_")
SOFTWARE = re.compile(r".*(xdp|csum|tso)")


def ethtool(text: str) -> dict[str, int]:
    lines = (line.rsplit(":", 1) for line in text.splitlines()[1:] if ":" in line)
    return {name.strip(): int(value) for name, value in lines}


@pytest.mark.parametrize("name", ["amd-pollara-pf", "aws-ena"])
def test_every_statistic_of_a_captured_driver(shared_dir: Path, tmp_path: Path, name: str) -> None:
    captured = ethtool((shared_dir / f"captures/ethtool/ethtool-S-{name}.txt").read_text())
    assert len(captured) > 100
    host, drivers = machine(tmp_path, "eth0", driver="ionic" if "pollara" in name else "ena")
    drivers.counts["eth0"] = captured
    reading = roce.open(host, roce.config()).sessions()["eth0"].read()
    found = rows(reading)["eth0"]
    assert found.pop("statistics_left_out") == 0
    shown: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for column, value in found.items():
        metric = metric_of(column)
        shown[metric.name, metric.labels] = value
    wanted = {}
    for key, value in captured.items():
        if RINGS.match(key) or SOFTWARE.match(key):
            continue
        for pattern, (metric, scale) in METRICS.items():
            if match := re.fullmatch(pattern, key):
                which = (("priority", match[1]),) if match.groups() else ()
                wanted[metric, which] = value * scale
                break
        else:
            wanted[key, ()] = value
    by_source = {place: value for place, value in shown.items() if place in wanted}
    assert by_source == pytest.approx({place: wanted[place] for place in by_source})
    assert {m for m, _ in METRICS.values()} & {m for m, _ in wanted} == {m for m, _ in by_source}
    # what has no line in the table above is there under the driver's name, or in a column of the same value
    values = sorted(shown.values())
    raw = {dict(which)["file"]: value for (metric, which), value in shown.items() if metric == "fabricmon_port_raw"}
    for (key, which), value in wanted.items():
        if (key, which) not in by_source:
            assert raw.get(key, value) == value
            assert value in values, key
    assert len(shown) == len(wanted)


def test_captured_module(shared_dir: Path) -> None:
    text = (shared_dir / "captures/optics/mlxlink-module-osfp-400g.txt").read_text()
    values, names = mlxlink_text.parse(text)
    shown = {line.split(":")[0].split("[")[0].strip(): line.split(":", 1)[1].strip() for line in text.splitlines()[2:]}
    assert names == {
        "module_type": shown["Identifier"],
        "module_vendor": shown["Vendor Name"],
        "module_part": shown["Vendor Part Number"],
        "module_serial": shown["Vendor Serial Number"],
    }

    def numbers(name: str) -> list[float]:
        return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", shown[name].replace("..", " "))]

    def light(dbm: float) -> float:
        return 10 ** (dbm / 10) / 1000

    wanted = dict(zip(("", "_limit_low_alarm", "_limit_high_alarm"), numbers("Temperature"), strict=True))
    wanted = {f"module_temperature{end}": value for end, value in wanted.items()}
    for end, value in zip(("", "_limit_low_alarm", "_limit_high_alarm"), numbers("Voltage"), strict=True):
        wanted[f"module_voltage{end}"] = value / 1000
    for name, monitor, unit in (
        ("Bias Current", "tx_bias", lambda ma: ma / 1000),
        ("Rx Power Current", "rx_power", light),
        ("Tx Power Current", "tx_power", light),
    ):
        *lanes, low, high = numbers(name)
        assert len(lanes) == 4
        wanted |= {f"module_{monitor}_lane{n}": unit(value) for n, value in enumerate(lanes)}
        wanted[f"module_{monitor}_limit_low_alarm"] = unit(low)
        wanted[f"module_{monitor}_limit_high_alarm"] = unit(high)
    assert values == pytest.approx(wanted)
    assert math.isclose(values["module_rx_power_lane2"], 1.6908e-3, rel_tol=1e-4)


def test_captured_neighbours(shared_dir: Path, tmp_path: Path) -> None:
    directory = shared_dir / "captures/lldp"
    raw = (directory / "lldpctl-dracog24.json").read_bytes()
    ((name, shown),) = json.loads(raw)["lldp"]["interface"][0].items()
    ((switch, chassis),) = shown["chassis"].items()
    wanted = {
        "lldp_chassis": switch,
        "lldp_chassis_id": chassis["id"]["value"],
        "lldp_port": shown["port"]["id"]["value"],
    }
    assert lldp.parse(raw) == {name: [wanted]}
    assert lldp.parse((directory / "lldpctl-empty.json").read_bytes()) == {}
    host, drivers = machine(tmp_path, name, "eth7")
    drivers.answers["neighbours", ""] = raw
    reading = neighbours.open(host, neighbours.config()).sessions()[""].read()
    assert rows(reading) == {name: {"lldp_neighbours": 1}, "eth7": {"lldp_neighbours": 0}}
    assert labels(reading)[name] == {"netdev": name, **wanted}
