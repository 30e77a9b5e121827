"""The topology of the last start, kept in the state directory: to parse and merge that of 10,000 hosts takes 12 s.

It holds for the same bytes of the same files, written at the same times, and for the program that made it. Whatever is
wrong with it costs only the time that it would have saved.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

import fabricmon
from fabricmon.forms.decoding import Undecodable, msgpack_decoder
from fabricmon.topology.graph import Graph

PATIENCE = 5.0  # seconds for the state directory, whose disk may hang
PARSERS = ("sources", "topology", "forms", "model.py")  # of the program: what makes a graph of a file
SIZE = 32  # bytes of a digest


class ParsedTopology(Struct, frozen=True):
    """files   one graph per file
    merged  of all of them
    """

    files: tuple[Graph, ...]
    merged: Graph


_decode = msgpack_decoder(ParsedTopology)


def unpacked(data: bytes, key: bytes) -> ParsedTopology | None:
    """What was packed under this key; None for anything else."""
    if data[:SIZE] != key or data[SIZE : 2 * SIZE] != _digest(data[2 * SIZE :]):
        return None
    try:
        found: ParsedTopology = _decode(data[2 * SIZE :])
    except Undecodable:
        return None
    return found


def packed(parsed: ParsedTopology, key: bytes) -> bytes:
    body = msgspec.msgpack.encode(parsed)
    return key + _digest(body) + body


def key_of(paths: Iterable[str]) -> bytes:
    """Of the files as they are now. OSError for one that cannot be read, ValueError for a pipe."""
    digest = hashlib.sha256(_program())
    for path in map(Path, paths):
        if not path.is_file():
            raise ValueError(f"{path} is no file")
        digest.update(f"{path}\0{path.stat().st_mtime_ns}\0".encode() + _digest(path.read_bytes()))
    return digest.digest()


class TopologyCache:
    """The file in a state directory, which need not exist."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / "topology.cache"

    def read(self, key: bytes) -> ParsedTopology | None:
        """The topology of that key; None where there is none, or none in time."""
        found: list[ParsedTopology | None] = []

        def read() -> None:
            try:
                found.append(unpacked(self._path.read_bytes(), key))
            except OSError:
                return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(PATIENCE)
        return found[0] if found else None

    def write(self, key: bytes, parsed: ParsedTopology) -> None:
        """Replace what is there, without waiting for the disk."""
        threading.Thread(target=self._write, args=(key, parsed), daemon=True).start()

    def _write(self, key: bytes, parsed: ParsedTopology) -> None:
        new = self._path.with_suffix(".new")
        try:
            new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.touch(mode=0o600)
            new.write_bytes(packed(parsed, key))
            new.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@cache
def _program() -> bytes:
    """Of the version and of the files that make a graph, which change without a version while somebody develops."""
    root, digest = Path(fabricmon.__file__).parent, hashlib.sha256(fabricmon.__version__.encode())
    for name in PARSERS:
        for path in sorted([root / name] if name.endswith(".py") else (root / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.digest()
