"""Families about the agent's collectors and the node's symptoms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fabricmon.agent.readings.report import STATUSES
from fabricmon.agent.readings.state import Key
from fabricmon.agent.readings.status import SEARCH, DeviceStatus
from fabricmon.model import CheckedNode, Severity, Symptom
from fabricmon.runtime.exposition import Family

_Row = tuple[dict[str, str], list[float]]
"""Labels, and a value for each metric of a table."""


class _Counts(NamedTuple):
    """What the statuses of one collector, or of one device, add up to. NaN: unknown, not on the page."""

    success: float
    duration: float
    last_success: float
    faults: int
    runs: int
    skipped: int
    stuck: int
    queries: int


class _Metric(NamedTuple):
    """A metric of the statuses of one collector, or of one device; `value`: a field of _Counts."""

    name: str
    type: str
    help: str
    value: str
    unit: str = ""


_OF_COLLECTOR = (
    _Metric("fabricmon_collector_success", "gauge",
            "1 if the last run of the collector succeeded for all its devices", "success"),
    _Metric("fabricmon_collector_duration_seconds", "gauge",
            "Duration of the last finished runs, sum of all devices", "duration", "seconds"),
    _Metric("fabricmon_collector_last_success_timestamp_seconds", "gauge",
            "When the oldest of the values shown was read, seconds since the Unix epoch", "last_success", "seconds"),
    _Metric("fabricmon_collector_faults", "gauge",
            "Sources that the last runs could not read or decode", "faults"),
    _Metric("fabricmon_collector_runs_total", "counter",
            "Runs, with or without success", "runs"),
    _Metric("fabricmon_collector_skipped_runs_total", "counter",
            "Runs that did not start because the previous one had not returned", "skipped"),
    _Metric("fabricmon_collector_stuck_devices", "gauge",
            "Devices whose read does not return", "stuck"),
    _Metric("fabricmon_collector_hardware_queries", "gauge",
            "Firmware commands of one cycle of the collector, by the catalogue's estimate", "queries"),
)
_OF_DEVICE = (
    _Metric("fabricmon_collector_device_success", "gauge",
            "1 if the last run for this device succeeded; only devices with errors since the agent started",
            "success"),
    _Metric("fabricmon_collector_device_faults", "gauge",
            "Sources of this device that its last run could not read or decode; only devices with errors "
            "since the agent started", "faults"),
)


def _count(ones: Sequence[DeviceStatus]) -> _Counts:
    """Duration and last success are those of the devices, not of the search for them, where there are devices."""
    ended, success, faults, runs, skipped, stuck, queries = False, 1.0, 0, 0, 0, 0, 0
    for s in ones:
        ended = ended or s.success is not None
        if s.success is False:
            success = 0.0
        faults += len(s.faults)
        runs += s.runs
        skipped += s.skipped
        stuck += s.stuck_since is not None
        queries += s.queries
    reads = [s for s in ones if s.device != SEARCH] or ones
    durations = [s.duration for s in reads if s.duration == s.duration]
    times = [s.last_success for s in reads]
    return _Counts(
        success if ended else math.nan,
        round(sum(durations), 6) if durations else math.nan,
        round(min(times), 3) if all(t == t for t in times) else math.nan,  # a device without one: no oldest
        faults, runs, skipped, stuck, queries,
    )  # fmt: skip


class CollectorFamilies:
    """Metrics about the collectors. A collector is counted again only after its statuses changed, and a sample is made
    again only for another value.

    changes  collector -> a number that increases with each change of its statuses

    Series are per collector; a device has its own from its first error on, which keeps the page small.
    """

    def __init__(self, status: Mapping[Key, DeviceStatus], changes: Mapping[str, int]) -> None:
        self._status, self._changes = status, changes
        self._rows: dict[str, tuple[int, tuple[_Row, list[_Row]]]] = {}
        self._families: dict[str, tuple[list[dict[str, str]], list[float], Family]] = {}

    def families(self) -> Iterable[Family]:
        collectors = sorted({collector for collector, _ in self._status})
        for gone in self._rows.keys() - set(collectors):
            del self._rows[gone]
        rows = [self._row(collector) for collector in collectors]
        troubled = [one for _, devices in rows for one in devices]
        for table, ones in ((_OF_COLLECTOR, [row for row, _ in rows]), (_OF_DEVICE, troubled)):
            labels = [labels for labels, _ in ones]
            for n, metric in enumerate(table):
                yield self._family(metric, labels, [values[n] for _, values in ones])

    def _family(self, metric: _Metric, labels: list[dict[str, str]], values: list[float]) -> Family:
        kept = self._families.get(metric.name)
        if kept is not None and kept[0] == labels and kept[2].change(kept[1], values):
            family = kept[2]
        else:
            family = Family(metric.name, metric.type, metric.help, zip(labels, values, strict=True), metric.unit)
        self._families[metric.name] = labels, values, family
        return family

    def _row(self, collector: str) -> tuple[_Row, list[_Row]]:
        """The values of a collector, and those of each of its devices that had errors."""
        change, kept = self._changes.get(collector, 0), self._rows.get(collector)
        if kept is not None and kept[0] == change:
            return kept[1]
        ones = [s for s in self._status.values() if s.collector == collector]
        labels = kept[1][0][0] if kept is not None else {"collector": collector}
        row = labels, _values(_OF_COLLECTOR, _count(ones))
        devices = [
            ({"collector": collector, "device": s.device}, _values(_OF_DEVICE, _count([s])))
            for s in ones if s.troubled and s.device not in ("", SEARCH)
        ]
        self._rows[collector] = change, (row, devices)
        return row, devices


def _values(table: Iterable[_Metric], counts: _Counts) -> list[float]:
    return [float(getattr(counts, metric.value)) for metric in table]


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

