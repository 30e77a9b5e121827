"""What is counted and logged of streams: once per address what its agent sends wrongly, and whether it is followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from fabricmon.central.streams.limits import OverLimit
from fabricmon.central.streams.presence import Peer
from fabricmon.central.streams.stream import MAX_DETAIL, Ended
from fabricmon.model import Presence
from fabricmon.runtime import logs

TOPICS = ("", "values of ", "columns of ", "turns of ")
"""What has a state of its own for each address, which is logged when it changes."""


class StreamCounts:
    """Counters since the start of the process, all streams together."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        def counter(name: str, help: str, unit: str = "", labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"fabricmon_central_{name}", help, labels, unit=unit, registry=registry)

        self.frames = counter("frames", "Frames received from agents")
        self.bytes = counter("frame_bytes", "Bytes of frames received from agents", "bytes")
        self.events = counter("events", "Kernel events received from agents")
        self.inventories = counter("inventories", "Inventories received from agents")
        self.bad_messages = counter("bad_messages", "Messages that were no valid part of a stream; each ended it")
        self.refused = counter(
            "refused", "Messages of agents beyond a limit (docs/security.md, Budgets of an agent), which ended their "
            "streams; of limit value: frames with values that count as unknown; of limit turns: large inventories "
            "that had to wait; of limit protocol: no messages",
            labels=("limit",),
        )  # fmt: skip
        self.unknown_columns = Gauge(
            "fabricmon_central_unknown_columns", "Columns of all nodes that the server does not know and does not "
            "keep, as agents of a newer version may send", registry=registry,
        )  # fmt: skip
        self.connects = counter("connects", "Streams opened")
        self.failures = counter("connect_failures", "Attempts to open a stream that failed")


class StreamNotes:
    """`limit`: addresses that are followed at most.

    frames, frame_bytes  received since `settle` added them to the counters, which takes a lock
    """

    def __init__(self, registry: CollectorRegistry | None, limit: int, unknown_columns: Callable[[], int]) -> None:
        self.counts = StreamCounts(registry)
        self.counts.unknown_columns.set_function(unknown_columns)
        self.frames = self.frame_bytes = 0
        self._log = logs.get(part="pull")
        self._transitions = logs.Transitions(self._log, limit=len(TOPICS) * limit)

    def settle(self) -> None:
        """Add what was received to the counters."""
        self.counts.frames.inc(self.frames)
        self.counts.bytes.inc(self.frame_bytes)
        self.frames = self.frame_bytes = 0

    def forget(self, address: str) -> None:
        """The address is no target any more."""
        for topic in TOPICS:
            self._transitions.forget(f"{topic}{address}")

    def followed(self, peer: Peer, fed: bool) -> None:
        """All values of the agent came. `fed`: they go to the engine."""
        address = peer.target.address
        event = "agent followed" if fed else "agent not followed: another address streams for this node"
        self._transitions.note(
            address, "followed" if fed else "not fed", event, bad=not fed, address=address, node=peer.node
        )

    def not_followed(self, peer: Peer, ended: Ended) -> None:
        address, state = peer.target.address, f"{ended.presence}: {ended.detail}"
        self._transitions.note(
            address, state, "agent not followed", bad=True, address=address, node=peer.node, why=state
        )

    def unknown_columns(self, peer: Peer, unknown: Sequence[str]) -> None:
        """The node sends columns that are not kept."""
        address = peer.target.address
        self._transitions.note(
            f"columns of {address}", "unknown" if unknown else "known",
            "columns that this server does not know are not kept" if unknown else "all columns are known again",
            bad=bool(unknown), address=address, node=peer.node, count=len(unknown),
            columns=", ".join(unknown)[:MAX_DETAIL],
        )  # fmt: skip

    def wild_values(self, peer: Peer) -> None:
        """The node sent values which no counter can have."""
        address = peer.target.address
        self.counts.refused.labels("value").inc()
        self._transitions.note(
            f"values of {address}", "wild", "values that no counter can have count as unknown", bad=True,
            address=address, node=peer.node,
        )  # fmt: skip

    def many_turns(self, peer: Peer, error: OverLimit) -> None:
        """The node sent more large inventories than it has turns."""
        address = peer.target.address
        self.counts.refused.labels(error.limit).inc()
        self._transitions.note(f"turns of {address}", "many", str(error), bad=True, address=address, node=peer.node)

    def incompatible(self, error: ValueError) -> Ended:
        """The end of a stream that broke the protocol or a limit."""
        self.counts.bad_messages.inc()
        self.counts.refused.labels(error.limit if isinstance(error, OverLimit) else "protocol").inc()
        return Ended(Presence.INCOMPATIBLE, str(error)[:MAX_DETAIL])

    def our_fault(self, peer: Peer, error: Exception) -> Ended:
        """A fault of the server in one stream, which must cost that stream only."""
        self.counts.failures.inc()
        self._log.error("stream failed", address=peer.target.address, exc_info=error)
        return Ended(Presence.INCOMPATIBLE, f"{type(error).__name__} in the server: {error}")
