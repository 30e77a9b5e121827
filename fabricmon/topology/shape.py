"""The shape of a fabric and its confidence: the best of `shape_tests.SHAPE_TESTS`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fabricmon.topology import nvlink
from fabricmon.topology.graph import Graph
from fabricmon.topology.network import Network, networks
from fabricmon.topology.shape_tests import SHAPE_TESTS
from fabricmon.topology.signs import CONFIDENT, UNCOUNTED, Shape

__all__ = ["Shape", "recognise", "shapes"]


def recognise(graph: Graph) -> tuple[Shape, ...]:
    """Shape of every network of an annotated graph, the one with most adapters first, NVLink last. Never empty."""
    return shapes(graph, networks(graph))


def shapes(graph: Graph, found: Sequence[Network]) -> tuple[Shape, ...]:
    """Those of the networks in their order, then that of the NVLink domains."""
    shapes = [_shape_of(graph, network) for network in found]
    if not shapes:
        sure = 1.0 if graph.stated.get("shape") == "flat" else 0.3
        word = "stated by a source" if sure == 1.0 else "no source has a switch"
        shapes.append(Shape("flat", "flat: no switch is known", sure, f"{word}; {len(graph.hosts)} hosts"))
    scale_up = nvlink.by_cables(graph) or nvlink.by_labels(graph)
    return (*shapes, scale_up) if scale_up is not None else tuple(shapes)


def _shape_of(graph: Graph, network: Network) -> Shape:
    candidates = [shape for test in SHAPE_TESTS if (shape := test(graph, network)) is not None]
    best = max(candidates, key=lambda shape: shape.confidence, default=None)
    size = f"{len(network.switches)} switches with {len(network.pairs)} neighbour pairs"
    if best is not None and best.confidence >= CONFIDENT:
        sure = best.confidence if network.counted else best.confidence * UNCOUNTED
        why = best.why if network.counted else f"{best.why}; by a scheduler or cloud, no cable is known"
        return replace(best, confidence=round(sure, 4), why=why)
    near = f"; nearest is a {best.name} ({best.confidence:.0%})" if best is not None else ""
    if not any(network.carried.values()):
        return Shape("unknown", "unknown", 0.0, f"{size}; which of them carry hosts is unknown{near}")
    sure = round(1 - (best.confidence if best is not None else 0.0), 4)
    return Shape("irregular", "irregular", sure, f"{size} fit no known shape{near}")
