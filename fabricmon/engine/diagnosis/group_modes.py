"""Modes of groups of which an unknown share shows something, and of unknown common causes.

Which groups share what: docs/methods.md#shared-parts. Priors are design choices
(docs/methods.md#priors-and-probabilities).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES, ONE_CAUSE, ONE_OF_THREE, TWO_OF_THREE, Mode
from fabricmon.model import Severity

T = SymptomType


class PartlyBroken(NamedTuple):
    """A group whose members share a part. cost: -logit of its prior; least: members that must show it; ways: names of
    WAYS in which what they share makes them fail; whole, part_of: see `Mode`."""

    domain: str
    title: str
    cost: float
    least: int
    ways: tuple[str, ...]
    whole: str = ""
    part_of: str = ""


POWER, HEAT = ("down", "flapping"), ("with bit errors",)
"""Of what is fed by one supply or cooled by one flow of air (docs/methods.md#shared-parts)."""
ANY = (*POWER, *HEAT)


GROUPS_OF_PORTS: tuple[PartlyBroken, ...] = (
    PartlyBroken("module", "module", 8.5, 2, ANY),
    PartlyBroken("cage", "module of a host", 8.5, 2, ANY),
    PartlyBroken("leaf", "part of a leaf", 9.9, 3, ANY),
    PartlyBroken("feed", "leaves of one feed", 10.4, 6, POWER, whole="leaf"),
    PartlyBroken("chassis", "hosts of one chassis", 10.4, 3, HEAT),
    PartlyBroken("rack", "rack", 10.4, 3, HEAT),
    PartlyBroken("row", "row", 10.4, 6, HEAT),
    PartlyBroken("firmware", "firmware", 10.4, 3, ANY),
    PartlyBroken("board", "board", 10.4, 3, ANY),
)
"""Groups of PORT rows. Hosts that share power fall silent: see below."""


class FailureWay(NamedTuple):
    """A way in which ports fail together. run: domain of the parts of switches that do (runs.py)."""

    name: str
    run: str
    q: Mapping[SymptomType, float]
    together: float
    sign: SymptomType | None = None


WAYS: tuple[FailureWay, ...] = (
    FailureWay("down", "run_down", {T.LINK_DOWN: 0.97}, ONE_CAUSE),
    FailureWay("flapping", "run_flapping", {T.LINK_FLAPPING: 0.95, T.LINK_FELL: 0.95},
        10 * ONE_CAUSE, T.LINK_FLAPPING),
    FailureWay("with bit errors", "run_errors", {T.LINK_ERRORS: 0.95}, inf),
)  # fmt: skip
RUNS: Mapping[str, tuple[SymptomType, ...]] = {way.run: tuple(way.q) for way in WAYS}
"""Domain of parts of switches -> the symptoms they are made from."""


def _partial(group: PartlyBroken, way: FailureWay, word: str = "") -> Mode:
    return Mode(
        f"{group.title} {way.name}", group.domain, "fault_domain", group.cost, way.q, group.least,
        together=way.together, sign=way.sign, word=word, part_of=group.part_of, partial=True, whole=group.whole,
    )  # fmt: skip


PARTIAL_MODES: tuple[Mode, ...] = (
    *(_partial(group, way) for group in GROUPS_OF_PORTS for way in WAYS if way.name in group.ways),
    *(_partial(PartlyBroken(way.run, "ports of a leaf", 9.9, 3, ANY, part_of="leaf"), way, "part") for way in WAYS),
    # What some links of a host share has a name only where a map or the host states it: a card, a leaf, a supply.
    Mode("some links of a host down", "host", "link_down", 9.9, {T.LINK_DOWN: 0.97}, 3, together=ONE_CAUSE,
         partial=True),
    Mode("links of a host flapping", "host", "link_flapping", 9.9, {T.LINK_FLAPPING: 0.95, T.LINK_FELL: 0.95}, 3,
         together=10 * ONE_CAUSE, sign=T.LINK_FLAPPING, partial=True),
    Mode("PCIe switch lost", "pcie_switch", "nic_fault", 9.2, {T.NIC_FAULT: 0.9, T.LINK_DOWN: 0.97}, 2,
         together=ONE_CAUSE, sign=T.NIC_FAULT, severity=Severity.CRITICAL, partial=True),
    Mode("PCIe switch slow", "pcie_switch", "pcie_degraded", 9.9, {T.PCIE_DEGRADED: 0.97}, 2, partial=True),
    Mode("PCIe switch with errors", "pcie_switch", "pcie_errors", 9.9, {T.PCIE_ERRORS: 0.95}, 2, partial=True),
    # Slow links lead to pause under load, as those of a single adapter (causes.py): a mode of its own.
    Mode("PCIe switch too slow for what is received", "pcie_switch", "pcie_degraded", 9.9,
         {T.PCIE_DEGRADED: 0.97, T.PAUSING: 0.9, T.STRAGGLER: 0.5}, 2, sign=T.PCIE_DEGRADED, signs=2),
    Mode("hosts of one chassis dead", "chassis", "fault_domain", 9.2, {T.AGENT_SILENT: 0.97, T.LOSS_TOWARDS_HOST: 0.9},
         2, together=ONE_CAUSE, sign=T.LOSS_TOWARDS_HOST, severity=Severity.CRITICAL, partial=True),
    Mode("hosts of one chassis silent", "chassis", "agent_silent", 10.4, {T.AGENT_SILENT: 0.97}, 2,
         together=ONE_CAUSE, severity=Severity.WARNING, partial=True),
    # What kills all hosts of a rack is mostly their power, which a map may state: a tenth of it is of the rack itself.
    Mode("hosts of a rack dead", "rack", "fault_domain", 12.7, {T.AGENT_SILENT: 0.97, T.LOSS_TOWARDS_HOST: 0.9},
         3, together=ONE_CAUSE, sign=T.LOSS_TOWARDS_HOST, severity=Severity.CRITICAL, partial=True),
    Mode("hosts of a rack silent", "rack", "agent_silent", 10.4, {T.AGENT_SILENT: 0.97}, 3,
         together=ONE_CAUSE, severity=Severity.WARNING, partial=True),
)  # fmt: skip

HARD_MODES: tuple[Mode, ...] = (*MODES, *PARTIAL_MODES)
"""All causes of hard faults, the candidates of the noisy-OR."""

SWITCH_MODES: Mapping[SymptomType, Mode] = {
    T.LINK_DOWN: Mode("switch down", "switch", "fault_domain", 9.2, {T.LINK_DOWN: 0.97}, 3, together=ONE_CAUSE,
                      word="spine", partial=True),
    T.LINK_FLAPPING: Mode("switch flapping", "switch", "fault_domain", 9.9, {T.LINK_FLAPPING: 0.95}, 3,
                          together=10 * ONE_CAUSE, word="spine", partial=True),
    T.LINK_ERRORS: Mode("switch with bit errors", "switch", "fault_domain", 9.9, {T.LINK_ERRORS: 0.95}, 3,
                        word="spine", partial=True),
}
"""Of a switch without hosts, by the cables that a sweep reports (uplinks.py); priors as of a leaf."""

SUBNET_MODE = Mode("ports wait for the subnet manager", "subnet", "fault_domain", 10.4, {T.LINK_DOWN: 0.97}, 2)
WAITING_HOST = Mode("ports of a host wait for the subnet manager", "host", "link_down", 8.0, {T.LINK_DOWN: 0.97}, 2)
"""Of ports that no subnet manager configured, of several hosts and of one (verdicts.py); not in the noisy-OR."""

TOGETHER_MODES: tuple[Mode, ...] = (
    Mode("hosts silent", "together_silent", "agent_silent", 12.5, {T.AGENT_SILENT: 0.97}, word="common",
         severity=Severity.WARNING),
    Mode("links flapping", "together_flapping", "fault_domain", 12.5, {T.LINK_FLAPPING: 0.95, T.LINK_FELL: 0.95},
         word="common"),
    Mode("links down", "together_down", "fault_domain", 12.5, {T.LINK_DOWN: 0.97}, word="common"),
    Mode("links with bit errors", "together_errors", "fault_domain", 12.5, {T.LINK_ERRORS: 0.95}, word="common"),
    Mode("ports congested", "together_congested", "fault_domain", 12.5, {T.CONGESTION: 0.95}, word="common",
         severity=Severity.WARNING, harmless=TWO_OF_THREE),
    Mode("PCIe links slow", "together_pcie", "pcie_degraded", 12.5, {T.PCIE_DEGRADED: 0.97}, word="common",
         severity=Severity.WARNING, harmless=ONE_OF_THREE),
    Mode("links below their rate", "together_degraded", "fault_domain", 12.5, {T.LINK_DEGRADED: 0.97}, word="common",
         severity=Severity.WARNING),
    Mode("adapters pausing", "together_pausing", "fault_domain", 12.5, {T.PAUSING: 0.95}, word="common",
         severity=Severity.WARNING, harmless=TWO_OF_THREE),
    Mode("GPUs with NVLink faults", "together_nvlink", "fault_domain", 12.5,
         {T.NVLINK_DOWN: 0.95, T.NVLINK_ERRORS: 0.95, T.GPU_FABRIC: 0.95}, word="common"),
    Mode("connections losing packets", "together_losses", "fault_domain", 12.5, {T.FLOW_LOSS: 0.9}, word="common",
         severity=Severity.WARNING),
    Mode("adapters failing", "together_nics", "fault_domain", 12.5, {T.NIC_FAULT: 0.9, T.LINK_DOWN: 0.97},
         word="common"),
)  # fmt: skip
"""Of an unknown common cause (common_cause.py); never candidates of the noisy-OR."""

MODULE_MODES: Mapping[str, Mode] = {
    mode.domain: replace(mode, name=f"module by names {mode.name.removeprefix('links ')}", cost=group.cost)
    for group in GROUPS_OF_PORTS if group.domain == "module"
    for mode in TOGETHER_MODES if mode.name in [f"links {way.name}" for way in WAYS]
}  # fmt: skip
"""Of two links that are most likely one module (module_by_name.py), by domain."""

DEAD_MODES: Mapping[str, Mode] = {
    **{mode.name.replace(" dead", " silent"): mode for mode in PARTIAL_MODES if mode.sign is T.LOSS_TOWARDS_HOST},
    "hosts silent": Mode("hosts dead", "together_silent", "fault_domain", 12.5, {T.AGENT_SILENT: 0.97}, word="common",
                         severity=Severity.CRITICAL),
}  # fmt: skip
"""Name of a mode of silent hosts -> the mode where something shows that they are dead."""
