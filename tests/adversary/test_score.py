"""The scorer and its statistics against cases made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.adversary.classes import CLASSES, DEATH, FLAP, HARD
from fabricmon.adversary.draw import Draw
from fabricmon.adversary.fabrics import Fabric, SitePlan
from fabricmon.adversary.names import PartNames
from fabricmon.adversary.scene import Transit
from fabricmon.adversary.score import SeenVersion, SentMessage, busiest, classify, score
from fabricmon.adversary.statistics import calibration_error, percentile, reliability, wilson
from fabricmon.adversary.table import markdown
from fabricmon.adversary.truth import Cause, Truth
from fabricmon.model import Incident, Members, Severity
from fabricmon.sim.layout import Layout

LAYOUT = Layout.named("rail-optimised", units=2, hosts=8, rails=4, spines=2, storage=0, gpus=0)
FABRIC = Fabric("rail", LAYOUT, SitePlan((), (), (), (), (), 2, True, True))
NAMES = PartNames(FABRIC, Transit(FABRIC))
LEAF = tuple(LAYOUT.leaf_rows(LAYOUT.switch("su0/rail1")).tolist())


def _cause(sort: str, names: tuple[str, ...], rows: tuple[int, ...], **more: object) -> Cause:
    known: dict[str, object] = {
        "number": 0, "name": "x", "words": (), "by_hosts": False, "by_parts": False, "asked": False, "due": 460.0,
        "seen": 400.0,
    }  # fmt: skip
    return Cause(sort=sort, names=names, shown={f"p{row}": 400.0 for row in rows}, **(known | more))  # type: ignore[arg-type]


def _truth(*causes: Cause, **more: object) -> Truth:
    touched = frozenset(part for cause in causes for part in cause.shown)
    nothing = frozenset[str]()
    known: dict[str, object] = {
        "touched": touched, "silent": nothing, "odd": nothing, "fallen": nothing, "announced": nothing,
        "wrong_map": False,
    }  # fmt: skip
    return Truth(causes, NAMES, **(known | more))  # type: ignore[arg-type]


def _incident(component: str, rows: tuple[int, ...] = (), **more: object) -> Incident:
    known: dict[str, object] = {
        "id": component, "status": "firing", "severity": Severity.WARNING, "kind": "link_down", "since": 400.0,
        "confidence": 0.97, "title": "", "why": "", "action": "", "members": Members(len(rows), len(rows)),
        "parts": tuple(LAYOUT.port_name(row) for row in rows),
    }  # fmt: skip
    return Incident(component=component, **(known | more))  # type: ignore[arg-type]


def _sent(at: float, *incidents: Incident, reason: str = "new incident") -> SentMessage:
    return SentMessage(at, reason, incidents)


PORT = LAYOUT.port_name(5)
LINK = _cause("link", (f"link({PORT})", f"link({LAYOUT.link_name(5)})"), (5,))
MODULE = _cause("module", (), (0, 4), words=("module", "cage"), asked=True)
WHOLE = _cause("leaf", ("leaf(su0/rail1)",), LEAF, words=("leaf",))


@pytest.mark.parametrize("name", [PORT, LAYOUT.link_name(5)])
def test_a_link_is_named_by_either_form(name: str) -> None:
    assert classify(_truth(LINK), _incident(f"link({name})"), 410.0).what == "named"


def test_another_link_is_false_and_one_more_than_a_member_is_no_name() -> None:
    assert classify(_truth(LINK), _incident(f"link({LAYOUT.port_name(9)})"), 410.0).what == "false"
    assert classify(_truth(LINK), _incident("leaf(su0/rail1)", (5,)), 410.0).what == "fragment"


def test_a_group_is_named_by_its_word_and_members_only() -> None:
    truth = _truth(MODULE)
    assert classify(truth, _incident("module(leaf/1-2)", (0, 4)), 410.0).what == "named"
    assert classify(truth, _incident("module(leaf/1-2)", (0, 9)), 410.0).what != "named"
    assert classify(truth, _incident("mass_alarm", (0, 4), kind="mass_alarm"), 410.0).what == "listed"
    assert classify(truth, _incident(f"link({LAYOUT.port_name(0)})", (0,)), 410.0).what == "fragment"


def test_a_group_that_the_map_does_not_state_is_named_by_its_members() -> None:
    truth = _truth(_cause("bundle", (), LEAF, by_parts=True))
    assert classify(truth, _incident("unknown(common cause)", LEAF), 410.0).what == "named"
    assert classify(truth, _incident("unknown(common cause)", LEAF[:3]), 410.0).what == "fragment"


def test_a_group_of_which_too_few_members_showed_it_is_named_by_a_member() -> None:
    assert classify(_truth(_cause("quadrant", (), (5,))), _incident(f"link({PORT})", (5,)), 410.0).what == "named"


def test_a_group_with_mostly_healthy_members_is_too_broad() -> None:
    host = f"host({LAYOUT.hosts[0]})"
    found = classify(_truth(_cause("link", (f"link({LAYOUT.port_name(0)})",), (0,))), _incident(host, (0,)), 410.0)
    assert found.broad
    assert found.what == "fragment"


def test_members_beyond_those_that_an_incident_can_list_are_counted() -> None:
    layout = Layout.named("rail-optimised", units=1, hosts=100, rails=1, spines=1, storage=0, gpus=0)
    names = PartNames(Fabric("rail", layout, FABRIC.site), Transit(Fabric("rail", layout, FABRIC.site)))
    cause = _cause("batch", (), tuple(range(90)), words=("batch",))
    truth = Truth((cause,), names, frozenset(cause.shown), *(frozenset[str]() for _ in range(4)), False)
    parts = tuple(layout.port_name(row) for row in range(64))
    assert classify(truth, _incident("batch(x)", parts=parts, members=Members(90, 90)), 410.0).what == "named"
    assert classify(truth, _incident("batch(x)", parts=parts, members=Members(64, 64)), 410.0).what == "fragment"


def test_what_is_true_without_a_fault_is_not_false() -> None:
    silent = _truth(silent=frozenset({"h3"}))
    about = _incident(f"host({LAYOUT.hosts[3]})", kind="agent_silent", parts=(LAYOUT.hosts[3],))
    assert classify(silent, about, 100.0).what == "true"
    assert classify(_truth(), about, 100.0).what == "false"
    unreachable = _incident(f"host({LAYOUT.hosts[3]})", kind="host_unreachable", parts=(LAYOUT.hosts[3],))
    assert classify(silent, unreachable, 100.0).what == "false"
    assert classify(_truth(fallen=frozenset({"p5"})), _incident(f"link({PORT})", (5,)), 100.0).what == "true"
    wrong = _incident("fabric", kind="topology_mismatch")
    assert classify(_truth(wrong_map=True), wrong, 100.0).what == "true"
    assert classify(_truth(), wrong, 100.0).what == "false"


def test_found_needs_a_name_a_notification_and_time() -> None:
    incident = _incident(f"link({PORT})", (5,))
    version = SeenVersion(420.0, incident)

    def one(versions: list[SeenVersion], sent: list[SentMessage]) -> tuple[bool, bool, float | None]:
        found = score(_truth(LINK), versions, sent).causes[0]
        return found.found, found.late, found.delay

    assert one([version], [_sent(421.0, incident)]) == (True, False, 21.0)
    assert one([version], []) == (False, False, None)
    assert one([version], [_sent(470.0, incident)]) == (False, True, 70.0)
    info = _incident(f"link({PORT})", (5,), severity=Severity.INFO)
    assert one([SeenVersion(420.0, info)], [_sent(421.0, info)]) == (False, False, None)


def test_a_named_incident_that_was_notified_under_another_name_counts_from_its_naming() -> None:
    before = _incident(f"link({LAYOUT.port_name(LEAF[0])})", LEAF[:1], id="one")
    after = _incident("leaf(su0/rail1)", LEAF, id="one")
    versions = [SeenVersion(405.0, before), SeenVersion(430.0, after)]
    assert score(_truth(WHOLE), versions, [_sent(406.0, before)]).causes[0].delay == 30.0


def test_notifications_are_counted_by_cause_and_resolutions_in_the_burst_only() -> None:
    mine = [_incident(f"link({LAYOUT.port_name(row)})", (row,)) for row in LEAF[:4]]
    other = _incident(f"link({LAYOUT.port_name(60)})", (60,))
    sent = [_sent(405.0, *mine[:3]), _sent(410.0, mine[3]), _sent(411.0, other), _sent(500.0, *mine, reason="resolved")]
    found = score(_truth(WHOLE), [SeenVersion(404.0, incident) for incident in (*mine, other)], sent)
    assert found.causes[0].messages == 4
    assert found.other == 1
    assert found.burst == 4
    assert len(found.false) == 1
    assert len(found.wrong) == 1
    assert not found.causes[0].found


def test_the_busiest_five_minutes_slide() -> None:
    assert busiest([]) == 0
    assert busiest([SentMessage(at, "", ()) for at in (0.0, 250.0, 299.0, 301.0, 900.0)]) == 3


def test_calibration_leaves_out_lists_and_counts_fragments_as_wrong() -> None:
    named = _incident("module(a/1-2)", (0, 4), confidence=0.8, id="a")
    part = _incident(f"link({LAYOUT.port_name(0)})", (0,), confidence=0.95, id="b")
    listed = _incident("mass_alarm", (0, 4), kind="mass_alarm", id="c")
    found = score(_truth(MODULE), [SeenVersion(410.0, one) for one in (named, part, listed)], [])
    assert found.calibration == ((0.8, True), (0.95, False))
    assert (found.claims, found.false_claims) == (0, 0)


def test_a_false_claim_of_a_named_group_is_counted() -> None:
    found = score(_truth(LINK), [SeenVersion(410.0, _incident("module(a/1-2)", (5, 9)))], [])
    assert (found.claims, found.false_claims) == (1, 1)


def test_an_invisible_cause_is_not_required() -> None:
    hidden = _cause("link", (f"link({PORT})",), (), seen=math.inf, due=math.inf)
    found = score(_truth(hidden), [], []).causes[0]
    assert not found.visible
    assert not found.found


def test_limits_follow_the_sort_of_the_fault() -> None:
    by_name = {one.name: one.limit for one in CLASSES}
    assert by_name["dead host"] == DEATH == 30.0
    assert by_name["dead leaf"] == HARD
    assert by_name["module flap"] == FLAP
    assert len(by_name) == len(CLASSES)


@pytest.mark.parametrize(
    ("found", "of", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (95, 100, 0.8882, 0.9785)]
)
def test_wilson_intervals_are_those_of_the_literature(found: int, of: int, low: float, high: float) -> None:
    assert wilson(found, of) == pytest.approx((low, high), abs=1e-4)


def test_percentiles_and_calibration() -> None:
    assert percentile([1, 2, 3, 4], 0.5) == 2
    assert percentile([1, 2, 3, 4], 0.99) == 4
    assert math.isnan(percentile([], 0.5))
    pairs = [(0.95, True)] * 9 + [(0.95, False)] + [(0.15, False)] * 10
    assert calibration_error(pairs) == pytest.approx((0.05 * 10 + 0.15 * 10) / 20)
    assert [row[2:] for row in reliability(pairs) if row[2]] == [(10, 0), (10, 9)]


def test_draws_have_the_distributions_that_they_name() -> None:
    draw = Draw(3)
    found = np.log10([draw.log(1e-4, 1e2) for _ in range(4000)])
    assert np.histogram(found, 6, (-4, 2))[0].min() > 550
    assert {draw.number(1, 3) for _ in range(100)} == {1, 2, 3}
    assert len(set(draw.some(range(10), 4))) == 4
    assert Draw(3).of("a").uniform(0, 1) != Draw(3).of("b").uniform(0, 1)


def test_the_table_has_a_column_a_stress_and_a_row_a_class() -> None:
    incident = _incident(f"link({PORT})", (5,))
    base = score(_truth(LINK), [SeenVersion(420.0, incident)], [_sent(421.0, incident)], stress="")
    text = markdown([base, score(_truth(LINK), [], [], stress="stray")], "a command")
    assert "| measure | base | stray |" in text
    assert "| required found in time | 1.000 (0.207-1.000) of 1 | 0.000 (0.000-0.793) of 1 |" in text
    assert "a command" in text
