"""Memory of this process."""

from __future__ import annotations

import os


def rss() -> float:
    """Resident MiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
