"""What is encoded comes back bit for bit, a difference applied to the old gives the new, and garbage is refused."""

from __future__ import annotations

import math
import struct
from array import array

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon import frame
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part, Snapshot

IDENTITY = Identity("host-007", "boot-1", "agent-1", "0.1.0", 1.8e9)
any_float = st.floats(width=64)  # NaN, infinities, -0.0 and subnormals too


def inventory(shape: list[tuple[int, int]], id: int = 1) -> Inventory:
    return Inventory(id, IDENTITY, tuple(
        Part(f"c{n}", Kind.PORT, tuple(f"col{i}" for i in range(columns)),
             tuple(Component(f"dev{i}/1", {"device": f"dev{i}"}) for i in range(rows)))
        for n, (rows, columns) in enumerate(shape)
    ))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    inv = inventory(draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=4)))
    values = array("d", draw(st.lists(any_float, min_size=inv.size, max_size=inv.size)))
    taken = draw(st.lists(any_float, min_size=len(inv.parts), max_size=len(inv.parts)))
    return Snapshot(inv, draw(st.integers(0, 2**64 - 1)), draw(st.floats(0, 4e9)), taken, values)


def bits(values: object) -> bytes:
    return np.ascontiguousarray(np.asarray(values, dtype="<f8")).tobytes()


@given(snapshots())
def test_a_full_frame_comes_back_bit_for_bit(s: Snapshot) -> None:
    got = frame.decode(frame.encode_full(s))
    assert (got.inventory, got.seq, got.wall) == (s.inventory.id, s.seq, s.wall)
    assert (got.size, got.index) == (len(s.values), None)
    assert bits(got.values) == bits(s.values)
    assert bits(got.taken) == bits(s.taken)


@given(snapshots(), st.data())
def test_a_difference_applied_to_what_was_known_gives_the_new(s: Snapshot, data: st.DataObject) -> None:
    before = array("d", data.draw(st.lists(any_float, min_size=len(s.values), max_size=len(s.values))))
    taken_before = [math.nan] * len(s.taken)  # every part was read since
    got = frame.decode(frame.encode_delta(s, before, taken_before))
    have = np.array(before, dtype=np.float64)
    if got.index is None:
        have[:] = got.values
    else:
        have[got.index] = got.values
    assert bits(have) == bits(s.values)
    assert bits(got.taken) == bits(s.taken)


def test_a_difference_carries_only_what_changed() -> None:
    inv = inventory([(2, 50), (1, 100)])
    before = array("d", [1.0] * 200)
    before[3] = math.nan
    s = Snapshot(inv, 2, 10.0, [1.0, 2.0], before[:])
    s.values[7], s.values[150] = 5.0, math.nan
    got = frame.decode(frame.encode_delta(s, before, [0.0, 0.0]))
    assert got.index is not None
    assert got.index.tolist() == [7, 150]
    assert got.values[0] == 5.0
    assert math.isnan(got.values[1])
    # an unchanged NaN is no change; a heartbeat is a frame without values
    beat = frame.decode(frame.encode_delta(s, s.values[:], [0.0, 0.0]))
    assert beat.index is not None
    assert len(beat.values) == 0
    assert beat.taken.tolist() == [1.0, 2.0]


def test_a_difference_longer_than_the_whole_is_sent_whole() -> None:
    s = Snapshot(inventory([(1, 9)]), 2, 0.0, [1.0], array("d", range(9)))
    assert frame.decode(frame.encode_delta(s, array("d", [-1.0] * 9), [0.0])).index is None


def test_a_snapshot_of_another_shape_than_its_inventory_is_refused() -> None:
    s = Snapshot(inventory([(1, 3)]), 1, 0.0, [1.0], array("d", [1.0]))
    with pytest.raises(frame.FrameError, match="3 values in 1 parts"):
        frame.encode_full(s)
    with pytest.raises(frame.FrameError, match="one inventory"):
        frame.encode_delta(s, array("d"), [1.0])


@given(st.binary(max_size=200))
def test_garbage_is_no_frame(data: bytes) -> None:
    with pytest.raises(frame.FrameError):
        frame.decode(data)


@given(snapshots(), st.data())
def test_a_frame_cut_short_or_too_long_is_refused(s: Snapshot, data: st.DataObject) -> None:
    whole = frame.encode_full(s)
    with pytest.raises(frame.FrameError):
        frame.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(frame.FrameError):
        frame.decode(whole + b"\0")


@settings(max_examples=300)
@given(snapshots(), st.data())
def test_a_flipped_header_is_refused_or_stays_within_bounds(s: Snapshot, data: st.DataObject) -> None:
    whole = bytearray(frame.encode_delta(s, array("d", [0.0] * len(s.values)), [math.nan] * len(s.taken)))
    whole[data.draw(st.integers(0, 39))] ^= data.draw(st.integers(1, 255))
    try:
        got = frame.decode(whole)
    except frame.FrameError:
        return
    assert got.size is not None
    assert got.index is None or not len(got.index) or int(got.index.max()) < got.size


def test_an_index_outside_the_snapshot_is_refused() -> None:
    s = Snapshot(inventory([(1, 9)]), 2, 0.0, [1.0], array("d", range(9)))
    before = s.values[:]
    before[4] = 99.0
    data = bytearray(frame.encode_delta(s, before, [0.0]))
    struct.pack_into("<I", data, len(data) - 4, 9)
    with pytest.raises(frame.FrameError, match="outside"):
        frame.decode(data)


def test_too_large_is_refused_before_anything_is_allocated() -> None:
    s = Snapshot(inventory([(1, 1)]), 1, 0.0, [1.0], array("d", [1.0]))
    data = bytearray(frame.encode_full(s))
    struct.pack_into("<II", data, 28, 2**32 - 1, 2**32 - 1)
    with pytest.raises(frame.FrameError, match="more than"):
        frame.decode(data)


def test_another_version_is_distinguished_from_garbage() -> None:
    data = bytearray(frame.encode_full(Snapshot(inventory([]), 1, 0.0, [], array("d"))))
    data[2] = 9
    with pytest.raises(frame.VersionError, match="version 9") as e:
        frame.decode(data)
    assert e.value.version == 9
    with pytest.raises(frame.VersionError, match="version 7"):
        frame.decode_text('{"type":"inventory","version":7,"of":"another shape"}')


# --------------------------------------------------------------------------------------------------------
# Text

words = st.text(max_size=12)


@given(st.builds(
    Inventory,
    st.integers(0, 2**32 - 1),
    st.builds(Identity, words, words, words, words, st.floats(0, 4e9)),
    st.lists(st.builds(Part, words, st.sampled_from(Kind), st.lists(words, max_size=4).map(tuple),
                       st.lists(st.builds(Component, words, st.dictionaries(words, words, max_size=3)),
                                max_size=3).map(tuple),
                       st.floats(0.01, 1e4)), max_size=3).map(tuple),
))
def test_an_inventory_comes_back(inv: Inventory) -> None:
    assert frame.decode_hello(frame.encode_hello(inv)) == inv


def test_hello_names_type_and_version() -> None:
    hello = msgspec.json.decode(frame.encode_hello(inventory([(1, 1)])))
    assert (hello["type"], hello["version"]) == ("inventory", frame.VERSION)


def test_a_name_that_is_no_unicode_costs_only_itself() -> None:
    inv = Inventory(1, IDENTITY, (Part("c", Kind.PORT, ("a",), (Component("x\udc80/1", {"device": "x\udc80"}),)),))
    got = frame.decode_hello(frame.encode_hello(inv))
    assert got.parts[0].components[0].name == "x?/1"
    assert got.identity == IDENTITY


def test_events_come_back_and_an_unknown_field_is_absent() -> None:
    e = Event(5, 1.0, "link", "mlx5_0/1", "eth0 lost carrier", {"carrier": 0.0, "speed": math.nan})
    got = frame.decode_text(frame.encode_event(e))
    assert got == Event(5, 1.0, "link", "mlx5_0/1", "eth0 lost carrier", {"carrier": 0.0})


def test_goodbye_comes_back() -> None:
    assert frame.decode_text(frame.encode_goodbye(frame.Goodbye("agent stops"))) == frame.Goodbye("agent stops")


def test_fields_of_a_later_release_are_ignored() -> None:
    assert frame.decode_text('{"type":"goodbye","goodbye":{"reason":"x","mood":1},"later":2}') == frame.Goodbye("x")


@pytest.mark.parametrize("text", [
    "", "{", "null", "[]", '"inventory"', '{"type":"inventory"}', '{"type":"other"}', '{"type":1}',
    '{"type":"event","event":{"seq":"x"}}', "[" * 100_000, b"\xff\xfe",
    '{"type":"inventory","version":1,"inventory":{"id":-1,"identity":'
    '{"node":"","boot_id":"","agent":"","version":"","started":0},"parts":[]}}',
])
def test_other_text_is_refused(text: str | bytes) -> None:
    with pytest.raises(frame.FrameError):
        frame.decode_text(text)


def test_a_stream_starts_with_an_inventory() -> None:
    with pytest.raises(frame.FrameError, match="starts with an inventory"):
        frame.decode_hello(frame.encode_goodbye(frame.Goodbye()))


def test_an_inventory_larger_than_a_frame_may_be_is_refused() -> None:
    part = Part("c", Kind.PORT, tuple(f"c{i}" for i in range(2049)), tuple(Component(f"r{i}") for i in range(2048)))
    with pytest.raises(frame.FrameError, match="more than"):
        frame.encode_hello(Inventory(1, IDENTITY, (part,)))
