"""What an agent accepts to probe: within limits, whoever sends it."""

import pytest
from msgspec.structs import replace

from fabricmon.probe.assignment import (
    FASTEST,
    LONGEST,
    MAX_TEXT,
    WHOLE,
    Assignment,
    PortProbes,
    ProbeTarget,
    decode,
    encode,
    permitted,
)
from fabricmon.probe.packet import LARGEST, SIZE

TARGET = ProbeTarget("host-2/mlx5_0/1", "10.0.0.2", 9795, 61_000, "su0/rail0")
PORT = PortProbes("mlx5_0/1", (TARGET,), ("10.0.0.2", "fd00::2"))
GOOD = Assignment(7, 60.0, "0" * 32, ports=(PORT,))


@pytest.mark.parametrize("ports", [None, (), (PORT,)])
def test_an_assignment_arrives_as_it_was_sent(ports):
    sent = replace(GOOD, ports=ports)
    assert decode(encode(sent)) == sent


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, lasts=LONGEST + 1),
        replace(GOOD, lasts=-1.0),
        replace(GOOD, rate=FASTEST * 2),
        replace(GOOD, rate=0.0),
        replace(GOOD, dscp=64),
        replace(GOOD, nonce="00"),
        replace(GOOD, nonce="Z" * 32),
        replace(GOOD, version=-1),
        replace(GOOD, ports=(PORT, PORT)),
        replace(GOOD, ports=(replace(PORT, targets=(TARGET, TARGET)),)),
        replace(GOOD, ports=(replace(PORT, targets=(replace(TARGET, source=53),)),)),
        replace(GOOD, ports=(replace(PORT, targets=(replace(TARGET, port=0),)),)),
        replace(GOOD, ports=(replace(PORT, targets=(replace(TARGET, address="host-2"),)),)),
        replace(GOOD, ports=(replace(PORT, askers=("everybody",)),)),
        replace(GOOD, ports=(replace(PORT, name="a\nb"),)),
        replace(GOOD, ports=(replace(PORT, askers=("10.0.0.2",) * 300),)),
    ],
)
def test_beyond_a_limit_it_is_refused(bad):
    with pytest.raises(ValueError, match=r"."):
        decode(encode(bad))


@pytest.mark.parametrize(
    ("size", "reply", "allowed"),
    [
        (SIZE, False, True), (WHOLE, False, False), (SIZE + 1, False, False),
        (SIZE, True, True), (WHOLE, True, True), (LARGEST, True, True), (LARGEST + 1, True, False),
        (SIZE - 1, True, False),
    ],
)  # fmt: skip
def test_other_sizes_than_the_plans_are_for_replies_only(size, reply, allowed):
    sent = encode(replace(GOOD, reply=reply, ports=(replace(PORT, targets=(replace(TARGET, size=size),)),)))
    if allowed:
        assert decode(sent).ports[0].targets[0].size == size
    else:
        with pytest.raises(ValueError, match=f"{size} bytes"):
            decode(sent)


def test_a_long_text_is_refused_before_it_is_decoded():
    with pytest.raises(ValueError, match=str(MAX_TEXT)):
        decode(" " * (MAX_TEXT + 1))


@pytest.mark.parametrize(
    ("address", "networks", "allowed"),
    [
        ("10.1.2.3", (), True),
        ("fd00::1", (), True),
        ("fe80::1", (), True),
        ("8.8.8.8", (), False),
        ("8.8.8.8", ("8.8.8.0/24",), True),
        ("10.1.2.3", ("8.8.8.0/24",), False),
        ("224.0.0.1", ("0.0.0.0/0",), False),
        ("255.255.255.255", ("0.0.0.0/0",), False),
        ("127.0.0.1", ("0.0.0.0/0",), False),
        ("0.0.0.0", ("0.0.0.0/0",), False),
        ("::1", ("::/0",), False),
    ],
)
def test_only_permitted_addresses_are_probed(address, networks, allowed):
    assert permitted(address, networks) is allowed
