"""What a demonstration prints: one line for each thing that was seen, an end at the first that is not so."""

from __future__ import annotations


class NotSo(Exception):
    """Something is not as it must be."""


def seen(what: str, so: object, detail: object = "") -> None:
    """Print `what`, and the detail of it; raise NotSo where it is not so."""
    if not so:
        raise NotSo(f"{what}: {detail}")
    print(f"  {what}{f': {detail}' if detail != '' else ''}", flush=True)
