"""Stand-ins on hosts without events, interfaces or GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from fabricmon.host.protocol import Unsupported


class NoEvents:
    """The event and fabric methods of a Host that has none; `_why` is the text of the errors."""

    _why: str

    def watch_links(self, notify: object) -> NoReturn:
        raise Unsupported("rtnetlink group LINK", 0, self._why)

    def watch_kmsg(self, notify: object) -> NoReturn:
        raise Unsupported("/dev/kmsg", 0, self._why)

    def fabric_port(self, device: str = "", port: int = 0) -> NoReturn:
        raise Unsupported("umad", 0, self._why)


class NotAsked:
    """Interfaces or Gpus that raise Unsupported(why) for every question."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, question: str) -> Callable[..., NoReturn]:
        def refuse(*_: object) -> NoReturn:
            raise Unsupported(question, 0, self._why)

        return refuse

    def close(self) -> None:
        """Nothing is open."""


def not_asked(why: str) -> Any:
    """NotAsked, typed as any protocol."""
    return NotAsked(why)
