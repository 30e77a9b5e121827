"""Utilisation and back-pressure of ports and rails in the API; docs/api.md."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.central.documents.fleet import RailsDocument, ShareDocument
from fabricmon.fleet.utilisation import Share, Utilisation
from fabricmon.forms.documents import finite

SORTS = ("busy", "waiting", "pausing")

Floats = NDArray[np.float32] | NDArray[np.float64]


class Held(NamedTuple):
    """Per row: share of the last 30 s in which the port could not transmit queued data, share in which it paused its
    peer (NaN unknown), and whether the first is an estimate."""

    waiting: Floats
    pausing: Floats
    estimated: NDArray[np.bool_]


def held_up(of: Utilisation) -> Held:
    """As of the last tick."""
    found, n = of.view.tracks.pressure, of.view.n
    return Held(found.waits(n), np.minimum(found.pausing.recent[0, :n], 1.0), found.estimated[:n])


def order(of: Utilisation, held: Held, rows: NDArray[np.intp], by: str) -> NDArray[np.intp]:
    """Rows by one of SORTS, highest first, unknown last."""
    key: Floats = np.fmax(of.receive, of.transmit)
    if by != "busy":
        key = held.waiting if by == "waiting" else held.pausing
    return np.asarray(rows[np.argsort(-np.where(np.isnan(key[rows]), -1.0, key[rows]), kind="stable")])


def fields(held: Held, row: int) -> dict[str, float | bool | None]:
    """The fields of one port."""
    return {
        "waiting_ratio": finite(float(held.waiting[row])),
        "waiting_estimated": bool(held.estimated[row]),
        "pausing_ratio": finite(float(held.pausing[row])),
    }


def rails(of: Utilisation) -> RailsDocument:
    """All rails and tiers."""
    return {"rails": [_share(s) for s in of.rails()], "tiers": [_share(s) for s in of.tiers()]}


def _share(share: Share) -> ShareDocument:
    return {
        "name": share.name,
        "receive_ratio": finite(share.receive),
        "transmit_ratio": finite(share.transmit),
        "known": share.known,
        "ports": share.of,
    }
