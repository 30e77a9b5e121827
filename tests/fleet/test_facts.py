"""What the labels of a port mean for the rules, against the labels themselves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.catalogue import technology
from fabricmon.fleet.facts import SPARE_WORDS
from fabricmon.model import Component, Kind, Part
from tests.fleet.site import Site

LABELS = {
    "link_layer": ("InfiniBand", "Ethernet"),
    "device": ("mlx5_0",),
    "pci": ("0000:1a:00.0",),
    "swept": ("yes",),
    "role": ("compute", "storage", "unknown"),
    "board": ("MT1", "MT2"),
    "hca_type": ("MT1", "MT4129"),
    "port": ("1", "2", "999", "1000", "x", "١"),
}
labels = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in LABELS.items()})


@settings(max_examples=40)
@given(st.lists(st.lists(labels, min_size=2, max_size=2), min_size=2, max_size=5))
def test_labels_say_what_a_port_is_and_which_ports_are_alike(hosts: list[list[dict[str, str]]]) -> None:
    """Ports are of one make where role, link layer and board agree and anything is known of them; of one place where
    the name agrees, too."""
    site, shown = Site(), {}
    for number, ports in enumerate(hosts):
        components = tuple(Component(f"p{at}", dict(told)) for at, told in enumerate(ports))
        site.inventory(f"h{number}", Part("infiniband", Kind.PORT, ("state",), components, 10.0))
        shown |= {(f"h{number}", f"p{at}"): told for at, told in enumerate(ports)}
    facts = site.tick().tracks.facts
    makes: dict[int, tuple[str, ...]] = {}
    places: dict[int, tuple[object, ...]] = {}
    for (node, name), told in shown.items():
        row = site.row(node, name)
        assert bool(facts.infiniband[row]) is (told.get("link_layer") == "InfiniBand")
        assert bool(facts.swept[row]) is ("swept" in told)
        assert bool(facts.hardware[row]) is (("device" in told or "pci" in told) and "swept" not in told)
        assert bool(facts.layered[row]) is ("link_layer" in told or "device" not in told)
        assert facts.technology[row] == technology.of_port(told)
        assert facts.number[row] == {"1": 1, "2": 2, "999": 999}.get(told.get("port", ""), 0)
        role, board = told.get("role", ""), told.get("board") or told.get("hca_type", "")
        assert facts.role[row] == facts.role_names[role]
        known = board or role not in ("", "unknown")
        make = (role, told.get("link_layer", ""), board) if known else ()
        assert makes.setdefault(int(facts.make[row]), make) == make
        assert bool(facts.make[row] == 0) is not bool(known)
        assert facts.make[row] < facts.makes
        assert places.setdefault(int(facts.place[row]), (name, make)) == (name, make)
    assert len(set(makes.values())) == len(makes)
    assert len(set(places.values())) == len(places)
    assert len(set(facts.role_names.values())) == len(facts.role_names)


def test_words_of_ports_that_left_are_forgotten_and_those_that_stay_keep_their_meaning() -> None:
    site = Site()
    stays = Component("stays", {"role": "compute", "board": "B"})
    for number in range(SPARE_WORDS // 2):
        comes = Component("comes", {"role": f"role-{number}", "board": "B"})
        site.inventory("a", Part("infiniband", Kind.PORT, ("state",), (stays, comes), 10.0))
        facts = site.tick().tracks.facts
        rows = [site.row("a", name) for name in ("stays", "comes")]
        words = len(facts.role_names) + 2 * facts.makes
        assert words <= SPARE_WORDS + 6 * 2 + 8
        assert facts.role[rows].tolist() == [facts.role_names["compute"], facts.role_names[f"role-{number}"]]
        assert facts.make[rows[0]] != facts.make[rows[1]]
        assert facts.place[rows[0]] != facts.place[rows[1]]
