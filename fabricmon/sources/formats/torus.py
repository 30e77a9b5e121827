"""Builds a torus from its size and its hosts, in the order x fastest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from fabricmon.sources.formats.placement import Placement

MOST = 1 << 17
"""Places of one torus."""


def lay(found: Placement, name: str, dims: Sequence[int], hosts: Sequence[str]) -> None:
    """Add host n at place n and a router at each place, joined with its neighbours, wrap-around included.

    ValueError for an invalid size, or more hosts than places.
    """
    if not dims or any(size < 1 for size in dims) or prod(dims) > MOST:
        raise ValueError(f"invalid size of a torus: {'x'.join(map(str, dims))}")
    if len(hosts) > prod(dims):
        raise ValueError(f"{len(hosts)} hosts for the {prod(dims)} places of {'x'.join(map(str, dims))}")
    places = [place[::-1] for place in product(*(range(size) for size in reversed(dims)))]
    axes = "xyz" if len(dims) <= 3 else [f"d{axis}" for axis in range(len(dims))]
    for place in places:
        labels = {axis: str(at) for axis, at in zip(axes, place, strict=False)}
        found.switch(_router(name, place), "", 0, {"torus": name, **labels})
    for place in places:
        for axis, size in enumerate(dims):
            if size > 1:
                beyond = (*place[:axis], (place[axis] + 1) % size, *place[axis + 1 :])
                found.join(_router(name, place), _router(name, beyond))
    for host, place in zip(hosts, places, strict=False):
        found.attach(host, _router(name, place))
        found.host(host, torus=name, coordinates=",".join(map(str, place)))


def _router(name: str, place: Sequence[int]) -> str:
    return f"{name}({','.join(map(str, place))})"
