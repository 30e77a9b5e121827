"""Base of hosts that answer from an archive, or from a source whose answers they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from fabricmon.host.archive import Archive


class Closable(Protocol):
    def close(self) -> None: ...


S = TypeVar("S", bound=Closable)
_T = TypeVar("_T")


class Archived(Generic[S]):
    """Recorded answers. `source`: is being recorded; it answers, and every answer is kept."""

    def __init__(self, archive: Archive, source: S | None = None) -> None:
        self.archive, self._source = archive, source

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _ask(
        self, field: str, key: object, ask: Callable[[S], _T], store: Callable[[_T], Any] = lambda found: found
    ) -> _T:
        """The answer to a question; `store` converts it to the type of the archive's field."""
        source = self._source
        if source is None:
            return self.archive.answer(f"{field} {key}", getattr(self.archive, field).get(str(key)))
        return self.archive.keep(field, str(key), lambda: ask(source), store)


def as_text(raw: bytes) -> str:
    return raw.decode("latin-1")


def as_bytes(found: bytes | str) -> bytes:
    return found.encode("latin-1") if isinstance(found, str) else found
