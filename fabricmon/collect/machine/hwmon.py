"""Temperatures of an adapter's chip and module from hwmon.

mlx5 labels each sensor with the firmware's name ("asic", "Module0"); one without a label is the chip's. Thousandths of
a degree Celsius; one firmware command a value (docs/methods.md#module-memory).
"""

from __future__ import annotations

import math
import re

from fabricmon.collect.machine.files import names, text
from fabricmon.collect.machine.interfaces import NET
from fabricmon.host.protocol import Host, HostError

_INPUT = re.compile(r"temp(\d{1,3})_input")
_MOST = 8  # sensors of one adapter
Sensors = tuple[tuple[str, str], ...]
"""(column, file) of each value."""


def sensors(host: Host, name: str) -> Sensors:
    """The sensors of an interface's adapter: the first of its chip and the first of its module, each with its limit."""
    found: dict[str, str] = {}
    directory = f"{NET}/{name}/device/hwmon"
    for chip in names(host, directory)[:2]:
        numbers = sorted(int(m[1]) for n in names(host, f"{directory}/{chip}") if (m := _INPUT.fullmatch(n)))
        for number in numbers[:_MOST]:
            at = f"{directory}/{chip}/temp{number}"
            of_module = "module" in text(host, f"{at}_label").lower()
            column = "module_temperature" if of_module else "nic_temperature"
            if column not in found:
                found[column] = f"{at}_input"
                limit = "module_temperature_limit_high_alarm" if of_module else "nic_temperature_limit"
                if text(host, f"{at}_crit"):
                    found[limit] = f"{at}_crit"
    return tuple(found.items())


def temperatures(host: Host, wanted: Sensors) -> dict[str, float]:
    """Degrees Celsius of each sensor; unknown where it does not answer."""
    found: dict[str, float] = {}
    for column, path in wanted:
        try:
            found[column] = int(host.read(path, 32)) / 1000
        except (HostError, ValueError):
            found[column] = math.nan
    return found
