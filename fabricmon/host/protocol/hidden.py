"""Excluded devices, left out of every list of a host. Pure.

Some functions must not be read: on HGX B200 and B300 nodes each read of the fabric manager's adapters is a line in the
kernel log (docs/methods.md#restricted-functions). Collectors cannot open what they do not find.
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
        """Whether a device with one of these names is excluded."""
        return any(name and fnmatchcase(name, pattern) for pattern in self._patterns for name in names)

    def keep(self, directory: str, names: list[str], address_of: Callable[[str], str]) -> list[str]:
        """The entries of a directory that are not excluded. `address_of(path)`: PCI address of a device link, or ""."""
        directory = directory.rstrip("/")
        if not self._patterns:
            return names
        if directory in _FUNCTIONS:
            return [n for n in names if not self.hides(n, address_of(f"{directory}/{n}/device"))]
        if directory.startswith(_ADDRESSES):
            return [n for n in names if not self.hides(n)]
        return names
