"""The table of open incidents: order, groups, addresses; places of incidents of many members."""

import re

import aiohttp
import pytest

from fabricmon.central.page.document import document, fragment
from fabricmon.central.page.places import PlacesOfIncidents, Whereabouts, rail_number
from fabricmon.central.page.search_filter import Filter, filter_of
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Impact, JobImpact, JobVerdict, Members, Severity
from tests.page.many import many_incidents
from tests.page.scenes import NOW, incident, node
from tests.page.stage import Stage
from tests.page.test_map import Lab
from tests.page.test_page_words import scene


def some():
    job = JobImpact("4711", "train", "mara", "slurm", JobVerdict.STALL, "", ("host-2",), 1, 8, NOW)
    return [
        incident(id="a", kind="nic_fault", component="nic(host-10/mlx5_0)", parts=("host-10",), since=NOW - 30,
                 labels={}),
        incident(id="b", severity=Severity.CRITICAL, component="leaf(su1/rail2)", labels={"leaf": "su1/rail2"},
                 members=Members(8, 32), since=NOW - 20, parts=()),
        incident(id="c", component="link(host-2/mlx5_1/1)", parts=("host-2/mlx5_1/1",), since=NOW - 10, labels={},
                 impact=Impact("known", "slurm", NOW, (job,), 1)),
        incident(id="d", severity=Severity.INFO, component="network", parts=(), since=NOW - 5, labels={}),
    ]  # fmt: skip


def shown(**wanted):
    page = fragment(scene([node("host-2")], some()), Filter(view="table", **wanted))
    return page, re.findall(r'id="row/(\w)"', page)


@pytest.mark.parametrize(
    ("sort", "order"),
    [("", "bcad"), ("severity", "bcad"), ("-severity", "dcab"), ("kind", "bcda"), ("component", "bcda"),
     ("-component", "adcb"), ("members", "bcad"), ("jobs", "cbad"), ("since", "dcba"), ("-since", "abcd")],
)  # fmt: skip
def test_the_order_of_rows(sort, order):
    page, rows = shown(sort=sort)
    assert "".join(rows) == order
    states = re.findall(r'class="c-(\w+)" scope="col" aria-sort=\'(\w+)\'', page)
    name = sort.removeprefix("-")
    falling = name in ("severity", "members", "jobs", "since")
    assert states == ([(name, "descending" if falling is not sort.startswith("-") else "ascending")] if sort else [])


@pytest.mark.parametrize(
    ("group", "groups", "order"),
    [("domain", ["leaf su1/rail2", "node host-2", "node host-10", "network"], "bcad"),
     ("kind", ["link flapping", "nic fault"], "bcda")],
)  # fmt: skip
def test_groups_have_the_worst_first_and_a_box_for_all_of_them(group, groups, order):
    page, rows = shown(group=group)
    assert re.findall(r'<tbody id="group/([^"]+)">', page) == groups
    assert "".join(rows) == order
    assert page.count("data-group=") == 1 + len(groups)


def test_a_filter_is_what_its_address_says():
    wanted = Filter(q="a b", severity="warning", kind="x", rail="3", leaf="su1/rail3", job="train", host="host-0",
                    view="table", sort="-since", group="kind", page=2)  # fmt: skip
    query = dict(pair.split("=") for pair in wanted.link(page=2)[1:].split("&"))
    assert filter_of({name: value.replace("+", " ").replace("%2F", "/") for name, value in query.items()}) == wanted
    assert "page" not in wanted.link(view="")
    assert Filter().link() == "."
    strange = {"view": "none", "sort": "size", "group": "x", "page": "-1", "severity": "high"}
    assert filter_of(strange) == Filter()
    assert [filter_of({"page": page}).page for page in ("0", "7", "99999", "999999", "²")] == [1, 7, 10_000, 1, 1]


def test_every_filter_is_kept_in_the_form_and_offers_what_is_open():
    found = fragment(scene([node("host-2")], some()), Filter(view="table", leaf="su1/rail2", sort="kind"))
    assert 'data-leafs="su1/rail2"' in found
    assert 'data-jobs="train#4711"' in found
    page = document(scene([node("host-2")], some()), Filter(view="table", job="train#4711", sort="kind"))
    assert '<input type="hidden" name="view" value="table"><input type="hidden" name="sort" value="kind">' in page
    assert '<option value="train#4711" selected>' in page
    assert re.findall(r'id="row/(\w)"', page) == ["c"]


def test_rails_and_leaves_of_members_come_from_the_topology():
    lab, places = Lab(), PlacesOfIncidents()
    many = incident(id="m", component="batch(x)", parts=("host-001/mlx5_3/1", "host-009/mlx5_4/1", "gone/mlx5_0/1"),
                    labels={})  # fmt: skip
    fleet = lab.engine.fleet
    (found,) = places.of([many], fleet).values()
    assert found == Whereabouts(("su0/3", "su1/4"), ("su0/rail3", "su1/rail4"), ("gone", "host-001", "host-009"))
    assert [rail_number(rail) for rail in found.rails] == ["3", "4"]
    assert found.domain == ""
    assert Filter(rail="4").incident(many, found)
    assert Filter(rail="su1/4").incident(many, found)
    assert not Filter(rail="1").incident(many, found)
    assert places.of([many], fleet)["m"] is found
    assert places.of([], fleet) == {}
    (bare,) = places.of([many], Fleet()).values()
    assert bare == Whereabouts((), (), ("gone", "host-001", "host-009"))


async def test_several_are_acknowledged_at_once_after_a_preview(tmp_path):
    async with Stage(tmp_path, 16) as stage, aiohttp.ClientSession() as session:
        made = many_incidents(stage.layout, 12, stage.central.evaluator.now())
        stage.central.engine.incidents = lambda: made
        stage.central.evaluator.replan()
        where, ids = f"{stage.url}api/v1/acknowledgements", [i.id for i in made[:5]]
        taken = stage.central.evaluator.acknowledgements.by_incident
        for body, status, covers in (
            ({"incidents": [*ids, "unknown"], "preview": True}, 200, 5),
            ({"incidents": [*ids, "unknown"], "author": "mara"}, 201, 5),
            ({"incidents": []}, 400, None),
            ({"incidents": ["x"] * 1001}, 400, None),
            ({"incidents": ids, "author": "m" * 2000}, 400, None),
        ):
            async with session.post(where, json=body) as answer:
                found = await answer.json()
                assert (answer.status, found.get("covers")) == (status, covers), found
            assert len(taken) == (5 if status != 200 else 0)
        assert {a.author for a in taken.values()} == {"mara"}
