"""What begins together in two places has two causes; what goes on in the next hosts has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.group_modes import HARD_MODES, TOGETHER_MODES
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.incidents.settling import LastReads, unsettled
from fabricmon.model import ComponentId, Kind
from fabricmon.topology.groups import DOMAINS, Domains

HOSTS, PORTS = 400, 2
SILENT, DOWN, ERRORS = SymptomType.AGENT_SILENT, SymptomType.LINK_DOWN, SymptomType.LINK_ERRORS


def fabric(names: Sequence[str] = (), domain_of: int = 8, mapped: bool = False) -> RowDomains:
    """Hosts with two ports each; row = host * 2 + port. Power domains and rows of racks have `domain_of` hosts each.
    mapped: all are on one leaf, in the order of their numbers."""
    n = HOSTS * PORTS
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["host"] = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32) // PORTS
    if mapped:
        ids["leaf"][:] = 0
    all_names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    all_names["host"] = list(names) or [f"host-{at}" for at in range(HOSTS)]
    all_names["leaf"] = ["leaf-0"]
    all_names["link"] = [f"{name}/mlx5_{port}/1" for name in all_names["host"] for port in range(PORTS)]
    where = {name: str(at // domain_of) for at, name in enumerate(all_names["host"])}
    nodes = [ComponentId(Kind.NODE, name, "") for name in all_names["host"]]
    none = Groups({"adapter": np.empty(0, np.int32), "pcie_switch": np.empty(0, np.int32)})
    return RowDomains(
        Domains(ids, all_names, {}, np.zeros(n, np.bool_), np.arange(n, dtype=np.int32)), where, nodes,
        {Kind.PCIE: none, Kind.GPU: none}, places={"row": where},
    )  # fmt: skip


def silent(rows: Sequence[int]) -> dict[SymptomType, Observation]:
    every = np.arange(HOSTS, dtype=np.int32)
    return {SILENT: Observation(Groups({"host": every}), np.array(rows), np.full(len(rows), 100.0),
                                np.ones(HOSTS, np.bool_))}  # fmt: skip


def verdict_of(name: str, group: int, kind: SymptomType, rows: Sequence[int], well: int = 0) -> FaultVerdict:
    mode = next(mode for mode in HARD_MODES if mode.name == name)
    return FaultVerdict((mode,), group, 0.99, 0.99, 50.0, {kind: np.array(rows)}, 100.0, {kind: well}, (), None)


def joined(
    domains: RowDomains, verdicts: Sequence[FaultVerdict] = (), seen: dict[SymptomType, Observation] | None = None
) -> list[FaultVerdict]:
    return CommonCauses().joined(verdicts, seen or {}, domains, lambda _kind, _rows: True, 103.0)


def common(found: Sequence[FaultVerdict], kind: SymptomType) -> list[list[int]]:
    return [verdict.explained[kind].tolist() for verdict in found if verdict.mode.word == "common"]


SHUFFLED = [f"h{at * 7919 % 100003:05x}" for at in range(HOSTS)]
TURNED = [f"{chr(ord('a') + at % 26)}{at // 26}" for at in range(HOSTS)]  # a0, b0 ... z0, a1: place, then rack
RUN = list(range(200, 207))


@pytest.mark.parametrize(("names", "mapped", "rows"), [
    ((), False, RUN),
    (SHUFFLED, False, [90, *RUN]),
    (SHUFFLED, True, RUN),
    (TURNED, False, RUN),
])  # fmt: skip
def test_a_host_that_dies_far_from_others_that_fall_silent_is_no_part_of_them(
    names: Sequence[str], mapped: bool, rows: list[int]
) -> None:
    """Where neither names nor ports of leaves show who stands where, all are one."""
    assert common(joined(fabric(names, mapped=mapped), seen=silent([90, *RUN])), SILENT) == [rows]


@pytest.mark.parametrize("rows", [[90, 201, 202, 301], [200, 203, 206, 209], list(range(200, 230, 2))])
def test_hosts_that_are_no_two_runs_are_one_cause(rows: list[int]) -> None:
    assert common(joined(fabric(), seen=silent(rows)), SILENT) == [rows]


def test_what_turns_out_to_be_far_as_a_cause_grows_leaves_it() -> None:
    causes, domains = CommonCauses(), fabric(domain_of=16)
    early = [190, 201, 204, 207]
    found = causes.joined([], silent(early), domains, lambda _kind, _rows: True, 103.0)
    assert common(found, SILENT) == [early]
    power = verdict_of("power lost", 12, SILENT, range(192, 208))
    (found_then,) = causes.joined([power], silent([190, *range(192, 208)]), domains, lambda _kind, _rows: True, 104.0)
    assert found_then.mode.word == "power"
    assert 190 not in np.concatenate(list(found_then.effects.values())), "a host of another supply is no effect"


@pytest.mark.parametrize(("beside", "words"), [(208, ["common"]), (209, ["power"]), (120, ["power"])])
def test_what_goes_on_beyond_a_power_domain_is_not_its_loss(beside: int, words: list[str]) -> None:
    rows = range(200, 208)
    found = joined(fabric(), [verdict_of("power lost", 25, SILENT, rows)], silent([*rows, beside]))
    assert [verdict.mode.word for verdict in found] == words
    assert common(found, SILENT) == ([[*rows, beside]] if words == ["common"] else [])


def part(group: int, hosts: Sequence[int]) -> FaultVerdict:
    return verdict_of("ports of a leaf down", group, DOWN, [PORTS * host for host in hosts], well=20)


def test_parts_of_two_leaves_far_from_each_other_are_two() -> None:
    two = [part(0, range(16)), part(1, range(41, 81, 2))]
    assert [verdict.mode.word for verdict in joined(fabric(), two)] == ["part", "part"]
    near = [part(0, range(16)), part(1, range(17, 33))]
    assert [verdict.mode.word for verdict in joined(fabric(), near)] == ["common"]


def links_of(host: int, ports: int = PORTS) -> FaultVerdict:
    return verdict_of("all links of a host down", host, DOWN, [PORTS * host + port for port in range(ports)])


@pytest.mark.parametrize(("hosts", "ports", "together"), [((7, 8), 2, True), ((7, 9), 2, False), ((7, 8), 1, False)])
def test_four_links_of_hosts_next_to_each_other_are_their_cables(
    hosts: tuple[int, int], ports: int, together: bool
) -> None:
    domains = fabric(mapped=True)
    found = joined(domains, [links_of(host, ports) for host in hosts])
    assert [verdict.mode.word for verdict in found] == (["common"] if together else ["host", "host"])
    dead = [replace(one, explained={**one.explained, SILENT: np.array([one.group])}) for one in map(links_of, hosts)]
    assert not common(joined(domains, dead), DOWN), "hosts that are dead, too"


class Links(SymptomIndex):
    """Of links of which none is turning bad."""

    def table(self, kind: SymptomType) -> Kind:
        return Kind.PORT

    def pending(self, kind: SymptomType, domain: str, group: int) -> int:
        return 0


def test_cables_of_few_hosts_wait_while_one_sends_no_frames() -> None:
    mode = next(mode for mode in TOGETHER_MODES if mode.domain == "together_down")
    rows = np.array([14, 15, 16, 17])
    cut = FaultVerdict((mode,), 0, 0.99, 0.99, 9.0, {DOWN: rows}, 100.0, {}, (), None)
    ids = [ComponentId(Kind.PORT, f"host-{row // PORTS}", str(row)) for row in range(HOSTS * PORTS)]
    index = Links(fabric(), {}, {Kind.PORT: ids})
    last = {"host-7": 102.0, "host-8": 102.0}
    read = LastReads(103.0, np.empty(0), np.empty(0), np.empty(0), lambda node: last[node])
    assert "no frames" not in unsettled(cut, index, read).reason
    last["host-8"] = 99.0
    assert unsettled(cut, index, read).seconds == 40.0


def test_two_modules_next_to_each_other_that_get_bit_errors_share_more_than_a_module() -> None:
    two = [verdict_of("module with bit errors", at, ERRORS, [4 * at, 4 * at + 2]) for at in (5, 6)]
    assert common(joined(fabric(), two), ERRORS) == [[20, 22, 24, 26]]
    apart = [two[0], verdict_of("module with bit errors", 9, ERRORS, [36, 38])]
    assert common(joined(fabric(), apart), ERRORS) == []


def test_bit_errors_in_another_row_are_no_effect_of_a_warm_one() -> None:
    domains = fabric(domain_of=40)
    warm = verdict_of("row with bit errors", 2, ERRORS, range(180, 240))
    for host, words in ((300, ["row", "link"]), (85, ["row"])):
        alone = verdict_of("cable or optic with bit errors", PORTS * host, ERRORS, [PORTS * host])
        assert [verdict.mode.word for verdict in joined(domains, [warm, alone])] == words
