"""Types of the API's answers about the fleet: nodes, ports, rails, topology. Pure."""

from __future__ import annotations

from typing import TypedDict

import msgspec
from msgspec.structs import fields

from fabricmon.central.documents.overview import Overview
from fabricmon.forms.documents import SymptomDocument, Time
from fabricmon.model import CheckedNode, Presence
from fabricmon.topology.graph import Adapter, Cable, Finding, Origin, Switch
from fabricmon.topology.signs import Shape

_IN_WORDS = (("evaluated", Time), ("checked_text", str), ("gap", str), ("version", str))
OverviewDocument = msgspec.defstruct(
    "OverviewDocument",
    [*((field.name, Time if field.name == "at" else field.type) for field in fields(Overview)), *_IN_WORDS],
    namespace={"__doc__": f"""{Overview.__doc__}
    evaluated        time of the last evaluation
    checked_text     what was checked, in words
    gap              what is unknown, in words; "": nothing
    version          of the server
    """},
)  # fmt: skip


class SymptomList(TypedDict):
    """Open symptoms. `total` counts all matches."""

    symptoms: list[SymptomDocument]
    total: int


class NodeDocument(TypedDict):
    """An expected node.

    detail       why it is not live, in words; "": live
    since        of the present presence
    last_frame   time of the last values; null: never
    version      of its agent
    symptoms     open symptoms on its components
    maintenance  id of the window that it is in; "": none
    checked      which of its components were checked; null: before its first values
    """

    node: str
    presence: Presence
    detail: str
    since: Time
    last_frame: Time
    version: str
    boot_id: str
    ports: int
    gpus: int
    symptoms: int
    maintenance: str
    checked: CheckedNode | None


class NodeList(TypedDict):
    """Expected nodes by name. `total` counts all matches."""

    nodes: list[NodeDocument]
    total: int


class PortDocument(TypedDict):
    """A port and its utilisation; unknown values are null.

    rate               of the line, in bytes per second
    receive_ratio      received bytes of the last interval as a share of the line rate
    transmit_ratio     sent bytes of the last interval as a share of the line rate
    counted            where the bytes are counted: wire, port or rdma
    waiting_ratio      share of the last half minute in which the port could not transmit queued data
    waiting_estimated  whether `waiting_ratio` is an estimate
    pausing_ratio      share in which the port paused its peer
    """

    node: str
    port: str
    netdev: str
    link_layer: str
    role: str
    rate: float | None
    receive_ratio: float | None
    transmit_ratio: float | None
    counted: str | None
    link: str | None
    leaf: str | None
    rail: str | None
    tier: str | None
    waiting_ratio: float | None
    waiting_estimated: bool
    pausing_ratio: float | None


class PortList(TypedDict):
    """Ports. `total` counts all matches."""

    ports: list[PortDocument]
    total: int


class ShareDocument(TypedDict):
    """A rail or tier: bytes of all its ports as a share of the sum of their line rates.

    ports  number of its ports
    known  how many of them have a known load
    """

    name: str
    receive_ratio: float | None
    transmit_ratio: float | None
    known: int
    ports: int


class LeafPairDocument(TypedDict):
    """Probes of the last minute from one leaf to another, or within it; unknown round trips are null.

    flows            pairs of ports that probe, `answered` of them with a round trip in the newest window
    sent, lost       probes, and those without an answer
    rtt_seconds      median of the flows' median round trips, the hosts' own delays taken out
    slowest_seconds  the largest of these medians
    """

    rail: str
    leaf: str
    peer_leaf: str
    flows: int
    answered: int
    sent: int
    lost: int
    rtt_seconds: float | None
    slowest_seconds: float | None


class ProbesDocument(TypedDict):
    """Pairs of leaves by their lost probes, then by their slowest flow. `total` counts all matches."""

    rails: list[str]
    pairs: list[LeafPairDocument]
    total: int


class RailsDocument(TypedDict):
    """Utilisation of all rails and tiers."""

    rails: list[ShareDocument]
    tiers: list[ShareDocument]


class TopologyDocument(TypedDict):
    """The topology in use.

    hosts        host -> labels
    source       where it came from
    aggregation  in-network aggregation node -> its switch
    attached     host -> switches above it, from a source that names no ports
    trunks       pairs of switches that are joined by an unknown number of cables
    stated       properties of the whole by a source
    """

    switches: list[Switch]
    adapters: list[Adapter]
    cables: tuple[Cable, ...]
    hosts: dict[str, dict[str, str]]
    source: str
    findings: tuple[Finding, ...]
    aggregation: dict[str, str]
    attached: dict[str, tuple[str, ...]]
    trunks: tuple[tuple[str, str], ...]
    origins: tuple[Origin, ...]
    stated: dict[str, str]
    shapes: tuple[Shape, ...]


class TargetGroup(TypedDict):
    """One agent, in the format of Prometheus HTTP service discovery."""

    targets: list[str]
    labels: dict[str, str]
