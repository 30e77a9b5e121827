"""Ports that wait for a subnet manager: its own incident, or one host's."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.group_modes import HARD_MODES
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.verdicts import of_subnet_managers
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import ComponentId, Kind
from fabricmon.topology.groups import DOMAINS, Domains

DOWN = SymptomType.LINK_DOWN
PORTS = 4
LINK, HOST = (
    next(mode for mode in HARD_MODES if mode.name == name)
    for name in ("cable or optic down", "all links of a host down")
)


def of_hosts(hosts: int, networks: int) -> RowDomains:
    """Hosts of PORTS ports, their ports in turn in so many networks (0: none is known)."""
    n = hosts * PORTS
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["host"] = np.arange(n, dtype=np.int32), np.repeat(np.arange(hosts, dtype=np.int32), PORTS)
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    if networks:
        ids["network"] = np.arange(n, dtype=np.int32) % networks
        names["network"] = [str(at) for at in range(networks)]
    names["host"] = [f"host-{at}" for at in range(hosts)]
    names["link"] = [f"host-{at // PORTS}/mlx5_{at % PORTS}/1" for at in range(n)]
    none = Groups({"adapter": np.empty(0, np.int32), "pcie_switch": np.empty(0, np.int32)})
    nodes = [ComponentId(Kind.NODE, name, "") for name in names["host"]]
    inside = {Kind.PCIE: none, Kind.GPU: none}
    return RowDomains(Domains(ids, names, {}, np.zeros(n, np.bool_), np.full(n, -1, np.int32)), {}, nodes, inside)


def down(host: int, port: int = -1) -> FaultVerdict:
    rows = host * PORTS + (np.arange(PORTS) if port < 0 else np.array([port]))
    mode, group = (HOST, host) if port < 0 else (LINK, int(rows[0]))
    return FaultVerdict((mode,), group, 0.9, 0.9, 20.0, {DOWN: rows}, 100.0, {}, (), None)


@pytest.mark.parametrize("networks", [0, 1])
@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_ports_of_several_hosts_that_wait_are_one_fault_of_the_subnet_manager(hosts: int, networks: int) -> None:
    mine, domains, waiting = [down(host) for host in range(hosts)], of_hosts(10, networks), np.ones(40, np.bool_)
    left, (found,) = of_subnet_managers(mine, waiting, domains, "x")
    assert not left
    assert found.explained[DOWN].tolist() == list(range(hosts * PORTS))
    assert domains.names["subnet"][found.group] == "x"
    assert found.confidence > 0.9


def test_a_link_without_signal_is_no_part_of_it() -> None:
    waiting = np.ones(40, np.bool_)
    waiting[2 * PORTS] = False
    dark = down(2)
    left, (found,) = of_subnet_managers([down(0), down(1), dark], waiting, of_hosts(10, 1), "x")
    assert left == [dark]
    assert found.explained[DOWN].tolist() == list(range(2 * PORTS))


def test_ports_of_one_host_that_wait_are_that_host() -> None:
    (left,), found = of_subnet_managers([down(3)], np.ones(40, np.bool_), of_hosts(10, 1), "x")
    assert (left.domain, left.group, left.mode.name) == ("host", 3, "ports of a host wait for the subnet manager")
    assert not found


def test_each_network_has_a_subnet_manager() -> None:
    mine = [down(host, port) for host in range(4) for port in (0, 1)]
    domains = of_hosts(10, 2)
    left, found = of_subnet_managers(mine, np.ones(40, np.bool_), domains, "x")
    assert not left
    assert sorted(domains.names["subnet"][one.group] for one in found) == ["x/0", "x/1"]
