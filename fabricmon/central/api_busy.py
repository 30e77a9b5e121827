"""How busy and how held up ports and rails are, as the centre's API tells it; docs/api.md."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.utilisation import Share, Utilisation

SORTS = ("busy", "waiting", "pausing")

Floats = NDArray[np.float32] | NDArray[np.float64]


class Held(NamedTuple):
    """Of every row: the share of the last half minute in which it had data and was not let send, and in which it kept
    its peer from sending, NaN unknown; whether the first is an estimate."""

    waiting: Floats
    pausing: Floats
    estimated: NDArray[np.bool_]


def held_up(of: Utilisation) -> Held:
    """As of the last tick."""
    found, n = of.view.tracks.pressure, of.view.n
    return Held(
        np.minimum(found.waits(n), 1.0), np.minimum(found.pausing.recent[0, :n], 1.0), found.estimated[:n]
    )


def order(of: Utilisation, held: Held, rows: NDArray[np.intp], by: str) -> NDArray[np.intp]:
    """Rows by one of SORTS, the most first, unknown last."""
    key: Floats = np.fmax(of.receive, of.transmit)
    if by != "busy":
        key = held.waiting if by == "waiting" else held.pausing
    return np.asarray(rows[np.argsort(-np.where(np.isnan(key[rows]), -1.0, key[rows]), kind="stable")])


def fields(held: Held, row: int) -> dict[str, float | bool | None]:
    """What stands of it in the answer for one port."""
    return {
        "waiting_ratio": known(float(held.waiting[row])),
        "waiting_estimated": bool(held.estimated[row]),
        "pausing_ratio": known(float(held.pausing[row])),
    }


def rails(of: Utilisation) -> dict[str, Any]:
    """All rails and tiers."""
    return {"rails": [_share(s) for s in of.rails()], "tiers": [_share(s) for s in of.tiers()]}


def _share(share: Share) -> dict[str, Any]:
    return {
        "name": share.name,
        "receive_ratio": known(share.receive),
        "transmit_ratio": known(share.transmit),
        "known": share.known,
        "ports": share.of,
    }


def known(value: float) -> float | None:
    """A number, or None where it is unknown."""
    return value if math.isfinite(value) else None
