"""Slurm nodes from `scontrol --oneliner show nodes` or slurmrestd, and the reasons of fabricmon's drains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from fabricmon.forms.decoding import any_json

MARK = "fabricmon: "
"""Start of the reasons of fabricmon; the incident id follows."""

MAX_REASON = 200  # characters; `sinfo -R` shows no more

_ID = re.compile(re.escape(MARK) + r"([A-Za-z0-9_.-]{1,64})(?: |$)")
_STATE = re.compile(r" State=(\S+)")
_REASON = re.compile(r" Reason=(.*?)(?: \[[^\s\]]+@[^\s\]]+\]|$)")
_SAFE = re.compile(r"[^A-Za-z0-9 ._:;,()/%+#@>-]+")

# States in which a node gets no jobs -> text.
AWAY = {
    "DOWN": "is down in Slurm",
    "MAINT": "is in maintenance in Slurm",
    "FAIL": "is failed in Slurm",
    "POWERED_DOWN": "is powered down by Slurm",
    "FUTURE": "is not in use in Slurm",
}


class SlurmNode(NamedTuple):
    """A Slurm node: name, state flags in capitals ("IDLE", "DRAIN"), and the reason of a drain or down."""

    name: str
    state: frozenset[str]
    reason: str

    @property
    def drained(self) -> bool:
        """Whether it gets no new jobs."""
        return bool(self.state & {"DRAIN", "DRAINED", "DRAINING"})

    @property
    def incident(self) -> str:
        """The incident of fabricmon's drain; "" if it was not drained by fabricmon."""
        found = _ID.match(self.reason)
        return found[1] if found is not None and self.drained else ""

    @property
    def taken(self) -> str:
        """Why fabricmon does not drain it; "" if it may."""
        if self.drained and not self.incident:
            return f"is drained already: {self.reason[:100] or 'no reason given'}"
        return next((words for flag, words in AWAY.items() if flag in self.state), "")


def reason_of(incident: str, title: str) -> str:
    """The reason of a drain, on one line."""
    return f"{MARK}{incident} {_SAFE.sub(' ', title)}"[:MAX_REASON].strip()


def from_text(text: str) -> list[SlurmNode]:
    """The nodes in the output of `scontrol --oneliner show nodes`; other lines are skipped."""
    found = []
    for line in text.splitlines():
        name, state = re.match(r"NodeName=(\S+)", line), _STATE.search(line)
        if name is None or state is None:
            continue
        reason = _REASON.search(line, state.end())
        found.append(SlurmNode(name[1], _words(re.split(r"[+]", state[1])), reason[1].strip() if reason else ""))
    return found


def from_json(data: bytes) -> list[SlurmNode]:
    """The nodes in an answer of slurmrestd (v0.0.39 and newer: states are a list). ValueError."""
    answer = any_json(data)
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if errors:
        listed = errors if isinstance(errors, list) else [errors]
        raise ValueError("; ".join(_error(each) for each in listed)[:300])
    nodes = answer.get("nodes") if isinstance(answer, dict) else None
    if not isinstance(nodes, list):
        raise ValueError("not a list of nodes")
    return [
        SlurmNode(
            str(node["name"]),
            _words([*_listed(node.get("state")), *_listed(node.get("state_flags"))]),
            str(node.get("reason") or ""),
        )
        for node in nodes
        if isinstance(node, dict) and node.get("name")
    ]


def by_our_names(nodes: Iterable[SlurmNode], ours: Iterable[str]) -> dict[str, SlurmNode]:
    """Name in fabricmon -> Slurm node: by the same name, else by the name without domain if unique."""
    exact = {node.name: node for node in nodes}
    short: dict[str, list[SlurmNode]] = {}
    for node in exact.values():
        short.setdefault(node.name.partition(".")[0], []).append(node)
    found = {}
    for name in ours:
        alike = short.get(name.partition(".")[0], [])
        if name in exact:
            found[name] = exact[name]
        elif len(alike) == 1:
            found[name] = alike[0]
    return found


def _words(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.upper().strip("*~#!%$@^-") for word in words if word)


def _listed(value: Any) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else [str(value)] if value else []


def _error(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("description") or value.get("error") or value)
    return str(value)
