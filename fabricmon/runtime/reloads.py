"""How reading the configuration again went, for metrics and for the line that people see. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricmon.runtime.exposition import Family


@dataclass(slots=True)
class Reloads:
    """How the last reading of the configuration went; before the first one the start counts as a success.

    succeeded  wall time at which the configuration in use was read
    """

    count: int = 0
    failures: int = 0
    success: bool = True
    succeeded: float = 0.0

    def accepted(self, now: float) -> None:
        """The newest configuration is in use."""
        self.success, self.succeeded = True, now

    def refused(self) -> None:
        """The one before stays in use."""
        self.success = False
        self.failures += 1


def families(reloads: Reloads, prefix: str) -> Iterator[Family]:
    """The metrics `PREFIX_config_...`."""
    name = f"{prefix}_config"
    yield Family(f"{name}_last_reload_success", "gauge", "Whether the configuration in use is the one last read",
                 [({}, float(reloads.success))])
    yield Family(f"{name}_last_reload_success_timestamp_seconds", "gauge", "When the configuration in use was read",
                 [({}, reloads.succeeded)], "seconds")
    yield Family(f"{name}_reloads_total", "counter", "Times the configuration was read again",
                 [({}, float(reloads.count))])
    yield Family(f"{name}_reload_failures_total", "counter", "Times a configuration was refused and the old one kept",
                 [({}, float(reloads.failures))])
