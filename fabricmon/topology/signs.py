"""A fabric's shape, its confidence and its signs. Pure.

A sign is a share, 0..1, of what a fabric of a shape has and this one has too: cables that go between neighbouring
levels, pairs of groups that are joined, links of a GPU. The confidence of a shape is the product of its signs, so it is
no probability: 1 means that there is no evidence against it.
"""

from __future__ import annotations

from msgspec import Struct

CONFIDENT = 0.5
"""A shape with less confidence is not reported."""
UNCOUNTED = 0.8
"""Factor where a source has the proximity of hosts, but no cable."""


class Shape(Struct, frozen=True):
    """One network and its shape.

    kind        "fat-tree", "rail-optimised", "rail-only", "dragonfly", "dragonfly+", "torus", "mesh", "ring",
                "full-mesh", "star", "nvl72", "nvlink", "irregular" (none of these), "unknown" (no host is known),
                "flat" (no switch is known)
    name        display name: "rail-optimised two-level fat tree, single ToR"
    confidence  0..1
    why         the signs in words
    details     numbers by name: "levels", "leaves", "planes", "rails", "tors", "groups", "sizes", "domains"
    """

    kind: str
    name: str
    confidence: float
    why: str
    details: dict[str, str] = {}


def ratio(part: float, whole: float) -> float:
    """A sign; nothing of nothing is no sign."""
    return part / whole if whole else 0.0
