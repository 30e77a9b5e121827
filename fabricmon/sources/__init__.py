"""Topology files: one module a format, listed in SOURCES.

`load(path)` reads a file (plain or gzip, bounded), detects its format and returns the graph with levels, units, rails
and findings; `load_all(paths)` merges several.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fabricmon.forms.decoding import Undecodable
from fabricmon.runtime import strict_yaml
from fabricmon.sources.formats import (
    cable_plan,
    ibdiagnet_csv,
    ibnetdiscover,
    ibnetdiscover_ports,
    kubernetes,
    lldp,
    nccl_node,
    ndt,
    slurm_conf,
    slurm_yaml,
    topograph,
    torus_2qos,
    trays,
    unknown,
)
from fabricmon.sources.formats.document import SourceError
from fabricmon.topology import findings, infer, merge
from fabricmon.topology.graph import Graph, Origin, Role, unsound
from fabricmon.topology.names import NodeNames

__all__ = ["MOST_SWITCHES", "SOURCES", "SourceError", "load", "load_all", "merged", "node_names", "parse_file"]

LIMIT = 256 << 20
"""Bytes of text, after decompression, that a topology file may have: ten times the dump of 65,536 end ports."""
MOST_NAME = 1 << 10
"""Characters of a name: several joined, as of a chip of a director (`box/card/chip`), are below 512."""
MOST_SWITCHES = 49_151
"""Switches of a file: as many nodes as an InfiniBand subnet has LIDs for. A short expression of names may stand for
more, and finding their levels takes 70 microseconds for each."""
HEAD = 64 << 10  # bytes by which the format is detected


class TopologyFormat(NamedTuple):
    """One file format.

    sniff  whether the beginning of a file has this format
    parse  (text or YAML's data, path for errors, node names) -> graph of the file; SourceError where it cannot be used
    role   its weight against other sources
    yaml   `parse` takes the data, not the text
    """

    sniff: Callable[[str], bool]
    parse: Callable[[Any, str, NodeNames], Graph]
    role: Role
    yaml: bool = False

    def graph(self, text: str, path: str, names: NodeNames) -> Graph:
        """The graph of a file's text. SourceError where it cannot be used."""
        found = self.parse(_yaml(text, path) if self.yaml else text, path, names)
        wrong = unsound(found) or _too_large(found)
        if wrong:
            raise SourceError(path, "", wrong)
        return found


SOURCES: dict[str, TopologyFormat] = {
    "ibnetdiscover": TopologyFormat(ibnetdiscover.sniff, ibnetdiscover.parse, Role.LIVE),
    "ibnetdiscover-p": TopologyFormat(ibnetdiscover_ports.sniff, ibnetdiscover_ports.parse, Role.LIVE),
    "ibdiagnet": TopologyFormat(ibdiagnet_csv.sniff, ibdiagnet_csv.parse, Role.LIVE),
    "lldp": TopologyFormat(lldp.sniff, lldp.parse, Role.LIVE),
    "kubernetes": TopologyFormat(kubernetes.sniff, kubernetes.parse, Role.PLACEMENT),
    "nccl": TopologyFormat(nccl_node.sniff, nccl_node.parse, Role.PLACEMENT),
    "trays": TopologyFormat(trays.sniff, trays.parse, Role.PLACEMENT),
    "ndt": TopologyFormat(ndt.sniff, ndt.parse, Role.PLAN),
    "slurm": TopologyFormat(slurm_conf.sniff, slurm_conf.parse, Role.PLACEMENT),
    "slurm-yaml": TopologyFormat(slurm_yaml.sniff, slurm_yaml.parse, Role.PLACEMENT, yaml=True),
    "torus-2qos": TopologyFormat(torus_2qos.sniff, torus_2qos.parse, Role.PLACEMENT),
    "topograph": TopologyFormat(topograph.sniff, topograph.parse, Role.PLACEMENT, yaml=True),
    "yaml": TopologyFormat(cable_plan.sniff, cable_plan.parse, Role.PLAN, yaml=True),
}
"""Tested in this order, the strictest formats first."""


def load(path: str, names: str = "") -> Graph:
    """The fabric in a file, annotated and checked. SourceError where it cannot be read or parsed."""
    return load_all([path], names)


def load_all(paths: Sequence[str], names: str = "") -> Graph:
    """The merged fabric of several files. SourceError for the first that cannot be used."""
    known = node_names(names)
    return merged([parse_file(path, known) for path in paths])


def merged(graphs: Iterable[Graph]) -> Graph:
    """One graph of the results of `parse_file`, annotated and checked."""
    return findings.check(infer.annotate(merge.merge(list(graphs))))


def node_names(path: str) -> NodeNames:
    """The node name map in a file; "" has none. SourceError where it cannot be read."""
    return NodeNames.parse(_text(path)) if path else NodeNames()


def parse_file(path: str, names: NodeNames | None = None) -> Graph:
    """The graph of one file, not annotated. SourceError where it cannot be read or parsed."""
    text = _text(path)
    head = text[:HEAD]
    for kind, source in SOURCES.items():
        if source.sniff(head):
            try:
                graph = source.graph(text, path, names or NodeNames())
            except SourceError:
                raise
            except Exception as error:  # what the parser did not foresee costs this file, not who reads it
                raise SourceError(path, "", f"cannot be parsed: {type(error).__name__}: {error}"[:300]) from error
            origin = Origin(kind, path, source.role, _written(path))
            return msgspec.structs.replace(graph, source=str(origin), origins=(origin,))
    raise SourceError(path, "", unknown.reason(head, path) or f"not a known topology format ({', '.join(SOURCES)})")


def _too_large(graph: Graph) -> str:
    """What no fabric has: too many switches, or a name longer than any of a node or device; "" for none."""
    if len(graph.switches) > MOST_SWITCHES:
        return f"has {len(graph.switches)} switches; at most {MOST_SWITCHES} are read"
    named = chain(graph.switches, graph.adapters, graph.hosts, (s.name for s in graph.switches.values()),
                  (a.name for a in graph.adapters.values()))  # fmt: skip
    for name in named:
        if len(name) > MOST_NAME:
            return f"a name of more than {MOST_NAME} characters: {name[:80]!r}"
    return ""


def _yaml(text: str, path: str) -> Any:
    try:
        return strict_yaml.load(text)
    except Undecodable as error:
        raise SourceError(path, f"line {error.line}" if error.line else "", f"not YAML: {error}") from error


def _written(path: str) -> float | None:
    """When the file was last written; None for a pipe."""
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
        raise SourceError(path, "", f"damaged gzip file: {error}") from error
    except OSError as error:
        raise SourceError(path, "", f"cannot be read: {error.strerror or error}") from error
    if len(data) > LIMIT:
        raise SourceError(path, "", f"larger than {LIMIT >> 20} MiB")
    return data.decode("utf-8-sig", errors="replace")
