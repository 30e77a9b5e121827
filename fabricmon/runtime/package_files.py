"""Texts that are installed with the program: runbooks and files for systemd."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fabricmon.catalogue.kinds import KINDS


@cache
def runbook_text(kind: str) -> str:
    """The written part of a kind's runbook. KeyError for an unknown kind."""
    if kind not in KINDS:
        raise KeyError(kind)
    return resources.files("fabricmon.runbooks").joinpath("text", f"{kind}.md").read_text(encoding="utf-8")


def unit_text(name: str) -> str:
    """A file of `fabricmon/systemd/files`."""
    return resources.files("fabricmon.systemd").joinpath("files", name).read_text(encoding="utf-8")
