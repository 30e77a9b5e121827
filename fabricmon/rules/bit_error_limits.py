"""Limits of the bit error ratio by lane speed. Pure, vectors."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.errors import SOURCES
from fabricmon.fleet.view import View
from fabricmon.rules.rule import Ratio, RuleParams


class BitErrorParams(RuleParams, frozen=True):
    """Limits of the rules on bit errors. Targets are ratios after error correction, by the speed of a lane
    (docs/methods.md#error-ratio-targets).

    target_100g  lanes of 100 Gb/s and more (NDR, XDR; NVIDIA's "normal" symbol ratio)
    target_50g   lanes of 50 Gb/s (HDR; a tenth of the error limit in UFM's field table)
    target_25g   lanes of 25 Gb/s (EDR; the same)
    target_slow  slower or unknown lanes (a tenth of the 1e-12 of the InfiniBand baseline)
    warning      times the target; the lower bound above it is a warning
    critical     times the target; the lower bound above it is critical
    """

    target_100g: Ratio = 1e-15
    target_50g: Ratio = 1e-14
    target_25g: Ratio = 1e-14
    target_slow: Ratio = 1e-13
    warning: Annotated[float, Meta(ge=1)] = 10.0
    critical: Annotated[float, Meta(ge=1)] = 1000.0


def targets(view: View, rows: NDArray[np.intp] | slice, params: BitErrorParams) -> NDArray[np.float64]:
    """Target ratio per row, by the speed of one lane; a link of unknown width counts as four lanes."""
    width = view.value("width")[rows]
    lane = view.tracks.errors.rate[rows] / np.where(width > 0, width, 4.0)
    return np.select(
        [lane >= 90e9, lane >= 45e9, lane >= 20e9],
        [params.target_100g, params.target_50g, params.target_25g],
        params.target_slow,
    )


def read_lately(view: View) -> NDArray[np.bool_]:
    """Rows of which a counter of bit errors was read and is not stale."""
    read = np.zeros(view.n, np.bool_)
    for group in SOURCES:
        read |= view.fresh(group[0])
    return read
