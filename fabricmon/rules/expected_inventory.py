"""expected_inventory: a node has fewer adapters or GPUs than its type, its configuration or its peers say."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.catalogue.machines import Certainty
from fabricmon.fleet.table import NOBODY
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, metric
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

_MOST = 4095  # devices of one node that are told apart
_ASKED = 256  # peers whose devices are compared to name a missing one


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of expected_inventory.

    peers   nodes of the same vendor, product and board that must be there before they tell what is usual (3: design)
    share   how many of them must agree (0.75: design)
    hold    how long the device must be missing: drivers load and adapters are reset (120 s: detection-methods 3.3)
    clear   how long it must be there again (0)
    """

    peers: int = 3
    share: float = 0.75
    hold: Duration = Duration(120)
    clear: Duration = Duration(0)


class Counts(NamedTuple):
    """Per row: what should be there and what is; NaN where nothing tells. `by_peers`: the peers' word counts."""

    hcas: NDArray[np.float64]
    hcas_found: NDArray[np.float64]
    hcas_by_peers: NDArray[np.bool_]
    gpus: NDArray[np.float64]
    gpus_found: NDArray[np.float64]
    gpus_by_peers: NDArray[np.bool_]

    def missing(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.hcas - self.hcas_found, self.gpus - self.gpus_found


def counts(view: View, params: Params) -> Counts:
    """Adapters that vanished under the agent's eyes count as found: those are nic_fault's."""
    hcas = view.value("node_hcas_found") + view.value("node_hcas_lost")
    gpus, wanted = view.value("node_gpus_found"), view.value("node_hcas_expected")
    wanted_gpus, certainty = view.value("node_gpus_expected"), view.value("node_hcas_certainty")
    usual = usual_count(view, hcas, params)
    usual_gpus = usual_count(view, gpus + view.value("node_gpus_lost"), params)
    with np.errstate(invalid="ignore"):
        asked = np.isfinite(usual) & (
            ~(certainty > Certainty.USUAL) | ((certainty == Certainty.BUILT) & (usual > wanted))
        )
    asked_gpus = np.isnan(wanted_gpus) & np.isfinite(usual_gpus)
    return Counts(
        np.where(asked, usual, wanted), hcas, asked, np.where(asked_gpus, usual_gpus, wanted_gpus), gpus, asked_gpus
    )


def usual_count(view: View, found: NDArray[np.float64], params: Params) -> NDArray[np.float64]:
    """Per row what most nodes of its build have; NaN where they are too few or do not agree."""
    build = view.value("node_machine")
    usual = np.full(view.n, np.nan)
    rows = np.flatnonzero(np.isfinite(build) & np.isfinite(found) & (view.node != NOBODY))
    if len(rows) < params.peers:
        return usual
    _, group = np.unique(build[rows], return_inverse=True)
    number = np.clip(found[rows], 0, _MOST).astype(np.int64)
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


def test(view: View, params: Params) -> Outcome:
    found = counts(view, params)
    hcas, gpus = found.missing()
    with np.errstate(invalid="ignore"):
        few, few_gpus = hcas > 0, gpus > 0
        guessed = few & ~few_gpus & ~found.hcas_by_peers & (view.value("node_hcas_certainty") == Certainty.USUAL)
    told = np.isfinite(hcas) | np.isfinite(gpus)
    return Outcome(
        fire=few | few_gpus,
        clear=~(few | few_gpus),
        known=(view.node != NOBODY) & view.fresh("node_hcas_found") & told,
        value=np.fmax(hcas, gpus),
        severity=np.where(guessed, Severity.INFO.rank, Severity.WARNING.rank).astype(np.int8),
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, readings = str(view.table.ids[row]), []
    found = counts(view, params)
    source = _source(view, row)
    for what, wanted, there, by_peers in (
        ("adapters", found.hcas, found.hcas_found, found.hcas_by_peers),
        ("GPUs", found.gpus, found.gpus_found, found.gpus_by_peers),
    ):
        if not np.isfinite(wanted[row]) or wanted[row] == there[row] == 0:
            continue
        said = "most nodes of this build have so many" if by_peers[row] else source
        text = f"{what}: expected {wanted[row]:.0f}, found {there[row]:.0f} ({said})"
        formula = "fewer devices than expected (node-inventory 5)"
        readings.append(
            Evidence(component, text, formula, float(there[row]), float(wanted[row]), bool(there[row] < wanted[row]))
        )
    if names := missing_names(view, row):
        readings.append(Evidence(component, f"missing: {names}"))
    return tuple(readings) or (Evidence(component, "nothing tells what this node should have", for_it=False),)


def _source(view: View, row: int) -> str:
    if view.value("node_hcas_certainty")[row] == Certainty.CONFIGURED:
        return "configured"
    return f"the machine is a {view.label(row, 'machine')}" if view.label(row, "machine") else "configured"


def missing_names(view: View, row: int) -> str:
    """What is missing, by name: as the node says, else the adapters that most of its peers have and it has not."""
    if told := view.label(row, "missing"):
        return told
    build = view.value("node_machine")
    with np.errstate(invalid="ignore"):
        peers = [int(peer) for peer in np.flatnonzero(build == build[row])[:_ASKED] if peer != row]
    if not peers:
        return ""
    mine = set(_devices(view, row))
    have = Counter(device for peer in peers for device in _devices(view, peer))
    return ", ".join(sorted(device for device, many in have.items() if 2 * many > len(peers) and device not in mine))


def _devices(view: View, row: int) -> list[str]:
    text = view.label(row, "hcas")
    return text.split(", ") if text else []


def info(view: View, row: int, params: Params) -> dict[str, str]:
    return {"missing": names} if (names := missing_names(view, row)) else {}


def promql(params: Params) -> Translation:
    few = f"{metric('node_hcas_found')} + {metric('node_hcas_lost')} < {metric('node_hcas_expected')}"
    few_gpus = f"{metric('node_gpus_found')} < {metric('node_gpus_expected')}"
    guessed = f"{metric('node_hcas_certainty')} == {Certainty.USUAL.value}"
    return Translation(
        (
            Alert(f"({few} unless {guessed}) or {few_gpus}"),
            Alert(f"({few} and {guessed}) unless {few_gpus}", severity=Severity.INFO),
        ),
        differs="only what configuration and machine type say; what the peers of a node have is not asked",
    )


RULE = Rule(
    name="expected_inventory",
    kind="expected_inventory",
    table=Kind.NODE,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=120.0,
    clear=0.0,
    title="Fewer devices than expected",
    why=(
        "The node has fewer adapters of the compute network, or fewer GPUs, than it should. What it should have is "
        "said by the configuration (collect.inventory.expect or a manifest), else by the machine's type, else by the "
        "nodes of the same vendor, product and board when at least three quarters of them agree. An adapter that was "
        "missing from the start has no counters that could end, so nothing else would tell; one that vanishes while "
        "the agent looks on is an adapter fault. Where only the type speaks and a site may have attached fewer "
        "devices, it is information."
    ),
    action=(
        "Compare `lspci` with a healthy node of the same build: a device that is not listed needs its slot, riser or "
        "power looked at, one that is listed without a driver needs the kernel log (`dmesg | grep -i -e mlx5 -e "
        "NVRM`). If the node is meant to be as it is, say so in collect.inventory.expect."
    ),
    promql=promql,
)
