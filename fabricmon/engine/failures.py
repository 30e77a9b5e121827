"""Failures of single steps: counted, kept for display, and paid for by the step alone. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

A = ParamSpec("A")
R = TypeVar("R")


class Failures:
    """What raised, by step: a rule, an evidence text, a part of the diagnosis.

    A step is code for values that agents send. Where it cannot cope with one, the other steps go on, and the
    mistake is shown.

    counts  step -> how often it raised
    last    step -> the last error
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.last: dict[str, str] = {}

    def guard(self, step: str, otherwise: R, call: Callable[A, R], *args: A.args, **kwargs: A.kwargs) -> R:
        """What the call returns; `otherwise` where it raises."""
        try:
            return call(*args, **kwargs)
        except Exception as error:
            self.note(step, error)
            return otherwise

    def note(self, step: str, error: Exception) -> None:
        self.counts[step] = self.counts.get(step, 0) + 1
        self.last[step] = f"{type(error).__name__}: {error}"[:200]
