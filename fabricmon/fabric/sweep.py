"""Sweeps the counters and link states of a subnet's ports: built once for a subnet, run repeatedly.

Requests are laid out once and answers decoded by column. Counters are read, never reset. Where a node keeps its error
counters in PortCountersExtended, one datagram a port is enough, and they have 64 bits; elsewhere PortCounters is read
too, with narrower ones. The sum over all ports that some switches offer (AllPortSelect) is not used.

The state of a link is read at one end, the one nearer to the sweeping port, and holds for both: a link trains at both
ends or at neither, to one width and one speed. Where that end does not answer, the other is queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricmon.fabric import mad
from fabricmon.fabric.exchange import BatchOutcome, Exchange
from fabricmon.fabric.names import CASTS, COLUMN, DATA, DETAIL_NAMES, DETAILS, NAMES, STATES
from fabricmon.fabric.subnet import LINK_UP, At, FabricNode, Port, Subnet
from fabricmon.fabric.transport import Packed, Request

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

MOST_DETAILS = 512
"""Detail requests of one sweep; the rest is sent with the next, so that an error storm does not prolong the sweep."""

_ONES32 = float(2**32 - 1)


@dataclass(slots=True)
class _Batch:
    """Requests for one attribute: request i fills row `rows[i]` and goes to node `owner[i]`."""

    packed: Packed
    owner: list[int]
    parts: list[tuple[mad.Attribute, NDArray[np.intp], NDArray[np.intp]]]  # attribute, requests, rows

    def __len__(self) -> int:
        return len(self.owner)


@dataclass(slots=True)
class _Link:
    """A link with the rows of its ends (twice the same where only one end has a row), the end whose state is read, and
    the one to read where the first does not answer."""

    rows: tuple[int, int]
    ask: tuple[FabricNode, Port]
    other: tuple[FabricNode, Port] | None


@dataclass(slots=True)
class Values:
    """Values of one sweep.

    cells    ports x NAMES, float64, NaN unknown
    taken    the exchange's clock at the middle of the counters' part
    silent   GUIDs of nodes that do not answer
    refused  (row, attribute, status) of requests that were answered with an error
    sent     datagrams
    cut      the deadline passed before all was read
    """

    cells: Floats
    taken: float = 0.0
    silent: set[int] = field(default_factory=set)
    refused: list[tuple[int, str, int]] = field(default_factory=list)
    sent: int = 0
    cut: bool = False

    def account(self, outcome: BatchOutcome) -> None:
        """Add the outcome of one batch."""
        self.silent |= outcome.silent
        self.sent += outcome.sent
        self.cut |= outcome.cut


class Sweep:
    """Some ports of a subnet. `ports[row]` is the port of a row; rows keep their order.

    former  the sweep before the subnet was walked again: its state of the same ports goes on
    """

    def __init__(
        self, exchange: Exchange, subnet: Subnet, ports: Sequence[At], former: Sweep | None = None
    ) -> None:
        self.ports = tuple(ports)
        self._exchange, self._subnet = exchange, subnet
        self._row = {at: row for row, at in enumerate(self.ports)}
        self._counters = self._counter_batch()
        self._links = self._find_links()
        self._near = self._pack_states(self._links)
        self._masks = self._unsupported()
        self._silent: set[int] = set()
        self._details = np.full((len(self.ports), len(DETAIL_NAMES)), np.nan)
        self._parent = {attribute: np.zeros(len(self.ports)) for attribute in DETAILS}
        self._detailed = {attribute: np.ones(len(self.ports), np.bool_) for attribute in DETAILS}
        if former is not None:
            self._go_on(former)

    def run(self, until: float) -> Values:
        """Read all values; what was not read by `until` (the exchange's clock) is unknown."""
        values = Values(np.full((len(self.ports), len(NAMES)), np.nan))
        self.states(values, until)
        self.counters(values, until)
        self.details(values, until)
        self._silent = set(values.silent)
        return values

    # --- the three parts of a sweep

    def states(self, values: Values, until: float) -> None:
        """State, width and rate of each link."""
        answered = self._ask_states(self._links, self._near, values, until)
        left = [link for link, done in zip(self._links, answered, strict=True) if not done and link.other is not None]
        if left and not values.cut:
            others = [_Link(link.rows, link.other, None) for link in left if link.other is not None]
            self._ask_states(others, self._pack_states(others), values, until)

    def counters(self, values: Values, until: float) -> None:
        """Every counter of every port whose node answers."""
        started = self._exchange.clock()
        self._fill(self._counters, values, until)
        values.taken = (started + self._exchange.clock()) / 2
        values.cells[self._masks] = np.nan

    def details(self, values: Values, until: float) -> None:
        """Details of risen receive errors and discards; the rest keeps its last values."""
        wanted: list[tuple[mad.Attribute, int]] = []
        for attribute, parent in DETAILS.items():
            now = values.cells[:, COLUMN[parent]]
            with np.errstate(invalid="ignore"):
                risen = np.flatnonzero((now != self._parent[attribute]) & (now > 0) & self._detailed[attribute])
            wanted += [(attribute, row) for row in risen.tolist()]
        wanted = wanted[:MOST_DETAILS]
        if wanted and not values.cut:
            batch = self._batch(wanted)
            refused = len(values.refused)
            answered = self._fill(batch, values, until)
            for number, (attribute, row) in enumerate(wanted):
                if answered[number]:
                    self._parent[attribute][row] = values.cells[row, COLUMN[DETAILS[attribute]]]
            for row, name, _ in values.refused[refused:]:
                self._detailed[next(a for a in DETAILS if a.name == name)][row] = False  # not supported
            del values.refused[refused:]
        first = COLUMN[DETAIL_NAMES[0]]
        read = values.cells[:, first : first + len(DETAIL_NAMES)]
        known = np.isfinite(read)
        self._details[known] = read[known]
        read[:] = self._details

    # --- layout

    def _go_on(self, former: Sweep) -> None:
        self._silent = former._silent
        same = [(row, former._row[at]) for row, at in enumerate(self.ports) if at in former._row]
        if same:
            here, there = np.array(same, np.intp).T
            self._details[here] = former._details[there]
            for attribute in DETAILS:
                self._parent[attribute][here] = former._parent[attribute][there]
                self._detailed[attribute][here] = former._detailed[attribute][there]

    def _target(self, row: int) -> tuple[FabricNode, Port] | None:
        """Node and port to query for a row; None while the node does not answer."""
        at = self.ports[row]
        node = self._subnet.nodes[at.node]
        return (node, node.ports[at.port]) if node.missing is None and node.lid_of(at.port) else None

    def _batch(self, wanted: Iterable[tuple[mad.Attribute, int]]) -> _Batch:
        """Performance requests, by attribute and row; rows that cannot be queried are left out."""
        requests: list[Request] = []
        owner: list[int] = []
        at: dict[mad.Attribute, tuple[list[int], list[int]]] = {}
        for attribute, row in wanted:
            target = self._target(row)
            if target is None:
                continue
            node, port = target
            numbers, rows = at.setdefault(attribute, ([], []))
            numbers.append(len(requests))
            rows.append(row)
            requests.append(Request(node.lid_of(port.number), mad.performance(attribute, port.number)))
            owner.append(node.guid)
        parts = [(a, np.array(n, np.intp), np.array(r, np.intp)) for a, (n, r) in at.items()]
        return _Batch(self._exchange.transport.pack(requests), owner, parts)

    def _counter_batch(self) -> _Batch:
        wanted: list[tuple[mad.Attribute, int]] = []
        for row, at in enumerate(self.ports):
            capable, more = self._subnet.nodes[at.node].capabilities or (0, 0)
            if more & mad.CAP2_ERRORS_EXTENDED:
                wanted.append((mad.PORT_COUNTERS_EXTENDED_ERRORS, row))
                continue
            wanted.append((mad.PORT_COUNTERS, row))
            if capable & (mad.CAP_EXTENDED_WIDTH | mad.CAP_EXTENDED_NO_IETF):
                wanted.append((mad.PORT_COUNTERS_EXTENDED, row))
        return self._batch(wanted)

    def _find_links(self) -> list[_Link]:
        """Every link whose state can be read."""
        found: list[_Link] = []
        for row, at in enumerate(self.ports):
            far = self._subnet.nodes[at.node].ports[at.port].far
            other_row = self._row.get(far, -1) if far is not None else -1
            if 0 <= other_row < row:
                continue  # found at the other end
            rows = (row, other_row) if other_row > row else (row, row)
            ends = [target for r in dict.fromkeys(rows) if (target := self._target(r)) is not None]
            ends.sort(key=lambda end: (not end[0].is_switch, len(end[0].route)))
            if ends:
                found.append(_Link(rows, ends[0], ends[1] if len(ends) > 1 else None))
        return found

    def _unsupported(self) -> NDArray[np.bool_]:
        """Cells without meaning: counters that a node's capabilities do not include."""
        mask = np.zeros((len(self.ports), len(NAMES)), np.bool_)
        for row, at in enumerate(self.ports):
            capable, more = self._subnet.nodes[at.node].capabilities or (0, 0)
            if more & mad.CAP2_ERRORS_EXTENDED:
                continue
            mask[row, COLUMN["port_xmit_wait"]] = not capable & mad.CAP_XMIT_WAIT
            mask[row, COLUMN["qp1_dropped"]] = not capable & mad.CAP_QP1_DROPPED
            if not capable & mad.CAP_EXTENDED_WIDTH:
                mask[row, [COLUMN[name] for name in CASTS]] = True
        return mask

    # --- requests

    def _fill(self, batch: _Batch, values: Values, until: float) -> bytearray:
        outcome = self._exchange.run(batch.packed, batch.owner, until, self._silent | values.silent)
        answers = np.frombuffer(outcome.answers, np.uint8).reshape(-1, mad.SIZE) if len(batch) else _NOTHING
        answered = np.frombuffer(outcome.answered, np.bool_)
        for attribute, numbers, rows in batch.parts:
            good = answered[numbers]
            put(attribute, answers[numbers[good]], values.cells, rows[good])
            if outcome.refused:
                row_of = dict(zip(numbers.tolist(), rows.tolist(), strict=True))
                values.refused += [(row_of[n], attribute.name, s) for n, s in outcome.refused.items() if n in row_of]
        values.account(outcome)
        values.silent -= {batch.owner[n] for n in np.flatnonzero(answered).tolist()} if values.silent else set()
        return outcome.answered

    def _pack_states(self, links: Sequence[_Link]) -> Packed:
        ends = [link.ask for link in links]
        return self._exchange.transport.pack(
            [Request(node.lid_of(port.number), mad.by_lid(mad.PORT_INFO, port.number)) for node, port in ends]
        )

    def _ask_states(self, links: Sequence[_Link], packed: Packed, values: Values, until: float) -> bytearray:
        outcome = self._exchange.run(packed, [link.ask[0].guid for link in links], until, self._silent)
        good = np.flatnonzero(np.frombuffer(outcome.answered, np.uint8))
        if len(good):
            answers = np.frombuffer(outcome.answers, np.uint8).reshape(-1, mad.SIZE)[good]
            rows = np.array([link.rows for link in links], np.intp)[good]
            values.cells[rows, : len(STATES)] = link_states(answers)[:, None, :]
        values.account(outcome)
        return outcome.answered


_NOTHING = np.empty((0, mad.SIZE), np.uint8)
_PORT_INFO = {field.name: field for field in mad.PORT_INFO.fields}
_LANES = np.array([mad.width_of(code) or np.nan for code in range(256)])


def link_states(answers: Bytes) -> Floats:
    """STATES of n PortInfos, n x 4. Width and rate of a link that is down are unknown (IBA C14-24.2.1)."""
    got = {name: column_of(answers, _PORT_INFO[name].offset, _PORT_INFO[name].bits) for name in (
        "state", "phys_state", "width_active", "speed_active", "speed_ext_active", "speed_ext2_active"
    )}  # fmt: skip
    codes = np.stack([got["speed_active"], got["speed_ext_active"], got["speed_ext2_active"]], axis=1).astype(np.int64)
    kinds, which = np.unique(codes, axis=0, return_inverse=True)
    speed = np.array([mad.lane_speed(*kind) or np.nan for kind in kinds.tolist()])[which.reshape(-1)]
    down = got["phys_state"] != LINK_UP
    width = np.where(down, np.nan, _LANES[got["width_active"].astype(np.int64)])
    return np.stack([got["state"], got["phys_state"], width, width * speed * 1e9 / 8], axis=1)


def put(attribute: mad.Attribute, answers: Bytes, cells: Floats, rows: NDArray[np.intp]) -> None:
    """Decode answers to one attribute into `cells`, by field.

    The 32-bit data counters of PortCounters are for nodes without PortCountersExtended: at all ones, where they stop,
    they are unknown, and the 64-bit ones take precedence wherever they were read.
    """
    for name, offset, bits in attribute.fields:
        column = COLUMN.get(name)
        if column is None:
            continue
        number = column_of(answers, offset, bits)
        if attribute is mad.PORT_COUNTERS and name in DATA:
            number[number == _ONES32] = np.nan
            wide = np.isfinite(cells[rows, column])
            number[wide] = cells[rows[wide], column]
        cells[rows, column] = number


def column_of(answers: Bytes, offset: int, bits: int) -> Floats:
    """One field of many datagrams (n x 256 bytes): n numbers."""
    first, last = offset // 8, (offset + bits - 1) // 8
    total = np.zeros(len(answers), np.uint64)
    for byte in range(first, last + 1):
        total = (total << np.uint64(8)) | answers[:, mad.DATA + byte]
    spare = np.uint64(8 * (last + 1) - offset - bits)
    return ((total >> spare) & np.uint64((1 << bits) - 1)).astype(np.float64)
