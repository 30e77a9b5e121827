"""Records of a recording and their bytes. Pure; docs/replay.md describes the format.

A segment is a file header and blocks; a block is many records, compressed and with a checksum; a record is its length,
its kind, the engine's `now`, its node and a body. Bodies of messages between agent and server are in the form of that
protocol, all others are MessagePack.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from fabricmon import frame as wire
from fabricmon.forms.decoding import msgpack_decoder
from fabricmon.jobs.model import Jobs
from fabricmon.model import Change, Incident, Maintenance, Presence, SymptomChange
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence
from fabricmon.topology.graph import Graph, unsound

VERSION = 1
"""Raised with an incompatible change."""

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

ANONYMISED = b"\xff" * DIGEST
"""Digest of a tick whose names were replaced: its bytes are unknown, its records have the change."""


class RecordError(ValueError):
    """Bytes that are no record of this format."""


class RecordMark(IntEnum):
    """Kinds of records. Those from KNOWN on repeat known state, for a reader that begins there."""

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
    TICK = 11  # digest of the tick's change, and how many symptoms and incidents follow
    INCIDENT = 12  # as the tick before changed it
    SYMPTOM = 13
    PLAN = 14  # receivers and silences
    JOBS = 16  # last answers of the sources of jobs
    END = 15  # the server stopped regularly
    KNOWN_INCIDENTS = 64
    KNOWN_MAINTENANCE = 65
    KNOWN_INVENTORY = 66
    KNOWN_FRAME = 67
    KNOWN_PRESENCE = 68
    KNOWN_JOBS = 70
    KNOWN_NODES = 69  # all names; ends the repetition


REPEATED: Mapping[RecordMark, RecordMark] = {
    RecordMark.KNOWN_INCIDENTS: RecordMark.RESTORE,
    RecordMark.KNOWN_MAINTENANCE: RecordMark.MAINTENANCE,
    RecordMark.KNOWN_INVENTORY: RecordMark.INVENTORY,
    RecordMark.KNOWN_FRAME: RecordMark.FRAME,
    RecordMark.KNOWN_PRESENCE: RecordMark.PRESENCE,
    RecordMark.KNOWN_JOBS: RecordMark.JOBS,
    RecordMark.KNOWN_NODES: RecordMark.KNOWN_NODES,
}
"""Repeated records at the start of a segment, by the record whose form they have."""


class Start(Struct, frozen=True):
    """First record of a segment.

    run     one process of one server
    index   of the segment in its run, from 0: there the engine begins
    before  records of the run before this one, lost ones included
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
    """A segment's start with its reader's position.

    fresh    nothing of this run was read before
    missing  records between the last that was read and this segment; of a fresh one, all before it
    """

    start: Start
    fresh: bool
    missing: int


class RecordedPresence(Struct, frozen=True, array_like=True):
    presence: Presence
    detail: str


class NotifyPlan(Struct, frozen=True):
    """Inputs of the notifications."""

    receivers: tuple[Receiver, ...] = ()
    silences: tuple[Silence, ...] = ()


class SymptomBrief(Struct, frozen=True, array_like=True, order=True):
    """A change of a symptom, without its evidence."""

    rule: str
    component: str
    opened: bool
    since: float


class Tick(NamedTuple):
    """Change of a tick: its digest (NOTHING for none), and how many records of it follow."""

    digest: bytes
    symptoms: int
    incidents: int


class RecordedItem(NamedTuple):
    """A decoded record: `thing` is its body, None where the kind has none."""

    mark: RecordMark
    now: float
    node: str
    thing: Any


class PackedRecord(NamedTuple):
    """A record with its body encoded."""

    mark: int
    now: float
    node: str
    body: bytes


def _plain(value: Any) -> Any:
    if isinstance(value, float):  # durations and rates
        return float(value)
    raise TypeError(f"{type(value).__name__} in a recording")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_PARAMS = msgpack_decoder(dict[str, Any])
_TYPES: dict[RecordMark, type] = {
    RecordMark.START: Start,
    RecordMark.GRAPH: Graph,
    RecordMark.RESTORE: list[Incident],
    RecordMark.MAINTENANCE: list[Maintenance],
    RecordMark.RECONFIGURE: dict[str, Any],
    RecordMark.PRESENCE: RecordedPresence,
    RecordMark.INCIDENT: Incident,
    RecordMark.SYMPTOM: SymptomBrief,
    RecordMark.PLAN: NotifyPlan,
    RecordMark.KNOWN_NODES: list[str],
    RecordMark.JOBS: list[Jobs],
}
_DECODERS: dict[RecordMark, Callable[[Any], Any]] = {m: msgpack_decoder(t) for m, t in _TYPES.items()}


# --------------------------------------------------------------------------------------------------------
# Records


def plain_params(params: Any) -> dict[str, Any]:
    """Parameters of rules, structs or mappings, as plain values."""
    return _PARAMS(_ENCODER.encode(params))


def digest(change: Change) -> bytes:
    """Digest of a change: equal for changes that are equal to the last byte."""
    if not change.symptoms and not change.incidents:
        return NOTHING
    return hashlib.blake2b(_ENCODER.encode((change.symptoms, change.incidents)), digest_size=DIGEST).digest()


def brief(change: SymptomChange) -> SymptomBrief:
    """A change of a symptom without its evidence."""
    symptom = change.symptom
    return SymptomBrief(symptom.rule, str(symptom.component), change.opened, symptom.since)


def body(mark: RecordMark, thing: Any) -> bytes:
    """The body of a record, from a result of `meaning`, a TICK's Change or a SYMPTOM's SymptomChange."""
    mark = REPEATED.get(mark, mark)
    if mark is RecordMark.FRAME:
        return wire.encode_frame(thing)
    if mark is RecordMark.INVENTORY:
        return wire.encode_hello(thing).encode()
    if mark is RecordMark.EVENT:
        return wire.encode_event(thing).encode()
    if mark is RecordMark.TICK:
        if isinstance(thing, Change):
            thing = Tick(digest(thing), len(thing.symptoms), len(thing.incidents))
        return bytes(thing.digest) + _COUNTS.pack(thing.symptoms, thing.incidents)
    if mark is RecordMark.SYMPTOM:
        return _ENCODER.encode(brief(thing) if isinstance(thing, SymptomChange) else thing)
    return b"" if thing is None else _ENCODER.encode(thing)


def meaning(record: PackedRecord) -> RecordedItem:
    """The decoded record. RecordError for an invalid one; VersionError for a frame of another version."""
    try:
        mark = RecordMark(record.mark)
    except ValueError:
        raise RecordError(f"a record of the unknown kind {record.mark}") from None
    data = record.body
    thing: Any = None
    try:
        form = REPEATED.get(mark, mark)
        if form is RecordMark.FRAME:
            thing = wire.decode(data)
        elif form is RecordMark.INVENTORY:
            thing = wire.decode_hello(data)
        elif form is RecordMark.EVENT:
            thing = wire.decode_text(data)
        elif form is RecordMark.TICK:
            thing = Tick(data[:DIGEST], *_COUNTS.unpack_from(data, DIGEST))
        elif form in _DECODERS:
            thing = _DECODERS[form](data)
            if form is RecordMark.GRAPH and (wrong := unsound(thing)):
                raise RecordError(wrong)
    except wire.VersionError:
        raise
    except (ValueError, struct.error) as error:
        raise RecordError(f"an invalid record {mark.name}: {error}") from None
    return RecordedItem(mark, record.now, record.node, thing)


def pack(record: PackedRecord) -> bytes:
    """A record's bytes."""
    name = record.node.encode("utf-8", "surrogatepass")
    length = _RECORD.size - 4 + len(name) + len(record.body)
    return b"".join((_RECORD.pack(length, record.mark, record.now, len(name)), name, record.body))


def unpack(data: bytes) -> Iterator[PackedRecord]:
    """The records of a block. RecordError for bytes that are none."""
    at, end = 0, len(data)
    while at < end:
        if end - at < _RECORD.size:
            raise RecordError("a record is cut short")
        length, mark, now, name = _RECORD.unpack_from(data, at)
        begin, after = at + _RECORD.size, at + 4 + length
        if after > end or begin + name > after:
            raise RecordError(f"a record of {length} bytes does not fit its block")
        try:
            node = data[begin : begin + name].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise RecordError(f"the node of a record is no text: {error.reason}") from None
        yield PackedRecord(mark, now, node, data[begin + name : after])
        at = after


# --------------------------------------------------------------------------------------------------------
# Files


def header() -> bytes:
    """The header of a segment."""
    return _HEADER.pack(_MAGIC, VERSION)


def check_header(data: bytes) -> None:
    """Check the header of a file. RecordError where it is no segment, or one of another version."""
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


class RecordBlock(NamedTuple):
    """Head of a block: bytes that follow, bytes unpacked, checksum."""

    packed: int
    raw: int
    crc: int


def block_head(data: bytes) -> RecordBlock:
    """The head of a block. RecordError for bytes that are none."""
    if len(data) < _BLOCK.size:
        raise RecordError("the head of a block is cut short")
    magic, packed, raw, crc = _BLOCK.unpack(data)
    if magic != _BLOCK_MAGIC or raw > MOST_RAW or packed > raw + (raw >> 8) + 64:
        raise RecordError("damaged: no block begins here")
    return RecordBlock(packed, raw, crc)


def block_body(head: RecordBlock, data: bytes) -> bytes:
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
        raise RecordError("damaged: the length of a block is wrong")
    return raw
