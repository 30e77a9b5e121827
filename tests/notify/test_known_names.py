"""A name that something has is never refused; one that nothing has always is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.notify.known_names import FabricNames, unknown_in_matchers, unknown_in_window
from fabricmon.notify.matchers import parse

NAME = st.text("ab12-", min_size=1, max_size=6)


@given(st.sets(NAME, min_size=1), st.sets(NAME), NAME, st.sampled_from(("=", "!=", "=~", "!~")))
def test_of_nodes_ids_and_components(nodes: set[str], leaves: set[str], name: str, op: str) -> None:
    names = FabricNames(nodes, nodes, lambda: (f"leaf({leaf})" for leaf in leaves))
    for of in ("node", "id"):
        assert (unknown_in_matchers([parse(f"{of}{op}{name}")], names) == "") == (name in nodes)
    assert (unknown_in_matchers([parse(f"component=leaf({name})")], names) == "") == (name in leaves)
    assert (unknown_in_window([name], [], names) == "") == (name in nodes)
    assert (unknown_in_window([], [f"leaf({name})"], names) == "") == (name in leaves)
    start = any(node.startswith(name) for node in nodes)
    assert (unknown_in_window([f"{name}*"], [], names) == "") == start
    assert (unknown_in_matchers([parse(f"node=~{name}.*")], names) == "") == start


def test_jobs_and_labels_are_not_checked() -> None:
    names = FabricNames((), (), list)
    assert unknown_in_matchers([parse("job=train"), parse("user=mara"), parse("rack=r7")], names) == ""
    assert unknown_in_matchers([parse("rack=r7"), parse("severity=bad")], names).startswith("'severity=bad': ")
