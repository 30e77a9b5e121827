"""Files of a machine below two roots: the real /sys and /proc, or copies of them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fabricmon.host.bulk import Bulk, Descriptors
from fabricmon.host.protocol import HostError


class Files:
    """Maps "/sys/..." and "/proc/..." below two roots; other paths are unchanged. A root may be a mount point in a
    container, or an unpacked copy of a machine."""

    def __init__(self, sysfs: str, procfs: str, descriptors: Descriptors) -> None:
        self._roots = (("/sys", os.path.abspath(sysfs)), ("/proc", os.path.abspath(procfs)))
        self._descriptors = descriptors

    def place(self, path: str) -> str:
        """The machine's `path` in this process's file system."""
        for name, root in self._roots:
            if path == name or path.startswith(name + "/"):
                return root + path[len(name) :]
        return path

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.place(path)))
        except OSError as error:
            raise HostError.from_os(path, error) from None

    def read(self, path: str, limit: int = 65536) -> bytes:
        try:
            descriptor = os.open(self.place(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.read(descriptor, limit)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HostError.from_os(path, error) from None

    def realpath(self, path: str) -> str:
        place = self.place(path)
        try:
            found = os.path.realpath(place, strict=True)
        except OSError as error:
            raise HostError.from_os(path, error) from None
        for name, root in self._roots:
            below = os.path.realpath(root)
            if found == below or found.startswith(below + os.sep):
                return name + found[len(below) :]
        return found

    def bulk(self, paths: Sequence[str]) -> Bulk:
        return Bulk(paths, [self.place(p) for p in paths], self._descriptors)
