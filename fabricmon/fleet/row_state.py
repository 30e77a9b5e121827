"""State with one entry per row of a table: each array is declared once, in the class body. Pure, NumPy.

    class Downs(RowState):
        last = per_row(np.float64, np.nan)             # float64[capacity], NaN at first
        at = per_row(np.float64, 0.0, DEPTH)           # float64[DEPTH, capacity]

Allocation, growth and forgetting all follow from the declaration, so none of them can leave an array out. An instance
holds plain arrays: a hot path reads an attribute and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Numbers = NDArray[np.intp]
"""Row numbers, each once."""
Rows = slice | Numbers
"""Some rows: a slice from 0 on, or their numbers."""

BLOCK = 4096
"""Rows that are taken over together when a state grows."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


def numbers(rows: Rows, at: Numbers) -> Numbers:
    """Row numbers of some places within `rows`."""
    return at if isinstance(rows, slice) else rows[at]


class PerRow(NamedTuple):
    """Declaration of one array; see `per_row`."""

    dtype: type[np.generic]
    fill: float | str
    before: tuple[int | str, ...]
    after: tuple[int | str, ...]
    forgotten: bool


def per_row(
    dtype: type[_Scalar],
    fill: float | str = 0,
    *before: int | str,
    after: tuple[int | str, ...] = (),
    forgotten: bool = True,
) -> NDArray[_Scalar]:
    """Declare an array of a RowState.

    fill       what a new or forgotten row holds
    before     sizes of the axes before that of the rows, `after` of those behind it
    forgotten  False: the value outlives its row

    A word stands for the instance's attribute of that name, which is set before RowState.__init__ is called.
    """
    return PerRow(dtype, fill, before, after, forgotten)  # type: ignore[return-value]


class RowState:
    """Arrays of `capacity` rows, and other RowStates with the same rows.

    DECLARED  the arrays of the class by name
    """

    DECLARED: ClassVar[Mapping[str, PerRow]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, PerRow)}
        cls.DECLARED = {**cls.DECLARED, **own}

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        for name, declared in self.DECLARED.items():
            before, after = ([self._number(size) for size in axes] for axes in (declared.before, declared.after))
            setattr(self, name, self._filled(declared, (*before, capacity, *after)))

    def resize(self, capacity: int) -> None:
        """Make room for more rows, here and in all parts."""
        for name, declared in self.DECLARED.items():
            old, axis = getattr(self, name), len(declared.before)
            grown = self._filled(declared, (*old.shape[:axis], capacity, *old.shape[axis + 1 :]))
            self._copy(declared, old, grown)
            setattr(self, name, grown)
        self.capacity = capacity
        for part in self.parts():
            part.resize(capacity)

    def forget(self, rows: Numbers) -> None:
        """Give these rows the values of new ones, here and in all parts."""
        for name, declared in self.DECLARED.items():
            if declared.forgotten:
                getattr(self, name)[_at(declared, rows)] = self._number(declared.fill)
        for part in self.parts():
            part.forget(rows)

    def parts(self) -> Iterator[RowState]:
        """Other states of the same rows, which grow and forget with this one."""
        return (value for value in vars(self).values() if isinstance(value, RowState))

    def deepen(self, *names: str) -> None:
        """Double the first axis of arrays whose rows have more and more entries."""
        for name in names:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, self._filled(self.DECLARED[name], old.shape)]))

    def _filled(self, declared: PerRow, shape: tuple[Any, ...]) -> NDArray[Any]:
        """An array of new rows. Zeros come from the operating system, which gives memory where they are overwritten."""
        fill = self._number(declared.fill)
        return np.full(shape, fill, declared.dtype) if fill else np.zeros(shape, declared.dtype)

    def _copy(self, declared: PerRow, old: NDArray[Any], grown: NDArray[Any]) -> None:
        """Take over all rows; of an array of zeros, only blocks with something else, so that the rest needs none."""
        zeros = not self._number(declared.fill)
        for first in range(0, self.capacity, BLOCK):
            at = _at(declared, slice(first, min(first + BLOCK, self.capacity)))
            if not zeros or old[at].any():
                grown[at] = old[at]

    def _number(self, given: float | str) -> Any:
        return getattr(self, given) if isinstance(given, str) else given


def _at(declared: PerRow, rows: Rows) -> tuple[Rows, ...]:
    """Index of all entries of some rows."""
    return (*[slice(None)] * len(declared.before), rows)
