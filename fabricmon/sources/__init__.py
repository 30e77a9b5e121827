"""Where the topology comes from: one module a file format, listed in SOURCES.

`load(path)` reads a file (plain or gzip, bounded), asks each source whether the text looks like its own, and returns
the graph with levels, units, rails and findings filled in; `load_all(paths)` lays several over each other.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from fabricmon.sources import (
    ibnetdiscover,
    ibnetdiscover_ports,
    kubernetes,
    lldp,
    nccl_node,
    ndt,
    plan,
    slurm_conf,
    slurm_yaml,
    topograph,
    torus_2qos,
    trays,
)
from fabricmon.sources.error import SourceError
from fabricmon.topology import findings, infer, merge
from fabricmon.topology.graph import Graph, Origin, Role
from fabricmon.topology.names import NodeNames

__all__ = ["SOURCES", "Source", "SourceError", "load", "load_all", "merged", "node_names", "read"]

LIMIT = 256 << 20
"""Bytes of text, after decompression, that a topology file may have: ten times the dump of 65,536 end ports."""
HEAD = 64 << 10
"""Bytes of the beginning that a source looks at to know its format."""


class Source(NamedTuple):
    """One file format.

    sniff  does the beginning of a file look like this format?
    parse  (text, path for errors, node names) -> graph as the file tells it; SourceError where it cannot be used
    role   what its word weighs against other sources
    """

    sniff: Callable[[str], bool]
    parse: Callable[[str, str, NodeNames], Graph]
    role: Role


SOURCES: dict[str, Source] = {
    "ibnetdiscover": Source(ibnetdiscover.sniff, ibnetdiscover.parse, Role.LIVE),
    "ibnetdiscover-p": Source(ibnetdiscover_ports.sniff, ibnetdiscover_ports.parse, Role.LIVE),
    "lldp": Source(lldp.sniff, lldp.parse, Role.LIVE),
    "kubernetes": Source(kubernetes.sniff, kubernetes.parse, Role.PLACEMENT),
    "nccl": Source(nccl_node.sniff, nccl_node.parse, Role.PLACEMENT),
    "trays": Source(trays.sniff, trays.parse, Role.PLACEMENT),
    "ndt": Source(ndt.sniff, ndt.parse, Role.PLAN),
    "slurm": Source(slurm_conf.sniff, slurm_conf.parse, Role.PLACEMENT),
    "slurm-yaml": Source(slurm_yaml.sniff, slurm_yaml.parse, Role.PLACEMENT),
    "torus-2qos": Source(torus_2qos.sniff, torus_2qos.parse, Role.PLACEMENT),
    "topograph": Source(topograph.sniff, topograph.parse, Role.PLACEMENT),
    "yaml": Source(plan.sniff, plan.parse, Role.PLAN),
}
"""Asked in this order, the strictest forms first."""


def load(path: str, names: str = "") -> Graph:
    """The fabric a file tells of, annotated and checked. SourceError where it cannot be read or understood."""
    return load_all([path], names)


def load_all(paths: Sequence[str], names: str = "") -> Graph:
    """The fabric that several files tell of, laid over each other. SourceError for the first that cannot be used."""
    known = node_names(names)
    return merged([read(path, known) for path in paths])


def merged(graphs: Iterable[Graph]) -> Graph:
    """One graph of what `read` gave, annotated and checked."""
    return findings.check(infer.annotate(merge.merge(list(graphs))))


def node_names(path: str) -> NodeNames:
    """The node name map in a file; "" has none. SourceError where it cannot be read."""
    return NodeNames.parse(_text(path)) if path else NodeNames()


def read(path: str, names: NodeNames | None = None) -> Graph:
    """What one file says and nothing more. SourceError where it cannot be read or understood."""
    text = _text(path)
    head = text[:HEAD]
    for kind, source in SOURCES.items():
        if source.sniff(head):
            graph = source.parse(text, path, names or NodeNames())
            origin = Origin(kind, path, source.role, _written(path))
            return msgspec.structs.replace(graph, source=str(origin), origins=(origin,))
    known = ", ".join(SOURCES)
    raise SourceError(path, "", f"not a topology that fabricmon knows ({known})")


def _written(path: str) -> float | None:
    """When the file was last written; None for a pipe, whose times mean nothing."""
    try:
        found = Path(path)
        return found.stat().st_mtime if found.is_file() else None
    except OSError:
        return None


def _text(path: str) -> str:
    """The file's text: gzip undone, at most LIMIT bytes, bytes that are no UTF-8 replaced."""
    try:
        with Path(path).open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    data = unpacked.read(LIMIT + 1)
            else:
                data = file.read(LIMIT + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(path, "", f"broken gzip file: {error}") from error
    except OSError as error:
        raise SourceError(path, "", f"cannot be read: {error.strerror or error}") from error
    if len(data) > LIMIT:
        raise SourceError(path, "", f"larger than {LIMIT >> 20} MiB")
    return data.decode("utf-8-sig", errors="replace")
