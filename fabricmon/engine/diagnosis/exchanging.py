"""Silent hosts that go on exchanging data: their agent or its network failed (docs/methods.md#hosts-that-go-on). Pure.

A host that received traffic until its agent fell silent, and towards which no port has lost packets since although the
ports that may send to it work on and are read, is more likely up than dead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.diagnosis.losses import BEFORE, NEAR, SUSPECT
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.witnesses import RAILS_SHARE, may_send, on_its_rails
from fabricmon.engine.domains.groups import Ints, Mask
from fabricmon.engine.domains.port_health import PortHealth
from fabricmon.fleet.losses import WINDOW
from fabricmon.fleet.slots import SLOT

SHOWN = 15.0
"""Seconds after a host dies by which a window that ends has the timers of who sent to it: the first fires after 4.3 s
(4.096 us x 2^20, the default of NCCL), and a window lasts 10 s."""
ASKED = SHOWN + WINDOW
"""Seconds by which a window of each port has ended that late."""
DEAD = next(mode for mode in MODES if mode.name == "host dead")
MANY = 64
"""Hosts that fall silent within BEFORE + NEAR up to which each is looked at: more have one cause."""


@dataclass(slots=True)
class _Silence:
    """onset of one silence, and whether ports lost packets since that may be sent to the host; it is `up` or not."""

    onset: float
    doubted: bool = False
    up: bool = False


class Exchanging(NamedTuple):
    """NODE rows of silent hosts.

    up       they are more likely up than dead
    pending  that may be known within seconds
    """

    up: Ints
    pending: Ints


class ExchangingHosts:
    """Remembers of each silence whether the host went on: losses towards a dead one end, as its peers give it up."""

    def __init__(self) -> None:
        self._silences: dict[int, _Silence] = {}

    def update(
        self, observations: Observations, ports: PortHealth, loss: Mask, silence: Callable[[float], float]
    ) -> Exchanging:
        """The silent hosts of which it is, or may soon be, known that they go on.

        loss     bool[n], ports of which each way to lose packets is read
        silence  probability that a host that fell silent at some time did so for a reason of its own (`silence_rate`)
        """
        silent, lossy = observations.get(SymptomType.AGENT_SILENT), observations.get(SymptomType.PACKET_LOSS)
        if silent is None or lossy is None or ports.work is None:
            self._silences = {}
            return Exchanging(np.empty(0, np.int64), np.empty(0, np.int64))
        before, self._silences = self._silences, {}
        for row, onset in zip(silent.rows.tolist(), silent.onset.tolist(), strict=True):
            known = before.get(row)
            self._silences[row] = known if known is not None and known.onset == onset else _Silence(onset)
        late = {row: held for row, held in self._silences.items() if ports.now - held.onset <= BEFORE + NEAR}
        pending = set[int]()
        if late and len(late) <= MANY:
            sending = _Senders(lossy, ports, loss, silent)
            for row, held in late.items():
                self._judge(row, held, sending, silence(held.onset), pending)
        up = [row for row, held in self._silences.items() if held.up]
        return Exchanging(np.array(up, np.int64), np.array(sorted(pending), np.int64))

    def _judge(self, row: int, held: _Silence, sending: _Senders, silence: float, pending: set[int]) -> None:
        host = sending.host(row)
        held.doubted |= sending.lose(host, held.onset)
        if held.doubted:
            held.up = False
        elif not held.up and _dead(sending.most(held.onset), silence) < SUSPECT and sending.received(host, held.onset):
            share, most = sending.read(host, held.onset)
            held.up = _dead(share, silence) < SUSPECT
            if not held.up and sending.ports.now - held.onset < ASKED and _dead(most, silence) < SUSPECT:
                pending.add(row)


def _dead(share: float, silence: float) -> float:
    """Probability that a host is dead towards which nothing is lost, where this share of its peers' ports is read."""
    odds = exp(-DEAD.cost) * (1.0 - DEAD.q[SymptomType.LOSS_TOWARDS_HOST] * share)
    return odds / (odds + silence)


class _Senders:
    """The ports that may have sent to hosts, at one diagnosis."""

    def __init__(self, lossy: Observation, ports: PortHealth, loss: Mask, silent: Observation) -> None:
        assert ports.work is not None
        self.ports, self._work, self._lossy, self._silent = ports, ports.work, lossy, silent
        self._hosts = ports.groups.ids["host"]
        n = len(self._hosts)
        self._shows = lossy.known[:n] & loss[:n]
        self._shows[lossy.rows] = False  # it loses already: more would not show
        nodes = silent.groups.ids["host"]
        self._every = max(int(np.count_nonzero(nodes >= 0)), 1)
        self._newest = np.full(int(self._hosts.max(initial=-1)) + 2, -np.inf)  # the last: of no host
        np.fmax.at(self._newest, self._hosts, ports.read)

    def host(self, row: int) -> int:
        return int(self._silent.groups.ids["host"][row])

    def received(self, host: int, onset: float) -> int:
        """Ports of a host that received traffic in the last slot that was read before it fell silent."""
        mine = self._hosts == host
        with np.errstate(invalid="ignore"):
            late = mine & self._work.received & (self._work.newest >= onset - 2 * SLOT)
        return int(np.count_nonzero(late)) if host >= 0 else 0

    def lose(self, host: int, onset: float) -> bool:
        """Whether ports began to lose packets about then that may be sent to it: each port that received has a sender,
        so half as many as these, on half of its rails."""
        near = self._lossy.rows[(self._lossy.onset >= onset - BEFORE) & (self._lossy.onset <= onset + NEAR)]
        near = near[may_send(self.ports, near, host, onset)]
        enough = len(near) > 0 and len(near) >= RAILS_SHARE * self.received(host, onset)
        return enough and on_its_rails(self.ports, near, host, onset)

    def most(self, onset: float) -> float:
        """Share of the hosts whose ports were read since."""
        return min(1.0, np.count_nonzero(self._newest[:-1] >= onset) / self._every)

    def read(self, host: int, onset: float) -> tuple[float, float]:
        """Share of the ports that may have sent to it that work on and would have shown a loss by now; and the most
        that it may be when the windows of all have ended."""
        with np.errstate(invalid="ignore"):
            worked = np.flatnonzero((self.ports.read >= onset) & (self._work.newest >= onset - NEAR))
        worked = worked[self._hosts[worked] != host]
        worked = worked[may_send(self.ports, worked, host, onset)]
        hosts = self.most(onset)
        if not len(worked):
            return 0.0, hosts
        on = self._shows[worked] & (self.ports.read[worked] >= onset + SHOWN)
        on &= self._work.newest[worked] >= onset + SLOT
        return hosts * float(on.mean()), hosts * float(self._shows[worked].mean())
