"""NVLinks of every GPU: state, speed, traffic, errors of either generation, and their sums on the GPU's row.

A run is one NVML call a GPU: a batch with every field of every link that the GPU answered when it was last looked at
as a whole. Rows of single links stay on the node's /metrics; the sums are what rules judge, here and at the centre.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from fabricmon.catalogue.nvlink import (
    CRITICAL,
    FEC_COLUMNS,
    GPU_COLUMNS,
    LINK_COUNT,
    LINK_FIELDS,
    MOST_LINKS,
    REMOTE_TYPES,
    Field,
    bit_error_ratio,
)
from fabricmon.collect import gpus
from fabricmon.host.gpus import LACKING, SUCCESS, Gpu, NvLink
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "nvlink"
_STATE = "nvlink_state"
_SWITCH = 2
_MOST_FAULTS = 32  # of one run; a GPU has some hundred fields, and one cause


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.nvlink

    enabled        read NVLinks at all
    interval       between two reads
    deadline       for one GPU; after it its values are unknown until it answers
    rediscover     between two looks for new GPUs, links and fields
    fec_histogram  read the 16 counters a link of corrected codewords (NVLink 5)
    """

    enabled: bool = True
    interval: Duration = Duration(10)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    fec_histogram: bool = True


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._sessions: dict[str, Session] = {}

    def sessions(self) -> dict[str, Session]:
        """A Session for each GPU, whether it has NVLinks or not."""
        self._sessions = gpus.sessions(self._host, self._sessions, partial(Session, self._host, self._config))
        return dict(self._sessions)

    def close(self) -> None:
        self._sessions.clear()


class _Cell(NamedTuple):
    """Where one value of a link goes and what it is asked as."""

    link: int
    column: str
    field: Field
    at: tuple[int, int]


class Session:
    """All links of one GPU."""

    def __init__(self, host: Host, config: Config, gpu: Gpu) -> None:
        self.gpu = gpu
        self._host, self._config = host, config
        self._parts: tuple[Part, ...] = ()
        self._links = 0
        self._columns: tuple[str, ...] = ()
        self._cells: tuple[_Cell, ...] = ()
        self._wanted: list[tuple[int, int]] = []
        self._by_call = False  # the driver has no field for the state
        self._switched = frozenset[int]()
        self._active: tuple[bool, ...] = ()
        self._last: dict[int, dict[str, float]] = {}  # link: what it told last, for the sums
        self._again = -math.inf

    def read(self) -> Reading:
        host, index = self._host, self.gpu.index
        if self.gpu.lost:
            raise HostError(gpus.row_name(index), 0, self.gpu.lost)
        start = host.monotonic()
        if start >= self._again:
            self._discover(start)
        if not self._links:
            return Reading((), array("d"), start)
        start = host.monotonic()
        answers = host.gpus.fields(index, self._wanted)
        told = host.gpus.nvlinks(index) if self._by_call else ()
        taken = (start + host.monotonic()) / 2
        links: list[dict[str, float]] = [{} for _ in range(self._links)]
        faults: list[Fault] = []
        for cell, value, code in zip(self._cells, answers.values, answers.codes, strict=True):
            if code == SUCCESS:
                links[cell.link][cell.column] = (
                    bit_error_ratio(value) if cell.field.ber else value * cell.field.scale
                )
            elif code not in LACKING and len(faults) < _MOST_FAULTS:
                row = f"{gpus.row_name(index)}/link{cell.link}"
                faults.append(Fault(NAME, row, f"NVML field {cell.at[0]}", f"NVML error {code}"))
        for one in told:
            if one.state is not None and one.link < self._links:
                links[one.link][_STATE] = float(one.state)
        active = tuple(link.get(_STATE, 0.0) > 0 for link in links)
        if self._active and active != self._active:  # an inactive link answers for little, an active one for more
            self._again = -math.inf
        self._active = active
        summed = _sums([self._with_last(n, link) for n, link in enumerate(links)], len(self._switched))
        values = array("d", [summed[column] for column in GPU_COLUMNS])
        for link in links:
            values.extend([link.get(column, math.nan) for column in self._columns])
        return Reading(self._parts, values, taken, tuple(faults))

    def close(self) -> None:
        """Nothing is open."""

    def _with_last(self, link: int, told: dict[str, float]) -> dict[str, float]:
        """A link that went down stops telling its counters: what it told last stays in the sums, or they would fall
        and, when it comes back, rise by what is no news."""
        last = self._last.setdefault(link, {})
        last.pop(_STATE, None)
        last.update(told)
        return last

    def _discover(self, now: float) -> None:
        """Ask for everything once; what answered is asked from then on."""
        host, index = self._host, self.gpu.index
        told = host.gpus.nvlinks(index)
        count = host.gpus.fields(index, [(LINK_COUNT, 0)])
        self._links = min(max(len(told), int(count.values[0]) if count.codes[0] == SUCCESS else 0), MOST_LINKS)
        self._switched |= {link.link for link in told if link.remote == _SWITCH}
        wanted = [c for c in LINK_FIELDS if self._config.fec_histogram or c not in FEC_COLUMNS]
        every = [
            _Cell(link, column, field, at)
            for link in range(self._links)
            for column in wanted
            for field in LINK_FIELDS[column]
            if (at := field.of(link)) is not None
        ]
        codes = host.gpus.fields(index, [cell.at for cell in every]).codes if every else []
        # the first field that this link answers; one that has trouble now is asked on, so the trouble shows
        chosen: dict[tuple[int, str], _Cell] = {}
        for cell, code in zip(every, codes, strict=True):
            if code not in LACKING:
                chosen.setdefault((cell.link, cell.column), cell)
        self._cells = tuple(chosen.values())
        self._wanted = [cell.at for cell in self._cells]
        self._by_call = bool(told) and not any(cell.column == _STATE for cell in self._cells)
        has = {cell.column for cell in self._cells} | ({_STATE} if self._by_call else set())
        self._columns = tuple(column for column in wanted if column in has)
        self._shape(told)
        self._again = now + float(self._config.rediscover)

    def _shape(self, told: Sequence[NvLink]) -> None:
        index, period = self.gpu.index, float(self._config.interval)
        if not self._links:
            self._parts = ()
            return
        far = {link.link: link for link in told}
        rows = tuple(self._row(link, far.get(link)) for link in range(self._links))
        parts = (
            Part(NAME, Kind.GPU, GPU_COLUMNS, (Component(gpus.row_name(index), gpus.labels(self.gpu)),), period),
            Part(NAME, Kind.NVLINK, self._columns, rows, period, wire=False),
        )
        if parts != self._parts:
            self._parts = parts

    def _row(self, link: int, told: NvLink | None) -> Component:
        labels = {
            "gpu": str(self.gpu.index),
            "link": str(link),
            "uuid": self.gpu.uuid,
            "pci": self.gpu.pci,
            "remote": REMOTE_TYPES.get(told.remote, "") if told and told.remote is not None else "",
            "remote_pci": told.remote_pci if told else "",
        }
        name = f"{gpus.row_name(self.gpu.index)}/link{link}"
        return Component(name, {key: value for key, value in labels.items() if value})


def _sums(links: Sequence[dict[str, float]], switched: int) -> dict[str, float]:
    """The columns of the GPU's row. A sum is unknown where no link tells; the active links where one does not."""
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
    told = [value for value in values if not math.isnan(value)]
    return sum(told) if told else math.nan
