"""Slow cables: against what both ends support, and against sisters, also where there are four cables."""

from __future__ import annotations

import pytest

from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Switch, cable
from fabricmon.topology.slow import slow_links

HDR, EDR, SDR = 25e9, 12.5e9, 1.25e9


def star(*links: tuple[float, float], models: tuple[str, ...] = ()) -> Graph:
    """A switch with an adapter a cable: (rate, rate that both ends support)."""
    adapters = {
        f"a{n}": Adapter(f"a{n}", f"h{n}", "mlx5_0", labels={"model": models[n]} if models else {})
        for n in range(len(links))
    }
    cables = [cable(End(f"a{n}", 1), End("s", n + 1), rate, 4, None, most) for n, (rate, most) in enumerate(links)]
    return Graph({"s": Switch("s", "leaf", 0)}, adapters, tuple(cables))


def slow(graph: Graph) -> list[Finding]:
    return list(slow_links(graph))


def title(graph: Graph, number: int) -> str:
    link: Cable = graph.cables[number]
    return graph.title(link)


def test_one_of_four_cables_that_is_slow_is_named_with_both_its_ends() -> None:
    graph = star((HDR, 0), (EDR, 0), (HDR, 0), (HDR, 0))
    assert slow(graph) == [
        Finding("slow_link", ("h1/mlx5_0/1, leaf/2",), "1 of 4 links run at 100 Gb/s; the rest runs at 200 Gb/s")
    ]


def test_two_cables_are_compared_with_what_both_ends_support() -> None:
    graph = star((HDR, HDR), (SDR, HDR))
    (found,) = slow(graph)
    assert found.components == (title(graph, 1),)
    assert found.why == "1 of 2 links run at 10 Gb/s; both ends support 200 Gb/s"


def test_cables_that_all_run_below_what_their_ends_support_are_one_finding_of_the_whole() -> None:
    (found,) = slow(star(*[(EDR, HDR)] * 20))
    assert (found.kind, found.components) == ("limited_links", ())
    assert found.why == "20 of 20 links run at 100 Gb/s; both ends support 200 Gb/s"


@pytest.mark.parametrize("links", [
    [(HDR, HDR)] * 4, [(EDR, 0), (HDR, 0)], [(EDR, 0), (EDR, 0), (HDR, 0), (HDR, 0)], [(0.0, HDR)] * 4, [],
])  # fmt: skip
def test_cables_of_two_kinds_or_without_sisters_are_not_slow(links: list[tuple[float, float]]) -> None:
    assert slow(star(*links)) == []


def test_adapters_of_another_model_are_no_sisters() -> None:
    models = ("ConnectX-6",) * 8 + ("ConnectX-5",) * 2
    assert slow(star(*[(HDR, 0)] * 8, *[(EDR, 0)] * 2, models=models)) == []
    assert len(slow(star(*[(HDR, 0)] * 7, (EDR, 0), *[(EDR, 0)] * 2, models=models))) == 1
