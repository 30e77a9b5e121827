"""expected_inventory: a node has fewer adapters or GPUs than its configuration, its type or its peers have."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.machines import Certainty
from fabricmon.fleet.table import FREE
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

_MOST = 4095  # greatest count of devices of one node
_ASKED = 256  # peers whose devices are compared to name a missing one


class ExpectedInventoryParams(RuleParams, frozen=True):
    """Limits of expected_inventory (docs/methods.md#expected-inventory).

    peers   nodes of the same vendor, product and board from which their count is a reference
    share   share of them that must agree
    hold    time for which the device must be missing: drivers load and adapters are reset
    clear   time for which it must be present again
    """

    peers: int = 3
    share: float = 0.75
    hold: Duration = Duration(120)


class DeviceCounts(NamedTuple):
    """Per row the expected and the found devices, NaN unknown; `by_peers`: the peers are the reference."""

    hcas: NDArray[np.float64]
    hcas_found: NDArray[np.float64]
    hcas_by_peers: NDArray[np.bool_]
    gpus: NDArray[np.float64]
    gpus_found: NDArray[np.float64]
    gpus_by_peers: NDArray[np.bool_]

    def missing(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.hcas - self.hcas_found, self.gpus - self.gpus_found


def counts(view: View, params: ExpectedInventoryParams) -> DeviceCounts:
    """Expected and found devices. Adapters that vanished while the agent ran count as found: nic_fault has those."""
    hcas = view.value("node_hcas_found") + view.value("node_hcas_lost")
    gpus, wanted = view.value("node_gpus_found"), view.value("node_hcas_expected")
    wanted_gpus, certainty = view.value("node_gpus_expected"), view.value("node_hcas_certainty")
    usual = usual_count(view, hcas, params)
    usual_gpus = usual_count(view, gpus + view.value("node_gpus_lost"), params)
    asked = np.isfinite(usual) & (~(certainty > Certainty.USUAL) | ((certainty == Certainty.BUILT) & (usual > wanted)))
    asked_gpus = np.isnan(wanted_gpus) & np.isfinite(usual_gpus)
    return DeviceCounts(
        np.where(asked, usual, wanted), hcas, asked, np.where(asked_gpus, usual_gpus, wanted_gpus), gpus, asked_gpus
    )


def usual_count(view: View, found: NDArray[np.float64], params: ExpectedInventoryParams) -> NDArray[np.float64]:
    """Per row the count of most nodes of its build; NaN where they are too few or do not agree."""
    build = view.value("node_machine")
    usual = np.full(view.n, np.nan)
    rows = np.flatnonzero(np.isfinite(build) & np.isfinite(found) & (view.node != FREE))
    if len(rows) < max(1, params.peers):
        return usual
    number = np.clip(found[rows], 0, _MOST).astype(np.int64)
    if (number == number[0]).all() and (build[rows] == build[rows[0]]).all():  # as a rule
        usual[rows] = number[0] if params.share <= 1 else np.nan
        return usual
    _, group = np.unique(build[rows], return_inverse=True)
    kinds, size = np.unique(group * (_MOST + 1) + number, return_counts=True)
    total = np.bincount(group)
    agree = np.zeros(len(total))
    most = np.full(len(total), np.nan)
    for kind, many in zip(kinds.tolist(), size.tolist(), strict=True):
        of, count = divmod(kind, _MOST + 1)
        if many > agree[of]:
            agree[of], most[of] = many, count
    sure = (total >= params.peers) & (agree >= params.share * total)
    usual[rows] = np.where(sure, most, np.nan)[group]
    return usual


ACCESS = ("node_uverbs_missing", "node_netdevs_misplaced")
"""Devices that are there and cannot be used."""
TOOLS = "node_umad_missing"


def unusable(view: View) -> NDArray[np.bool_]:
    """Nodes with devices that are there and cannot be used, or not be managed."""
    return np.logical_or.reduce([view.value(column) > 0 for column in (*ACCESS, TOOLS)])


def test(view: View, params: ExpectedInventoryParams) -> Outcome:
    found = counts(view, params)
    hcas, gpus = found.missing()
    few, few_gpus = hcas > 0, gpus > 0
    useless = np.logical_or.reduce([view.value(column) > 0 for column in ACCESS])
    unmanaged = view.value(TOOLS) > 0
    by_type = ~found.hcas_by_peers & (view.value("node_hcas_certainty") == Certainty.USUAL)
    guessed = ~few_gpus & ~useless & (~few | by_type)
    bad = few | few_gpus | useless | unmanaged
    known = np.logical_or.reduce([np.isfinite(value) for value in (hcas, gpus, *map(view.value, (*ACCESS, TOOLS)))])
    # devices that are expected and cannot be listed just now are no sign that all is well again
    unlisted = (np.isfinite(found.hcas) & np.isnan(hcas)) | (np.isfinite(found.gpus) & np.isnan(gpus))
    return Outcome(
        fire=bad,
        clear=~bad & ~unlisted,
        known=(view.node != FREE) & view.fresh("node_hcas_found") & known,
        value=np.fmax(hcas, gpus),
        severity=np.where(guessed, Severity.INFO.rank, Severity.WARNING.rank).astype(np.int8),
    )


def evidence(view: View, row: int, params: ExpectedInventoryParams) -> tuple[Evidence, ...]:
    readings = []
    found = counts(view, params)
    source = _source(view, row)
    for what, wanted, there, by_peers in (
        ("adapters", found.hcas, found.hcas_found, found.hcas_by_peers),
        ("GPUs", found.gpus, found.gpus_found, found.gpus_by_peers),
    ):
        if not np.isfinite(wanted[row] - there[row]) or wanted[row] == there[row] == 0:
            continue
        origin = "as most nodes of this build" if by_peers[row] else source
        text = f"{what}: expected {wanted[row]:.0f}, found {there[row]:.0f} ({origin})"
        formula, measure = "found < expected", f"expected_inventory.{what.lower()}"
        readings.append(
            reading(text, formula, float(there[row]), float(wanted[row]), bool(there[row] < wanted[row]), measure)
        )
    if access := view.label(row, "access"):
        readings.append(reading(f"present and not usable: {access}", "uverbs and umad device, and its own interface"))
    if names := missing_names(view, row):
        readings.append(reading(f"missing: {names}"))
    return tuple(readings) or (reading("the expected devices are unknown", for_it=False),)


def _source(view: View, row: int) -> str:
    if view.value("node_hcas_certainty")[row] == Certainty.CONFIGURED:
        return "configured"
    return f"machine type {view.label(row, 'machine')}" if view.label(row, "machine") else "configured"


def missing_names(view: View, row: int) -> str:
    """Names of the missing devices: as the node reports, else the adapters that most of its peers have."""
    if reported := view.label(row, "missing"):
        return reported
    build, found = view.value("node_machine"), view.value("node_hcas_found")
    alike = np.flatnonzero((build == build[row]) & np.isfinite(found))[:_ASKED]
    peers = [int(peer) for peer in alike if peer != row]
    if not peers or np.isnan(found[row]):  # what is not listed is not missing
        return ""
    mine = set(_devices(view, row))
    have = Counter(device for peer in peers for device in _devices(view, peer))
    return ", ".join(sorted(device for device, many in have.items() if 2 * many > len(peers) and device not in mine))


def _devices(view: View, row: int) -> list[str]:
    text = view.label(row, "hcas")
    return text.split(", ") if text else []


def info(view: View, row: int, params: ExpectedInventoryParams) -> dict[str, str]:
    return {"missing": names} if (names := missing_names(view, row)) else {}


def promql(params: ExpectedInventoryParams) -> Translation:
    few = f"{metric('node_hcas_found')} + {metric('node_hcas_lost')} < {metric('node_hcas_expected')}"
    few_gpus = f"{metric('node_gpus_found')} < {metric('node_gpus_expected')}"
    useless = any_of(*(f"{metric(column)} > 0" for column in ACCESS))
    guessed = f"{metric('node_hcas_certainty')} == {Certainty.USUAL.value}"
    return Translation(
        (
            Alert(f"({few} unless {guessed}) or {few_gpus} or {useless}"),
            Alert(f"(({few} and {guessed}) or {metric(TOOLS)} > 0) unless {few_gpus}", severity=Severity.INFO),
        ),
        differs="only configuration and machine type count; nodes of the same build are not compared",
    )


RULE = Rule(
    name="expected_inventory",
    table=Kind.NODE,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=ExpectedInventoryParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The node has fewer network adapters or GPUs than expected, or has some that cannot be used. Jobs fail to "
        "start on it or run slower."
    ),
    decision=(
        "The node has fewer adapters of the compute network, or fewer GPUs, than expected. The expected number comes "
        "from the configuration (collect.inventory.expect or a manifest), else from the machine type, else from the "
        "nodes of the same vendor, product and board when at least three quarters of them agree. An adapter that was "
        "missing from the start has no counters that could end, so no other rule detects it; one that vanishes while "
        "the agent runs is an adapter fault. Where only the type is known and a site may have attached fewer devices, "
        "it is information. Also reported are devices that are there and cannot be used: an RDMA device without its "
        "uverbs device, or whose network interface belongs to another adapter; without its umad device only management "
        "tools fail."
    ),
    action=(
        "Compare `lspci` with a healthy node of the same build: for a device that is not listed check slot, "
        "riser and power; for one that is listed without a driver read the kernel log (`dmesg | grep -i -e mlx5 -e "
        "NVRM`). Without a uverbs or umad device load ib_uverbs or ib_umad, and read the kernel log for the device. If "
        "the node is complete as it is, set collect.inventory.expect."
    ),
    promql=promql,
    slow=True,
)
