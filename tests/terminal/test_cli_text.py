"""What stands on a terminal fits it, and nothing that others named steers it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.terminal import incidents, status, table
from fabricmon.terminal.fitted_text import bare, clean, clip, cut, pad, width, wrapped
from fabricmon.terminal.keys import keys
from fabricmon.terminal.style import Style, TextView, wanted
from fabricmon.terminal.table import Cell, Column
from fabricmon.terminal.top import Data, TopState, follow, lines, press
from fabricmon.terminal.values import bar, share, since

PLAIN = Style(False)
SHOWN = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Mn", "Me", "Cf"))
WORDS = st.text(SHOWN, max_size=60)


@settings(max_examples=40)
@given(st.text(max_size=80))
def test_control_characters_never_reach_the_terminal(text):
    assert "\x1b" not in clean(text)
    assert clean(text).isprintable()


@settings(max_examples=40)
@given(WORDS, st.integers(1, 40))
def test_a_cut_text_is_no_wider_than_asked_and_padding_is_exact(text, columns):
    assert width(clip(clean(text), columns)) <= columns
    assert width(pad(clean(text), columns)) == columns


@settings(max_examples=40)
@given(st.lists(WORDS, max_size=20), st.integers(8, 40))
def test_wrapped_lines_fit_and_lose_no_letter(words, columns):
    text = clean(" ".join(words))
    found = list(wrapped(text, columns))
    assert all(width(line) <= columns for line in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@settings(max_examples=40)
@given(st.lists(st.lists(WORDS, min_size=4, max_size=4), max_size=6), st.integers(20, 120), st.booleans())
def test_a_table_fits_the_terminal_whatever_stands_in_it(rows, columns, colour):
    shape = (Column("ONE", 4), Column("TWO", right=True, drop=1), Column("THREE", least=6, drop=2), Column("FOUR", 5))
    cells = [[Cell(clean(word), "critical") for word in row] for row in rows]
    for line in table.lines(shape, cells, Style(colour), columns):
        assert width(bare(line)) <= columns


def test_columns_shrink_before_one_is_left_out_and_the_least_wanted_goes_first():
    shape = (Column("NAME", least=4), Column("NOTE", least=4, drop=1), Column("MORE", drop=2))
    rows = [[Cell("abcdefgh"), Cell("12345678"), Cell("MMMM")]]
    assert next(line.split() for line in table.lines(shape, rows, PLAIN, 18)) == ["NAME", "NOTE", "MORE"]
    assert next(line.split() for line in table.lines(shape, rows, PLAIN, 12)) == ["NAME", "NOTE"]
    assert [line.split() for line in table.lines(shape, rows, PLAIN, 5)] == [["NAME"], ["abcd…"]]
    assert list(table.lines(shape, rows, PLAIN)) == ["NAME      NOTE      MORE", "abcdefgh  12345678  MMMM"]


@pytest.mark.parametrize(
    ("choice", "terminal", "environment", "colour"),
    [
        ("auto", True, {"TERM": "xterm"}, True),
        ("auto", False, {"TERM": "xterm"}, False),
        ("auto", True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"TERM": "xterm"}, False),
    ],
)
def test_when_there_is_colour(choice, terminal, environment, colour):
    assert wanted(choice, terminal, environment) is colour


def test_what_is_unknown_is_not_zero():
    assert (share(None), share(0.0), share(0.001), share(0.5)) == ("?", "0%", "<1%", "50%")
    assert bar(None, 4) == "····"
    assert bar(0.0, 4) == "    "
    assert bar(1.7, 4) == "████"
    assert since(None, 5.0) == since("no time", 5.0) == "?"


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[5~j\r", ["page up", "j", "enter"]),
        (b"\x1b[15;2~x", ["x"]),
        (b"\xff\x00", []),
    ],
)
def test_keys_by_what_terminals_send(typed, names):
    assert keys(typed) == names


@settings(max_examples=40)
@given(st.binary(max_size=40))
def test_any_bytes_are_keys_or_nothing(typed):
    assert all(isinstance(key, str) for key in keys(typed))


# --------------------------------------------------------------------------------------------------------


def overview(**given):
    nodes = dict.fromkeys(("slow", "refused", "unreachable", "cloned", "incompatible", "never"), 0)
    base = {
        "at": "2027-01-15T08:00:00Z", "evaluated": "2027-01-15T08:00:00Z", "fabric": "east", "version": "1",
        "nodes": {"live": 4, **nodes}, "firing": {"info": 0, "warning": 0, "critical": 0},
        "ports": 32, "ports_silent": 0, "gpus": 0, "resolved": 0, "maintenance": 0,
    }  # fmt: skip
    for name, value in given.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) else value
    return base


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({}, "pass"),
        ({"firing": {"info": 3}}, "pass"),
        ({"firing": {"warning": 1}}, "warning"),
        ({"firing": {"warning": 1, "critical": 1}, "nodes": {"live": 0}}, "critical"),
        ({"nodes": {"live": 0, "refused": 4}}, "unknown"),
        ({"nodes": {"live": 0}}, "unknown"),
        ({"nodes": {"unreachable": 1}}, "unknown"),
        ({"evaluated": None}, "unknown"),
        ({"evaluated": "2027-01-15T07:59:00Z"}, "unknown"),
        ({"nodes": {"unreachable": 1}, "firing": {"warning": 1}}, "warning"),
    ],
)
def test_the_verdict_on_a_fleet_is_a_pass_only_when_all_is_known(said, word):
    assert status.verdict(overview(**said))[0] == word


def test_silent_nodes_that_are_allowed_do_not_make_it_unknown():
    said = overview(nodes={"unreachable": 2})
    assert status.verdict(said, 2)[0] == "pass"
    assert status.verdict(said, 1)[0] == "unknown"


# --------------------------------------------------------------------------------------------------------


def incident(id, **given):
    return {"id": id, "status": "firing", "severity": "warning", "title": f"Fault {id}", "component": f"link({id})",
            "members": {"bad": 1, "of": 1}, **given}  # fmt: skip


OPEN = [incident("aaaa1"), incident("bbbb2"), incident("cccc3")]
DATA = Data(overview=overview(firing={"warning": 3}), incidents=OPEN, at=1.0, where="http://server")


def pressed(*names, state=None, data=DATA):
    state = state or TopState()
    for name in names:
        state = press(state, name, data, 24)
    return state


def test_arrows_choose_within_the_list_and_the_choice_follows_its_incident():
    assert pressed("up").chosen == 0
    assert pressed("down", "down", "down").chosen == 2
    chosen = pressed("down")
    assert chosen.chosen_id == "bbbb2"
    later = Data(overview=DATA.overview, incidents=[incident("dddd4"), *DATA.incidents])
    assert follow(chosen, later).chosen == 2
    gone = Data(overview=DATA.overview, incidents=[incident("aaaa1")])
    assert follow(chosen, gone).chosen_id == "aaaa1"


def test_enter_explains_and_escape_goes_back_q_ends_only_from_the_list():
    deep = pressed("down", "enter")
    assert (deep.page, deep.chosen_id) == ("explain", "bbbb2")
    assert pressed("q", state=deep).page == "list"
    assert not pressed("q", state=deep).done
    assert pressed("q").done
    assert pressed("interrupt", state=deep).done
    assert pressed("enter", data=Data(overview=overview())).page == "list"


@settings(max_examples=40)
@given(st.integers(10, 200), st.integers(3, 60), st.sampled_from(["list", "explain", "keys"]))
def test_every_screen_fits_every_terminal(columns, height, page):
    state = TopState(chosen_id="aaaa1", page=page)
    ports = [{"node": "n", "port": "mlx5_0/1", "rate": 5e10, "receive_ratio": 0.5}] * 9
    rails = [{"name": "r", "receive_ratio": None, "known": 0, "ports": 3}] * 5
    explained = incident("aaaa1", why="word " * 80)
    data = Data(DATA.overview, OPEN, ports=ports, rails=rails, incident=explained, at=1.0)
    shown, _ = lines(state, data, TextView(Style(True), columns, 1.0), height, 1.0)
    assert len(shown) <= height
    assert all(width(bare(line)) <= columns for line in shown)


@settings(max_examples=40)
@given(st.lists(st.tuples(WORDS, st.sampled_from(["critical", "faint", ""])), max_size=8), st.integers(1, 60))
def test_a_line_with_colours_is_cut_by_what_is_seen_of_it(parts, columns):
    line = "".join(Style(True)(clean(text), manner) for text, manner in parts)
    found = cut(line, columns)
    assert width(bare(found)) <= max(columns, 2)
    assert "".join(clean(text) for text, _ in parts).startswith(bare(found))


def test_a_server_that_does_not_answer_is_reported_and_nothing_is_taken_for_new():
    data = Data(overview=DATA.overview, incidents=DATA.incidents, at=1.0, error="no answer from it", lost=100.0)
    shown = "\n".join(lines(TopState(), data, TextView(PLAIN, 100, 1.0), 24, 160.0)[0])
    assert "UNKNOWN" in shown
    assert "no answer for 1 min, the data below is stale" in shown


def test_ids_are_shortened_as_far_as_they_stay_apart():
    found = incidents.short_ids([{"id": "abcd1111"}, {"id": "abcd2222"}, {"id": "ffff0000"}])
    assert found == {"abcd1111": "abcd1", "abcd2222": "abcd2", "ffff0000": "ffff0"}
