"""What a recording consists of: records, and how they are written as bytes. Pure; docs/replay.md describes the format.

A segment is a file header and blocks; a block is many records, compressed and with a checksum; a record is its length,
its kind, the engine's `now`, the node it is about and a body. Bodies of the protocol between agent and centre are in
that protocol's own form, all others are MessagePack.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from fabricmon import frame as wire
from fabricmon.jobs.model import Jobs
from fabricmon.model import Change, Incident, Maintenance, Presence, SymptomChange
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence
from fabricmon.topology.graph import Graph

VERSION = 1
"""Raised when an older reader would misunderstand."""

SUFFIX = ".fmrec"
LEVEL = 1
"""Of zlib: half the processor time of its default for a tenth more bytes."""

MOST_RAW = 256 << 20
"""Bytes of one block unpacked, above the largest record: a graph of 100,000 ports is below 64 MiB."""

_HEADER = struct.Struct("<6sH")
_MAGIC = b"FMREC\n"
_BLOCK = struct.Struct("<4sIII")  # magic, bytes that follow, bytes unpacked, CRC-32 of what follows
_BLOCK_MAGIC = b"FMBK"
_RECORD = struct.Struct("<IBdH")  # bytes of the record after this number, kind, now, bytes of the node's name
_COUNTS = struct.Struct("<II")
HEADER_SIZE, BLOCK_SIZE = _HEADER.size, _BLOCK.size
DIGEST = 16  # bytes
NOTHING = bytes(DIGEST)
"""Digest of a tick that changed nothing."""

UNSAID = b"\xff" * DIGEST
"""Digest of a tick whose names were replaced: its records tell what it changed, not to the byte."""


class RecordError(ValueError):
    """Bytes that are no record of this format; the text says what is wrong."""


class Mark(IntEnum):
    """Kinds of records. Those from KNOWN on repeat what is known anyway, for who begins to read there."""

    START = 1  # first of every segment: Start
    GRAPH = 2  # the topology for the next START or RECONFIGURE
    RESTORE = 3
    MAINTENANCE = 4
    RECONFIGURE = 5  # parameters of rules
    INVENTORY = 6
    FRAME = 7
    EVENT = 8
    PRESENCE = 9
    FORGET = 10
    TICK = 11  # digest of what the tick changed, and how many symptoms and incidents follow
    INCIDENT = 12  # as the tick before changed it
    SYMPTOM = 13
    PLAN = 14  # who is told, and silences
    JOBS = 16  # what the sources of jobs said last
    END = 15  # the centre stopped in good order
    KNOWN_INCIDENTS = 64
    KNOWN_MAINTENANCE = 65
    KNOWN_INVENTORY = 66
    KNOWN_FRAME = 67
    KNOWN_PRESENCE = 68
    KNOWN_JOBS = 70
    KNOWN_NODES = 69  # all names; after it everything known was said


class Start(Struct, frozen=True):
    """How a segment begins.

    run     one life of one centre
    index   of the segment in its run, from 0: there the engine begins
    before  records of the run before this one, those that were lost included
    lost    of these, records that were lost since the segment before
    params  rule name -> its parameters, as plain values
    """

    run: str
    index: int
    before: int
    lost: int
    fabricmon: str
    frame: int
    fabric: str
    params: dict[str, Any]
    has_graph: bool


class Opening(NamedTuple):
    """How a segment begins, as its reader sees it.

    fresh    nothing of this run was read before
    missing  records between the last that was read and this segment; of a fresh one, all before it
    """

    start: Start
    fresh: bool
    missing: int


class Said(Struct, frozen=True, array_like=True):
    """A presence."""

    presence: Presence
    detail: str


class Plan(Struct, frozen=True):
    """What notifications are planned by."""

    receivers: tuple[Receiver, ...] = ()
    silences: tuple[Silence, ...] = ()


class Brief(Struct, frozen=True, array_like=True, order=True):
    """A change of a symptom, in short."""

    rule: str
    component: str
    opened: bool
    since: float


class Tick(NamedTuple):
    """What a tick changed: a digest of it, NOTHING for nothing, and how many records tell of it."""

    digest: bytes
    symptoms: int
    incidents: int


class Item(NamedTuple):
    """A record with its meaning: `thing` is what the kind says, None where it says all by itself."""

    mark: Mark
    now: float
    node: str
    thing: Any


class Record(NamedTuple):
    """A record as it is written."""

    mark: int
    now: float
    node: str
    body: bytes


def _plain(value: Any) -> Any:
    if isinstance(value, float):  # durations and rates
        return float(value)
    raise TypeError(f"{type(value).__name__} in a recording")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_PARAMS = msgspec.msgpack.Decoder(dict[str, Any])
_TYPES: dict[Mark, type] = {
    Mark.START: Start,
    Mark.GRAPH: Graph,
    Mark.RESTORE: list[Incident],
    Mark.MAINTENANCE: list[Maintenance],
    Mark.RECONFIGURE: dict[str, Any],
    Mark.PRESENCE: Said,
    Mark.INCIDENT: Incident,
    Mark.SYMPTOM: Brief,
    Mark.PLAN: Plan,
    Mark.KNOWN_INCIDENTS: list[Incident],
    Mark.KNOWN_MAINTENANCE: list[Maintenance],
    Mark.KNOWN_PRESENCE: Said,
    Mark.KNOWN_NODES: list[str],
    Mark.JOBS: list[Jobs],
    Mark.KNOWN_JOBS: list[Jobs],
}
_DECODERS: dict[Mark, msgspec.msgpack.Decoder[Any]] = {m: msgspec.msgpack.Decoder(t) for m, t in _TYPES.items()}
_FRAMES = (Mark.FRAME, Mark.KNOWN_FRAME)
_INVENTORIES = (Mark.INVENTORY, Mark.KNOWN_INVENTORY)


# --------------------------------------------------------------------------------------------------------
# Records


def plain_params(params: Any) -> dict[str, Any]:
    """Parameters of rules, structs or mappings, as plain values."""
    return _PARAMS.decode(_ENCODER.encode(params))


def digest(change: Change) -> bytes:
    """Two changes with the same digest are the same to the last byte."""
    if not change.symptoms and not change.incidents:
        return NOTHING
    return hashlib.blake2b(_ENCODER.encode((change.symptoms, change.incidents)), digest_size=DIGEST).digest()


def brief(change: SymptomChange) -> Brief:
    """A change of a symptom in short."""
    symptom = change.symptom
    return Brief(symptom.rule, str(symptom.component), change.opened, symptom.since)


def body(mark: Mark, thing: Any) -> bytes:
    """The body of a record: of what `meaning` gives, of a TICK also its Change, of a SYMPTOM its SymptomChange."""
    if mark in _FRAMES:
        return wire.encode_frame(thing)
    if mark in _INVENTORIES:
        return wire.encode_hello(thing).encode()
    if mark is Mark.EVENT:
        return wire.encode_event(thing).encode()
    if mark is Mark.TICK:
        if isinstance(thing, Change):
            thing = Tick(digest(thing), len(thing.symptoms), len(thing.incidents))
        return bytes(thing.digest) + _COUNTS.pack(thing.symptoms, thing.incidents)
    if mark is Mark.SYMPTOM:
        return _ENCODER.encode(brief(thing) if isinstance(thing, SymptomChange) else thing)
    return b"" if thing is None else _ENCODER.encode(thing)


def meaning(record: Record) -> Item:
    """What a record says. RecordError for one that says nothing; VersionError for a frame of another version."""
    try:
        mark = Mark(record.mark)
    except ValueError:
        raise RecordError(f"a record of the unknown kind {record.mark}") from None
    data = record.body
    thing: Any = None
    try:
        if mark in _FRAMES:
            thing = wire.decode(data)
        elif mark in _INVENTORIES:
            thing = wire.decode_hello(data)
        elif mark is Mark.EVENT:
            thing = wire.decode_text(data)
        elif mark is Mark.TICK:
            thing = Tick(data[:DIGEST], *_COUNTS.unpack_from(data, DIGEST))
        elif mark in _DECODERS:
            thing = _DECODERS[mark].decode(data)
    except wire.VersionError:
        raise
    except (ValueError, struct.error, msgspec.MsgspecError) as error:
        raise RecordError(f"a record {mark.name} that cannot be read: {error}") from None
    return Item(mark, record.now, record.node, thing)


def pack(record: Record) -> bytes:
    """A record's bytes."""
    name = record.node.encode("utf-8", "surrogatepass")
    length = _RECORD.size - 4 + len(name) + len(record.body)
    return b"".join((_RECORD.pack(length, record.mark, record.now, len(name)), name, record.body))


def unpack(data: bytes) -> Iterator[Record]:
    """The records of a block. RecordError for bytes that are none."""
    at, end = 0, len(data)
    while at < end:
        if end - at < _RECORD.size:
            raise RecordError("a record is cut short")
        length, mark, now, name = _RECORD.unpack_from(data, at)
        begin, after = at + _RECORD.size, at + 4 + length
        if after > end or begin + name > after:
            raise RecordError(f"a record of {length} bytes does not fit its block")
        node = data[begin : begin + name].decode("utf-8", "surrogatepass")
        yield Record(mark, now, node, data[begin + name : after])
        at = after


# --------------------------------------------------------------------------------------------------------
# Files


def header() -> bytes:
    """How every segment begins."""
    return _HEADER.pack(_MAGIC, VERSION)


def check_header(data: bytes) -> None:
    """RecordError for the beginning of a file that is no segment, or one of another version."""
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise RecordError("not a segment of a recording")
    version = _HEADER.unpack(data[: _HEADER.size])[1]
    if version != VERSION:
        raise RecordError(f"a recording of version {version}, this fabricmon reads {VERSION}")


def block(pieces: Sequence[bytes]) -> bytes:
    """Packed records as one block."""
    raw = b"".join(pieces)
    packed = zlib.compress(raw, LEVEL)
    return _BLOCK.pack(_BLOCK_MAGIC, len(packed), len(raw), zlib.crc32(packed)) + packed


class Block(NamedTuple):
    """What stands before a block: bytes that follow, bytes unpacked, checksum."""

    packed: int
    raw: int
    crc: int


def block_head(data: bytes) -> Block:
    """RecordError for bytes that begin no block."""
    if len(data) < _BLOCK.size:
        raise RecordError("the head of a block is cut short")
    magic, packed, raw, crc = _BLOCK.unpack(data)
    if magic != _BLOCK_MAGIC or raw > MOST_RAW or packed > raw + (raw >> 8) + 64:
        raise RecordError("damaged: no block begins here")
    return Block(packed, raw, crc)


def block_body(head: Block, data: bytes) -> bytes:
    """The records of a block as bytes. RecordError where it is cut short or damaged."""
    if len(data) < head.packed:
        raise RecordError("a block is cut short")
    if zlib.crc32(data) != head.crc:
        raise RecordError("damaged: the checksum of a block is wrong")
    try:
        engine = zlib.decompressobj()
        raw = engine.decompress(data, head.raw + 1)
    except zlib.error as error:
        raise RecordError(f"damaged: {error}") from None
    if len(raw) != head.raw:
        raise RecordError("damaged: a block has another length than it says")
    return raw
