"""Which fault domains every row belongs to: arrays of group ids for the fleet and the diagnosis. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DOMAINS = ("link", "nic", "host", "leaf", "rail", "power")


@dataclass(slots=True)
class Domains:
    """For n rows, per domain a group id.

    ids    domain -> int32[n], -1 where the row is in no known group of that domain
    names  domain -> names by group id: "host-007/mlx5_3/1, leaf-3/12" for a link, "su1/rail2" for a leaf
    """

    ids: dict[str, NDArray[np.int32]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
