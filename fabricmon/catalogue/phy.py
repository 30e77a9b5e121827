"""The Ethernet PHY, forward error correction, the pluggable module, legs of a bond and neighbours.

Sources: `ethtool` statistics of drivers; `ethtool netlink` the kernel's own interface
(docs/methods.md#kernel-interfaces); `module` the module's memory (CMIS, SFF-8636, SFF-8472); `hwmon`; `bonding`;
`lldp`.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.catalogue.counter import UNNAMED, YES_NO, Category, Counter, Growth
from fabricmon.model import Kind

_E, _S, _G = Category.ERROR, Category.STATE, Category.CONFIGURATION
LANES = range(8)
LIMITS = ("high_alarm", "low_alarm", "high_warning", "low_warning")
"""In the order in which modules hold them (CMIS page 02h, SFF-8636 page 03h, SFF-8472 A2h)."""

LINK_REASONS = {
    0: "autonegotiation", 1: "link training failure", 2: "logical mismatch", 3: "bad signal integrity", 4: "no cable",
    5: "cable issue", 6: "EEPROM issue", 7: "calibration failure", 8: "power budget exceeded", 9: "overheat",
    10: "module",
}  # fmt: skip
"""enum ethtool_link_ext_state: why a link is down."""


def _row(name: str, source: str, keys: tuple[str, ...], help: str, *, category: Category = _S, unit: str = "",
         bits: int = 0, growth: Growth = Growth.LEVEL, family: str = "",
         labels: tuple[tuple[str, str], ...] = (), window: bool = False,
         states: Mapping[int, str] = UNNAMED) -> Counter:
    return Counter(name, Kind.PORT, unit, bits, growth, category, source, keys, help, family=family, labels=labels,
                   window=window, states=states)  # fmt: skip


def _count(name: str, source: str, keys: tuple[str, ...], help: str, *, bits: int = 64, family: str = "",
           labels: tuple[tuple[str, str], ...] = (), category: Category = _E,
           window: bool = False) -> Counter:
    return _row(name, source, keys, help, category=category, bits=bits, growth=Growth.WRAPS, family=family,
                labels=labels, window=window)  # fmt: skip


def _lanes(family: str, key: str, help: str, unit: str) -> tuple[Counter, ...]:
    return tuple(
        _row(f"{family}_lane{n}", "module", (f"{key} lane {n}",), help, unit=unit, family=family,
             labels=(("lane", str(n)),))
        for n in LANES
    )  # fmt: skip


def _limits(family: str, key: str, help: str, unit: str) -> tuple[Counter, ...]:
    return tuple(
        _row(f"{family}_{limit}", "module", (f"{key} {limit}",), help, unit=unit, category=_G, family=family,
             labels=(("limit", limit),))
        for limit in LIMITS
    )  # fmt: skip


_NETLINK = "ethtool netlink"
_PHY: tuple[Counter, ...] = (
    _count("fec_corrected_blocks", _NETLINK, ("FEC_GET corrected",),
           "FEC corrected codewords: normal on fast lanes, the rate is the signal"),
    _count("fec_uncorrectable_blocks", _NETLINK, ("FEC_GET uncorrectable",),
           "FEC uncorrectable codewords: must stay 0", window=True),
    _count("fec_corrected_bit_errors", _NETLINK, ("FEC_GET corrected bits",),
           "Bits that forward error correction repaired"),
    _row("fec_mode", _NETLINK, ("FEC_GET active",), "Error correction in use", growth=Growth.STATE,
         states={49: "none", 50: "RS", 51: "BASE-R", 74: "LLRS"}),
    _count("mac_fcs_errors", _NETLINK, ("FrameCheckSequenceErrors",), "Frames received with a wrong checksum"),
    _count("mac_alignment_errors", _NETLINK, ("AlignmentErrors",), "Frames received that did not end on a byte"),
    _count("mac_symbol_errors", _NETLINK, ("SymbolErrorDuringCarrier",), "Invalid symbols received"),
    _row("link_down_reason", _NETLINK, ("LINKSTATE_GET ext_state",),
         "Why the link is down", growth=Growth.STATE, states=LINK_REASONS),
    _row("link_down_detail", _NETLINK, ("LINKSTATE_GET ext_substate",),
         "More on why the link is down; its meaning depends on the reason", growth=Growth.STATE),
    _count("phy_link_down_events", _NETLINK, ("LINKSTATE_GET ext_down_cnt",),
           "Times the PHY lost the link", bits=32),
    _row("link_quality", _NETLINK, ("LINKSTATE_GET sqi",), "Signal quality index of the PHY"),
    _count("phy_corrected_bit_errors", "ethtool", ("rx_corrected_bits_phy", "rx_corrected_bits"),
           "Bits received that error correction repaired: normal on fast lanes, the rate is the signal"),
    _count("phy_uncorrected_symbols", "ethtool", ("rx_pcs_symbol_err_phy", "rx_pcs_symbol_err"),
           "Symbols received that stayed wrong after error correction: must stay 0", window=True),
    *(_count(f"lane_corrected_bit_errors_lane{n}", "ethtool", (f"rx_err_lane_{n}_phy",),
             "Wrong bits received on the lane, before error correction; drivers show four lanes at most",
             family="lane_corrected_bit_errors", labels=(("lane", str(n)),)) for n in range(4)),
    _count("module_unplugs", "ethtool", ("module_unplug",), "Times the module was pulled out"),
    _count("module_bus_stuck", "ethtool", ("module_bus_stuck",), "Times the module's bus hung"),
    _count("module_high_temperature", "ethtool", ("module_high_temp",), "Times the module was too hot"),
    _count("module_shorted", "ethtool", ("module_bad_shorted",), "Times the module was faulty or its cable shorted"),
)  # fmt: skip

_MODULE: tuple[Counter, ...] = (
    _row("module_temperature", "module", ("temperature",), "Temperature of the module", unit="celsius"),
    _row("module_voltage", "module", ("voltage",), "Supply voltage of the module", unit="volts"),
    _row("module_state", "module", ("state",),
         "CMIS state of the module", growth=Growth.STATE,
         states={1: "low power", 2: "powering up", 3: "ready", 4: "powering down", 5: "fault"}),
    *_lanes("module_rx_power", "rx_power", "Rx optical power of the lane", "watts"),
    *_lanes("module_tx_power", "tx_power", "Tx optical power of the lane", "watts"),
    *_lanes("module_tx_bias", "tx_bias", "Current of the lane's laser", "amperes"),
    *_limits("module_temperature_limit", "temperature", "The module's own limit of its temperature", "celsius"),
    *_limits("module_voltage_limit", "voltage", "The module's own limit of its supply voltage", "volts"),
    *_limits("module_rx_power_limit", "rx_power", "The module's own limit of a lane's Rx optical power", "watts"),
    *_limits("module_tx_power_limit", "tx_power", "The module's own limit of a lane's Tx optical power", "watts"),
    *_limits("module_tx_bias_limit", "tx_bias", "The module's own limit of a laser's current", "amperes"),
    _row("nic_temperature", "hwmon", ("temp*_input",), "Temperature of the adapter's chip", unit="celsius"),
    _row("nic_temperature_limit", "hwmon", ("temp*_crit",), "Temperature at which the adapter's chip is in danger",
         unit="celsius", category=_G),
)

_BOND: tuple[Counter, ...] = (
    _row("bond_leg_up", "bonding", ("bonding_slave/mii_status",),
         "1 when the bond considers this leg up, 0 when it carries no traffic", growth=Growth.STATE, states=YES_NO),
    _row("bond_leg_active", "bonding", ("bonding_slave/state",), "1 when the leg carries traffic, 0 when it stands by",
         growth=Growth.STATE, states=YES_NO),
    _count("bond_leg_failures", "bonding", ("bonding_slave/link_failure_count",), "Times the bond lost this leg",
           bits=32),
    _row("bond_leg_aggregated", "bonding", ("bonding_slave/ad_aggregator_id",),
         "1 when LACP has the leg in the aggregate that is in use, 0 otherwise", growth=Growth.STATE, states=YES_NO),
    _row("bond_legs", "bonding", ("bonding/slaves",), "Legs the bond has"),
    _row("bond_legs_up", "bonding", ("bonding/slaves mii_status",), "Legs of the bond that are up"),
)

_NEIGHBOUR: tuple[Counter, ...] = (
    _row("lldp_neighbours", "lldp", ("lldpctl",), "LLDP neighbours; their names are on the info metric"),
)

COUNTERS: tuple[Counter, ...] = (*_PHY, *_MODULE, *_BOND, *_NEIGHBOUR)
