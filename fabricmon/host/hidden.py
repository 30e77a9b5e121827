"""Devices that an operator wants nobody to touch, left out of whatever a host lists. Pure.

Some functions must not be read at all: on HGX B200 and B300 nodes each read of the adapters that the fabric manager
uses makes the firmware complain in the kernel log (counters-ib.md 5.3). What no collector can find, none can open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

_FUNCTIONS = ("/sys/class/infiniband", "/sys/class/net")  # each entry has a link `device` to its PCI function
_ADDRESSES = ("/sys/bus/pci/devices", "/sys/bus/pci/drivers")  # entries are PCI addresses


class Hidden:
    """patterns: names of RDMA devices or interfaces, or PCI addresses, with wildcards ("mlx5_1[0-3]")."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = tuple(patterns)

    def hides(self, *names: str) -> bool:
        """Whether a device that goes by these names is to be left alone."""
        return any(name and fnmatchcase(name, pattern) for pattern in self._patterns for name in names)

    def keep(self, directory: str, names: list[str], address_of: Callable[[str], str]) -> list[str]:
        """The entries of a directory that may be seen. `address_of(path)`: PCI address of a device link, or ""."""
        directory = directory.rstrip("/")
        if not self._patterns:
            return names
        if directory in _FUNCTIONS:
            return [n for n in names if not self.hides(n, address_of(f"{directory}/{n}/device"))]
        if directory.startswith(_ADDRESSES):
            return [n for n in names if not self.hides(n)]
        return names
