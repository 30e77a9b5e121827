"""An archive of a machine as gzipped JSON: written atomically, read with a limit of size."""

from __future__ import annotations

import gzip
import os
import secrets
import zlib

from fabricmon.host.archive import Archive, ArchiveError, anonymise, decode, encode

MOST_BYTES = 256 << 20  # unpacked; a node of 64 devices is below 10 MiB


def save(archive: Archive, path: str) -> None:
    """Write atomically. OSError of the file system."""
    beside = f"{path}.{os.getpid()}.part"
    try:
        with gzip.open(beside, "wb", compresslevel=6) as file:
            file.write(encode(archive))
        os.replace(beside, path)
    except OSError:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def load(path: str, most: int = MOST_BYTES) -> Archive:
    """The archive in a file. ArchiveError for an invalid file; OSError where it cannot be read."""
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ArchiveError(f"{path}: not gzip, cut short or damaged: {error}") from None
    if len(data) > most:
        raise ArchiveError(f"{path}: more than {most} bytes unpacked")
    try:
        return decode(data)
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from None


def anonymised(archive: Archive, key: bytes = b"") -> Archive:
    """`anonymise.anonymised` with a random key unless given."""
    return anonymise.anonymised(archive, key or secrets.token_bytes(32))
