"""The metrics registry of one agent or one central server, with the metrics that every process has."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector

from fabricmon import __version__
from fabricmon.runtime.exposition import ComputedFamilies, Family
from fabricmon.runtime.process_metrics import ProcessMetrics


def process_registry(component: str) -> CollectorRegistry:
    """A registry with process, platform and garbage collection. Each agent and server of a process has its own."""
    registry = CollectorRegistry()
    registry.register(ProcessMetrics())
    PlatformCollector(registry=registry)
    GCCollector(registry)
    info = build_info(component, python=platform.python_version())
    registry.register(ComputedFamilies(lambda: [info]))
    return registry


def build_info(component: str, **more: str) -> Family:
    """`fabricmon_build_info`, by component (agent, central)."""
    labels = {"version": __version__, "component": component, **more}
    return Family("fabricmon_build_info", "gauge", "Version of this program; the value is always 1", [(labels, 1.0)])
