"""Losses below leaves that are joined to no other switch: all that their ports send goes through that leaf."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups

LEAVES, PORTS = 8, 40


def verdicts(losses: Mapping[int, float], *, joined: bool = False) -> list[FaultVerdict]:
    """The verdicts on leaves of which some ports (row -> share of packets) lose; leaf k has the rows from k * PORTS.
    `joined`: they are joined to each other."""
    n = LEAVES * PORTS
    rows = np.arange(n, dtype=np.int32)
    zero = np.zeros(n, np.int32)
    leaf = (rows // PORTS).astype(np.int32)
    ids = {"link": rows, "nic": rows, "leaf": leaf, "pod": zero - 1, "plane": zero - 1, "network": zero}
    ratio = np.full(n, np.nan)
    ratio[list(losses)] = list(losses.values())
    lossy = np.array(sorted(losses))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(n, np.bool_))
    return gray(observation, ratio, np.zeros(n, np.bool_), leaf, None if joined else leaf)


SOME = {2 * PORTS + at: 2e-3 for at in range(9)}
"""Ports of one leaf that lose alike."""


def test_ports_of_a_leaf_that_is_joined_to_no_other_name_it() -> None:
    (found,), (unknown,) = verdicts(SOME), verdicts(SOME, joined=True)
    assert (found.domain, found.group) == ("leaf", 2)
    assert found.confidence >= 0.9
    assert unknown.domain == "network"


def test_each_such_leaf_has_a_verdict_of_its_own() -> None:
    port = 5 * PORTS + 3
    adapter = {port: 6e-3, **{port + at: 2e-3 for at in (1, 2, 3)}}
    one, other = verdicts(SOME | adapter)
    assert (one.domain, one.group) == ("leaf", 2)
    assert (other.domain, other.group) == ("link", port)
    assert not set(one.effects[SymptomType.PACKET_LOSS]) & set(adapter)


def test_one_port_that_loses_what_the_others_do_together_is_not_its_leaf() -> None:
    (found,) = verdicts({3: 6e-3, 4: 2e-3, 5: 2e-3, 6: 2e-3})
    assert (found.domain, found.group) == ("link", 3)
    assert found.confidence >= 0.9


def test_strong_losses_of_single_ports_of_several_leaves_are_no_faults_of_their_links() -> None:
    """The adapters of one host lose what they send to a host that is gone."""
    assert verdicts({leaf * PORTS + 3: 0.02 for leaf in range(4)}) == []
    (found,) = verdicts({3: 0.02})
    assert (found.domain, found.group) == ("link", 3)


def test_ports_that_lost_a_host_on_all_leaves_do_not_hide_a_lossy_adapter_of_one() -> None:
    gone = {leaf * PORTS + 30: 1.0 for leaf in range(LEAVES)}
    (found,) = verdicts(gone | {3: 6e-3, 4: 2e-3, 5: 2e-3, 6: 2e-3})
    assert (found.domain, found.group) == ("link", 3)


def test_ports_that_have_lost_their_peers_are_no_evidence_of_it() -> None:
    assert all(v.domain != "leaf" for v in verdicts(dict.fromkeys(range(9), 0.9)))
