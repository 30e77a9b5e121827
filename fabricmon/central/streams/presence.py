"""Which stream feeds which node, and the presence of each node. Decides only; `pull` does the I/O.

A node may have several peers (addresses): the same agent under two names, an agent that moved to a new address, or
two machines that claim one name. One peer at most feeds the engine with a node's frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fabricmon.central.streams.budget import StreamBudget
from fabricmon.central.targets.discovery import Target
from fabricmon.model import Identity, Presence

MAX_NAME = 253  # characters of a node name, as of a host name
MAX_BOOTS = 8  # boot ids that are remembered of a node
CLONED_FOR = 3600.0
"""Seconds for which a node is a clone after a boot id came back: two machines behind one address are connected in turn,
and only the end of a stream lets the other one in."""

# The presence of a node with several peers is the best of theirs.
_BEST = (
    Presence.LIVE,
    Presence.SLOW,
    Presence.INCOMPATIBLE,
    Presence.REFUSED,
    Presence.UNREACHABLE,
    Presence.NEVER,
)


class PresenceSink(Protocol):
    """What is given the presence of nodes."""

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> object: ...

    def forget(self, node: str, now: float) -> object: ...


@dataclass(slots=True, eq=False)
class Peer:
    """One address and the state of its stream.

    node      its node name: the last one that its agent reported, else the expected name of its target
    open      its stream is open now, and its agent has identified itself
    begun     all values came on the open stream: from then on the node is live
    hello     `now` when its agent identified itself
    last      `now` of its last message (hello or frame)
    feeds     its frames go to the engine
    rival     it reports as a node that another agent feeds
    reopen    its stream is to be closed and opened anew
    proven    the last name under which its agent sent all values
    budget    what it may still send
    """

    target: Target
    node: str
    presence: Presence = Presence.NEVER
    detail: str = "not connected yet"
    identity: Identity | None = None
    open: bool = False
    begun: bool = False
    hello: float = 0.0
    last: float = 0.0
    feeds: bool = False
    rival: bool = False
    reopen: bool = False
    proven: str = ""
    budget: StreamBudget = field(default_factory=StreamBudget)


@dataclass(slots=True)
class Boots:
    """Boot ids of one node, in the order of their first report. A machine boots to a new one and never to an old one:
    one that comes back is another machine's, which has the same machine id because its image was copied.

    now       the newest
    returned  `now` when an earlier one was last reported, None: never
    """

    ids: list[str]
    now: str
    returned: float | None = None

    def record(self, boot: str, at: float) -> None:
        if boot in self.ids:
            if boot != self.now:
                self.returned = at
        else:
            self.ids = [*self.ids[1 - MAX_BOOTS :], boot]
        self.now = boot

    def returned_lately(self, at: float) -> bool:
        return self.returned is not None and at - self.returned < CLONED_FOR


class Register:
    """All peers by address and by node."""

    def __init__(self, sink: PresenceSink, slow_after: float, lost_after: float) -> None:
        self.peers: dict[str, Peer] = {}
        self._sink, self._slow, self._lost = sink, slow_after, lost_after
        self._by_node: dict[str, list[Peer]] = {}
        self._given: dict[str, tuple[Presence, str]] = {}
        self._boots: dict[str, Boots] = {}

    def configure(self, slow_after: float, lost_after: float) -> None:
        """Other limits from the next sweep on."""
        self._slow, self._lost = slow_after, lost_after

    def expect(self, target: Target, node: str, now: float) -> Peer:
        """A new peer, which should turn out to be `node`."""
        peer = Peer(target, node)
        self.peers[target.address] = peer
        self._by_node.setdefault(node, []).append(peer)
        self._settle(node, now)
        return peer

    def drop(self, peer: Peer, now: float) -> None:
        """The peer is no longer a target. A node without any is forgotten."""
        del self.peers[peer.target.address]
        self._leave(peer, now)

    def hello(self, peer: Peer, identity: Identity, now: float) -> bool:
        """The peer's agent identified itself. True: its frames feed the engine. ValueError: an invalid name."""
        name = identity.node
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise ValueError(f"its node name {name[:MAX_NAME]!r} is no name")
        peer.identity, peer.open, peer.hello, peer.last = identity, True, now, now
        peer.begun = peer.reopen = False
        if name != peer.node:
            self._leave(peer, now)
            peer.node = name
            self._by_node.setdefault(name, []).append(peer)
        if identity.boot_id:
            self._boots.setdefault(name, Boots([], identity.boot_id)).record(identity.boot_id, now)
        others = [p for p in self._by_node[name] if p is not peer and p.open]
        feeder = next((p for p in others if p.feeds), None)
        peer.feeds = feeder is None
        peer.rival = feeder is not None and feeder.identity is not None and feeder.identity.agent != identity.agent
        self._settle(name, now)
        return peer.feeds

    def begin(self, peer: Peer, now: float) -> None:
        """All values of the peer's node came: it is live. Not sooner: invalid messages may follow a valid hello."""
        peer.begun, peer.last = True, now
        peer.presence, peer.detail, peer.proven = Presence.LIVE, "", peer.node
        self._settle(peer.node, now)

    def failed(self, peer: Peer, presence: Presence, detail: str, now: float) -> None:
        """The peer's stream ended or could not be opened."""
        fed = peer.feeds
        peer.presence, peer.detail = presence, detail
        peer.open = peer.begun = peer.feeds = peer.rival = peer.reopen = False
        if fed:
            # Who waited behind it starts anew: only a new stream begins with an inventory and all values.
            for other in self._by_node[peer.node]:
                if other is not peer and other.open:
                    other.reopen = True
        self._settle(peer.node, now)

    def sweep(self, now: float) -> list[Peer]:
        """Mark streams without frames as slow. Returns the peers whose stream is to be closed."""
        close = []
        for peer in self.peers.values():
            if not peer.open:
                continue
            silent = now - peer.last
            state = Presence.SLOW if silent > self._slow else Presence.LIVE
            if peer.begun and state is not peer.presence:
                peer.presence = state
                peer.detail = f"no frame for {self._slow:g} s" if state is Presence.SLOW else ""
                self._settle(peer.node, now)
            if silent > self._lost or peer.reopen:
                close.append(peer)
        for node, boots in self._boots.items():
            if boots.returned is not None or len(boots.ids) > 1:
                self._settle(node, now)
        return close

    def last_message(self, node: str) -> float:
        """Time of the last message of the node (hello or frame); minus infinity for never."""
        return max((p.last for p in self._by_node.get(node, ()) if p.identity is not None), default=-math.inf)

    def renew(self, node: str) -> None:
        """Close the node's stream at the next sweep, so that it begins anew, with an inventory."""
        for peer in self._by_node.get(node, ()):
            peer.reopen |= peer.open and peer.feeds

    def of_node(self, node: str) -> Sequence[Peer]:
        """All addresses of a node."""
        return self._by_node.get(node, ())

    def counts(self) -> dict[Presence, int]:
        """Nodes by presence, all presences named."""
        counts = dict.fromkeys(Presence, 0)
        for presence, _ in self._given.values():
            counts[presence] += 1
        return counts

    def _leave(self, peer: Peer, now: float) -> None:
        group = self._by_node[peer.node]
        group.remove(peer)
        if group:
            if peer.feeds:
                for other in group:
                    other.reopen = other.open
            self._settle(peer.node, now)
        else:
            del self._by_node[peer.node]
            del self._given[peer.node]
            self._boots.pop(peer.node, None)
            self._sink.forget(peer.node, now)

    def _two_machines(self, node: str, now: float) -> bool:
        """A boot id came back, or frames of one still arrive although a newer one was reported. A reboot ends all
        streams before it. Frames from before the reboot may wait in a buffer, no longer than a late frame."""
        boots = self._boots.get(node)
        if boots is None or boots.returned_lately(now):
            return boots is not None
        open_ = [(p, p.identity.boot_id) for p in self._by_node[node] if p.open and p.begun and p.identity is not None]
        return any(
            boot and other and boot != other and peer.hello < later.hello and peer.last > later.hello + self._slow
            for peer, boot in open_
            for later, other in open_
        )

    def _settle(self, node: str, now: float) -> None:
        """Give the engine the node's presence, if it changed."""
        group = self._by_node[node]
        where = ", ".join(sorted(p.target.address for p in group if p.open))
        if any(p.rival for p in group):
            state = (Presence.CLONED, f"two agents report as {node}: {where}")
        elif where and self._two_machines(node, now):
            state = (Presence.CLONED, f"two machines with one machine id report as {node}: {where}")
        else:
            best = min(group, key=lambda p: (_BEST.index(p.presence), p.target.address))
            state = (best.presence, best.detail)
        if self._given.get(node) != state:
            self._given[node] = state
            self._sink.presence(node, *state, now)
