"""Streams to agents: `central.pull`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.units import Duration


class PullConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The stream of the server to each agent.

    connect_timeout  for the TCP connection and the WebSocket handshake together; seconds in which the server itself is
                     busy with other work do not count.
    slow_after       without a frame that long the agent is slow; agents send about one a second.
    lost_after       without a frame that long the stream is closed and reconnected.
    retry_min        first wait between two attempts at one agent; doubles, each wait with 50..100 % jitter.
    retry_max        longest of these waits.
    connecting       concurrent connection attempts at most; fewer while the server is busy.
    max_targets      further targets are refused and counted, so that broken discovery cannot exhaust the machine.
    max_message      bytes of one message of an agent; a full frame of 100,000 values has 800,000.
    """

    connect_timeout: Duration = Duration(3)
    slow_after: Duration = Duration(5)
    lost_after: Duration = Duration(15)
    retry_min: Duration = Duration(0.5)
    retry_max: Duration = Duration(15)
    connecting: Annotated[int, Meta(ge=1, le=4096)] = 128
    max_targets: Annotated[int, Meta(ge=1, le=100_000)] = 20_000
    max_message: Annotated[int, Meta(ge=65_536, le=67_108_864)] = 16_777_216

    def __post_init__(self) -> None:
        if not 0 < self.retry_min <= self.retry_max:
            raise ValueError("`retry_min` must be above 0 and not above `retry_max`")
        if not 0 < self.slow_after < self.lost_after:
            raise ValueError("`slow_after` must be above 0 and below `lost_after`")
        if self.connect_timeout <= 0:
            raise ValueError("`connect_timeout` must be above 0")
