"""Probes by UDP and by queue pairs (verbs) over soft-RoCE in the test VM: what each fault does to the windows."""

from __future__ import annotations

import json

import pytest

from tests.vm.inside_vm_probes import DSCP

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module", params=["udp", "verbs"])
def facts(vm, request):
    return json.loads((vm / "facts-probes.json").read_text())[request.param] | {"backend": request.param}


def test_a_quiet_wire_loses_nothing_and_the_class_arrives(facts):
    quiet = facts["quiet"]
    assert quiet["sent"] > 20
    assert quiet["lost"] == 0
    assert quiet["dscp"] == [DSCP]
    verbs = facts["backend"] == "verbs"
    assert quiet["clock"] == ["program" if verbs else "kernel"]
    assert (quiet["own_ms"] is None) is verbs
    assert quiet["packet"] == 64 + 28 + 24 * verbs
    assert all(offer.startswith("verbs/") is verbs for offer in facts["offers"])


def test_a_delay_before_the_wire_is_of_the_own_host_where_the_kernel_stamps(facts):
    """netem holds packets before the driver stamps them."""
    if facts["backend"] == "verbs":  # emulated, an answer takes milliseconds by the program's clock
        assert facts["long"]["rtt_ms"] > 100 > facts["quiet"]["rtt_ms"]
    else:
        assert facts["delay"]["rtt_ms"] < 1.0 < facts["delay"]["own_ms"]
        assert facts["long"]["rtt_ms"] < 100 < facts["long"]["own_ms"]


def test_one_lost_percent_shows(facts):
    assert 0 < facts["loss"]["lost"] < 0.05 * facts["loss"]["sent"]


@pytest.mark.parametrize("phase", ["frozen", "killed"])
def test_a_peer_that_answers_nothing_loses_all(facts, phase):
    assert 0 < facts[phase]["sent"] == facts[phase]["lost"]
