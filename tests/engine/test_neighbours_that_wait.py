"""Ports of no known leaf that wait, on hosts next to each other (docs/methods.md#neighbours-that-wait)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES, WAITING_RUN
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.runs import LastParts, divide_waiting
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.victims import victims
from fabricmon.engine.diagnosis.waiting_everywhere import waiting_share
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.topology.groups import DOMAINS, Domains

WAITING, INCAST = SymptomType.CONGESTION, SymptomType.INCAST
ADAPTERS = 4


def of_hosts(names: Sequence[str], adapters: int = ADAPTERS, mapped: int = 0) -> RowDomains:
    """Hosts whose first adapters, so many, are in a map."""
    n = len(names) * adapters
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    ids["link"] = ids["nic"] = np.arange(n, dtype=np.int32)
    ids["host"] = np.repeat(np.arange(len(names), dtype=np.int32), adapters)
    known: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    known["host"] = list(names)
    known["link"] = [f"{name}/mlx5_{adapter}/1" for name in names for adapter in range(adapters)]
    known["nic"] = [f"{name}/mlx5_{adapter}" for name in names for adapter in range(adapters)]
    if mapped:
        rail = np.arange(adapters, dtype=np.int32)
        ids["leaf"] = ids["rail"] = np.tile(np.where(rail < mapped, rail, -1).astype(np.int32), len(names))
        known["leaf"] = known["rail"] = [f"rail{at}" for at in range(mapped)]
    return RowDomains(Domains(ids, known, {}, np.zeros(n, np.bool_), np.full(n, -1, np.int32)), {}, [])


def found(domains: RowDomains, rows: Sequence[int], working: Sequence[int] | None = None) -> list[FaultVerdict]:
    """Verdicts on groups, where these rows wait and all others that work do not; None: all work."""
    known = np.full(len(domains.hosts), working is None)
    known[working or []] = True

    def waiting() -> Observation:
        onset = np.full(len(rows), 100.0)
        return Observation(domains.port, np.array(rows, np.int64), onset, known, onset - 30.0)

    divide_waiting(domains, waiting(), LastParts())
    return [v for v in diagnose({WAITING: waiting()}, 1e-3, MODES) if v.mode.kind == "fault_domain"]


def of_adapter(adapter: int, hosts: Sequence[int]) -> list[int]:
    return [host * ADAPTERS + adapter for host in hosts]


HOSTS = [f"gpu{at}" for at in range(64)]


def test_ports_of_one_name_on_hosts_next_to_each_other_are_one_cause() -> None:
    domains = of_hosts(HOSTS)
    rows = of_adapter(2, [host for host in range(16, 32) if host != 20])
    (one,) = found(domains, rows)
    assert one.explained[WAITING].tolist() == rows
    assert domains.names[one.domain][one.group] == "mlx5_2/1"
    assert one.confidence == pytest.approx(2 / 3, abs=0.01), "normal work may do it, too"


def test_the_last_part_of_a_name_may_count_first() -> None:
    names = [f"gpu-{letter}{number:02d}" for letter in "abcdefgh" for number in range(8)]
    rows = of_adapter(1, [host for host, name in enumerate(names) if name.endswith("03")])
    (one,) = found(of_hosts(names), rows)
    assert one.explained[WAITING].tolist() == rows


def test_two_places_of_one_name_are_one_incident_whichever_fits_better() -> None:
    domains = of_hosts([f"gpu{at}" for at in range(256)])
    rows = of_adapter(2, [*range(16, 32), *range(200, 216)])
    for some in (rows, rows[:-1], rows[1:]):
        (one,) = found(domains, some)
        assert one.explained[WAITING].tolist() == some


def test_a_run_that_does_not_pay_by_itself_takes_nothing_from_another() -> None:
    domains = of_hosts([f"gpu{at}" for at in range(256)])
    rows = of_adapter(2, range(16, 32))
    (one,) = found(domains, [*rows, *of_adapter(2, range(100, 196, 12))])
    assert one.explained[WAITING].tolist() == rows


def test_the_better_order_counts_not_the_first() -> None:
    names = [f"gpu-{letter}{number:02d}" for letter in "abcdefghijklmnop" for number in range(16)]
    rows = of_adapter(1, [at for at, name in enumerate(names) if name[-2:] == "05" and name[4] in "efghijkl"])
    (one,) = found(of_hosts(names), rows)
    assert one.explained[WAITING].tolist() == rows


def test_hosts_between_which_most_do_not_work_are_no_neighbours() -> None:
    domains = of_hosts([f"gpu{at}" for at in range(1000)])
    working = [host * ADAPTERS + adapter for host in range(0, 1000, 31) for adapter in range(ADAPTERS)]
    assert found(domains, of_adapter(2, range(248, 248 + 12 * 31, 31)), working) == []
    assert len(found(domains, of_adapter(2, range(248, 264)))) == 1


def test_ports_in_a_map_count_for_whether_a_host_waits_as_a_whole() -> None:
    domains = of_hosts(HOSTS, mapped=3)
    rows = [row for adapter in range(ADAPTERS) for row in of_adapter(adapter, range(16, 32))]
    assert all(v.domain != WAITING_RUN for v in found(domains, rows))
    assert [v.domain for v in found(domains, of_adapter(3, range(16, 32)))] == [WAITING_RUN]


def test_few_ports_without_a_map_do_not_show_that_none_waits() -> None:
    domains = of_hosts(HOSTS, mapped=3)
    known = np.ones(len(domains.hosts), np.bool_)
    rows = np.array([row for adapter in range(3) for row in of_adapter(adapter, range(58))])
    waiting = Observation(domains.port, rows, np.full(len(rows), 100.0), known)
    assert waiting_share({WAITING: waiting}) > 0.9
    unmapped = Observation(of_hosts(HOSTS).port, rows, np.full(len(rows), 100.0), known)
    assert waiting_share({WAITING: unmapped}) > 0.9, "of the ports of each name"


@pytest.mark.parametrize("rows", [
    [row for adapter in range(ADAPTERS) for row in of_adapter(adapter, range(16, 32))],  # their job, whatever the leaf
    of_adapter(2, range(0, 64, 5)),  # all over the fabric
    of_adapter(2, range(16, 23)),  # less than half of a small leaf
    of_adapter(2, range(64)),  # all of them
    [adapter % 3 + host * ADAPTERS for adapter, host in enumerate(range(16, 32))],  # of several names
])  # fmt: skip
def test_other_ports_that_wait_are_none(rows: list[int]) -> None:
    assert found(of_hosts(HOSTS), rows) == []


def test_hosts_of_one_port_may_be_those_of_one_job() -> None:
    assert found(of_hosts(HOSTS, adapters=1), [*range(16, 32)]) == []


def test_where_a_map_has_the_leaves_these_count() -> None:
    domains = of_hosts(HOSTS, mapped=ADAPTERS)
    assert (domains.port.ids["port_name"] < 0).all()
    assert found(domains, of_adapter(2, range(16, 32))) == [], "a quarter of its leaf"


def test_what_waits_for_one_receiver_of_that_name_is_explained_by_it() -> None:
    domains = of_hosts(HOSTS)
    n, rows = len(domains.hosts), of_adapter(2, range(16, 32))
    onset = np.full(len(rows), 100.0)
    observations = {
        WAITING: Observation(domains.port, np.array(rows), onset, np.ones(n, np.bool_)),
        INCAST: Observation(domains.port, np.array(of_adapter(2, [40])), onset[:1], np.ones(n, np.bool_)),
    }
    ((culprit, held_up),) = victims(observations, ()).items()
    assert culprit == (INCAST, of_adapter(2, [40])[0])
    assert held_up.tolist() == rows
