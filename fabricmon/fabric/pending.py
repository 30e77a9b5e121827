"""Order of the requests of a batch, and the end of requests to silent nodes. Pure.

After a timeout a node is in doubt: one request at a time probes it, up to `tries` in all, and the rest of its requests
wait. When it answers they go on; otherwise they are dropped. So a dead node costs `tries` timeouts in one place of the
window, however many ports it has. Each waits twice as long as the one before: what is busy for a moment is not silent.
A node that was silent in the last sweep begins in doubt, with one try.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

DOUBLINGS_MOST = 4
"""Doublings of a request's timeout; further tries wait no longer."""


class PendingRequests:
    """The requests of one batch; request i goes to node `owner[i]`, any hashable.

    tries   how often a request is sent before its node counts as silent
    silent  nodes that did not answer last time; updated by this batch
    """

    def __init__(self, owner: Sequence[int], tries: int, silent: Collection[int] = ()) -> None:
        self.silent = set(silent)
        self._owner = owner
        self._tries = tries
        self._probe: dict[int, int] = {}  # node in doubt -> the request that probes it
        self._sent: dict[int, int] = {}  # request -> times it timed out
        self._held: dict[int, list[int]] = {}  # node in doubt -> requests that wait
        self._given_up: set[int] = set()  # nodes
        self._known = frozenset(silent)
        self._again: deque[int] = deque()
        self._order = iter(_interleaved(owner, self.silent))

    def next(self) -> int | None:
        """The next request to send; None while there is none."""
        if self._again:
            return self._again.popleft()
        for at in self._order:
            node = self._owner[at]
            if node in self._given_up:
                continue
            if node in self._probe:
                self._held[node].append(at)
            elif node in self.silent:
                self._probe[node], self._held[node] = at, []
                self._sent[at] = self._tries - 1
                return at
            else:
                return at
        return None

    def doublings(self, at: int) -> int:
        """How often the timeout of a request is doubled when it is sent now."""
        return 0 if self._owner[at] in self._known else min(self._sent.get(at, 0), DOUBLINGS_MOST)

    def answered(self, at: int) -> None:
        """Note an answer, an error status too: the node is not silent."""
        if self._probe or self.silent:
            node = self._owner[at]
            self.silent.discard(node)
            self._given_up.discard(node)
            if node in self._probe:
                del self._probe[node]
                self._again.extend(self._held.pop(node))

    def timed_out(self, at: int) -> None:
        node = self._owner[at]
        if node in self._given_up:
            return
        probe = self._probe.get(node)
        if probe is not None and probe != at:
            self._held[node].append(at)  # was on its way when the doubt began
            return
        sent = self._sent[at] = self._sent.get(at, 0) + 1
        if probe is None:
            self._probe[node], self._held[node] = at, []
        if sent < self._tries:
            self._again.append(at)
        else:
            self._give_up(node)

    def _give_up(self, node: int) -> None:
        self.silent.add(node)
        self._given_up.add(node)
        del self._probe[node], self._held[node]


def _interleaved(owner: Sequence[int], first: Collection[int]) -> Iterable[int]:
    """All requests so that one node's are far apart; those of nodes in doubt come first, to time out meanwhile."""
    queues: dict[int, list[int]] = {}
    for at, node in enumerate(owner):
        queues.setdefault(node, []).append(at)
    doubted = [queues.pop(node) for node in list(queues) if node in first]
    for queue in doubted:
        yield queue[0]
    waiting = list(queues.values())
    depth = 0
    while waiting:
        for queue in waiting:
            yield queue[depth]
        depth += 1
        waiting = [queue for queue in waiting if len(queue) > depth]
    for queue in doubted:
        yield from queue[1:]
