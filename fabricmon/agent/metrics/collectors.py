"""Families about the agent's collectors and the node's symptoms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fabricmon.agent.readings.report import STATUSES
from fabricmon.agent.readings.state import Key
from fabricmon.agent.readings.status import SEARCH, DeviceStatus
from fabricmon.model import CheckedNode, Severity, Symptom
from fabricmon.runtime.exposition import Family

_Row = tuple[dict[str, str], list[float]]
"""Labels, and a value for each metric of a table."""


class _Metric(NamedTuple):
    """A metric of the statuses of one collector, or of one device. NaN: unknown, not on the page.

    of_reads  of devices only, not of the search
    """

    name: str
    type: str
    help: str
    value: Callable[[Sequence[DeviceStatus]], float]
    unit: str = ""
    of_reads: bool = False


_OF_COLLECTOR = (
    _Metric("fabricmon_collector_success", "gauge",
            "1 if the last run of the collector succeeded for all its devices",
            lambda ones: _all(ones) if any(s.success is not None for s in ones) else math.nan),
    _Metric("fabricmon_collector_duration_seconds", "gauge",
            "Duration of the last finished runs, sum of all devices",
            lambda ones: round(_sum(s.duration for s in ones), 6), "seconds", of_reads=True),
    _Metric("fabricmon_collector_last_success_timestamp_seconds", "gauge",
            "When the oldest of the values shown was read, seconds since the Unix epoch",
            lambda ones: round(_oldest(s.last_success for s in ones), 3), "seconds", of_reads=True),
    _Metric("fabricmon_collector_faults", "gauge",
            "Sources that the last runs could not read or decode",
            lambda ones: sum(len(s.faults) for s in ones)),
    _Metric("fabricmon_collector_runs_total", "counter",
            "Runs, with or without success",
            lambda ones: sum(s.runs for s in ones)),
    _Metric("fabricmon_collector_skipped_runs_total", "counter",
            "Runs that did not start because the previous one had not returned",
            lambda ones: sum(s.skipped for s in ones)),
    _Metric("fabricmon_collector_stuck_devices", "gauge",
            "Devices whose read does not return",
            lambda ones: sum(s.stuck_since is not None for s in ones)),
    _Metric("fabricmon_collector_hardware_queries", "gauge",
            "Firmware commands of one cycle of the collector, by the catalogue's estimate",
            lambda ones: sum(s.queries for s in ones)),
)
_OF_DEVICE = (
    _Metric("fabricmon_collector_device_success", "gauge",
            "1 if the last run for this device succeeded; only devices with errors since the agent started",
            lambda ones: _all(ones)),
    _Metric("fabricmon_collector_device_faults", "gauge",
            "Sources of this device that its last run could not read or decode; only devices with errors "
            "since the agent started",
            lambda ones: sum(len(s.faults) for s in ones)),
)


class CollectorFamilies:
    """Metrics about the collectors. A collector is counted again only after its statuses changed, and a family whose
    values are the same is the same object.

    changes  collector -> a number that increases with each change of its statuses

    Series are per collector; a device has its own from its first error on, which keeps the page small.
    """

    def __init__(self, status: Mapping[Key, DeviceStatus], changes: Mapping[str, int]) -> None:
        self._status, self._changes = status, changes
        self._rows: dict[str, tuple[int, tuple[_Row, list[_Row]]]] = {}
        self._families: dict[str, tuple[list[tuple[dict[str, str], float]], Family]] = {}

    def families(self) -> Iterable[Family]:
        collectors = sorted({collector for collector, _ in self._status})
        for gone in self._rows.keys() - set(collectors):
            del self._rows[gone]
        rows = [self._row(collector) for collector in collectors]
        troubled = [one for _, devices in rows for one in devices]
        for table, ones in ((_OF_COLLECTOR, [row for row, _ in rows]), (_OF_DEVICE, troubled)):
            for n, metric in enumerate(table):
                samples = [(labels, values[n]) for labels, values in ones]
                kept = self._families.get(metric.name)
                if kept is None or kept[0] != samples:
                    family = Family(metric.name, metric.type, metric.help, samples, metric.unit)
                    kept = self._families[metric.name] = samples, family
                yield kept[1]

    def _row(self, collector: str) -> tuple[_Row, list[_Row]]:
        """The values of a collector, and those of each of its devices that had errors."""
        change, kept = self._changes.get(collector, 0), self._rows.get(collector)
        if kept is not None and kept[0] == change:
            return kept[1]
        ones = [s for s in self._status.values() if s.collector == collector]
        reads = [s for s in ones if s.device != SEARCH] or ones
        labels = kept[1][0][0] if kept is not None else {"collector": collector}
        row = labels, [float(metric.value(reads if metric.of_reads else ones)) for metric in _OF_COLLECTOR]
        devices = [
            ({"collector": collector, "device": s.device}, [float(metric.value([s])) for metric in _OF_DEVICE])
            for s in ones if s.troubled and s.device not in ("", SEARCH)
        ]
        self._rows[collector] = change, (row, devices)
        return row, devices


def symptom_families(symptoms: Sequence[Symptom]) -> Iterable[Family]:
    yield Family("fabricmon_node_symptoms", "gauge", "Open symptoms of this node, evaluated by its agent",
                 [({"severity": s.value}, float(sum(x.severity is s for x in symptoms))) for s in Severity])


def checked_families(checked: CheckedNode, status: str) -> Iterable[Family]:
    """What was checked of the node, by technology, and its status as in /health."""
    yield Family("fabricmon_node_checked_components", "gauge", "Components of the node's fabric that were checked",
                 [({"technology": one.technology}, float(one.checked)) for one in checked.counts])  # fmt: skip
    yield Family("fabricmon_node_unchecked_components", "gauge",
                 "Components of which the state, or every error counter, was not read lately: unknown, not healthy",
                 [({"technology": one.technology}, float(one.unknown)) for one in checked.counts])  # fmt: skip
    yield Family("fabricmon_node_health", "gauge", "1 for the status that /health has, 0 for the others",
                 [({"status": word}, float(word == status)) for word in STATUSES])  # fmt: skip


def _all(ones: Sequence[DeviceStatus]) -> float:
    return float(all(s.success is not False for s in ones))


def _sum(durations: Iterable[float]) -> float:
    """The sum of the known durations; NaN without one."""
    known = [d for d in durations if d == d]
    return sum(known) if known else math.nan


def _oldest(times: Iterable[float]) -> float:
    """The oldest time; NaN where one is unknown."""
    known = list(times)
    return min(known) if all(t == t for t in known) else math.nan
