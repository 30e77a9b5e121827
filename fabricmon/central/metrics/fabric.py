"""Metrics of rails and tiers, so that no dashboard queries every port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabricmon.fleet import conditions as fleet
from fabricmon.fleet.conditions import GroupCondition
from fabricmon.fleet.pressure import PRESSED
from fabricmon.fleet.utilisation import Share
from fabricmon.fleet.view import View
from fabricmon.runtime.exposition import Family

MAX_GROUPS = 1024  # rails that get series of their own, by name; a fabric has 8 a scalable unit

_TIERS = "adapter is hosts' own, 0-1 between leaves and the next level"

_GAUGES: tuple[tuple[str, str, str, str], ...] = (
    ("waiting_ratio", "waiting", "Share of the last 30 s in which ports had data and might not send, mean", "ratio"),
    ("worst_waiting_ratio", "worst", "The same share of the port that waited most", "ratio"),
    ("pressed_ports", "pressed", f"Ports that waited {PRESSED:.0%} of the last 30 s or more", ""),
    ("pausing_ratio", "pausing", "Share of the last 30 s in which ports kept their switch from sending, mean", "ratio"),
    ("worst_pausing_ratio", "stopping", "The same share of the port that paused most", "ratio"),
    ("congestion_marks_per_second", "marks", "Packets with a congestion mark (ECN) that ports received", ""),
    ("congestion_notices_per_second", "notices", "Congestion notifications (CNP) that ports acted on", ""),
    ("missed_packets_per_second", "missed", "Packets that arrived while no receive buffer was ready", ""),
)
"""Name after the group's word, field of GroupCondition, help, unit."""


def about(fabric: str, page: str) -> Iterator[Family]:
    """Which fabric this is, and where people reach the page."""
    labels = {"fabric": fabric, "page": page.rstrip("/")}
    yield Family("fabricmon_central_info", "gauge", "The fabric and the address of the page; the value is always 1",
                 [(labels, 1.0)])  # fmt: skip


def utilisation(rails: Sequence[Share], tiers: Sequence[Share]) -> Iterator[Family]:
    """How busy rails and tiers are, and of how many ports that is known."""
    for word, shares, what in (
        ("rail", rails[:MAX_GROUPS], "hosts' ports of the rail"),
        ("tier", tiers[:MAX_GROUPS], f"the tier's ports: {_TIERS}"),
    ):
        for direction, verb in (("receive", "Received"), ("transmit", "Sent")):
            yield Family(
                f"fabricmon_{word}_{direction}_utilisation_ratio",
                "gauge",
                f"{verb} bytes as a share of the line rates of {what}, as far as they are known",
                [({word: s.name}, getattr(s, direction)) for s in shares if s.known],
                "ratio",
            )
        for name, help, field in (
            ("ports", "Ports of the", "of"),
            ("utilisation_known_ports", "Ports that the utilisation is of, of the", "known"),
        ):
            samples = [({word: s.name}, float(getattr(s, field))) for s in shares]
            yield Family(f"fabricmon_{word}_{name}", "gauge", f"{help} {word}", samples)


def conditions(view: View) -> Iterator[Family]:
    """States of links and back-pressure of rails and tiers."""
    rails, tiers = fleet.conditions(view)
    yield from _of("rail", rails[:MAX_GROUPS])
    yield from _of("tier", tiers[:MAX_GROUPS])


def _of(word: str, groups: Sequence[GroupCondition]) -> Iterator[Family]:
    yield Family(
        f"fabricmon_{word}_link_ports",
        "gauge",
        f"Ports of the {word} by the state of their link; unknown: not read lately",
        [({word: g.name, "state": state}, float(n)) for g in groups for state, n in g.links.items()],
    )
    for name, field, help, unit in _GAUGES:
        samples = [({word: g.name}, getattr(g, field)) for g in groups]
        yield Family(f"fabricmon_{word}_{name}", "gauge", f"{help}; of the {word}", samples, unit)
