"""What a person reads on the page and the details, word by word, of scenes in which everything occurs once."""

from __future__ import annotations

import html
import math
import re
from dataclasses import replace

import msgspec
import pytest

from fabricmon.catalogue.counter import Category
from fabricmon.central.page.cards import NEW
from fabricmon.central.page.components import PortRow, Value, as_shown, column_title
from fabricmon.central.page.document import document, fragment
from fabricmon.central.page.markup import bar, component_link, moment, more
from fabricmon.central.page.mosaic import mosaic, state_of
from fabricmon.central.page.node import component_detail, node_detail, number
from fabricmon.central.page.scene import ReceiverState, Scene, receivers
from fabricmon.central.page.search_filter import MAX_WORDS, Filter, filter_of
from fabricmon.model import (
    ComponentId,
    Evidence,
    Impact,
    JobImpact,
    JobVerdict,
    Kind,
    Members,
    Presence,
    Severity,
    Symptom,
)
from fabricmon.notify.silence import silence
from tests.page.scenes import NOW, busy, calm, empty, incident, node
from tests.page.test_page_words import Tree, detail, scene

PORT = ComponentId(Kind.PORT, "host-007", "mlx5_3/1")
SYMPTOM = Symptom(
    "link_flapping", "link_flapping", PORT, Severity.WARNING, NOW - 70, 3.0, (Evidence("x", "3 downs"),), {}
)


def read(page: str) -> str:
    """The text of a page in one line, without what only the script shows."""
    return " ".join(Tree(page.replace(NEW, "")).text.split())


def link(word: str) -> str:
    return f"<code>{html.escape(word)}</code>"


def port(name: str, up: bool | None, rate: float, receive: float, transmit: float, **places: str) -> PortRow:
    return PortRow(ComponentId(Kind.PORT, "host-007", name), {}, places, up, up is not None, rate, receive, transmit)


def test_the_first_page() -> None:
    assert read(fragment(busy(), None, NOW)) == (
        "1 critical incident · 2 warnings 488 ports on 61 of 64 nodes live, 24 ports stale "
        "critical 1 open warning 2 open info 1 open nodes live 61 /64 1 unreachable, 1 refused, 1 slow "
        "ports live 488 24 stale notifications queued 0 1 receiver, queue empty Open incidents 4 Cards Table "
        "✕ critical fault domain 1 min ago Leaf su1/rail2 is down: 32 of 32 links lost within one poll "
        "leaf(su1/rail2) 32 of 32 confidence over 99% host-032/mlx5_2/1 (1 of 32): link down since the same poll Next "
        "step Check power and management of the leaf switch su1/rail2. Jobs on its rail run without it. Details "
        "Acknowledge Silence Runbook ▲ warning link flapping 12 min ago Link flaps: 3 downs in 5 minutes "
        "link(host-007/mlx5_3/1, leaf-3/12) 1 of 1 confidence 97% 3 downs, weighted by age 2.9 Next step Reseat the "
        "cable at both ends; replace it if the flaps come back. Details Acknowledge Silence Runbook ▲ warning link "
        "errors silenced by mara 2 h 13 min ago Link errors: at least 4.1e-11 of bits link(host-015/mlx5_5/1) 1 of 1 "
        "confidence 90% host-007/mlx5_3/1: 3 downs, weighted by age 2.9 Next step Reseat the cable at both ends; "
        "replace it if the flaps come back. Details Acknowledge Silence Runbook ● info agent silent 12 min ago 3 "
        "agents are silent network 3 of 64 confidence 60% host-007/mlx5_3/1 (1 of 3): 3 downs, weighted by age 2.9 "
        "Next step Reseat the cable at both ends; replace it if the flaps come back. Details Acknowledge Silence "
        "Runbook "
        "Nodes not reporting 3 State unknown: these nodes count neither as healthy nor as failed. "
        "node presence detail since last frame ports host-011 unreachable no answer 1 h 6 min ago 11 min ago 8 "
        "host-040 refused connection refused 1 h 6 min ago 11 min ago 8 "
        "host-041 slow no frame for 5 s 1 h 6 min ago 11 min ago 8 "
        "Silences and maintenance type covers time author comment "
        "silence kind=link_errors ends in 1 h 56 min mara cable is ordered End now "
        "maintenance host-020 ends in 20 min jon new firmware End now "
        "Resolved in the last hour 1 kind component title resolved duration "
        "link down link(host-003/mlx5_0/1) Link is down 10 min ago after 23 min"
    )


def test_a_node_with_its_ports_devices_incidents_and_symptoms() -> None:
    ports = [
        port("mlx5_0/1", True, 5e10, 0.25, 0.5, rail="0", leaf="su0/rail0"),
        port("mlx5_1/1", False, math.nan, math.nan, math.nan),
        port("mlx5_2/1", None, 1.25e10, 1.2, 0.0),
    ]
    devices = ((Kind.GPU, "gpu0"), (Kind.GPU, "gpu1"), (Kind.PCIE, "0000:1a:00.0"))
    others = [(ComponentId(kind, "host-007", name), {}) for kind, name in devices]
    incidents = [
        incident(),
        incident(id="old", status="resolved", title="Old"),
        incident(id="c", severity=Severity.CRITICAL, title="Worst"),
    ]
    page = node_detail(node("host-007"), ports, others, incidents, [SYMPTOM], NOW, link)
    assert read(page) == (
        "live host-007 since 1 h 6 min ago last frame now agent 0.1.0 ports 8 GPUs 8 "
        "Incidents ✕ Worst critical, open ▲ Link flaps: 3 downs in 5 minutes warning, open ▲ Old warning, resolved "
        "Symptoms host-007/mlx5_3/1 link flapping 3 downs · 1 min ago "
        "Ports port state rail leaf rate Rx Tx mlx5_0/1 up 0 su0/rail0 400 Gb/s 25% 50% "
        "mlx5_1/1 ✕ down unknown unknown unknown mlx5_2/1 ? unknown 100 Gb/s 120% 0% "
        "gpu 2 gpu0 gpu1 pcie 1 0000:1a:00.0 ports as JSON"
    )
    assert re.findall(r"rect class='live' width='(\d+%)'", page) == ["25%", "50%", "100%", "0%"]


def test_a_node_that_does_not_report() -> None:
    silent = node("host-008", Presence.UNREACHABLE, maintenance="m-1")
    assert read(node_detail(silent, [], [], [], [], NOW, link)) == (
        "node unreachable host-008 Node not reporting: the values below are its last readings, not its current state. "
        "since 1 h 6 min ago last frame 11 min ago detail no answer agent 0.1.0 ports 8 GPUs 8 maintenance m-1 "
        "ports as JSON"
    )
    less = {"last_frame": None, "ports": 0, "gpus": 0, "maintenance": "", "detail": ""}
    never = msgspec.structs.replace(silent, presence=Presence.NEVER, **less)
    assert "last frame never agent 0.1.0 ports as JSON" in read(node_detail(never, [], [], [], [], NOW, link))
    assert "never" in read(fragment(scene([never]), None, NOW))
    assert "maintenance" in read(fragment(scene([silent]), None, NOW))
    assert "maintenance" not in read(fragment(scene([never]), None, NOW))


def test_a_component_with_its_readings_by_category() -> None:
    values = [
        Value("xmit", 1234567.0, "bytes", Category.TRAFFIC, "Bytes sent", 3.0, True),
        Value("symbol_errors", 0.0, "", Category.ERROR, "Symbol errors", 3.0, True),
        Value("rcv_errors", 2.0, "", Category.ERROR, "Errors", 95.0, False),
        Value("module_temperature", 51.25, "celsius", Category.STATE, "Temperature", 3.0, True),
        Value("raw", 4.1e-12, "", None, "", 3.0, True),
        Value("rate", math.nan, "bytes_per_second", Category.STATE, "", 3.0, True),
    ]
    labels, places = {"rail": "3", "device": "mlx5_3", "b": ""}, {"rail": "su0/rail3", "leaf": "L"}
    assert read(component_detail(PORT, labels, places, values, [], [SYMPTOM], False, NOW, link)) == (
        "port of host-007 mlx5_3/1 "
        "Node not reporting: the values below are the last readings, not the current state. "
        "Symptoms host-007/mlx5_3/1 link flapping 3 downs · 1 min ago "
        "Last hours Charts need JavaScript; as JSON . Location rail su0/rail3 leaf L device mlx5_3 "
        "Errors rcv_errors 2 read 1 min ago 1 at 0 symbol_errors Traffic xmit 1.235 MB "
        "State module_temperature 51.25 °C rate unknown Not in the catalogue raw 4.1e-12"
    )
    live = read(component_detail(PORT, {}, {}, [], [incident()], [], True, NOW, link))
    assert live == (
        "port of host-007 mlx5_3/1 Incidents ▲ Link flaps: 3 downs in 5 minutes warning, open "
        "Last hours Charts need JavaScript; as JSON . Location"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.0, "12"), (-1234.0, "-1,234"), (0.0021, "0.0021"), (4.1e-12, "4.1e-12"), (1e15, "1e+15"),
     (999_999_999_999_999.0, "999,999,999,999,999"), (math.nan, "unknown"), (math.inf, "unknown")],
)  # fmt: skip
def test_a_number(value: float, text: str) -> None:
    assert number(value) == text


def test_the_jobs_of_an_incident() -> None:
    def job(title: str, verdict: JobVerdict, gone: float | None = None) -> JobImpact:
        return JobImpact(title, title, "mara", "slurm", verdict, "it waits", ("host-007",), 1, 8, NOW - 90, gone=gone)

    jobs = (job("train", JobVerdict.CRASH), job("serve", JobVerdict.STALL, NOW - 60))
    known = Impact("known", "slurm", NOW, jobs, 2)
    page = read(detail(incident(impact=known)))
    assert "Affected jobs crash train mara · 1 of 8 nodes · it waits stall serve mara · 1 of 8 nodes · it waits" in page
    assert "not running since" in page.partition("serve")[2]
    assert "not running since" not in page.partition("serve")[0]
    for state, words in (("unknown", "affected jobs unknown"), ("partly", "list may be incomplete")):
        found = read(detail(incident(impact=msgspec.structs.replace(known, state=state))))
        assert words in found
        assert words not in page
    many = msgspec.structs.replace(known, jobs=jobs * 3, total=40)
    card = read(fragment(scene([node("a")], [incident(impact=many)]), None, NOW))
    assert (card.count("it waits"), "and 36 more" in card) == (4, True)
    assert "and 8 more" in read(detail(incident(impact=many)))
    assert "Affected jobs" not in read(detail(incident()))


def test_a_resolved_incident_in_full() -> None:
    over = incident(status="resolved", since=NOW - 2000, resolved=NOW - 600)
    page = read(detail(over))
    assert "resolved 10 min ago , after 23 min" in page
    assert "Silence" not in page
    assert "started 12 min ago" in read(detail(incident()))
    without = read(detail(incident(members=Members(0, 0), confidence=0.0, evidence=(), parts=())))
    assert "confidence" not in without
    assert " of " not in without.partition("Diagnosis")[0]
    assert "Evidence" not in without
    assert "Members" not in without


def test_what_is_too_long_is_counted() -> None:
    resolved = [incident(id=str(n), status="resolved", resolved=NOW - n) for n in range(25)]
    page = read(fragment(scene([node("a")], resolved), None, NOW))
    assert "Resolved in the last hour 25" in page
    assert page.endswith("and 5 more")
    evidence = tuple(Evidence("a", f"reading {n}", for_it=n < 70) for n in range(80))
    found = read(detail(incident(evidence=evidence)))
    assert "Evidence 70" in found
    assert "and 6 more" in found
    assert "Evidence against 10" in found
    assert ("reading 63" in found, "reading 64" in found) == (True, False)
    assert (more(5, 5), read(more(6, 5)), read(more(3000, 5, "x"))) == ("", "and 1 more", "and 2,995 more")


def test_the_newest_resolved_incident_comes_first_and_the_worst_open_one() -> None:
    page = read(fragment(scene([node("a")], [
        incident(id="1", title="Older", since=NOW - 900), incident(id="2", title="Newer", since=NOW - 60),
        incident(id="3", title="Worst", severity=Severity.CRITICAL, since=NOW - 5000),
        incident(id="4", title="Gone long ago", status="resolved", resolved=NOW - 3000),
        incident(id="5", title="Gone lately", status="resolved", resolved=NOW - 30),
    ]), None, NOW))  # fmt: skip
    places = [page.index(title) for title in ("Worst", "Newer", "Older", "Gone lately", "Gone long ago")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([], "notifications queued 0 no receiver configured"),
        ([("a", 0, ""), ("b", 0, "")], "notifications queued 0 2 receivers, queue empty"),
        ([("a", 3, ""), ("b", 2, "")], "notifications queued 5 sending"),
        ([("a", 3, ""), ("b", 2, "refused")], "notifications queued 5 b: refused"),
    ],
)
def test_the_receivers(states: list[tuple[str, int, str]], words: str) -> None:
    assert words in read(fragment(replace(calm(), receivers=[ReceiverState(*state) for state in states]), None, NOW))
    assert [r.name for r in receivers({"b": (0, ""), "a": (1, ""), "c": (0, "refused")})] == ["c", "a", "b"]


def test_a_fabric_without_nodes_and_one_that_is_calm() -> None:
    assert read(fragment(empty(), None, NOW)) == (
        "No agents yet set `central.targets` or `--target` to the agents critical 0 open warning 0 open info 0 open "
        "nodes live 0 /0 none expected ports live 0 none stale notifications queued 0 no receiver configured "
        "Open incidents 0 No data yet."
    )
    assert read(fragment(calm(), None, NOW)) == (
        "OK 512 ports on 64 of 64 nodes live critical 0 open warning 0 open info 0 open nodes live 64 /64 all live "
        "ports live 512 none stale notifications queued 0 no receiver configured "
        "Open incidents 0 No open incidents on reporting nodes."
    )


def test_silences_that_begin_later_are_shown_and_those_that_are_over_not() -> None:
    later = silence("s-2", ["kind=link_down"], NOW + 600, NOW + 4000, "jon", "")
    over = silence("s-3", ["kind=nic_fault"], NOW - 600, NOW - 1, "jon", "")
    last = silence("s-4", ["kind=link_errors"], NOW + 600, NOW + 5000, "jon", "")
    page = read(fragment(replace(calm(), silences=[last, over, later]), None, NOW))
    rows = [f"silence kind={kind} starts in 10 min jon End now" for kind in ("link_down", "link_errors")]
    assert " ".join(rows) in page
    assert "nic_fault" not in page


def test_the_search_form_offers_what_there_is_and_keeps_what_was_chosen() -> None:
    page = document(busy(), Filter(q="x y", severity="warning", kind="other", rail="9"))
    chosen = [value for value in page.split("<option ")[1:] if " selected" in value]
    assert [value.partition(">")[2].partition("<")[0] for value in chosen] == ["warning or worse", "other", "rail 9"]
    assert 'value="x y"' in page
    form = read(page).partition("any severity ")[2]
    assert form.startswith(
        "critical warning or worse info or worse any kind agent silent fault domain link down link errors "
        "link flapping other any rail rail 2 rail 3 rail 9 any leaf any job"
    )
    plain = read(document(busy())).partition("any severity ")[2]
    assert plain.startswith("critical warning or worse info or worse any kind agent silent")
    assert "other" not in plain.partition("any rail")[0]


@pytest.mark.parametrize(
    ("query", "found"),
    [({"q": " leaf "}, Filter(q="leaf")), ({"severity": "warning"}, Filter(severity="warning")),
     ({"severity": "worse"}, Filter()), ({"q": "x" * 300}, Filter(q="x" * MAX_WORDS)), ({"more": "1"}, Filter())],
)  # fmt: skip
def test_a_search_from_a_request(query: dict[str, str], found: Filter) -> None:
    assert filter_of(query) == found
    assert found.on is (found != Filter())


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [(Filter(), True), (Filter(q="5F1C0A"), True), (Filter(q="link flaps"), True), (Filter(q="rail=3"), True),
     (Filter(q="pdu"), True), (Filter(q="link leaf-9"), False), (Filter(severity="warning"), True),
     (Filter(severity="info"), True), (Filter(severity="critical"), False), (Filter(kind="link_down"), False),
     (Filter(rail="3", kind="link_flapping"), True), (Filter(rail="2"), False), (Filter(leaf="su1/rail3"), False),
     (Filter(host="HOST-00"), True), (Filter(host="host-008"), False), (Filter(job="train"), False)],
)  # fmt: skip
def test_what_a_search_matches(wanted: Filter, matches: bool) -> None:
    assert wanted.incident(incident(candidates=("power(pdu-7)",))) is matches
    assert Filter(q="unreach NO").node(node("host-1", Presence.UNREACHABLE))
    assert not Filter(q="unreach host-2").node(node("host-1", Presence.UNREACHABLE))


def test_squares_for_browsers_without_scripts() -> None:
    nodes = [node("b", Presence.SLOW), node("a"), node("c", symptoms=1), node("d", maintenance="m")]
    nodes += [node("e"), node("f")]
    firing = [incident(parts=("e/mlx5_0/1",)), incident(parts=("e/mlx5_0/1", "a"), severity=Severity.INFO),
              incident(parts=("f",), severity=Severity.CRITICAL), incident(parts=("f",))]  # fmt: skip
    page = mosaic(nodes, firing)
    titles = [value for name, value in Tree(page).attributes if name == "title"]
    assert titles == ["a: ok", "b: unknown", "c: symptom", "d: maintenance", "e: warning", "f: critical"]
    assert read(page) == "Nodes 6 critical warning unknown symptom maintenance ok"
    assert "mosaic few" in page
    assert "mosaic few" not in mosaic([node(f"n{n}") for n in range(161)], [])
    assert "mosaic few" in mosaic([node(f"n{n}") for n in range(160)], [])
    many = mosaic([node(f"n{n:04d}") for n in range(1025)], [])
    assert many.count("<i ") == 513 + 1
    assert "n0000 to n0001: 2 of 2 ok" in many
    assert "one square: 2 nodes, worst state" in many
    assert mosaic([], []) == ""
    assert state_of(node("x", Presence.SLOW, maintenance="m"), None) == "maintenance"
    assert state_of(node("x", Presence.SLOW), Severity.INFO) == "unknown"


def test_small_pieces() -> None:
    assert read(moment(NOW - 90, NOW)) == "1 min ago"
    assert read(moment(NOW + 90, NOW, "until")) == "in 1 min"
    assert read(moment(NOW, NOW, "until")) == "now"
    assert moment(math.nan, NOW) == "unknown"
    assert '<rect class="a" x="0.00%" width="25.00%"' in bar((("a", 1), ("b", 0), ("c", 3)))
    assert '<rect class="c" x="25.00%" width="75.00%"' in bar((("a", 1), ("b", 0), ("c", 3)))
    assert 'class="b"' not in bar((("a", 1), ("b", 0)))
    assert "rect" not in bar((("a", 0),))
    assert 'href="component?kind=port&amp;node=host-007&amp;name=mlx5_3%2F1"' in component_link(PORT)
    assert read(component_link(PORT)) == "host-007/mlx5_3/1"
    assert read(component_link(PORT, "here")) == "here"
    assert component_link(ComponentId(Kind.NODE, "a", "")) == '<a href="node?name=a"><code>a</code></a>'


@pytest.mark.parametrize(
    ("name", "words"),
    [("module_rx_power_lane0", "Module Rx power lane 0"), ("rcv_errors", "Rx errors"), ("pcie_width", "PCIe width"),
     ("xmit", "Tx"), ("phy_tx", "Phy Tx"), ("gpu_nvlinks", "Gpu nvlinks".replace("Gpu", "GPU"))],
)  # fmt: skip
def test_the_name_of_a_column(name: str, words: str) -> None:
    assert column_title(name) == words


def test_optical_power_is_read_in_dbm_and_nothing_else_is_changed() -> None:
    assert as_shown("module_rx_power_lane0", "watts", 0.001) == (0.0, "dBm")
    assert as_shown("module_rx_power_lane0", "watts", 0.0005) == (-3.01, "dBm")
    assert as_shown("module_rx_power_lane0", "watts", 0.0) == (-40.0, "dBm")
    assert as_shown("gpu_power", "watts", 300.0) == (300.0, "watts")
    assert as_shown("module_temperature", "celsius", 50.0) == (50.0, "celsius")


def test_the_headline_needs_every_expected_node() -> None:
    partly = scene([node("a"), node("b", Presence.SLOW)])
    assert isinstance(partly, Scene)
    assert "8 ports on 1 of 2 nodes live, 8 ports stale" in read(fragment(partly, None, NOW))
