"""Password checks. One takes about 70 ms of a core by design, so results are cached.

One thread checks one password at a time, so that guessing occupies at most one core. An unknown user takes as long as a
known one, so that the time does not reveal user names.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial

import bcrypt

from fabricmon.runtime.reader import Reader

MAX_RIGHT, MAX_WRONG = 1024, 256
"""Cached results. Wrong ones have their own cache, so that guesses do not evict valid users."""

MAX_WAITING = 16
"""Checks that wait for the thread; further ones are refused with Retry-After."""

LIMIT = 30.0
"""Seconds for one check; the highest accepted cost needs two."""


LONGEST = 72
"""Bytes of a password that bcrypt hashes; the rest is ignored, as in htpasswd and mkpasswd."""


class Crowded(Exception):
    """Too many passwords are being checked."""


class Passwords:
    """Password checks for the configured users."""

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
        """Set the users: name -> bcrypt hash. Cached results of other hashes are never used."""
        self._users = {name: hashed.encode() for name, hashed in users.items()}
        self._dearest = max(self._users.values(), key=lambda hashed: hashed[4:6], default=b"")

    def remembered(self, user: str, password: bytes) -> bool | None:
        """The cached result; None without one."""
        key = self._key(user, password)
        for known, outcome in ((self._right, True), (self._wrong, False)):
            if key in known:
                known.move_to_end(key)
                return outcome
        return None

    async def check(self, user: str, password: bytes) -> bool:
        """Whether the password is right. Crowded where too many wait."""
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
        return await asyncio.shield(task)  # a client that disconnects must not cancel the check for others

    async def _compute(self, key: bytes, user: str, password: bytes) -> bool:
        hashed = self._users.get(user)
        async with self._turn:
            if self._reader is None:
                self._reader = Reader("passwords")
            right = await self._reader.call(partial(_matches, password, hashed or self._dearest), LIMIT)
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
        """Cache key of user, password and hash, keyed with a secret of this process."""
        hashed = self._users.get(user, b"")
        data = b"".join(len(part).to_bytes(4) + part for part in (user.encode(), password, hashed))
        return hmac.digest(self._secret, data, hashlib.sha256)


def _matches(password: bytes, hashed: bytes) -> bool:
    """Whether `hashed` is the hash of `password`."""
    if b"\0" in password:
        return False  # C tools stop at the NUL
    # $2y$ (htpasswd) and $2b$ are one algorithm under two names
    return bcrypt.checkpw(password[:LONGEST], b"$2b$" + hashed[4:] if hashed.startswith(b"$2y$") else hashed)
