"""NVLink domains: by the cables of GPUs where a source has them, else by labels of hosts. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sized
from typing import NamedTuple

from fabricmon.topology.connect import connected
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import adapter_ends, is_nvlink
from fabricmon.topology.signs import CONFIDENT, UNCOUNTED, Shape, ratio

TRAYS, GPUS, CHIPS = 18, 72, 18
"""Compute trays, GPUs and switch chips of an NVL72 rack (docs/methods.md#nvlink-domains)."""

LABELS = (
    ("nvlink", UNCOUNTED, "NVLink domains"),
    ("nmx_domain", UNCOUNTED, "NVLink domains"),
    ("block", CONFIDENT, "blocks of a scheduler"),
)
"""Host labels that name a domain, the most reliable first: label, confidence, noun."""


class NvlinkDomain(NamedTuple):
    """GPUs and the chips they reach; `links` GPU -> chip -> NVLinks."""

    chips: frozenset[str]
    links: dict[str, Counter[str]]


def domains(graph: Graph) -> list[NvlinkDomain]:
    """NVLink domains in the order of their chips' ids; chips without a GPU are in none."""
    ends = adapter_ends(graph)
    links: dict[str, Counter[str]] = defaultdict(Counter)
    gpus_of: dict[str, set[str]] = {}
    for switch in graph.switches.values():
        if is_nvlink(switch):
            gpus_of[switch.id] = {far.node for _, far in ends[switch.id]}
            for _, far in ends[switch.id]:
                links[far.node][switch.id] += 1
    near = {chip: [other for gpu in gpus_of[chip] for other in links[gpu]] for chip in sorted(gpus_of) if gpus_of[chip]}
    return [
        NvlinkDomain(frozenset(chips), {gpu: links[gpu] for gpu in sorted(set().union(*(gpus_of[c] for c in chips)))})
        for chips in connected(near)
    ]


def by_cables(graph: Graph) -> Shape | None:
    """None where no source has NVLinks as cables."""
    found = domains(graph)
    if not found:
        return None
    pairs = ratio(
        sum(len(reached) for domain in found for reached in domain.links.values()),
        sum(len(domain.chips) * len(domain.links) for domain in found),
    )
    full = sum(len(domain.chips) == CHIPS and len(domain.links) == GPUS for domain in found)
    chips = frozenset(chip for domain in found for chip in domain.chips)
    gpus = sum(len(domain.links) for domain in found)
    details = {"domains": str(len(found)), "gpus": str(gpus), "chips": str(len(chips))}
    why = f"{pairs:.0%} of the pairs of GPU and switch chip are joined"
    if 2 * full >= len(found):
        why += f"; {full} of {len(found)} domains have {GPUS} GPUs and {CHIPS} chips"
        return Shape("nvl72", f"NVL72, {_count(found, 'rack')}", pairs * full / len(found), why, details)
    return Shape("nvlink", f"NVLink through switches, {_count(found, 'domain')}", pairs, why, details)


def by_labels(graph: Graph) -> Shape | None:
    """None where no host has a label of a domain; a scheduler's blocks of 18 hosts are likely such."""
    for label, weight, noun in LABELS:
        sizes = Counter(labels[label] for labels in graph.hosts.values() if label in labels)
        if not sizes:
            continue
        trays = sum(size == TRAYS for size in sizes.values())
        details = {"domains": str(len(sizes)), "hosts": str(sizes.total())}
        usual = Counter(sizes.values()).most_common(1)[0][0]
        why = f"{len(sizes)} {noun}, most of {usual} hosts; no NVLink is known"
        if 2 * trays >= len(sizes):
            return Shape("nvl72", f"NVL72, {_count(sizes, 'rack')}", weight * trays / len(sizes), why, details)
        if label != "block":
            return Shape("nvlink", f"NVLink domains of {usual} hosts", weight, why, details)
    return None


def _count(things: Sized, word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"
