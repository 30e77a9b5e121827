"""State of ports, flows and PCIe links carried from tick to tick, advanced once per tick for rows read since the last.
Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.technology import NONE, of_pcie, unbound
from fabricmon.catalogue.xid import OFF_THE_BUS
from fabricmon.fleet import link
from fabricmon.fleet.device_errors import CORRECTED, FATAL, UNCORRECTED, DeviceErrors
from fabricmon.fleet.errors import Errors
from fabricmon.fleet.link_states import LinkStates
from fabricmon.fleet.losses import FLOWS, PORTS, SLOWEST, WINDOW, Losses
from fabricmon.fleet.movement import Movement
from fabricmon.fleet.peers import Peers
from fabricmon.fleet.pressure import Pressure
from fabricmon.fleet.probes import Probes, Reach
from fabricmon.fleet.row_state import Bools, Floats, Numbers, RowState, per_row
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.table import Table
from fabricmon.fleet.trend import ModuleTrend
from fabricmon.model import ComponentId, Kind


class Tracks(LinkStates):
    """Per row of the PORT table, besides the state of its link.

    first  `now` of the first tick that knew the row
    """

    first = per_row(np.float64, np.nan)

    def __init__(self, capacity: int, settings: TrackSettings, flows: Callable[[], Table]) -> None:
        super().__init__(capacity)
        self._flows = flows
        self._delivered_at, self._delivered = (-1, -1, -1), np.zeros(0)  # for each turn of the windows of flows
        self.movement = Movement(capacity)
        self.errors = Errors(capacity, settings)
        self.devices = DeviceErrors(capacity, FATAL)
        self.pressure = Pressure(capacity)
        self.modules = ModuleTrend(capacity)
        self.peers = Peers(capacity)
        self.losses = Losses(capacity, PORTS)
        self.reach = Reach(capacity)

    def advance(self, table: Table, now: float, settings: TrackSettings) -> None:
        n = table.n
        if not n:
            return
        self.first[np.flatnonzero(np.isnan(self.first[:n]))] = now
        self.update(table, now, settings)
        self.errors.advance(table, self, now, settings)
        self.devices.advance(table, now)
        self.losses.advance(table, now, self.facts.role)
        self.modules.advance(table, self.link, now)
        self.movement.advance(table, now)
        self.pressure.advance(table, self.facts, now)
        self.peers.advance(table, self, self.pressure, now)

    def delivered(self, table: Table) -> Floats:
        """`now` at which the newest window ended in which connections or probes from or to each port of `table`
        delivered packets, -inf where none did, or where it is longer than SLOWEST and a reading: who was not read for a
        while may have delivered them long before. Probes of InfiniBand alone: of RoCE adapters some count RDMA only."""
        flows, found = self._flows(), np.full(table.n, -np.inf)
        if not isinstance(flows.tracks, FlowTracks):
            return found
        losses, n = flows.tracks.losses, flows.n
        state = losses.turns, flows.changes, table.changes
        if state == self._delivered_at:
            return self._delivered
        ends = flows.tracks.probes.ends(flows, table)
        good = (losses.sent[0, :n] > losses.lost[0, :n]) & (losses.length[:n] <= SLOWEST + WINDOW)
        probes = np.isfinite(flows.value("flow_late"))
        for rows in (ends.near, ends.far):
            mine = np.flatnonzero(good & flows.present[:n] & (rows >= 0) & ~(probes & ~self.facts.infiniband[rows]))
            np.fmax.at(found, rows[mine], losses.ended[mine])
        found.flags.writeable = False
        self._delivered_at, self._delivered = state, found
        return found


class FlowTracks(RowState):
    """Per row of the FLOW table. Probes are counted at both ends: `ports` is the PORT table, when called."""

    def __init__(self, capacity: int, ports: Callable[[], Table]) -> None:
        super().__init__(capacity)
        self.losses, self.probes = Losses(capacity, FLOWS), Probes(capacity)
        self._ports = ports

    def advance(self, table: Table, now: float, settings: TrackSettings) -> None:
        del settings  # the windows of losses have none
        table.relabelled.clear()
        ports = self._ports()
        if table.n:
            self.losses.advance(table, now)
            if isinstance(ports.tracks, Tracks):
                self.probes.advance(table, ports, ports.tracks.reach, now)


class AdapterWork(NamedTuple):
    """Of some rows.

    now   an adapter carried traffic in its newest slot
    last  `now` of the newest slot in which it did, NaN never
    up    one of its links is up
    """

    now: Bools
    last: Floats
    up: Bools


class PcieTracks(RowState):
    """Per row of the PCIE table. `technology`: number of what it is checked as, -1 where as nothing. `unbound`: no
    driver serves the device. `bridge`: it is one, and no device. `uncorrected`, `corrected`: errors on the way to the
    CPU."""

    technology = per_row(np.int8, NONE)
    unbound = per_row(np.bool_, False)
    bridge = per_row(np.bool_, False)

    def __init__(self, capacity: int, ports: Callable[[], Table]) -> None:
        super().__init__(capacity)
        self.uncorrected, self.corrected = DeviceErrors(capacity, UNCORRECTED), DeviceErrors(capacity, CORRECTED)
        self._ports = ports  # called, as a table among the parts would grow with this one
        self._rows_of: dict[int, Numbers] = {}
        self._rows_at = 0, 0  # `changes` of both tables

    def work(self, table: Table, rows: Numbers) -> AdapterWork:
        """When the ports of the adapter of each of some rows carried traffic."""
        ports = self._ports()
        now, up = np.zeros((2, len(rows)), np.bool_)
        last = np.full(len(rows), np.nan)
        of = [self._ports_of(table, row, ports) for row in rows.tolist()]
        some = [at for at, mine in enumerate(of) if len(mine)]
        if isinstance(ports.tracks, Tracks) and some:
            starts = np.cumsum([0, *(len(of[at]) for at in some)])[:-1]
            every, tracks = np.concatenate(of), ports.tracks
            now[some] = np.logical_or.reduceat(tracks.pressure.busy[every], starts)
            last[some] = np.fmax.reduceat(tracks.pressure.worked[every], starts)
            up[some] = np.logical_or.reduceat(tracks.link[every] == link.UP, starts)
        return AdapterWork(now, last, up)

    def _ports_of(self, table: Table, row: int, ports: Table) -> Numbers:
        """PORT rows of the row's adapter; remembered while neither table changes."""
        if self._rows_at != (state := (table.changes, ports.changes)):
            self._rows_at = state
            self._rows_of.clear()
        if row not in self._rows_of:
            labels, node = table.labels[row], table.ids[row].node
            device = labels.get("rdma") or labels.get("owner", "")
            names = (device, f"{device}/1", f"{device}/2")
            found = (ports.row(ComponentId(Kind.PORT, node, name)) for name in names)
            self._rows_of[row] = np.array([row for row in found if row is not None], np.intp)
        return self._rows_of[row]

    def advance(self, table: Table, now: float, settings: TrackSettings) -> None:
        del settings  # neither labels nor counts have one
        self.uncorrected.advance(table, now)
        self.corrected.advance(table, now)
        for row in table.relabelled:
            self.technology[row] = of_pcie(table.labels[row])
            self.unbound[row] = unbound(table.labels[row])
            self.bridge[row] = table.labels[row].get("class") == "bridge"
        table.relabelled.clear()


OF_GPUS = ("gpu_recovery_action", "gpu_pcie_width", "gpu_nvlinks", "gpu_fabric_state")
"""Columns of which one at least is read of each GPU that answers."""
RETURNED = 60.0
"""Seconds after it fell off the bus from which a GPU that is read is back: readings of before it may still arrive, and
the driver may answer for a while from what it remembers (design choice)."""


class GpuTracks(RowState):
    """Per row of the GPU table. `lost`: `now` at which its driver last reported that it fell off the bus, NaN never, or
    where it answered later, or is in a new epoch (boot, reload) since."""

    lost = per_row(np.float64, np.nan)

    def advance(self, table: Table, now: float, settings: TrackSettings) -> None:
        del settings  # a reading has none
        table.relabelled.clear()
        rows, _ = table.risen("gpu_xid_events")
        self.lost[rows[np.isin(table.value("gpu_last_xid")[rows], OFF_THE_BUS)]] = now
        rows = np.flatnonzero(np.isfinite(self.lost[: table.n]))
        if len(rows):
            back = table.begun[rows] > self.lost[rows]
            for column in OF_GPUS:
                if (times := table.read_times(column)) is not None:
                    later = table.received(times)[rows] > self.lost[rows] + RETURNED
                    back |= later & np.isfinite(table.value(column)[rows])
            self.lost[rows[back]] = np.nan
