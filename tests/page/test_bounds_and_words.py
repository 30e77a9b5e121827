"""What a page lists, up to which number, in which words; whole texts of a node, a component and an incident."""

from __future__ import annotations

import math
import re
from html import unescape

import pytest

from fabricmon.catalogue.counter import Category
from fabricmon.central.documents.overview import overview
from fabricmon.central.page import open_incidents
from fabricmon.central.page.cards import extent, jobs_of, resolved_lines
from fabricmon.central.page.components import PortRow, Value
from fabricmon.central.page.document import fragment
from fabricmon.central.page.incident import incident_detail
from fabricmon.central.page.markup import bar, component_link, moment, more, node_link, prose
from fabricmon.central.page.node import component_detail, node_detail, number
from fabricmon.central.page.open_incidents import choices, opened
from fabricmon.central.page.scene import ReceiverState, Scene
from fabricmon.central.page.search_filter import Filter
from fabricmon.model import (
    Checked,
    CheckedNode,
    ComponentId,
    Evidence,
    HistoryEntry,
    Impact,
    JobImpact,
    JobVerdict,
    Kind,
    Maintenance,
    Members,
    Presence,
    RuledOut,
    Severity,
    Symptom,
    Unchecked,
)
from fabricmon.notify.silence import silence
from tests.page.scenes import NOW, incident, node

PORT = ComponentId(Kind.PORT, "host-001", "mlx5_0/1")


def text(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def scene(nodes=(), incidents=(), **more_):
    nodes = list(nodes) or [node("host-000")]
    return Scene(NOW, overview("lab", nodes, incidents, 0, NOW), nodes, list(incidents), **more_)


def impact(number: int) -> Impact:
    one = JobImpact("4711", "train", "mara", "slurm", JobVerdict.AT_RISK, "its nodes are behind it", ("a",), 1, 8, NOW)
    return Impact("known", "slurm", NOW, (one,) * number, number)


def many(number: int, **fields):
    return [incident(id=f"i{at:04}", since=NOW - at, **fields) for at in range(number)]


@pytest.mark.parametrize(("view", "size", "one"), [("", 100, "<article"), ("table", 500, '<tr class="incident')])
@pytest.mark.parametrize("over", [0, 1, 700])
def test_open_incidents_on_the_page_and_the_pages_after_it(view: str, size: int, one: str, over: int) -> None:
    count = size + over
    shown = opened(many(count), count, scene(), NOW, Filter(view=view))
    assert shown.count(one) == size
    assert (f"1 to {size} of {count:,}" in text(shown)) is (over > 0)
    last = opened(many(count), count, scene(), NOW, Filter(view=view, page=99))
    assert last.count(one) == ((count - 1) % size) + 1
    assert f'id="{"row" if view else "incident"}/i{count - 1:04}"' in last
    assert (">Previous<" in last, ">Next<" in last) == (over > 0, False)


@pytest.mark.parametrize("over", [0, 1])
def test_lists_end_where_they_say(over: int) -> None:
    resolved = resolved_lines(many(20 + over, status="resolved", resolved=NOW), NOW)
    stale = fragment(scene([node(f"h{n:03}", Presence.REFUSED) for n in range(100 + over)]), clock=NOW)
    silences = [silence(f"s{n:02}", ["kind=x"], NOW - 9, NOW + 60 + n, "mara", "") for n in range(20 + over)]
    windows = [Maintenance(f"m{n:02}", NOW - 9, NOW + 60 + n, tuple("abcdefghijklmn"), (), "", "") for n in range(21)]
    kept = fragment(scene(silences=silences, windows=windows), clock=NOW)
    assert (resolved.count('<tr id="resolved/'), "and 1 more" in resolved) == (20, bool(over))
    assert (stale.count('<td><span class="presence'), "and 1 more" in stale) == (100, bool(over))
    assert (kept.count('<tr id="s'), kept.count('<tr id="m')) == (20, 20)
    assert kept.index('id="s00"') < kept.index('id="s19"')
    assert '<code>l</code></td>' in kept
    long = incident(
        evidence=(Evidence("a", "t"),) * (64 + over), ruled_out=(RuledOut("b", "r"),) * (16 + over),
        history=(HistoryEntry(NOW, "opened", "r"),) * (200 + over), impact=impact(32 + over),
    )  # fmt: skip
    page = incident_detail(long, long.history, None, None, NOW, str)
    counts = (page.count('<li class="for">'), page.count("<li>b r</li>"), page.count("<b>opened</b>"))
    assert (counts, page.count("4711"), page.count("and 1 more")) == ((64, 16, 200), 64, 3 * over)
    symptom = Symptom("r", "link_down", PORT, Severity.WARNING, NOW - 60, 1.0)
    unread = tuple(Unchecked(f"p{n}", "infiniband", "EIO") for n in range(9))
    checked = CheckedNode((Checked("infiniband", 3, 9),), unread)
    view = node("host-001", checked=checked)
    page = node_detail(view, (), (), many(24 + over), [symptom] * (64 + over), NOW, str)
    assert (page.count('<a href="incident'), page.count("host-001/mlx5_0/1 link down ")) == (24, 64)
    assert "p7: EIO)" in page


@pytest.mark.parametrize(("ago", "clock", "form", "shown"), [
    (60.0, NOW, "ago", "1 min ago"), (60.0, None, "ago", "14:12:20 UTC"), (-60.0, NOW, "until", "in 1 min"),
    (0.0, NOW, "until", "now"), (60.0, NOW, "until", "now"), (math.nan, NOW, "ago", "unknown"),
])  # fmt: skip
def test_a_moment_in_words(ago: float, clock: float | None, form: str, shown: str) -> None:
    found = moment(NOW - ago, clock, form)
    assert text(found).endswith(shown) or shown in text(found)
    assert ("<time" in found) is (shown != "unknown")


def test_parts_of_a_page() -> None:
    assert (more(5, 5), more(6, 5), more(6, 5, "x")) == (
        "", '<p class="more">and 1 more</p>', '<p class="more"><a href="x">and 1 more</a></p>',
    )  # fmt: skip
    assert bar((("bad", 1), ("none", 0), ("rest", 3))) == (
        '<svg class="share" aria-hidden="true"><rect class="bad" x="0.00%" width="25.00%" height="100%"/>'
        '<rect class="rest" x="25.00%" width="75.00%" height="100%"/></svg>'
    )
    assert bar((("bad", 0),)) == '<svg class="share" aria-hidden="true"></svg>'
    assert prose("run `dmesg <x>`") == "run <code>dmesg &lt;x&gt;</code>"
    assert node_link("a&b") == '<a href="node?name=a%26b"><code>a&amp;b</code></a>'
    assert component_link(ComponentId(Kind.NODE, "a", "")) == node_link("a")
    assert component_link(PORT) == (
        '<a href="component?kind=port&amp;node=host-001&amp;name=mlx5_0%2F1"><code>host-001/mlx5_0/1</code></a>'
    )
    assert ">w<" in component_link(PORT, "w")
    assert [number(n) for n in (12.0, 1234567.0, 0.0021, 4.1e-12, math.nan, math.inf, 1e15, 2.5)] == [
        "12", "1,234,567", "0.0021", "4.1e-12", "unknown", "unknown", "1e+15", "2.5",
    ]  # fmt: skip


@pytest.mark.parametrize(("members", "confidence", "shown"), [
    (Members(1, 1), 0.0, "1 of 1"), (Members(1, 4), 0.97, "1 of 4 confidence 97%"), (Members(0, 0), 0.0, ""),
])  # fmt: skip
def test_extent(members: Members, confidence: float, shown: str) -> None:
    found = extent(incident(members=members, confidence=confidence))
    assert text(found) == shown
    assert ("<svg" in found) is (members.of > 1)


@pytest.mark.parametrize(("state", "last"), [
    ("known", ""), ("unknown", "affected jobs unknown: no scheduler responds"),
    ("partly", "list may be incomplete: not all schedulers respond"),
])  # fmt: skip
def test_affected_jobs(state: str, last: str) -> None:
    found = incident(impact=Impact(state, "slurm", NOW, impact(5).jobs, 5))
    one = "at risk train#4711 mara · 1 of 8 nodes · its nodes are behind it"
    assert text(jobs_of(found, 4)) == " ".join([*[one] * 4, *([last] if last else []), "and 1 more"])
    assert jobs_of(incident(), 4) == jobs_of(incident(impact=Impact("known", "", None)), 4) == ""


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        ((), "delivery", "notifications queued 0 no receiver configured"),
        ((("ops", 0, ""),), "delivery", "notifications queued 0 1 receiver, queue empty"),
        ((("ops", 2, ""), ("chat", 3, "")), "delivery", "notifications queued 5 sending"),
        ((("ops", 2, ""), ("chat", 3, "refused")), "delivery bad", "notifications queued 5 chat: refused"),
    ],
)
def test_the_state_of_delivery(given: tuple[tuple[str, int, str], ...], name: str, words: str) -> None:
    shown = scene(receivers=[ReceiverState(*one) for one in given])
    (tile,) = re.findall(r'<div class="tile (delivery[^"]*)">(.*?)</div>', fragment(shown, Filter()))
    assert (tile[0], text(tile[1])) == (name, words)


@pytest.mark.parametrize("over", [0, 1])
def test_the_search_offers_so_many_kinds_in_their_natural_order_and_counts_so_many_openings(
    over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_incidents, "MAX_NEW", 12 - over)
    monkeypatch.setattr(open_incidents, "MAX_CHOICES", 12 - over)
    found = [incident(id=f"i{n}", kind=f"kind-{n}", since=NOW - n) for n in range(12)]
    shown = scene(incidents=found)
    assert choices(shown)["kind"] == [f"kind-{n}" for n in range(12 - over)]
    (times,) = re.findall(r'data-openings="([^"]*)"', opened(found, len(found), shown, None, Filter()))
    assert len(times.split()) == 12 - over


def test_counts_of_incidents_nodes_and_ports() -> None:
    nodes = [node("a"), node("b", Presence.REFUSED), node("c", Presence.SLOW), node("d", Presence.SLOW)]
    found = [incident(), incident(id="b"), incident(id="c", severity=Severity.CRITICAL)]
    page = fragment(scene(nodes, found), Filter())
    tiles = re.findall(r'<div class="tile ([^"]*)">(.*?)</div>', page)
    assert [(name, text(words)) for name, words in tiles][:5] == [
        ("critical", "critical 1 open"),
        ("warning", "warning 2 open"),
        ("info dim", "info 0 open"),
        ("nodes", "nodes live 1 /4 1 refused, 2 slow"),
        ("ports", "ports live 8 24 stale"),
    ]


def test_the_page_of_a_node() -> None:
    ports = [
        PortRow(PORT, {}, {"rail": "3", "leaf": "su1/rail3"}, True, True, 50e9, 0.25, 1.5),
        PortRow(PORT, {}, {}, False, True, math.nan, math.nan, -1.0),
        PortRow(PORT, {}, {}, None, True, 50e9, 0.0, 0.0),
    ]
    symptom = Symptom("r", "link_down", PORT, Severity.WARNING, NOW - 60, 1.0, (Evidence("", "down for 60 s"),))
    gpus = [(ComponentId(Kind.GPU, "host-001", f"gpu{n}"), {}) for n in range(2)]
    view = node("host-001", checked=CheckedNode((), (), True), maintenance="m-1")
    page = node_detail(view, ports, gpus, [incident(status="resolved"), incident(id="b")], [symptom], NOW, str)
    assert text(page) == (
        "live host-001 since 1 h 6 min ago last frame now agent 0.1.0 ports 8 GPUs 8 checked nothing expected "
        "maintenance m-1 Incidents ▲ Link flaps: 3 downs in 5 minutes warning, resolved ▲ Link flaps: 3 downs in 5 "
        "minutes warning, open Symptoms host-001/mlx5_0/1 link down down for 60 s · 1 min ago Ports port state rail "
        "leaf rate Rx Tx mlx5_0/1 up 3 su1/rail3 400 Gb/s 25% 150% mlx5_0/1 ✕ down unknown unknown -100% mlx5_0/1 ? "
        "unknown 400 Gb/s 0% 0% gpu 2 gpu0 gpu1 ports as JSON"
    )
    assert re.findall(r"width='(\d+)%'", page) == ["25", "100", "0", "0", "0"]
    silent = text(node_detail(node("host-001", Presence.REFUSED), (), (), (), (), NOW, str))
    assert "Node not reporting: the values below are its last readings, not its current state." in silent
    assert "Symptoms" not in silent
    assert "nothing to check" in node_detail(node("a", checked=CheckedNode()), (), (), (), (), NOW, str)


def test_the_page_of_a_component() -> None:
    values = [
        Value("symbol_errors", 3.0, "", Category.ERROR, "Errors", 1.0, True),
        Value("rcv_errors", 0.0, "", Category.ERROR, "Errors", 1.0, True),
        Value("temperature", 41.5, "celsius", Category.STATE, "Heat", 90.0, False),
        Value("odd", math.nan, "weird", None, "", 1.0, True),
    ]
    page = component_detail(
        PORT, {"device": "mlx5_0", "rail": "9", "empty": ""}, {"rail": "3"}, values, (), (), False, NOW, str
    )
    assert text(page) == (
        "port of host-001 mlx5_0/1 Node not reporting: the values below are the last readings, not the current state. "
        "Last hours Charts need JavaScript; as JSON . Location rail 3 device mlx5_0 Errors symbol_errors 3 1 at 0 "
        "rcv_errors State temperature 41.5 °C read 1 min ago Not in the catalogue odd unknown"
    )


def test_the_page_of_an_incident_that_ended() -> None:
    ended = incident(status="resolved", resolved=NOW - 60, candidates=("power(pdu-7)",), members=Members(2, 2))
    page = text(incident_detail(ended, ended.history, None, None, NOW, str))
    assert "resolved 1 min ago , after 11 min" in page
    assert "Acknowledge" not in page
    assert "Other possible causes power(pdu-7)" in page
    assert "Evidence 1 host-007/mlx5_3/1 3 downs, weighted by age 2.9 Show calculation P = 1000/down" in page
    assert "Evidence against 1 leaf-3 31 of 31 other links are up" in page
    assert "Labels rail=3 id 5f1c0a" in page
