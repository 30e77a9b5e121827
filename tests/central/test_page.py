"""The page: what it says of good, bad and unknown, that nothing escapes its place, and that a browser can show it."""

import re
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central import page, words
from fabricmon.central.mosaic import MAX_CELLS, mosaic, state_of
from fabricmon.central.overview import overview, sentence
from fabricmon.model import Evidence, HistoryEntry, Members, Presence, Severity
from tests.central.scenes import NOW, busy, calm, empty, incident, node

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
    return page.Scene(NOW, overview("lab", nodes, incidents, 0, NOW), nodes, list(incidents), **more)


@pytest.mark.parametrize(
    ("made", "state", "text"),
    [
        (empty(), "unknown", "No agents yet"),
        (calm(), "good", "All well"),
        (busy(), "critical", "1 critical incident · 2 warnings"),
        (scene([node("a", Presence.NEVER)]), "unknown", "Nothing seen: none of 1 node is live"),
        (scene([node("a"), node("b", Presence.SLOW)]), "partly", "No open problem on what is seen; 1 node not seen"),
        (scene([node("a")], [incident(status="resolved", resolved=NOW)]), "good", "All well"),
        (scene([node("a")], [incident(severity=Severity.INFO)]), "good", "All well"),
    ],
)
def test_what_somebody_across_the_room_reads(made, state, text):
    assert page.headline(made) == (state, text)


def test_silence_is_never_shown_as_good():
    for presence in Presence:
        if presence is not Presence.LIVE:
            assert page.headline(scene([node("a"), node("b", presence)]))[0] != "good"
            assert state_of(node("b", presence), None) == "silent"


def test_the_page_says_everything_about_an_incident():
    text = Tree(page.document(busy())).text
    for word in ("leaf(su1/rail2)", "32 of 32", "over 99% sure", "97% sure", "1 min ago", "Check power and management",
                 "3 downs, penalty 2941 > 2000", "half-life 900 s", "power(pdu-7)", "host-063/mlx5_2/1",
                 "17 of 32 links down", "silenced", "host-011", "no answer", "cable is ordered",
                 "new firmware", "Resolved within the hour", "24 ports silent"):  # fmt: skip
        assert word in text, word


def test_the_page_is_whole_and_runs_nothing_inline():
    made = Tree(page.document(busy()))
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
    made = scene([node(text, detail=text), node(text + "x", Presence.SLOW, detail=text)], [bad], warnings=[text],
                 receivers=[page.Receiver(text, 1, text)])  # fmt: skip
    tree = Tree(page.fragment(made))
    assert "script" not in tree.tags
    assert all("<script" not in name for name, _ in tree.attributes)


def test_a_storm_stays_a_page():
    many = [incident(id=str(n), parts=("a/b",) * 64, evidence=(Evidence("a", "b"),) * 500) for n in range(3000)]
    nodes = [node(f"h{n:05d}", Presence.SLOW if n % 2 else Presence.LIVE) for n in range(10_000)]
    text = page.fragment(scene(nodes, many))
    assert len(text) < 2_000_000
    assert "and 2,900 more" in text
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
    assert words.span(seconds) == text


def test_a_line_for_a_status():
    assert sentence(busy().overview) == "61 of 64 nodes live, 488 ports; 1 critical, 2 warning, 1 info"
    assert sentence(empty().overview) == "no agents known"
    assert words.clock_time(float("nan")) == "unknown"
    assert words.certainty(0.9999) == "over 99%"


def test_a_browser_shows_it(require, tmp_path):
    chromium = require("chromium", "shows the status page")
    shown = tmp_path / "page.html"
    shown.write_text(page.document(busy()))
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
               f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", shown.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert "1 critical incident" in done.stdout
    assert done.stdout.count("<article") == 4


test_a_browser_shows_it = pytest.mark.peer(test_a_browser_shows_it)
