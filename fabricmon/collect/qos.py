"""Settings that the ports of a lossless fabric must agree on: values and one fingerprint. One Session an interface.

PFC, ETS, priorities of traffic and receive buffers over dcbnl, global pause over ethtool, ECN and the MTU from files.
The rule config_drift compares the columns in COMPARED; the fingerprint covers exactly these.
"""

from __future__ import annotations

import hashlib
import math
import struct
from array import array
from collections.abc import Iterable

from fabricmon.catalogue.qos import COMPARED
from fabricmon.collect.collector import InterfaceConfig
from fabricmon.collect.cost.firmware import interface_cost
from fabricmon.collect.devices import InterfaceSession
from fabricmon.collect.machine import rows
from fabricmon.collect.machine.files import names, number, text
from fabricmon.collect.machine.interfaces import NET, Interface
from fabricmon.collect.machine.rows import known
from fabricmon.collect.questions import Question, Values, ask
from fabricmon.host.protocol import Host
from fabricmon.host.protocol.interfaces import Dcb, Pause
from fabricmon.model import Reading
from fabricmon.units import Duration

NAME = "qos"
_DSCP = 5  # IEEE_8021QAZ_APP_SEL_DSCP


class QosConfig(InterfaceConfig, frozen=True):
    """collect.qos. On mlx5 a read costs about 32 firmware commands."""

    interval: Duration = Duration(300)


class QosSession(InterfaceSession[QosConfig]):
    name = NAME

    def __init__(self, host: Host, config: QosConfig, interface: Interface) -> None:
        super().__init__(host, config, interface)
        asks, name, cost = host.interfaces, interface.name, interface_cost(interface.driver)
        self._questions = (
            Question(lambda: dcb_values(asks.dcb(name)), cost.dcb, "dcbnl IEEE_GET"),
            Question(lambda: pause_values(asks.pause(name)), cost.pause, "ethtool PAUSE_GET"),
        )

    def read(self) -> Reading:
        start = self._host.monotonic()
        found, faults, _, queries = ask(NAME, self._interface, self._questions)
        if not found and not faults:
            return Reading((), array("d"), start)  # a driver without such settings
        found |= file_values(self._host, self._interface.name)
        found["qos_fingerprint"] = math.nan if faults else fingerprint(found.get(c, math.nan) for c in COMPARED)
        taken = (start + self._host.monotonic()) / 2
        had = rows.columns(self._parts) if faults else ()  # while a question fails, its columns stay, unknown
        columns = rows.ordered((*had, *(column for column in found if column not in had)))
        self._row_is(columns)
        values = array("d", [found.get(column, math.nan) for column in columns])
        return Reading(self._parts, values, taken, tuple(faults), queries)


def dcb_values(dcb: Dcb) -> Values:
    """The columns of a port's DCB settings; unknown where the driver leaves them out."""
    found = {
        "pfc_enabled": known(dcb.pfc_enabled),
        "pfc_classes": known(dcb.pfc_classes),
        "pfc_cable_delay": known(dcb.delay),
        "dcbx_mode": known(dcb.dcbx),
        "ets_willing": known(dcb.willing),
    }
    found |= {f"ets_bandwidth_class{n}": share / 100 for n, share in enumerate(dcb.bandwidth)}
    found |= {f"ets_algorithm_class{n}": float(which) for n, which in enumerate(dcb.algorithm)}
    found |= {f"ets_class_prio{n}": float(which) for n, which in enumerate(dcb.class_of)}
    if dcb.class_of:
        found["ets_fingerprint"] = fingerprint((*dcb.bandwidth, *dcb.algorithm, *dcb.class_of, *dcb.max_rate))
    if dcb.apps is not None:
        found["app_entries"] = float(len(dcb.apps))
        found["dscp_trusted"] = float(any(selector == _DSCP for selector, _, _ in dcb.apps))
        found["app_fingerprint"] = fingerprint(number for entry in dcb.apps for number in entry)
    if dcb.buffers:
        found["buffer_fingerprint"] = fingerprint((*dcb.buffer_of, *dcb.buffers))
    return found


def pause_values(pause: Pause) -> Values:
    return {"pause_rx_enabled": known(pause.receives), "pause_tx_enabled": known(pause.sends)}


def file_values(host: Host, name: str) -> Values:
    """The MTU, and ECN per priority where the vendor's own driver package shows it
    (docs/methods.md#lossless-settings)."""
    found: Values = {}
    if (mtu := number(host, f"{NET}/{name}/mtu")) is not None:
        found["qos_mtu"] = float(mtu)
    for column, side in (("ecn_marks_answered", "roce_np"), ("ecn_rate_reduced", "roce_rp")):
        directory = f"{NET}/{name}/ecn/{side}/enable"
        priorities = names(host, directory)
        if not priorities:
            continue
        enabled = (int(p) for p in priorities if p in "01234567" and text(host, f"{directory}/{p}") == "1")
        found[column] = float(sum(1 << p for p in enabled))
    return found


def fingerprint(values: Iterable[float]) -> float:
    """A whole number below 2**52, equal for equal numbers in the same order; NaN counts as a value.

    The same on every agent of every version: 52 bits of BLAKE2b over the values as little-endian float64.
    """
    data = b"".join(struct.pack("<d", math.nan if v != v else v) for v in values)
    return float(int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 12)
