"""Which differences have a state of a part that is read at least once a second."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.streams.presence import Peer
from fabricmon.central.streams.stream import Stream
from fabricmon.central.targets.discovery import Target
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part

PARTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.5, 1.0, 5.0])), max_size=6)


@given(PARTS, st.sets(st.integers(0, 60)))
def test_a_difference_turns_a_state_where_a_place_is_of_a_fast_part(shapes, places):
    names, ports = [f"a{n}" for n in range(3)], [Component(f"p{n}") for n in range(3)]
    parts = tuple(
        Part("c", Kind.PORT, tuple(names[:columns]), tuple(ports[:rows]), pace) for columns, rows, pace in shapes
    )
    fast = [pace <= 1.0 for columns, rows, pace in shapes for _ in range(columns * rows)]
    stream = Stream(Peer(Target("a", {}), "a"), None, None)
    stream.begin(Inventory(1, Identity("a", "b", "c", "d", 1.0), parts))
    index = np.array(sorted(place for place in places if place < len(fast)), np.uint32)
    frame = Frame(1, 1, 1.0, np.zeros(len(parts)), index, np.zeros(len(index)), len(fast))
    assert stream.turned(frame) == any(fast[place] for place in index)
    assert not stream.turned(Frame(1, 1, 1.0, np.zeros(len(parts)), None, np.zeros(len(fast)), len(fast)))
