"""The cables that the component of an incident names. Pure."""

from __future__ import annotations


def cables_of(component: str) -> tuple[str, ...]:
    """The cables of a link, each with its two ends: "link(leaf-1/9, spine/1, leaf-2/9, spine/2)", which is one of two
    in series, has "leaf-1/9, spine/1" and "leaf-2/9, spine/2". The one of a link with fewer ends; () of anything
    else."""
    word, _, rest = component.partition("(")
    if word != "link" or not rest.endswith(")"):
        return ()
    ends = rest[:-1].split(", ")
    if len(ends) < 4 or len(ends) % 2 or not all("/" in end for end in ends):  # names of switches may have a ", "
        return (rest[:-1],)
    return tuple(f"{near}, {far}" for near, far in zip(ends[::2], ends[1::2], strict=True))
