"""Metrics of configuration reloads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Reloads:
    """Outcome of the last configuration reload, as metrics `PREFIX_config_...`; the start counts as a success."""

    def __init__(self, prefix: str, registry: CollectorRegistry, started: float) -> None:
        name = f"{prefix}_config"
        self._success = Gauge(
            f"{name}_last_reload_success", "1 if the last configuration reload succeeded", registry=registry
        )
        self._succeeded = Gauge(
            f"{name}_last_reload_success_timestamp_seconds", "Time when the configuration in use was read",
            unit="seconds", registry=registry,
        )  # fmt: skip
        self._reloads = Counter(f"{name}_reloads", "Configuration reloads", registry=registry)
        self._failures = Counter(
            f"{name}_reload_failures", "Reloads whose configuration was rejected", registry=registry
        )
        self.accepted(started)

    def begun(self) -> None:
        """A reload has begun."""
        self._reloads.inc()

    def accepted(self, now: float) -> None:
        """The new configuration is in use."""
        self._success.set(1.0)
        self._succeeded.set(now)

    def refused(self) -> None:
        """The previous configuration stays in use."""
        self._success.set(0.0)
        self._failures.inc()
