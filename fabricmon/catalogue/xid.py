"""NVIDIA's error numbers: what an Xid of a GPU and an SXid of an NVSwitch concern (docs/methods.md#xid-errors). Pure.

What to do is decided by the newest Xid 154 and by NVML's recovery action, not by this table.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fabricmon.model import Severity

_I, _W, _C = Severity.INFO, Severity.WARNING, Severity.CRITICAL

CLASSES = ("bus", "nvlink", "memory", "firmware", "pcie", "application", "recovery", "other")
"""bus: the GPU is gone. firmware: its micro-controllers. recovery: names what it needs now, no fault of its own."""


class Xid(NamedTuple):
    """`what` is for a person."""

    group: str
    severity: Severity
    what: str


XIDS: dict[int, Xid] = {
    13: Xid("application", _I, "graphics engine exception of an application"),
    31: Xid("application", _I, "memory page fault of an application"),
    43: Xid("application", _I, "an application's channel was stopped"),
    45: Xid("other", _W, "an application's channels were removed"),
    48: Xid("memory", _C, "double-bit memory error"),
    62: Xid("firmware", _C, "micro-controller halted"),
    63: Xid("memory", _I, "memory row or page will be remapped"),
    64: Xid("memory", _C, "memory row or page could not be remapped"),
    74: Xid("nvlink", _C, "NVLink error"),
    79: Xid("bus", _C, "the GPU has fallen off the bus"),
    92: Xid("memory", _I, "many single-bit memory errors"),
    94: Xid("memory", _W, "memory error, contained in one application"),
    95: Xid("memory", _C, "memory error, not contained"),
    108: Xid("nvlink", _C, "NVLink remote translation error"),
    109: Xid("firmware", _C, "context switch timed out"),
    110: Xid("firmware", _C, "security fault"),
    119: Xid("firmware", _C, "the system processor does not answer a call"),
    120: Xid("firmware", _C, "error of the system processor"),
    121: Xid("nvlink", _W, "error of the link to the CPU"),
    136: Xid("nvlink", _C, "an NVLink did not train"),
    137: Xid("nvlink", _I, "NVLink access without permission"),
    140: Xid("memory", _C, "memory error that cannot be recovered"),
    143: Xid("firmware", _C, "the GPU did not initialise"),
    144: Xid("nvlink", _C, "NVLink SAW error"),
    145: Xid("nvlink", _C, "NVLink RLW error"),
    146: Xid("nvlink", _C, "NVLink TLW error"),
    147: Xid("nvlink", _I, "NVLink TREX error"),
    148: Xid("nvlink", _I, "NVLink control error"),
    149: Xid("nvlink", _C, "NVLink link event"),
    150: Xid("nvlink", _C, "NVLink firmware watchdog"),
    154: Xid("recovery", _I, "the action the GPU needs has changed"),
    155: Xid("nvlink", _C, "NVLink error defined by software"),
    158: Xid("firmware", _C, "fatal timeout"),
    166: Xid("nvlink", _W, "NVLink error of a secured link"),
    167: Xid("pcie", _C, "PCIe fatal timeout"),
    170: Xid("nvlink", _W, "NVLink interrupt of a secured link"),
    171: Xid("memory", _W, "further memory error"),
    172: Xid("memory", _W, "further memory error"),
    173: Xid("nvlink", _C, "the link to the CPU failed"),
    176: Xid("pcie", _W, "many correctable PCIe errors"),
}

OFF_THE_BUS = tuple(number for number, xid in XIDS.items() if xid.group == "bus")
"""Numbers of a GPU that does not answer any more, whose counters are not read from then on."""

_UNKNOWN = Xid("other", _W, "error without a description here")

_NVLINK5 = re.compile(
    r"(?P<unit>[A-Z0-9_]{1,40}(?:/[A-Z0-9_]{1,40})?)\s{1,4}(?P<word>Nonfatal|Fatal)\s{1,4}XC ?(?P<xc>\d)\s{1,4}i ?\d{1,3}\s{1,4}"
    r"Link\s{1,4}(?P<link>-?\d{1,3})\s{1,4}[(\[](?P<info>0x[0-9a-fA-F]{1,8})(?:\s{1,4}(?P<status>0x[0-9a-fA-F]{1,8}))?"
)
_NVLINK4 = re.compile(r"NVLink: .{0,200}?link (?P<link>\d{1,3})\s{0,4}\(0x")
_CAUSED_BY = re.compile(r"caused by previous Xid (?P<xid>\d{1,5})")

_FOLLOWS = frozenset({0})
_PEER = frozenset({21, *range(32, 38)})
_SIGNAL = frozenset({2, 4, 10, 42, 43})
_ON_PURPOSE = frozenset({15, 17, 22, 38})


class Details(NamedTuple):
    """Details in the text of an Xid.

    link      NVLink it is about, None where none is named
    blame     "local" (signal integrity of this end), "peer" (the other end took it down), "purpose" (software or an
              operator), "follows" (of another cause), "" unknown
    caused_by number of the Xid it is a consequence of
    fatal     as the text states; None where it does not
    """

    link: int | None
    blame: str
    caused_by: int | None
    fatal: bool | None


def xid(number: int) -> Xid:
    return XIDS.get(number, _UNKNOWN)


def details(number: int, text: str) -> Details:
    """Read the text behind the number of an Xid line."""
    text = text[:1000]
    cause = _CAUSED_BY.search(text)
    caused_by = int(cause["xid"]) if cause else None
    found = _NVLINK5.search(text) if 144 <= number <= 150 else None
    if found:
        link = int(found["link"])
        blame = ""
        if number == 149 and "NETIR_LINK_EVT" in found["unit"]:
            blame = _blame(int(found["info"], 16) >> 20 & 63)
        return Details(link if link >= 0 else None, blame, caused_by, found["word"] == "Fatal")
    plain = _NVLINK4.search(text)
    return Details(int(plain["link"]) if plain else None, "", caused_by, None)


def _blame(subcode: int) -> str:
    for subcodes, word in ((_FOLLOWS, "follows"), (_PEER, "peer"), (_SIGNAL, "local"), (_ON_PURPOSE, "purpose")):
        if subcode in subcodes:
            return word
    return ""


SXID_WORDS: dict[str, tuple[str, Severity]] = {
    "Fatal": ("sxid_fatal", _C),
    "Non-fatal": ("sxid_nonfatal", _W),
    "Correctable": ("sxid_correctable", _I),
}
"""Word of an SXid line -> concept, severity."""
