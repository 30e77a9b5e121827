"""Settings of `central.probe`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.probe.assignment import FASTEST, LONGEST
from fabricmon.probe.plan import PlanLimits
from fabricmon.units import Duration

LEAST = 15.0
"""Seconds an assignment holds at least: it is renewed three times in its life."""


class CentralProbeConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Probes between the adapters of agents with `agent.probe` (docs/probing.md). A reload that turns it off stops all
    probing at once.

    enabled      plan probes and send each agent its own
    rate         probes a second and adapter
    dscp         of probes: that of the jobs' traffic, so that they take its queues
    chords       peers of an adapter on its own leaf, at most
    between      peers of an adapter on other leaves, at most
    paths        equal-cost paths of a leaf whose uplinks the topology does not have
    probability  with which every path of a leaf shall carry a probe
    lasts        after which an agent stops whose server is gone
    """

    enabled: bool = False
    rate: Annotated[float, Meta(gt=0, le=FASTEST)] = FASTEST
    dscp: Annotated[int, Meta(ge=0, le=63)] = 0
    chords: Annotated[int, Meta(ge=1, le=8)] = 4
    between: Annotated[int, Meta(ge=1, le=16)] = 4
    paths: Annotated[int, Meta(ge=1, le=1024)] = 16
    probability: Annotated[float, Meta(gt=0, lt=1)] = 0.99
    lasts: Duration = Duration(60)

    def __post_init__(self) -> None:
        if not LEAST <= self.lasts <= LONGEST:
            raise ValueError(f"`lasts` must be between {LEAST:g}s and {LONGEST:g}s")

    @property
    def limits(self) -> PlanLimits:
        return PlanLimits(self.chords, self.between, self.paths, self.probability)
