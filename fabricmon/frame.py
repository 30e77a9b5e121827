"""Snapshot <-> messages from agent to server. Pure; the format is described in docs/design/frame.md.

Inventories, events and the goodbye are JSON text. Values are binary float64: once all of them, then only those whose
bits changed. Encoding needs no NumPy, so that an agent can do without; decoding gives arrays that view the received
bytes.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from fabricmon.forms.decoding import Undecodable, json_decoder
from fabricmon.model import Event, Inventory, Snapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
"""Raised with an incompatible change; further JSON fields do not raise it."""

MAX_VALUES = 2**22
"""Values in one snapshot: 32 MiB of float64; a node of 32 ports needs about 3,000."""

MAX_PARTS = 2**12
MAX_TEXT = 2**24
"""Bytes of one text message."""

_MAGIC = b"FM"
_FULL, _DELTA = 0, 1
# magic, version, form, inventory id, seq, wall, parts, values of the snapshot, values in this frame, zero
_HEADER = struct.Struct("<2sBBIQdIIII")
HEADER_SIZE = _HEADER.size
_BIG_ENDIAN = sys.byteorder == "big"


class FrameError(ValueError):
    """Bytes or text that are no message of this protocol; the text names what was expected."""


class VersionError(FrameError):
    """A well-formed message of another version of the protocol: the peer is incompatible, not broken."""

    def __init__(self, version: int) -> None:
        super().__init__(f"the peer uses frame version {version}, this side {VERSION}")
        self.version = version


class Goodbye(Struct, frozen=True):
    """The agent ends the stream on purpose; `reason` is one line for a person ("agent stops")."""

    reason: str = ""


@dataclass(slots=True)
class Frame:
    """One binary message, decoded.

    inventory  id of the inventory that names rows and columns of these values
    seq        snapshot number, rises with every reading of the agent
    wall       node's wall clock, seconds since the epoch
    taken      float64[parts]: node monotonic seconds of the last read of each part, NaN before its first
    index      uint32[n]: places of `values` in the concatenated parts; None: `values` is all of them
    values     float64[n], NaN unknown; a read-only view of the message
    size       values of the whole snapshot, must equal the inventory's; None where the frame was not decoded
    """

    inventory: int
    seq: int
    wall: float
    taken: NDArray[np.float64]
    index: NDArray[np.uint32] | None
    values: NDArray[np.float64]
    size: int | None = None


class Beats(NamedTuple):
    """Frames without values, only times of reads, of nodes with as many parts.

    inventories  uint32[n]
    fit          bool[n]: it is such a frame
    taken        float64[n, parts]
    """

    inventories: NDArray[np.uint32]
    fit: NDArray[np.bool_]
    taken: NDArray[np.float64]


# --------------------------------------------------------------------------------------------------------
# Binary


def beat_head(inventory: int, parts: int, size: int) -> tuple[bytes, bytes]:
    """What heads of differences without a value have in common: bytes 0 to 8, and 24 to 36."""
    head = _HEADER.pack(_MAGIC, VERSION, _DELTA, inventory, 0, 0.0, parts, size, 0, 0)
    return head[:8], head[24:36]


def beats_of(beats: Sequence[bytes], shape: bytes) -> Beats:
    """Differences without a value, which begin as `beat_head` gave it and are as long as they should be. `shape`: their
    bytes 24 to 36 if they are such ones."""
    import numpy as np

    parts = int.from_bytes(shape[:4], "little")
    layout = np.dtype([("head", "V4"), ("inventory", "<u4"), ("seq", "<u8"), ("wall", "<f8"), ("shape", "<u4", 3),
                       ("zero", "<u4"), ("taken", "<f8", parts)])  # fmt: skip
    found = np.frombuffer(b"".join(beats), layout)
    fit = (found["shape"] == np.frombuffer(shape, "<u4")).all(axis=1) & np.isfinite(found["wall"])
    return Beats(found["inventory"], fit, np.ascontiguousarray(found["taken"]))


def encode_full(s: Snapshot) -> bytes:
    """All values of a snapshot. FrameError when it is larger than the protocol allows."""
    return _head(s, _FULL, len(s.values)) + _le(array("d", s.taken)) + _le(s.values)


def encode_delta(s: Snapshot, before: array[float], taken_before: Sequence[float]) -> bytes:
    """The values of `s` whose bits differ from `before`, or a full frame where that is the shorter message.

    `before` and `taken_before` are the receiver's state, in the same inventory. A part whose `taken` is unchanged is
    not compared.
    """
    if len(before) != len(s.values) or len(taken_before) != len(s.taken):
        raise FrameError(
            f"a difference needs two snapshots of one inventory: {len(s.values)} values in {len(s.taken)} parts "
            f"against {len(before)} in {len(taken_before)}"
        )
    # Bits, not numbers: NaN differs from itself as a number, and -0.0 equals 0.0.
    new, old = memoryview(s.values).cast("B").cast("Q"), memoryview(before).cast("B").cast("Q")
    index = array("I")
    base = 0
    for part, taken, known in zip(s.inventory.parts, s.taken, taken_before, strict=True):
        end = base + part.size
        if taken != known:
            a, b = new[base:end], old[base:end]
            if a.tobytes() != b.tobytes():
                index.extend([i for i, x, y in zip(range(base, end), a.tolist(), b.tolist(), strict=True) if x != y])
        base = end
    if len(index) * 12 >= len(s.values) * 8:
        return encode_full(s)
    values = array("d", [s.values[i] for i in index])
    return _head(s, _DELTA, len(index)) + _le(array("d", s.taken)) + _le(values) + _le(index)


def encode_frame(f: Frame) -> bytes:
    """The message that `decode` turns into this frame. FrameError for a difference without its `size`."""
    import numpy as np

    count = len(f.values)
    if f.index is not None and f.size is None:
        raise FrameError("a delta frame needs the size of its snapshot")
    size = count if f.size is None else f.size
    form = _FULL if f.index is None else _DELTA
    head = _HEADER.pack(_MAGIC, VERSION, form, f.inventory, f.seq, f.wall, len(f.taken), size, count, 0)
    pieces = [head, np.asarray(f.taken, "<f8").tobytes(), np.asarray(f.values, "<f8").tobytes()]
    if f.index is not None:
        pieces.append(np.asarray(f.index, "<u4").tobytes())
    return b"".join(pieces)


def decode(data: bytes | bytearray | memoryview) -> Frame:
    """One binary message. FrameError for anything that is not exactly one frame; VersionError for another version."""
    import numpy as np

    length = len(data)
    if length < _HEADER.size:
        raise FrameError(f"a frame has at least {_HEADER.size} bytes, got {length}")
    magic, version, form, inventory, seq, wall, parts, size, count, _zero = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise FrameError(f"not a frame: it starts with {bytes(data[:2])!r} instead of {_MAGIC!r}")
    if version != VERSION:
        raise VersionError(version)
    if form not in (_FULL, _DELTA):
        raise FrameError(f"unknown form of frame {form}")
    if size > MAX_VALUES or parts > MAX_PARTS:
        raise FrameError(f"{size} values in {parts} parts are more than {MAX_VALUES} in {MAX_PARTS}")
    if count > size or (form == _FULL and count != size):
        raise FrameError(f"{count} values in a frame of a snapshot of {size}")
    expected = _HEADER.size + 8 * parts + (8 if form == _FULL else 12) * count
    if length != expected:
        raise FrameError(f"a frame of {count} values in {parts} parts has {expected} bytes, got {length}")
    if not math.isfinite(wall):
        raise FrameError(f"wall clock {wall} is no time")
    at = _HEADER.size
    taken = np.frombuffer(data, "<f8", parts, at)
    values = np.frombuffer(data, "<f8", count, at + 8 * parts)
    index = None
    if form == _DELTA:
        index = np.frombuffer(data, "<u4", count, at + 8 * parts + 8 * count)
        if count and int(index.max()) >= size:
            raise FrameError(f"index {int(index.max())} is outside the snapshot of {size} values")
    return Frame(inventory, seq, wall, taken, index, values, size)


def _head(s: Snapshot, form: int, count: int) -> bytes:
    parts, size = len(s.taken), len(s.values)
    if parts != len(s.inventory.parts) or size != s.inventory.size:
        raise FrameError(
            f"inventory {s.inventory.id} has {s.inventory.size} values in {len(s.inventory.parts)} parts, "
            f"the snapshot {size} in {parts}"
        )
    if size > MAX_VALUES or parts > MAX_PARTS:
        raise FrameError(f"{size} values in {parts} parts are more than {MAX_VALUES} in {MAX_PARTS}")
    return _HEADER.pack(_MAGIC, VERSION, form, s.inventory.id, s.seq, s.wall, parts, size, count, 0)


def _le(values: array[Any]) -> bytes:
    if _BIG_ENDIAN:
        values = values[:]
        values.byteswap()
    return values.tobytes()


# --------------------------------------------------------------------------------------------------------
# Text


class _HelloMessage(Struct, frozen=True, tag_field="type", tag="inventory"):
    inventory: Inventory
    version: int = VERSION


class _EventMessage(Struct, frozen=True, tag_field="type", tag="event"):
    event: Event


class _GoodbyeMessage(Struct, frozen=True, tag_field="type", tag="goodbye"):
    goodbye: Goodbye


class _Peek(Struct, frozen=True):
    type: str
    version: int = VERSION


class _PeekIdentity(Struct, frozen=True):
    node: str


class _PeekInventory(Struct, frozen=True):
    identity: _PeekIdentity


class _PeekHello(Struct, frozen=True):
    inventory: _PeekInventory


_decoded = json_decoder(_HelloMessage | _EventMessage | _GoodbyeMessage)
_peek = json_decoder(_Peek)
_peek_hello = json_decoder(_PeekHello)


def encode_hello(inv: Inventory) -> str:
    """The inventory, first message of a stream and again whenever its `id` changed."""
    _check(inv)
    return _encode_text(_HelloMessage(inv))


def encode_event(e: Event) -> str:
    """An event. Fields without a finite value are left out: JSON has no NaN, and unknown is absent."""
    if not all(map(math.isfinite, e.fields.values())):
        e = msgspec.structs.replace(e, fields={k: v for k, v in e.fields.items() if math.isfinite(v)})
    return _encode_text(_EventMessage(e))


def encode_goodbye(g: Goodbye) -> str:
    return _encode_text(_GoodbyeMessage(g))


def decode_text(text: str | bytes) -> Inventory | Event | Goodbye:
    """One text message. FrameError when it is none; VersionError for an inventory of another version."""
    if len(text) > MAX_TEXT:
        raise FrameError(f"a text message has at most {MAX_TEXT} bytes, got {len(text)}")
    try:
        message = _decoded(text)
    except Undecodable as error:
        raise _no_message(text, error) from error
    if isinstance(message, _HelloMessage):
        if message.version != VERSION:
            raise VersionError(message.version)
        _check(message.inventory)
        return message.inventory
    return message.event if isinstance(message, _EventMessage) else message.goodbye


def _no_message(text: str | bytes, error: Undecodable) -> FrameError:
    """Why a text is no message: another version's may have another shape."""
    try:
        version = _peek(text).version
    except Undecodable as e:
        return FrameError(f"not a message of this protocol: {e}")
    if version != VERSION:
        return VersionError(version)
    return FrameError(f"not a message of this protocol: {error}")


def node_of(text: str | bytes) -> str:
    """The node that an inventory names, without making anything of the rest; "" where there is none to read."""
    try:
        return _peek_hello(text).inventory.identity.node
    except Undecodable:
        return ""


def decode_hello(text: str | bytes) -> Inventory:
    """The first message of a stream. FrameError when it is anything but an inventory."""
    message = decode_text(text)
    if not isinstance(message, Inventory):
        raise FrameError(f"a stream starts with an inventory, not with {type(message).__name__.lower()}")
    return message


def _check(inv: Inventory) -> None:
    if len(inv.parts) > MAX_PARTS or inv.size > MAX_VALUES:
        raise FrameError(f"{inv.size} values in {len(inv.parts)} parts are more than {MAX_VALUES} in {MAX_PARTS}")
    if not 0 <= inv.id < 2**32:
        raise FrameError(f"inventory id {inv.id} is not a 32-bit number")


def _encode_text(message: Struct) -> str:
    try:
        return msgspec.json.encode(message).decode()
    except UnicodeEncodeError:
        # A name that is not Unicode on its machine (a lone surrogate) must not cost the whole inventory.
        return msgspec.json.encode(_replace(msgspec.to_builtins(message, builtin_types=()))).decode()


def _replace(thing: Any) -> Any:
    if isinstance(thing, str):
        return thing.encode("utf-8", "replace").decode()
    if isinstance(thing, dict):
        return {_replace(k): _replace(v) for k, v in thing.items()}
    if isinstance(thing, list | tuple):
        return [_replace(v) for v in thing]
    return thing
