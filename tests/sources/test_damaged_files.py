"""A damaged file of any format is a graph with findings or a SourceError that names it; nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.runtime import strict_yaml
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames
from tests.fuzz.__main__ import CORPUS

SAMPLES = {kind: (CORPUS / f"topology-{kind}" / "sample").read_text(encoding="utf-8") for kind in sources.SOURCES}
"""One valid file of each format."""


def parsed(kind: str, text: str) -> Graph:
    return findings.check(infer.annotate(sources.SOURCES[kind].graph(text, "file", NodeNames())))


def graph_or_error(kind: str, text: str) -> None:
    try:
        parsed(kind, text)
    except sources.SourceError as error:
        told = str(error)
    else:
        told = "file"
    assert told.startswith("file")


def test_every_source_has_a_sample_and_knows_its_own_only() -> None:
    for kind, text in SAMPLES.items():
        first = next(name for name, source in sources.SOURCES.items() if source.sniff(text))
        assert first == kind
        graph = parsed(kind, text)
        assert graph.switches or graph.hosts


TAGS = [
    "!!timestamp nothing", "!!int x", "!!int ''", "!!bool x", "!!set [a]", "!!float x", "!!binary '=', a: 1",
    "!!python/name:os", '"\\ud800"',
]  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind, source in sources.SOURCES.items() if source.yaml])
@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_of_yaml_is_an_error_of_the_file(kind: str, tag: str) -> None:
    with pytest.raises(sources.SourceError, match=r"file: .*YAML"):
        sources.SOURCES[kind].graph(f"a: {tag}\n", "file", NodeNames())


@pytest.mark.parametrize("kind", SAMPLES)
@settings(max_examples=30)
@given(st.data())
def test_damage_is_told(kind: str, data: st.DataObject) -> None:
    text = SAMPLES[kind]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        until = min(len(text), at + data.draw(st.integers(0, 12)))
        text = text[:at] + data.draw(st.text('0123456789abx{}[]()",:-=/\n \t#\\', max_size=5)) + text[until:]
    graph_or_error(kind, text)


WRONG = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**30) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places(data: object) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in it."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from places(data[key])


@pytest.mark.parametrize("kind", ["lldp", "kubernetes", "trays", "slurm-yaml", "topograph", "yaml"])
@settings(max_examples=60)
@given(st.integers(0, 99), WRONG)
def test_a_value_of_another_type_is_told(kind: str, place: int, wrong: object) -> None:
    whole = strict_yaml.load(SAMPLES[kind])  # JSON is YAML
    every = list(places(whole))
    holder, key = every[place % len(every)]
    holder[key] = wrong
    graph_or_error(kind, json.dumps(whole))
