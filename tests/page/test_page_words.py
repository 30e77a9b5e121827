"""The page: its texts for good, bad and unknown, escaping, and valid HTML."""

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.documents.overview import overview, sentence
from fabricmon.central.page.document import document, fragment
from fabricmon.central.page.incident import incident_detail
from fabricmon.central.page.mosaic import MAX_CELLS, mosaic, state_of
from fabricmon.central.page.scene import ReceiverState, Scene, headline
from fabricmon.central.page.search_filter import Filter
from fabricmon.forms import readable, times
from fabricmon.model import Evidence, HistoryEntry, Members, Presence, RuledOut, Severity
from fabricmon.notify.acknowledge import acknowledgement
from fabricmon.notify.silence import silence
from tests.page.scenes import NOW, busy, calm, empty, incident, node

VOID = {"meta", "link", "img", "input", "br", "rect", "hr"}


class Tree(HTMLParser):
    """Fails on tags that do not match; collects words and attributes."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.text, self.tags, self.ids, self.attributes = [], "", [], [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.ids += [v for k, v in attributes if k == "id"]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.stack, tag
        assert self.stack.pop() == tag, tag

    def handle_data(self, data):
        self.text += data + " "


def scene(nodes, incidents=(), **more):
    return Scene(NOW, overview("lab", nodes, incidents, 0, NOW), nodes, list(incidents), **more)


@pytest.mark.parametrize(
    ("made", "state", "text"),
    [
        (empty(), "unknown", "No agents yet"),
        (calm(), "good", "OK"),
        (busy(), "critical", "1 critical incident · 2 warnings"),
        (scene([node("a", Presence.NEVER)]), "unknown", "No data: 0 of 1 node live"),
        (scene([node("a"), node("b", Presence.SLOW)]), "partly", "No open incidents; 1 node not reporting"),
        (scene([node("a")], [incident(status="resolved", resolved=NOW)]), "good", "OK"),
        (scene([node("a")], [incident(severity=Severity.INFO)]), "good", "OK"),
    ],
)
def test_the_headline(made, state, text):
    assert headline(made) == (state, text)


def test_a_node_that_does_not_report_is_never_shown_as_ok():
    for presence in Presence:
        if presence is not Presence.LIVE:
            assert headline(scene([node("a"), node("b", presence)]))[0] != "good"
            assert state_of(node("b", presence), None) == "unknown"


def detail(i, taken=None, silence=None):
    return incident_detail(i, i.history, taken, silence, NOW, lambda word: f"<code>{html.escape(word)}</code>")


def test_the_page_shows_open_incidents_silences_and_maintenance():
    text = Tree(document(busy())).text
    for word in ("leaf(su1/rail2)", "32 of 32", "confidence over 99%", "confidence 97%", "1 min ago",
                 "Check power and management", "3 downs, weighted by age 2.9", "silenced by mara", "host-011",
                 "no answer", "cable is ordered", "new firmware", "Resolved in the last hour",
                 "24 ports stale"):  # fmt: skip
        assert word in text, word


def test_an_incident_in_full_shows_evidence_for_and_against_it():
    ruled_out = (RuledOut("rail(su0/3)", "63 of its 64 members show no link down"),)
    text = Tree(detail(incident(candidates=("power(pdu-7)",), ruled_out=ruled_out))).text
    order = ("Link flaps", "Next step", "Reseat the cable", "Evidence", "half-life 900 s",
             "Evidence against", "31 of 31 other links are up", "Other possible causes",
             "power(pdu-7)", "Ruled out", "rail(su0/3)",
             "History", "third down within 300 s", "Labels", "rail=3")  # fmt: skip
    at = 0
    for word in order:
        assert word in text[at:], word
        at = text.index(word, at)


def test_an_acknowledgement_is_shown_and_can_be_removed():
    made = incident()
    taken = acknowledgement(made, NOW - 120, "jon", "cable is ordered")
    for shown in (fragment(scene([node("host-007")], [made], taken={made.id: taken})), detail(made, taken)):
        assert "acknowledged by jon" in shown
        assert "Link flaps" in shown
        assert f'data-withdraw="{made.id}"' in shown
        assert "data-acknowledge=" not in shown
        assert "silenced" not in shown
    assert "Acknowledged by jon, 2 min ago : cable is ordered" in " ".join(Tree(shown).text.split())
    without = fragment(scene([node("host-007")], [made])) + detail(made)
    assert "acknowledged" not in without
    assert "Acknowledged by" not in without
    assert without.count(f'data-acknowledge="{made.id}"') == 2


def test_a_silence_is_no_acknowledgement():
    made = incident()
    quiet = silence("s", [f"id={made.id}"], NOW - 1, NOW + 60, "mara", "")
    shown = fragment(scene([node("host-007")], [made], silences=[quiet]))
    assert "silenced by mara" in shown
    assert "acknowledged" not in shown
    assert f'data-acknowledge="{made.id}"' in shown
    both = detail(made, acknowledgement(made, NOW, "jon", ""), quiet)
    assert "acknowledged by jon" in both
    assert "silenced by mara" in both


def test_times_are_left_to_the_script_where_there_is_one():
    text = fragment(busy())
    assert "1 min ago" not in text
    assert 'data-form="ago"' in text
    assert text == fragment(busy())


@pytest.mark.parametrize(
    ("wanted", "found"),
    [(Filter(q="leaf"), 2), (Filter(q="LEAF su1"), 1), (Filter(severity="warning"), 3),
     (Filter(severity="critical"), 1), (Filter(kind="link_errors"), 1),
     (Filter(rail="3"), 3), (Filter(q="nothing"), 0), (Filter(), 4)],
)  # fmt: skip
def test_search(wanted, found):
    text = fragment(busy(), wanted)
    assert text.count("<article") == found
    assert ("No open incident matches" in text) is (found == 0)
    if wanted.on and found:
        assert f"{found} of 4" in text


def test_the_page_is_whole_and_runs_nothing_inline():
    made = Tree(document(busy()))
    assert len(made.ids) == len(set(made.ids))
    names = {name for name, _ in made.attributes}
    assert "style" not in names
    assert not any(name.startswith("on") for name in names)
    assert "style" not in made.tags
    links = [v for k, v in made.attributes if k in ("href", "src")]
    assert not any(re.match(r"[a-z]+:|//", link) for link in links), "the page needs nothing from elsewhere"


nasty = st.text(alphabet=st.sampled_from("<>&\"'/ab\n`"), min_size=1, max_size=30).map(lambda t: f"<script>{t}")


@given(nasty)
def test_words_from_outside_stay_words(text):
    bad = incident(
        id=text, kind=text, component=text, title=text, why=text, action=text, candidates=(text,), parts=(text, text),
        evidence=(Evidence(text, text, text),), labels={text: text}, history=(HistoryEntry(NOW, text, text),),
        members=Members(1, 2),
    )  # fmt: skip
    taken, quiet = acknowledgement(bad, NOW, text, text), silence("s", ["status=firing"], NOW - 1, NOW + 1, text, text)
    made = scene([node(text, detail=text), node(text + "x", Presence.SLOW, detail=text)], [bad], warnings=[text],
                 receivers=[ReceiverState(text, 1, text)], taken={bad.id: taken}, silences=[quiet])  # fmt: skip
    tree = Tree(fragment(made) + detail(bad, taken, quiet))
    assert "script" not in tree.tags
    assert all("<script" not in name for name, _ in tree.attributes)


def test_a_storm_stays_a_page():
    many = [incident(id=str(n), parts=("a/b",) * 64, evidence=(Evidence("a", "b"),) * 500) for n in range(3000)]
    nodes = [node(f"h{n:05d}", Presence.SLOW if n % 2 else Presence.LIVE) for n in range(10_000)]
    text = fragment(scene(nodes, many))
    assert len(text) < 2_000_000
    assert "1 to 100 of 3,000" in text
    assert len(fragment(scene(nodes, many), Filter(view="table", group="domain"))) < 2_000_000
    assert "and 4,900 more" in text
    assert text.count("<i ") < MAX_CELLS + 10


def test_a_square_of_many_nodes_shows_the_worst():
    nodes = [node(f"h{n:05d}") for n in range(MAX_CELLS * 2)]
    text = mosaic(nodes, [incident(severity=Severity.CRITICAL, parts=("h00003/mlx5_0/1",))])
    assert 'class="critical" title="h00002 to h00003: 1 of 2 critical"' in text
    assert text.count('class="critical"') == 2  # the square and the legend


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (7500, "2 h 5 min"),
     (90000, "1 d 1 h"), (-5, "0 s")],
)  # fmt: skip
def test_spans(seconds, text):
    assert times.span(seconds) == text


def test_a_line_for_a_status():
    assert sentence(busy().overview) == "61 of 64 nodes live, 488 ports; 1 critical, 2 warning, 1 info"
    assert sentence(empty().overview) == "no agents known"
    assert times.clock_time(float("nan")) == "unknown"
    assert readable.certainty(0.9999) == "over 99%"
