"""Whether a password is a user's. A check costs about 70 ms of a core on purpose, so its outcome is remembered.

One thread checks, one password at a time: whoever guesses keeps one core busy at most. An unknown user costs what a
known one does, so that the time tells nobody who exists.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Mapping

from fabricmon.runtime.reader import Reader
from fabricmon.web import bcrypt

MAX_RIGHT, MAX_WRONG = 1024, 256
"""Outcomes remembered. Wrong ones have places of their own, so that guesses do not drive out who is let in."""

MAX_WAITING = 16
"""Checks that wait for the thread; a further one is told to come again."""

LIMIT = 30.0
"""Seconds for one check; the highest cost that is taken needs two."""


class Crowded(Exception):
    """Too many passwords are being checked."""


class Passwords:
    """Checks against the users it was last given."""

    def __init__(self) -> None:
        self._users: Mapping[str, bytes] = {}
        self._dearest = b""
        self._secret = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._reader: Reader | None = None
        self._turn = asyncio.Lock()
        self._checks: dict[bytes, asyncio.Task[bool]] = {}

    def configure(self, users: Mapping[str, str]) -> None:
        """Name -> bcrypt hash. What was remembered of other hashes is of no use any more and is never asked for."""
        self._users = {name: hashed.encode() for name, hashed in users.items()}
        self._dearest = max(self._users.values(), key=lambda hashed: hashed[4:6], default=b"")

    def remembered(self, user: str, password: bytes) -> bool | None:
        """The outcome of an earlier check; None where there was none."""
        key = self._key(user, password)
        for known, outcome in ((self._right, True), (self._wrong, False)):
            if key in known:
                known.move_to_end(key)
                return outcome
        return None

    async def check(self, user: str, password: bytes) -> bool:
        """Whether that is the user's password. Crowded where too many wait, bcrypt.NoBcrypt where none can be told."""
        known = self.remembered(user, password)
        if known is not None:
            return known
        key = self._key(user, password)
        task = self._checks.get(key)
        if task is None:
            if len(self._checks) >= MAX_WAITING:
                raise Crowded
            task = self._checks[key] = asyncio.create_task(self._compute(key, user, password))
            task.add_done_callback(lambda _: self._checks.pop(key, None))
        return await asyncio.shield(task)  # a client that leaves does not stop what others wait for

    async def _compute(self, key: bytes, user: str, password: bytes) -> bool:
        hashed = self._users.get(user)
        async with self._turn:
            if self._reader is None:
                self._reader = Reader("passwords")
            right = await self._reader.call(lambda: bcrypt.verify(password, hashed or self._dearest), LIMIT)
        right = right and hashed is not None
        known, limit = (self._right, MAX_RIGHT) if right else (self._wrong, MAX_WRONG)
        known[key] = None
        while len(known) > limit:
            known.popitem(last=False)
        return right

    def close(self) -> None:
        """End the thread."""
        for task in self._checks.values():
            task.cancel()
        if self._reader is not None:
            self._reader.close()

    def _key(self, user: str, password: bytes) -> bytes:
        """What an outcome is remembered by: of user, password and hash together, and of no use outside this process."""
        hashed = self._users.get(user, b"")
        told = b"".join(len(part).to_bytes(4) + part for part in (user.encode(), password, hashed))
        return hmac.digest(self._secret, told, hashlib.sha256)
