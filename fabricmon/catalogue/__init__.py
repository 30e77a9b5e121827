"""The catalogue: every known counter, by its column name and by its name at the source.

A column is a catalogue name, or `raw:<directory>/<file>` for a counter without a row here; all of the latter share one
metric family with the directory and the file as labels.
"""

from __future__ import annotations

from typing import NamedTuple

from fabricmon.catalogue import (
    fabric,
    flow,
    gpu,
    infiniband,
    inventory,
    kernel_log,
    nvlink,
    pcie,
    phy,
    port,
    qos,
    rdma,
    roce,
)
from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.catalogue.unique import by_name

__all__ = ["CATALOGUE", "RAW", "Category", "Counter", "Growth", "Metric", "column_of", "counter_at", "metric_of"]

COUNTERS: tuple[Counter, ...] = (
    *infiniband.COUNTERS,
    *rdma.COUNTERS,
    *port.COUNTERS,
    *phy.COUNTERS,
    *roce.COUNTERS,
    *qos.COUNTERS,
    *kernel_log.COUNTERS,
    *inventory.COUNTERS,
    *gpu.COUNTERS,
    *nvlink.COUNTERS,
    *pcie.COUNTERS,
    *fabric.COUNTERS,
    *flow.COUNTERS,
)

CATALOGUE: dict[str, Counter] = by_name(COUNTERS, "CATALOGUE (fabricmon/catalogue/)")

RAW = "raw:"

_AT: dict[tuple[str, str], Counter] = {(c.source, key): c for c in reversed(COUNTERS) for key in c.keys}

_SAME_SOURCE = {"counters_ext": "counters"}  # old devices keep the 64-bit counters in a directory of their own


class Metric(NamedTuple):
    """A column on /metrics. `labels` are added to those of the row."""

    name: str
    type: str  # "counter", "gauge", "untyped"
    help: str
    labels: tuple[tuple[str, str], ...] = ()


def counter_at(source: str, key: str) -> Counter | None:
    """The row of `key` of a `source`, None without one.

    mlx5 in switchdev mode puts `vport_` before the names of its queue counters
    (docs/methods.md#rdma-transport-counters).
    """
    source = _SAME_SOURCE.get(source, source)
    return _AT.get((source, key)) or (_AT.get((source, key[6:])) if key.startswith("vport_") else None)


def column_of(source: str, key: str) -> str:
    """The frame column of `key` of a `source`: a catalogue name, else "raw:<source>/<key>"."""
    counter = counter_at(source, key)
    return counter.name if counter else f"{RAW}{source}/{key}"


def metric_of(column: str) -> Metric:
    """The metric of a column. KeyError for a column that is neither in the catalogue nor raw."""
    if column.startswith(RAW):
        directory, _, file = column[len(RAW) :].partition("/")
        return _RAW_METRIC._replace(labels=(("directory", directory), ("file", file)))
    counter = CATALOGUE[column]
    where = ", ".join(counter.keys)
    return Metric(counter.metric, counter.type, f"{counter.text}. Source: {counter.source} {where}", counter.labels)


_RAW_METRIC = Metric(
    "fabricmon_port_raw",
    "untyped",
    "A counter file of the port that the catalogue does not know, as the driver shows it. Source: sysfs, RDMA netlink",
)
