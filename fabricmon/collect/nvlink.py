"""NVLinks of every GPU: state, speed, traffic, errors of either generation, and their sums on the GPU's row.

A run is one NVML call a GPU: a batch of the fields that its links answered at the last discovery. Rows of single links
are on the agent's /metrics only; rules evaluate the sums, on the agent and on the server.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from fabricmon.catalogue.nvlink import (
    CRITICAL,
    FEC_COLUMNS,
    GPU_COLUMNS,
    LINK_COUNT,
    LINK_FIELDS,
    MOST_LINKS,
    REMOTE_TYPES,
    NvmlField,
    bit_error_ratio,
)
from fabricmon.collect.collector import CollectorConfig, Session
from fabricmon.collect.machine import gpus
from fabricmon.collect.machine.rows import filled
from fabricmon.host.protocol import Host, HostError
from fabricmon.host.protocol.gpus import LACKING, SUCCESS, Gpu, NvLink
from fabricmon.model import Component, Fault, Kind, Part, Reading

NAME = "nvlink"
_STATE = "nvlink_state"
_SWITCH = 2
_MOST_FAULTS = 32  # of one run; a GPU has some hundred fields, and one cause


class NvlinkConfig(CollectorConfig, frozen=True):
    """collect.nvlink

    fec_histogram  read the 16 counters a link of corrected codewords (NVLink 5)
    """

    fec_histogram: bool = True


class _LinkCell(NamedTuple):
    """One value of a link: its column, its NVML field and address."""

    link: int
    column: str
    field: NvmlField
    at: tuple[int, int]


class NvlinkSession(Session[NvlinkConfig]):
    """All links of one GPU."""

    def __init__(self, host: Host, config: NvlinkConfig, gpu: Gpu) -> None:
        super().__init__(host, config)
        self.gpu = gpu
        self._links = 0
        self._columns: tuple[str, ...] = ()
        self._cells: tuple[_LinkCell, ...] = ()
        self._wanted: list[tuple[int, int]] = []
        self._by_call = False  # the driver has no field for the state
        self._switched = frozenset[int]()
        self._active: tuple[bool, ...] = ()
        self._last: dict[int, dict[str, float]] = {}  # link: its last values, for the sums

    def read(self) -> Reading:
        host, index = self._host, self.gpu.index
        if self.gpu.lost:
            raise HostError(gpus.row_name(index), 0, self.gpu.lost)
        start = host.monotonic()
        if self._discovers(start):
            self._discover(start)
        if not self._links:
            return Reading((), array("d"), start)
        start = host.monotonic()
        answers = host.gpus.fields(index, self._wanted)
        states = host.gpus.nvlinks(index) if self._by_call else ()
        taken = (start + host.monotonic()) / 2
        links: list[dict[str, float]] = [{} for _ in range(self._links)]
        faults: list[Fault] = []
        for cell, value, code in zip(self._cells, answers.values, answers.codes, strict=True):
            if code == SUCCESS:
                links[cell.link][cell.column] = bit_error_ratio(value) if cell.field.ber else value * cell.field.scale
            elif code not in LACKING and len(faults) < _MOST_FAULTS:
                row = f"{gpus.row_name(index)}/link{cell.link}"
                faults.append(Fault(NAME, row, f"NVML field {cell.at[0]}", f"NVML error {code}"))
        for one in states:
            if one.state is not None and one.link < self._links:
                links[one.link][_STATE] = float(one.state)
        active = tuple(link.get(_STATE, 0.0) > 0 for link in links)
        if self._active and active != self._active:  # an inactive link answers fewer fields
            self._again = -math.inf
        self._active = active
        summed = _sums([self._with_last(n, link) for n, link in enumerate(links)], len(self._switched))
        values = array("d", [summed[column] for column in GPU_COLUMNS])
        for link in links:
            values.extend([link.get(column, math.nan) for column in self._columns])
        return Reading(self._parts, values, taken, tuple(faults))

    def _with_last(self, link: int, values: dict[str, float]) -> dict[str, float]:
        """The values with the last counters of a link that is down: it has none, and the sums must not fall."""
        last = self._last.setdefault(link, {})
        last.pop(_STATE, None)
        last.update(values)
        return last

    def _discover(self, now: float) -> None:
        """Ask for all fields; those with an answer are read from then on."""
        host, index = self._host, self.gpu.index
        links = host.gpus.nvlinks(index)
        count = host.gpus.fields(index, [(LINK_COUNT, 0)])
        stated = int(count.values[0]) if count.codes[0] == SUCCESS else None
        self._links = max(self._links, min(_present(links, stated), MOST_LINKS))
        self._switched |= {link.link for link in links if link.remote == _SWITCH}
        wanted = [c for c in LINK_FIELDS if self._config.fec_histogram or c not in FEC_COLUMNS]
        every = [
            _LinkCell(link, column, field, at)
            for link in range(self._links)
            for column in wanted
            for field in LINK_FIELDS[column]
            if (at := field.address(link)) is not None
        ]
        codes = host.gpus.fields(index, [cell.at for cell in every]).codes if every else []
        # the first field that this link answers; one with an error is read on, so that the error shows
        chosen: dict[tuple[int, str], _LinkCell] = {}
        for cell, code in zip(every, codes, strict=True):
            if code not in LACKING:
                chosen.setdefault((cell.link, cell.column), cell)
        self._cells = tuple(chosen.values())
        self._wanted = [cell.at for cell in self._cells]
        self._by_call = bool(links) and not any(cell.column == _STATE for cell in self._cells)
        has = {cell.column for cell in self._cells} | ({_STATE} if self._by_call else set())
        self._columns = tuple(column for column in wanted if column in has)
        self._shape(links)
        self._settle(now)

    def _shape(self, links: Sequence[NvLink]) -> None:
        index, period = self.gpu.index, self._period
        if not self._links:
            self._parts = ()
            return
        by_number = {link.link: link for link in links}
        rows = tuple(self._row(by_number.get(n, NvLink(n))) for n in range(self._links))
        self._shape_is((
            Part(NAME, Kind.GPU, GPU_COLUMNS, (Component(gpus.row_name(index), gpus.labels(self.gpu)),), period),
            Part(NAME, Kind.NVLINK, self._columns, rows, period, wire=False),
        ))  # fmt: skip

    def _row(self, link: NvLink) -> Component:
        labels = filled({
            "gpu": str(self.gpu.index),
            "link": str(link.link),
            "uuid": self.gpu.uuid,
            "pci": self.gpu.pci,
            "remote": REMOTE_TYPES.get(link.remote, "") if link.remote is not None else "",
            "remote_pci": link.remote_pci,
        })  # fmt: skip
        return Component(f"{gpus.row_name(self.gpu.index)}/link{link.link}", labels)


def _present(links: Sequence[NvLink], stated: int | None) -> int:
    """How many links the GPU has: `stated` by the driver, or more where a further one is active or has a far end.

    A library may answer "inactive" for numbers that no link has (NVIDIA's nvml-mock up to 17, on an A100 with 12).
    """
    if stated is None:
        return len(links)
    return max([stated, *(link.link + 1 for link in links if link.state or link.remote in REMOTE_TYPES)])


def _sums(links: Sequence[dict[str, float]], switched: int) -> dict[str, float]:
    """The columns of the GPU's row. A sum is unknown where all links are; the number of active links where one is."""
    states = [link.get(_STATE, math.nan) for link in links]
    known = not any(math.isnan(state) for state in states)
    totals = [_errors(link) for link in links]
    worst = max(range(len(links)), key=lambda n: totals[n], default=0)
    bers = [link["nvlink_effective_ber"] for link in links if "nvlink_effective_ber" in link]
    crc = [_crc(link) for link in links]
    return {
        "gpu_nvlinks": float(len(links)),
        "gpu_nvlinks_active": float(sum(state > 0 for state in states)) if known else math.nan,
        "gpu_nvlinks_to_switch": float(switched),
        "gpu_nvlinks_inactive_mask": float(sum(1 << n for n, state in enumerate(states) if state == 0)),
        "gpu_nvlink_worst": float(worst) if links and totals[worst] > 0 else math.nan,
        "gpu_nvlink_crc_errors": _total(crc),
        "gpu_nvlink_replay_errors": _over(links, "nvlink_replay_errors"),
        "gpu_nvlink_recoveries": _total(
            [link.get("nvlink_recovery_errors", link.get("nvlink_recoveries_successful", math.nan)) for link in links]
        ),
        "gpu_nvlink_critical_errors": _total([_total([link[c] for c in CRITICAL if c in link]) for link in links]),
        "gpu_nvlink_effective_ber": max(bers, default=math.nan),
        "gpu_nvlink_tx": _over(links, "nvlink_tx"),
        "gpu_nvlink_rx": _over(links, "nvlink_rx"),
    }


def _crc(link: dict[str, float]) -> float:
    if "nvlink_crc_errors" in link:
        return link["nvlink_crc_errors"]
    return _total([link[c] for c in ("nvlink_crc_flit_errors", "nvlink_crc_data_errors") if c in link])


def _errors(link: dict[str, float]) -> float:
    columns = ("nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_effective_errors", *CRITICAL)
    crc = _crc(link)
    return sum(link.get(column, 0.0) for column in columns) + (0.0 if math.isnan(crc) else crc)


def _over(links: Sequence[dict[str, float]], column: str) -> float:
    return _total([link.get(column, math.nan) for link in links])


def _total(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else math.nan
