"""What nodes, switches, recordings and receivers say of themselves does not steer the terminal it is shown on."""

import json
import urllib.parse
import urllib.request

import pytest

from fabricmon import cli
from fabricmon.console.progress import Progress
from fabricmon.demo import Demo, EventResult
from fabricmon.fabric.subnet import At
from fabricmon.notify.route import Receiver
from fabricmon.sim.shapes import rail_fabric
from tests.fabric.played import Played
from tests.replay import made
from tests.terminal.stand_in import API, StandIn

NASTY = "\x1b[2J\x9b31m\u202e\r\n"
"""Clears the screen, colours it, turns it round and begins a line."""
KEPT = ("status", "presence", "severity", "since", "updated", "at", "evaluated", "resolved", "last_frame", "kind")
"""Fields whose words decide what is shown, and times."""
SCENARIO = """
name: "east\\e[2J"
about: A cable is pulled.
fabric: {shape: rail-optimised, sizes: {units: 1, hosts: 2, rails: 2, spines: 1}}
duration: 30s
expect: {required: [{kind: link_down, component: "link(a\\e[2J)", by: 10s}]}
"""


def nasty(document, key=""):
    """The same with NASTY behind every text."""
    if isinstance(document, dict):
        return {name: nasty(value, name) for name, value in document.items()}
    if isinstance(document, list):
        return [nasty(value, key) for value in document]
    return document + NASTY if isinstance(document, str) and key not in KEPT else document


def shown(capsys):
    """What a command printed: lines without control characters, at least one with what is left of NASTY."""
    said = "".join(capsys.readouterr())
    assert [line for line in said.split("\n") if not line.replace("\t", "").isprintable()] == []
    assert "[2J" in said
    return said


@pytest.fixture
def hostile(server):
    """A server that says what the fixed one does, with NASTY in all of it; `id` is that of an incident."""

    def asked(path):
        with urllib.request.urlopen(server.url + API + path, timeout=120) as answer:
            return json.load(answer)

    paths = ("/overview", "/incidents", "/nodes", "/symptoms", "/ports", "/rails", "/jobs", "/topology")
    answers = {path: nasty(asked(path)) for path in paths}
    id = asked("/incidents")["incidents"][0]["id"]
    answers[f"/incidents/{urllib.parse.quote(id + NASTY, safe='')}"] = nasty(asked(f"/incidents/{id}"))
    with StandIn(answers) as found:
        found.id = id + NASTY
        yield found


@pytest.mark.parametrize(
    "words",
    ["status", "incidents", "incidents --long", "nodes", "nodes --silent", "nodes NODE", "nodes host-00", "top --once",
     "explain ID", "explain a", "topology"],
)  # fmt: skip
def test_of_a_server(words, hostile, capsys):
    meant = {"NODE": f"host-014{NASTY}", "ID": hostile.id}
    cli.main([*(meant.get(word, word) for word in words.split()), "--server", hostile.url])
    shown(capsys)


@pytest.mark.parametrize("verb", ["incidents", "nodes", "topology"])
def test_of_a_server_that_refuses(verb, capsys):
    with StandIn({}, (403, {"error": NASTY})) as server:
        assert cli.main([verb, "--server", server.url]) > 0
    assert shown(capsys).count("\n") == 1


@pytest.mark.parametrize("form", [[], ["--ibnetdiscover"]])
def test_of_a_fabric_that_is_swept(form, monkeypatch, tmp_path, capsys):
    graph = rail_fabric(nodes=2, rails=1, unit=2, spines=1)
    played = Played(graph)
    for at in played.far:
        played.counters[At(at.node, at.port)] = {"symbol_error": 7}
    names = "".join(f'{switch} "leaf\x1b[2J-{n}"\n' for n, switch in enumerate(graph.switches))
    (tmp_path / "names").write_text(names)
    monkeypatch.setattr("fabricmon.host.umad.open_port", lambda *_: played)
    assert cli.main(["fabric", "--node-names", str(tmp_path / "names"), *form]) == 0
    if form:
        assert capsys.readouterr().out.count("\nSwitch\t") == 2
    else:
        assert "leaf [2J-0" in shown(capsys)


def test_of_a_file_of_names(tmp_path, capsys):
    missing = tmp_path / "names\x1b[2J"
    assert cli.main(["fabric", "--node-names", str(missing)]) == 1
    shown(capsys)


def test_of_a_recording(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(made, "RECEIVERS", (Receiver(f"operations{NASTY}"),))
    made.recorded(tmp_path / "recording", made.bad_morning)
    (tmp_path / "other.yaml").write_text("rules: {link_down: {hold: 9s}}")
    assert cli.main(["replay", str(tmp_path / "recording"), "--config", str(tmp_path / "other.yaml")]) == 0
    shown(capsys)
    assert cli.main(["replay", str(tmp_path / "none\x1b[2J")]) == 2
    shown(capsys)


def test_of_a_scenario(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(SCENARIO)
    assert cli.main(["scenario", "run", "--verbose", str(tmp_path / "a.yaml")]) == 1
    shown(capsys)
    assert cli.main(["scenario", "run", str(tmp_path / "none\x1b[2J.yaml")]) == 2
    shown(capsys)


def test_of_a_receiver(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("fabricmon.commands.notify.PAUSE", 0.0)
    with StandIn({}, (400, f"go{NASTY}")) as receiver:
        senders = {"ops": {"kind": "webhook", "url": receiver.url}}
        (tmp_path / "central.yaml").write_text(json.dumps({"senders": senders}))
        assert cli.main(["notify", "test", "--config", str(tmp_path / "central.yaml")]) == 1
    shown(capsys)


def test_of_a_demo(monkeypatch, capsys):
    async def played(self):
        self._output(f"CRITICAL{NASTY}")
        return [EventResult("UNEXPECTED", "link_down", f"link(a{NASTY})")]

    monkeypatch.setattr(Demo, "run", played)
    assert cli.main(["demo", "--once", "--listen", "127.0.0.1:0"]) == 1
    assert shown(capsys).count("[2J") == 2


def test_of_what_goes_on(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress(0.0) as progress:
        progress.show(f"running{NASTY}")
        said = capsys.readouterr().err
    assert said.removeprefix("\r\x1b[K") == "running [2J 31m   "
