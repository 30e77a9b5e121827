"""Parser of the text of `mlxlink -m`. Pure.

mlxlink needs root and the vendor's tools; a site's timer leaves its output in files (`collect.optics.mlxlink`). Values
are "54 [-5..75]", four lanes "1.9,2.0,2.3,2.0 [-10.4..6]", with the module's alarm limits in brackets.
"""

from __future__ import annotations

import re

from fabricmon.collect.parse.module_memory import Values, watts

_LINE = re.compile(r"^\s*(?P<name>[A-Za-z][^:\[]*?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*:\s*(?P<value>.*?)\s*$")
_VALUE = re.compile(
    r"^(?P<lanes>[-+\d.eE,]+)\s*(?:\[(?P<low>[-+\d.eE]+)\s*\.\.\s*(?P<high>[-+\d.eE]+)\s*\])?$"
)
_MONITORS = {
    ("temperature", "c"): ("temperature", 1.0, False),
    ("voltage", "mv"): ("voltage", 1e-3, False),
    ("bias current", "ma"): ("tx_bias", 1e-3, True),
    ("rx power current", "dbm"): ("rx_power", 0.0, True),
    ("tx power current", "dbm"): ("tx_power", 0.0, True),
}  # name, unit -> monitor, factor (0: decibel-milliwatts), per lane
_LABELS = {
    "identifier": "module_type",
    "vendor name": "module_vendor",
    "vendor part number": "module_part",
    "vendor serial number": "module_serial",
}
_MOST_LANES = 8


def parse(text: str) -> tuple[Values, dict[str, str]]:
    """(column -> value, label -> text). Other lines and "N/A" are skipped."""
    values: Values = {}
    labels: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        name, unit, value = match["name"].lower(), (match["unit"] or "").lower(), match["value"]
        if name in _LABELS and value and value != "N/A":
            labels[_LABELS[name]] = value
        elif (name, unit) in _MONITORS:
            values |= _monitor(*_MONITORS[(name, unit)], value)
    return values, labels


def _monitor(name: str, factor: float, lanes: bool, text: str) -> Values:
    match = _VALUE.match(text)
    if not match:
        return {}
    try:
        read = [_scaled(float(v), factor) for v in match["lanes"].split(",")][:_MOST_LANES]
        ends = {"high_alarm": match["high"], "low_alarm": match["low"]}
        found = {f"module_{name}_limit_{end}": _scaled(float(v), factor) for end, v in ends.items() if v is not None}
    except (ValueError, OverflowError):  # 1e999 dBm
        return {}
    if lanes:
        return found | {f"module_{name}_lane{n}": value for n, value in enumerate(read)}
    return found | {f"module_{name}": read[0]}


def _scaled(value: float, factor: float) -> float:
    return value * factor if factor else watts(value)
