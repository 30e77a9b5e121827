"""bcrypt by the system's libcrypt (libxcrypt, in every current Linux distribution), which PAM checks logins with.

Python has none: its module `crypt` is gone since 3.13. The library is loaded when a listener has users and never
before. The call releases Python's lock and keeps no state of its own, so it may run in any thread.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")
_SIZE = 32768  # bytes of libxcrypt's struct crypt_data

# "a" at the least cost: a library that gives another answer, or none, has no bcrypt.
_KNOWN = (b"a", b"$2b$04$......................ab4uk7zdS0i/IlhKXBIf8klDpk4gLJu")


class NoBcrypt(Exception):
    """This system has no library that checks bcrypt; the text says what to install."""


def verify(password: bytes, hashed: bytes) -> bool:
    """Whether `hashed` is of `password`. Takes the time the hash's cost asks for. NoBcrypt where it cannot be told."""
    return _compute(password, hashed) == hashed


def available() -> None:
    """NoBcrypt unless `verify` works here."""
    password, hashed = _KNOWN
    if _compute(password, hashed) != hashed:
        raise NoBcrypt(_missing())


def _compute(password: bytes, setting: bytes) -> bytes:
    """The hash of `password` with salt and cost of `setting`; b"" where the library refuses."""
    if b"\0" in password:
        return b""  # C would take what stands before it for the whole
    data = ctypes.create_string_buffer(_SIZE)
    try:
        return _library()(password, setting, data, _SIZE) or b""
    finally:
        ctypes.memset(data, 0, _SIZE)


@functools.cache
def _library() -> Callable[[bytes, bytes, object, int], bytes | None]:
    for name in _LIBRARIES:
        try:
            function = ctypes.CDLL(name).crypt_rn
        except (OSError, AttributeError):
            continue
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int]
        function.restype = ctypes.c_char_p
        return function
    raise NoBcrypt(_missing())


def _missing() -> str:
    return "basic_auth_users need libxcrypt (Debian and Ubuntu: libcrypt1, Red Hat: libxcrypt), which is not here"
