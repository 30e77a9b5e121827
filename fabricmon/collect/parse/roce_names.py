"""Columns of driver statistics by their names. Pure.

The catalogue has the names of mlx5, bnxt_en, ice, ionic, hns3 and ena. Names of other drivers are split into words, and
an unambiguous counter of a priority gets its column. Counters of software rings (hundreds on a host with many cores)
and of the kernel's packet handling are dropped; the rest is kept under the driver's name, up to a bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fabricmon.catalogue import CATALOGUE, RAW, counter_at

SOURCE = "ethtool"
MOST_RAW = 96
"""Statistics of one interface that are not in the catalogue; mlx5 has some 40, ionic 60."""

# "rx0_packets", "ch12_poll", "tx_3_pkts", "queue_0_rx_cnt", "rxq#1_drops", "tx_queue_0_bytes", "txq0_pktnum"
_RING = re.compile(
    r"(?:ch|rx|tx|q|rxq|txq|queue|rx_queue|tx_queue|rxring|txring|xdp_q|xdpsq|tcq)[_#\-]?\d+[_:.\-\s]"
    r"|ch_|\[\d+\]:|.*\[\d+\]$"
)
_SOFTWARE = frozenset({
    "xdp", "xsk", "csum", "lro", "gro", "gso", "tso", "tls", "arfs", "skb", "napi", "umr", "wqe", "mpwqe",
    "cqe", "cqes", "page", "cache", "recycle", "alloc", "buff", "xmit", "linearize", "hwstamp", "timestamp", "ptp",
    "nop", "doorbells", "stopped", "wake", "wakeup", "macsec", "ipsec", "psp",
})  # fmt: skip
_WORDS = re.compile(r"[_.\-\s]+")
_PRIORITY = re.compile(r"(?:prio|pri|priority|up)([0-7])")
_PAUSE = frozenset({"pause", "pfc", "xoff", "pripause"})
_TIME = frozenset({"us", "usec", "usecs", "microseconds", "1us"})
_TIME_OTHER = frozenset({"duration", "time", "ns", "ms", "quanta", "latency"})
_LOST = frozenset({"discard", "discards", "discarded", "drop", "drops", "dropped"})
_BYTES = frozenset({"bytes", "octets"})
_PACKETS = frozenset({"packets", "pkts", "frames", "pkt", "num"})
_FILLER = frozenset({"mac", "phy", "port", "nic", "hw", "total", "count", "ena", "cnt"})


class StatisticPlace(NamedTuple):
    """Statistic number `at` of the driver, times `scale`, is the value of `column`."""

    column: str
    at: int
    scale: float


class StatisticsPlan(NamedTuple):
    """The columns of an interface. `left_out`: names beyond MOST_RAW."""

    places: tuple[StatisticPlace, ...]
    left_out: int


def plan(names: Sequence[str]) -> StatisticsPlan:
    """The columns of a driver's statistics. Of two names for one column the preferred one gets it; the other is raw."""
    best: dict[str, tuple[int, int]] = {}  # column -> rank, index
    by_word: dict[int, str] = {}
    seen: set[str] = set()
    rest: list[int] = []
    for at, name in enumerate(names):
        if not name or name in seen or _RING.match(name):
            continue
        seen.add(name)
        rest.append(at)
        counter = counter_at(SOURCE, name)
        if counter is not None:
            rank = counter.keys.index(name)
            if counter.name not in best or rank < best[counter.name][0]:
                best[counter.name] = (rank, at)
        elif column := meaning(name):
            by_word[at] = column
    for at, column in by_word.items():
        best.setdefault(column, (0, at))
    places = [StatisticPlace(column, at, CATALOGUE[column].scale) for column, (_, at) in best.items()]
    taken = {place.at for place in places}
    raw = [at for at in rest if at not in taken and not _software(names[at])]
    places += [StatisticPlace(f"{RAW}{SOURCE}/{names[at]}", at, 1.0) for at in raw[:MOST_RAW]]
    return StatisticsPlan(tuple(places), max(0, len(raw) - MOST_RAW))


def meaning(name: str) -> str:
    """The column of a name that is not in the catalogue, by its words; "" where they are ambiguous.

    A duration counts only where the name states microseconds.
    """
    words = _words(name)
    direction = "rx" if "rx" in words else "tx" if "tx" in words else ""
    priorities = [match[1] for word in words if (match := _PRIORITY.fullmatch(word))]
    words -= {"rx", "tx"} | _FILLER
    words = {word for word in words if not _PRIORITY.fullmatch(word)}
    if not direction:
        return ""
    if len(priorities) == 1:
        family = _of_priority(direction, words)
        return f"{family}_prio{priorities[0]}" if family else ""
    if priorities:
        return ""
    if direction == "rx" and words & {"fcs", "crc"} and words <= {"fcs", "crc", "err", "error", "errors", "frames"}:
        return "eth_fcs_errors"
    if "pause" in words and words <= {"pause", "ctrl"} | _PACKETS:
        return f"pause_{direction}_frames"
    return ""


def _of_priority(direction: str, words: set[str]) -> str:
    if words & _PAUSE:
        rest = words - _PAUSE
        if rest & _TIME:
            return f"pfc_{direction}_pause" if rest <= _TIME | _TIME_OTHER else ""
        if rest & _TIME_OTHER:
            return ""
        if rest & {"transition", "transitions"}:
            return f"pfc_{direction}_transitions" if len(rest) == 1 else ""
        return f"pfc_{direction}_frames" if rest <= _PACKETS else ""
    if words & _LOST:
        return "prio_rx_discards" if direction == "rx" and words <= _LOST | _PACKETS else ""
    if words and words <= _BYTES:
        return f"prio_{direction}"
    if words and words <= _PACKETS:
        return f"prio_{direction}_packets"
    return ""


def _words(name: str) -> set[str]:
    """Words of a name; a number after a word for a priority is joined to it ("priority_3" as "priority3")."""
    found: list[str] = []
    for word in _WORDS.split(name.lower()):
        if word.isdigit() and found and found[-1] in ("prio", "pri", "priority", "up"):
            found[-1] += word
        elif word:
            found.append(word)
    return set(found)


def _software(name: str) -> bool:
    return not _SOFTWARE.isdisjoint(_WORDS.split(name.lower()))
