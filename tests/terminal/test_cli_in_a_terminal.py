"""In a real pseudo-terminal: what a person sees, and what keys do."""

import sys

import pytest

from fabricmon.terminal.fitted_text import width
from tests.rigs.daemons import FABRICMON
from tests.terminal.ptys import Terminal


def colours(terminal):
    cells = (cell for row in terminal.screen.buffer.values() for cell in row.values())
    return {cell.fg for cell in cells} - {"default"}


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("verb", ["status", "incidents", "explain a36b", "nodes host-011", "nodes"])
def test_every_line_fits_and_the_worst_is_red(server, verb, columns):
    with Terminal([*FABRICMON, *verb.split()], columns, 60, FABRICMON_SERVER=server.url) as terminal:
        assert terminal.end() == (2 if verb == "status" else 0)
        assert max(width(line) for line in terminal.shown.splitlines()) <= columns
        assert ("red" in colours(terminal)) == ("nodes" not in verb)
        # a line that is too long would have gone on in the next one
        assert terminal.sent.count(b"\n") == len(terminal.shown.rstrip().splitlines())


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(server, environment):
    with Terminal([*FABRICMON, "status"], FABRICMON_SERVER=server.url, **environment) as terminal:
        terminal.end()
        assert "CRITICAL" in terminal.shown
        assert b"\x1b[" not in terminal.sent


def test_top_chooses_explains_scrolls_and_gives_the_terminal_back(server):
    with Terminal([*FABRICMON, "top"], 80, 24, FABRICMON_SERVER=server.url) as terminal:
        terminal.wait_for("> critical")
        terminal.type("j")
        terminal.wait_for("> warning")
        terminal.type("j\r")
        terminal.wait_for("Take the link out of service")
        assert "RULED OUT" not in terminal.shown
        terminal.type("\x1b[6~" * 9)  # to the end of the text, however long
        terminal.wait_for("RULED OUT")
        terminal.type("\x1b")
        terminal.wait_for("> warning")
        terminal.type("\x1b[A\x1b[A")
        terminal.wait_for("> critical")
        terminal.type("ss")
        terminal.wait_for("PORTS by PFC pause sent")
        terminal.type("?")
        terminal.wait_for("sort the ports")
        terminal.type("q")
        terminal.wait_for("> critical")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.sent.endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l")


def test_top_follows_the_size_of_the_terminal(server):
    with Terminal([*FABRICMON, "top"], 80, 24, FABRICMON_SERVER=server.url) as terminal:
        terminal.wait_for("q quit")
        terminal.resize(140, 40)
        # side by side now, and the last line has the keys
        terminal.wait_for(lambda shown: any("RAIL " in x and "PORTS" in x for x in shown.split("\n")))
        terminal.wait_for(lambda shown: shown.split("\n")[39].startswith("q quit"))
        terminal.resize(50, 12)
        terminal.wait_for(lambda shown: shown.startswith("CRITICAL") and shown.split("\n")[11].startswith("q quit"))
        terminal.type("\x03")
        assert terminal.end() in (0, 130)


def test_top_goes_on_when_the_server_refuses_for_a_while(server):
    with Terminal([*FABRICMON, "top", "--interval", "0.5"], 100, 30, FABRICMON_SERVER=server.url) as terminal:
        terminal.wait_for("CRITICAL")
        server.token = "changed"
        try:
            terminal.wait_for("the data below is stale")
            assert "--token-file" in terminal.shown
            assert "link(host-011/mlx5_2/1" in terminal.shown
        finally:
            server.token = ""
        terminal.wait_for("CRITICAL")
        terminal.type("q")
        assert terminal.end() == 0


def test_incidents_are_followed_until_ctrl_c(server):
    with Terminal([*FABRICMON, "incidents", "--watch"], 140, 24, FABRICMON_SERVER=server.url) as terminal:
        terminal.wait_for("Link flapping")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown


LONG = """
import pathlib, sys, time
from fabricmon.console.progress import elapsed
with elapsed("walking the fabric"):
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.02)
print("done")
"""


def test_what_takes_long_says_so_on_standard_error_and_takes_it_away_again(tmp_path):
    with Terminal([sys.executable, "-c", LONG, tmp_path / "end"]) as terminal:
        terminal.wait_for("walking the fabric, ")
        (tmp_path / "end").touch()
        assert terminal.end() == 0
        assert "done" in terminal.shown
        assert "walking" not in terminal.shown


def test_a_names_control_characters_do_not_steer_the_terminal(server):
    with Terminal([*FABRICMON, "nodes", "\x1b[2Jevil"], FABRICMON_SERVER=server.url) as terminal:
        assert terminal.end() == 1
        assert b"\x1b[2J" not in terminal.sent
