"""Who speaks for a node, and what is said of its presence: moves, duplicates, clones, silence."""

import pytest

from fabricmon.central.streams.presence import CLONED_FOR, Register
from fabricmon.central.targets.discovery import Target
from fabricmon.model import Identity, Presence
from tests.central.streams import Sink

LIVE, SLOW, REFUSED, NEVER = Presence.LIVE, Presence.SLOW, Presence.REFUSED, Presence.NEVER


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def register(sink):
    return Register(sink, 5.0, 15.0)


def identity(node, agent="a", boot="boot"):
    return Identity(node, boot, agent, "0.1.0", 1.0)


def expect(register, address, node=None):
    target = Target(address)
    return register.expect(target, node or target.expected_node, 0.0)


def hello(register, peer, who, now):
    fed = register.hello(peer, who, now)
    register.begin(peer, now)
    return fed


def test_a_hello_alone_does_not_make_a_node_live(register, sink):
    peer = expect(register, "h1:1")
    register.hello(peer, identity("h1"), 1.0)
    assert sink.presences["h1"][0] == "never"
    assert register.sweep(16.5) == [peer]
    assert sink.presences["h1"][0] == "never"


def test_an_expected_node_that_never_came_is_never_seen(register, sink):
    expect(register, "h1:1")
    assert sink.presences == {"h1": ("never", "not connected yet")}
    assert register.counts()[NEVER] == 1


def test_a_node_that_says_another_name_is_known_by_that_name(register, sink):
    peer = expect(register, "10.0.0.1:1")
    assert hello(register, peer, identity("h1"), 1.0)
    assert sink.presences == {"h1": ("live", "")}
    assert sink.forgotten == ["10.0.0.1"]


def test_who_waits_to_be_opened_anew_waits_on_when_its_feeder_is_renewed(register):
    first, second = expect(register, "a:1"), expect(register, "b:1")
    hello(register, first, identity("h1"), 1.0)
    hello(register, second, identity("h1"), 1.0)
    register.failed(first, REFUSED, "", 2.0)
    assert (second.open, second.feeds, second.reopen) == (True, False, True)
    register.renew("h1")
    assert register.sweep(2.5) == [second]
    hello(register, second, identity("h1"), 3.0)
    assert register.sweep(3.5) == []
    register.renew("h1")
    assert register.sweep(4.0) == [second]


def test_one_agent_under_two_addresses_is_fed_once_and_is_no_clone(register, sink):
    first, second = expect(register, "a:1"), expect(register, "b:1")
    assert hello(register, first, identity("h1"), 1.0)
    assert not hello(register, second, identity("h1"), 1.0)
    assert sink.presences == {"h1": ("live", "")}
    register.failed(first, REFUSED, "connection refused", 2.0)
    assert sink.presences == {"h1": ("live", "")}
    assert register.sweep(2.0) == [second], "the second begins anew, to send all values"
    register.failed(second, SLOW, "anew", 2.0)
    assert hello(register, second, identity("h1"), 2.1)


def test_two_agents_of_one_name_are_a_clone_until_one_is_gone(register, sink):
    first, second = expect(register, "a:1"), expect(register, "b:1")
    hello(register, first, identity("h1", "x"), 1.0)
    assert not hello(register, second, identity("h1", "y"), 1.0)
    assert sink.presences == {"h1": ("cloned", "two agents report as h1: a:1, b:1")}
    register.failed(second, REFUSED, "connection refused", 2.0)
    assert sink.presences == {"h1": ("live", "")}


def test_a_reboot_is_no_clone_however_often_also_under_two_addresses(register, sink):
    first, second = expect(register, "a:1"), expect(register, "b:1")
    now = 0.0
    for n in range(20):
        now += 100.0
        hello(register, second, identity("h1", boot=f"boot-{n}"), now)
        register.sweep(now + 1)
        assert sink.presences["h1"] == ("live", ""), "the old stream is not ended yet, but nothing more comes of it"
        register.failed(first, Presence.UNREACHABLE, "no answer", now + 2)
        hello(register, first, identity("h1", boot=f"boot-{n}"), now + 3)
        for at in (now + 20, now + 40):
            first.last = second.last = at
            register.sweep(at)
            assert sink.presences["h1"] == ("live", "")
        register.failed(second, REFUSED, "connection refused", now + 50)


def test_a_copied_machine_id_shows_by_a_boot_id_that_comes_back(register, sink):
    """Two machines of one image behind one address: the agent's identity is the same, the boot is not."""
    peer = expect(register, "a:1")
    hello(register, peer, identity("h1", boot="x"), 1.0)
    register.failed(peer, REFUSED, "connection reset", 2.0)
    hello(register, peer, identity("h1", boot="y"), 3.0)
    assert sink.presences["h1"] == ("live", ""), "once is a reboot"
    register.failed(peer, REFUSED, "connection reset", 4.0)
    assert sink.presences["h1"] == ("refused", "connection reset")
    hello(register, peer, identity("h1", boot="x"), 5.0)
    assert sink.presences["h1"] == ("cloned", "two machines with one machine id report as h1: a:1")
    peer.last = 5.0 + CLONED_FOR - 1
    register.sweep(peer.last)
    assert sink.presences["h1"][0] == "cloned"
    peer.last = 5.0 + CLONED_FOR
    register.sweep(peer.last)
    assert sink.presences["h1"] == ("live", ""), "nothing of the other machine for so long"


def test_a_copied_machine_id_shows_by_two_boots_that_are_both_heard(register, sink):
    first, second = expect(register, "a:1"), expect(register, "b:1")
    hello(register, first, identity("h1", boot="x"), 1.0)
    hello(register, second, identity("h1", boot="y"), 10.0)
    first.last = second.last = 12.0
    register.sweep(12.0)
    assert sink.presences["h1"] == ("live", ""), "it may be the last words before a reboot"
    first.last = second.last = 15.0
    register.sweep(15.0)
    assert sink.presences["h1"] == ("live", ""), "so long its last words may be on the way"
    first.last = second.last = 15.1
    register.sweep(15.1)
    assert sink.presences["h1"] == ("cloned", "two machines with one machine id report as h1: a:1, b:1")
    register.failed(first, REFUSED, "connection refused", 16.0)
    assert sink.presences["h1"] == ("live", "")


def test_a_name_that_nobody_has_any_more_is_forgotten_with_its_boots(register, sink):
    for boot in ("x", "y", "x"):
        peer = expect(register, "a:1")
        hello(register, peer, identity("h1", boot=boot), 1.0)
        assert sink.presences["h1"] == ("live", "")
        register.drop(peer, 2.0)


def test_an_agent_that_moved_is_live_at_its_new_address(register, sink):
    old, new = expect(register, "a:1"), expect(register, "b:1")
    hello(register, old, identity("h1"), 1.0)
    register.failed(old, Presence.UNREACHABLE, "no answer", 2.0)
    assert hello(register, new, identity("h1"), 3.0)
    assert sink.presences == {"h1": ("live", "")}
    register.drop(old, 4.0)
    assert sink.presences == {"h1": ("live", "")}
    register.drop(new, 5.0)
    assert sink.presences == {}
    assert register.peers == {}


def test_without_frames_a_node_is_slow_then_its_stream_is_closed_and_a_frame_mends_it(register, sink):
    peer = expect(register, "a:1")
    hello(register, peer, identity("a"), 0.0)
    assert register.sweep(5.0) == []
    assert sink.presences["a"] == ("live", "")
    assert register.sweep(5.1) == []
    assert sink.presences["a"] == ("slow", "no frame for 5 s")
    peer.last = 6.0
    assert register.sweep(6.1) == []
    assert sink.presences["a"] == ("live", "")
    assert register.sweep(21.1) == [peer]


def test_presence_is_reported_when_it_changes_only(register, sink):
    peer = expect(register, "a:1")
    for now in (1.0, 2.0, 3.0):
        register.failed(peer, REFUSED, "connection refused", now)
    assert sink.said == [("a", "never"), ("a", "refused")]


@pytest.mark.parametrize("name", ["", "x" * 254, "a\nb"])
def test_a_name_that_is_none_is_refused(register, name):
    with pytest.raises(ValueError, match="is no name"):
        register.hello(expect(register, "a:1"), identity(name), 1.0)
