"""Key names from the bytes of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping

SEQUENCES: Mapping[bytes, str] = {
    b"\x1b[A": "up", b"\x1bOA": "up",
    b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[C": "right", b"\x1bOC": "right",
    b"\x1b[D": "left", b"\x1bOD": "left",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down",
    b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home",
    b"\x1b[F": "end", b"\x1bOF": "end", b"\x1b[4~": "end",
    b"\r": "enter", b"\n": "enter",
    b"\x7f": "back", b"\x08": "back",
    b"\t": "tab",
    b"\x1b": "escape",
    b"\x03": "interrupt", b"\x04": "interrupt",
    b"\x0c": "redraw",
}  # fmt: skip


def keys(typed: bytes) -> list[str]:
    """Key names; printable characters as themselves; unknown bytes are skipped. `typed` has whole sequences."""
    found: list[str] = []
    at = 0
    while at < len(typed):
        sequence = next((s for s in sorted(SEQUENCES, key=len, reverse=True) if typed.startswith(s, at)), b"")
        if sequence == b"\x1b" and typed[at + 1 : at + 2] in (b"[", b"O"):  # an unknown sequence
            end = at + 2
            while end < len(typed) and not 0x40 <= typed[end] <= 0x7E:
                end += 1
            at = end + 1
            continue
        if sequence:
            found.append(SEQUENCES[sequence])
            at += len(sequence)
            continue
        if 0x20 <= typed[at] < 0x7F:
            found.append(chr(typed[at]))
        at += 1
    return found
