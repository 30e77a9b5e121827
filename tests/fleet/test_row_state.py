"""Every array with one entry per row is allocated, grown and forgotten with its rows, whatever class holds it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.row_state import BLOCK, RowState, per_row
from fabricmon.fleet.trail import Trail
from fabricmon.fleet.utilisation import utilisation
from fabricmon.model import Kind
from tests.fleet.site import Site, port_part
from tests.hostile.memory import rss


class _Both(RowState):
    """Axes before and behind the rows, words for sizes and values, and an array that outlives its rows."""

    plain = per_row(np.int32, 7)
    cube = per_row(np.float32, "usual", 2, "wide", after=(3,))
    kept = per_row(np.int64, 0, forgotten=False)

    def __init__(self, capacity: int) -> None:
        self.wide, self.usual = 4, 0.5
        super().__init__(capacity)


class _Counts(RowState):
    """Zeros, 64 bytes a row."""

    counts = per_row(np.float64, 0, 4)
    slots = per_row(np.float32, 0, after=(8,))


def every_class(kind: type[RowState] = RowState) -> Iterator[type[RowState]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from every_class(sub)


def every_part(state: RowState) -> Iterator[RowState]:
    yield state
    for part in state.parts():
        yield from every_part(part)


def states() -> list[RowState]:
    """One of each class at least, as a fleet that has read something holds them."""
    site = Site()
    columns = ("xmit", "rcv", "rate", "state", "symbol_errors", "module_temperature")
    site.inventory("a", port_part("infiniband", columns, *(f"p{n}" for n in range(37))))
    for taken in (10.0, 20.0, 30.0):
        site.send("a", {}, taken, default=taken)
        view = site.tick(10.0)
    trail = Trail()
    trail.update(utilisation(view), site.now)
    tables = (part for table in site.fleet.tables.values() for part in every_part(table))
    return [*tables, trail, _Both(37), _Counts(37)]


def test_every_class_is_reached_from_what_holds_it() -> None:
    """A part that its owner's `parts` leaves out would neither grow nor forget."""
    assert {base for state in states() for base in type(state).__mro__} >= set(every_class())


def test_no_array_of_rows_is_kept_beside_the_declared_ones() -> None:
    for state in states():
        views = {"flat"}  # Table.flat is a view of its cells
        loose = {
            name
            for name, value in vars(state).items()
            if isinstance(value, np.ndarray) and name not in state.DECLARED and name not in views
            and state.capacity in value.shape
        }  # fmt: skip
        assert not loose, (type(state).__name__, loose)


def axis_of(state: RowState, name: str) -> int:
    return len(state.DECLARED[name].before)


def marked(state: RowState, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Fill each array with values that no new row has; returns copies, rows first."""
    for name in state.DECLARED:
        array = getattr(state, name)
        array[...] = rng.integers(1, 2, array.shape) if array.dtype == np.bool_ else rng.integers(2, 100, array.shape)
    return {name: np.moveaxis(getattr(state, name), axis_of(state, name), 0).copy() for name in state.DECLARED}


@given(more=st.integers(1, 70), forgotten=st.sets(st.integers(0, 36)), seed=st.integers(0, 2**32 - 1))
def test_growing_keeps_old_rows_and_forgetting_clears_exactly_its_rows(
    more: int, forgotten: set[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for state in states():
        fresh = {name: np.moveaxis(getattr(state, name), axis_of(state, name), 0)[:0] for name in state.DECLARED}
        before, capacity = marked(state, rng), state.capacity
        state.resize(capacity + more)
        assert state.capacity == capacity + more
        rows = np.array(sorted(row for row in forgotten if row < capacity), np.intp)
        state.forget(rows)
        others = np.setdiff1d(np.arange(capacity), rows)
        for name, declared in state.DECLARED.items():
            array = np.moveaxis(getattr(state, name), axis_of(state, name), 0)
            blank = getattr(state, declared.fill) if isinstance(declared.fill, str) else declared.fill
            assert array.dtype == declared.dtype == fresh[name].dtype, name
            assert array.shape == (capacity + more, *before[name].shape[1:]), name
            np.testing.assert_array_equal(array[others], before[name][others], name)
            np.testing.assert_array_equal(array[capacity:], np.full_like(array[capacity:], blank), name)
            gone = np.full_like(array[rows], blank) if declared.forgotten else before[name][rows]
            np.testing.assert_array_equal(array[rows], gone, name)


@given(st.sets(st.integers(0, 3 * BLOCK), max_size=4), st.integers(1, 2 * BLOCK))
def test_rows_of_any_block_are_taken_over(rows: set[int], more: int) -> None:
    state = _Counts(3 * BLOCK + 1)
    at = sorted(rows)
    state.counts[2, at] = state.slots[at, 7] = np.array(at) + 1
    state.resize(state.capacity + more)
    assert np.flatnonzero(state.counts.any(axis=0)).tolist() == np.flatnonzero(state.slots.any(axis=1)).tolist() == at
    assert state.counts[2, at].tolist() == state.slots[at, 7].tolist() == [row + 1 for row in at]


def test_zeros_of_rows_without_a_value_take_no_memory() -> None:
    """80 MiB of zeros in the end; what a block of rows has written grows with it."""
    before = rss()
    state = _Counts(1 << 20)
    state.counts[:, :BLOCK] = 1.0
    state.resize(5 << 18)
    assert state.counts.nbytes + state.slots.nbytes == 80 << 20
    assert state.counts.sum() == 4 * BLOCK
    assert rss() - before < 16


def test_a_part_grows_and_forgets_with_the_table_that_holds_it() -> None:
    fleet = Fleet()
    table = fleet.tables[Kind.PORT]
    table.resize(200)
    for part in every_part(table):
        assert part.capacity == 200
        for name in part.DECLARED:
            assert getattr(part, name).shape[axis_of(part, name)] == 200, (type(part).__name__, name)


def test_a_row_given_to_another_port_keeps_nothing_but_its_generation() -> None:
    site = Site()
    columns = ("xmit", "rcv", "rate", "state", "symbol_errors")
    site.inventory("a", port_part("infiniband", columns, "p0", "p1"))
    for taken in (10.0, 20.0, 30.0):
        site.send("a", {}, taken, default=taken)
        site.tick(10.0)
    table = site.fleet.tables[Kind.PORT]
    rows, generation = np.array([site.row("a", "p0"), site.row("a", "p1")]), table.generation[:2].copy()
    site.fleet.forget("a")
    for part in every_part(table):
        for name, declared in part.DECLARED.items():
            array = np.moveaxis(getattr(part, name), axis_of(part, name), 0)[rows]
            blank = getattr(part, declared.fill) if isinstance(declared.fill, str) else declared.fill
            if declared.forgotten:
                np.testing.assert_array_equal(array, np.full_like(array, blank), name)
    assert (table.generation[:2] > generation).all()
