"""Agents found by DNS name: `central.dns`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fabricmon.units import Duration

Port = Annotated[int, Meta(ge=1, le=65535)]


class DnsTargets(Struct, forbid_unknown_fields=True, frozen=True):
    """Agents found by name: every address behind an A/AAAA name (with `port`), or every target of an SRV name.

    name     the name: "fabricmon-agents.example.com".
    type     A or AAAA: every address of the name; SRV: every target with its port.
    port     port of the addresses of an A or AAAA name.
    refresh  interval between two queries.
    keep     an address the name no longer gives stays expected that long: service discovery removes dead nodes from
             DNS.
    """

    name: str
    type: Literal["A", "AAAA", "SRV"] = "A"
    port: Port = 9790
    refresh: Duration = Duration(30)
    keep: Duration = Duration(3600)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("`name` is empty")
        if self.refresh < 1:
            raise ValueError("`refresh` is below 1s")
