"""PCIe links and the errors the kernel counts on them (docs/methods.md#pcie-links-and-errors; Linux drivers/pci).

A link has two ends with a row each: the device below and the bridge above it. What it can do is what both can; the two
shares of the path compare with that.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind

_S, _E = Category.STATE, Category.ERROR

CORRECTABLE = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC", "UnsupReq",
    "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked", "DMWrReqBlocked",
    "IDECheck", "MisIDETLP", "PCRC_CHECK", "TLPXlatBlocked",
)  # fmt: skip
SEVERITIES = ("correctable", "nonfatal", "fatal")


def _row(name: str, unit: str, key: str, help: str, *, growth: Growth = Growth.LEVEL, wire: bool = True) -> Counter:
    family = name.removeprefix("pcie_")
    return Counter(name, Kind.PCIE, unit, 0, growth, _S, "pci", (key,), help, wire=wire, family=family)


def _error(severity: str, name: str = "") -> Counter:
    """A total of one severity, or one sort of error; the totals travel."""
    if not name:
        return Counter(f"pcie_aer_{severity}_errors", Kind.PCIE, "", 64, Growth.WRAPS, _E, f"aer_dev_{severity}",
                       (f"TOTAL_ERR_{'COR' if severity == 'correctable' else severity.upper()}",),
                       f"{severity.capitalize()} errors the device reported; bursts between two interrupts count once",
                       family=f"aer_{severity}_errors", window=True)
    return Counter(f"pcie_aer_{severity}_{name}", Kind.PCIE, "", 64, Growth.WRAPS, _E, f"aer_dev_{severity}", (name,),
                   f"{severity.capitalize()} errors the device reported, by their sort in the PCIe specification",
                   wire=False, family=f"aer_{severity}_by_sort", labels=(("error", name),))


def _above(name: str, severities: tuple[str, ...]) -> Counter:
    """A total of the bridges above a device: the end that receives a damaged packet counts it."""
    key = f"{', '.join(f'aer_dev_{each}' for each in severities)} of the bridges above"
    return Counter(f"pcie_above_{name}_errors", Kind.PCIE, "", 64, Growth.WRAPS, _E, "pci", (key,),
                   f"{name.capitalize()} errors that the bridges between the device and the CPU reported",
                   family=f"above_{name}_errors", window=True)


ABOVE: Mapping[str, tuple[str, ...]] = {
    "pcie_above_uncorrected_errors": ("nonfatal", "fatal"), "pcie_above_corrected_errors": ("correctable",),
}  # fmt: skip
"""Column -> severities whose errors of all bridges above a device are its sum."""

COUNTERS: tuple[Counter, ...] = (
    _row("pcie_speed", "transfers_per_second", "current_link_speed", "Speed of the link per lane"),
    _row("pcie_max_speed", "transfers_per_second", "max_link_speed", "Highest speed that this end of the link can do"),
    _row("pcie_width", "lanes", "current_link_width", "Width of the link in lanes"),
    _row("pcie_max_width", "lanes", "max_link_width", "Greatest width that this end of the link can do"),
    _row("pcie_path_width", "", "current_link_width / max_link_width",
         "The smallest share of its possible width that any link has on the way to the root complex, 1 where all are full"),
    _row("pcie_path_speed", "", "current_link_speed / max_link_speed",
         "The smallest share of its possible speed that any link has on the way to the root complex; unknown for GPUs, "
         "which lower their speed to save power"),
    _row("pcie_unread_files", "", "speed and width files, aer_dev_*",
         "Files of the device and of the bridges above it that exist and could not be read: speeds and widths, and the "
         "error counts where none of them could"),
    *(_error(severity) for severity in SEVERITIES),
    _above("uncorrected", ABOVE["pcie_above_uncorrected_errors"]),
    _above("corrected", ABOVE["pcie_above_corrected_errors"]),
    *(_error("correctable", name) for name in CORRECTABLE),
    *(_error(severity, name) for severity in SEVERITIES[1:] for name in UNCORRECTABLE),
)
