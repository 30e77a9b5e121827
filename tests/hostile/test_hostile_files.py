"""Hostile files cost themselves: the file is named, its memory is bounded, and what the other files say holds."""

from __future__ import annotations

import asyncio
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from fabricmon import sources
from fabricmon.central.targets.discovery import TargetDiscovery, TargetFile
from fabricmon.jobs import file as jobs_file
from fabricmon.jobs.model import ListingError
from fabricmon.topology.names import NodeNames

LAUGHS = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{m}, *{m}, *{m}]\n" for m, n in pairwise("abcdefghi"))
TEXTS = {
    "a billion laughs": LAUGHS,
    "deep lists": "[" * 50_000,
    "deep mappings": '{"a":' * 50_000,
    "names times names": "SwitchName=s[1-99999][1-99999] Nodes=n[1-99999][1-99999]\n",
    "a number of 5,000 digits": "- targets: ['a:" + "9" * 5000 + "']\n",
    "a timestamp that is none": "a: !!timestamp nothing\n",
    "an object of Python": "!!python/object/apply:os.system [ls]\n",
    "no text": "\x00\ufffe" * 10_000,
    "one endless line": "x" * (3 << 20),
    "many lines": "a\n" * 20_000,
}  # fmt: skip
MOST = 300e6
"""Bytes of memory while a file is read: a server of 10,000 nodes may take several times as much."""


@pytest.fixture
def text(request: pytest.FixtureRequest) -> str:
    return TEXTS[request.param]


@pytest.mark.parametrize("text", TEXTS, indirect=True)
async def test_a_hostile_file_of_targets_is_named_and_the_other_files_hold(tmp_path: Path, text: str) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("- targets: ['node-1:9790']\n")
    bad.write_text(text, encoding="utf-8")
    told: list[list[str]] = []
    found = TargetDiscovery(
        [], [TargetFile(str(bad)), TargetFile(str(good))], 10, lambda t: told.append(sorted(t)), lambda *_: None
    )
    found.start()
    try:
        async with asyncio.timeout(120):
            while not (found.warnings() and told and told[-1] == ["node-1:9790"]):
                await asyncio.sleep(0.01)
    finally:
        found.stop()
    assert all(str(bad) in line and str(good) not in line for line in found.warnings())


@pytest.mark.parametrize("text", TEXTS, indirect=True)
def test_a_hostile_file_of_topology_or_jobs_is_named_and_its_memory_bounded(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text, encoding="utf-8")
    tracemalloc.start()
    try:
        with pytest.raises(sources.SourceError, match=str(path)):
            sources.load(str(path))
        for source in sources.SOURCES.values():
            with pytest.raises(sources.SourceError, match="bad"):
                source.graph(text, "bad", NodeNames())
        with pytest.raises(ListingError):
            jobs_file.parse(text.encode())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST
