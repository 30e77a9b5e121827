"""The program as a person starts it, against a real server on loopback."""

import json
import re
import subprocess
import sys

import pytest

from fabricmon import cli
from fabricmon.commands.incidents import moment
from fabricmon.commands.table import COMMANDS, groups, module_of
from tests.terminal.documented import PAGE, page, run
from tests.terminal.stand_in import StandIn


def test_the_document_shows_what_the_commands_print_today(server):
    assert page(server.url) == PAGE.read_text(), "run `python -m tests.terminal`"


def test_status_says_it_by_its_exit_code_too(server):
    done = run(server.url, "status", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["status"]) == (2, "critical")
    assert [node["node"] for node in said["silent"]] == ["host-014"]
    assert [incident["severity"] for incident in said["incidents"]] == ["critical", "warning", "warning"]
    assert set(said) == {"status", "reason", "age", "server", "overview", "incidents", "silent"}


def test_into_a_pipe_nothing_is_cut_off_and_nothing_is_coloured(server):
    said = run(server.url, "incidents").stdout
    assert "link(host-011/mlx5_2/1, su1-rail2-leaf/4)" in said
    assert "\x1b" not in said
    assert "\x1b[" in run(server.url, "incidents", "--colour", "always").stdout


def test_incidents_are_chosen_by_severity_kind_and_host(server):
    def ids(*words):
        return [i["kind"] for i in json.loads(run(server.url, "incidents", "--json", *words).stdout)["incidents"]]

    assert ids("--severity", "warning") == ["fault_domain", "agent_silent", "link_flapping"]
    assert ids("--kind", "agent_silent") == ["agent_silent"]
    assert ids("--host", "host-003") == ["fault_domain"]
    assert ids("--since", "2100-01-01T00:00:00Z") == []


def test_an_incident_by_the_beginning_of_its_id(server):
    every = json.loads(run(server.url, "incidents", "--json").stdout)["incidents"]
    leaf = every[0]
    told = json.loads(run(server.url, "explain", leaf["id"][:5], "--json").stdout)
    assert told["id"] == leaf["id"]
    assert told["ruled_out"][0]["component"] == "8 separate faults"
    none = run(server.url, "explain", "zzzz")
    assert (none.returncode, none.stdout) == (1, "")
    assert "no incident id starts with 'zzzz'" in none.stderr
    which = run(server.url, "explain")
    assert which.returncode == 1
    assert all(incident["id"][:4] in which.stderr for incident in every)


def test_an_incident_is_acknowledged_by_the_id_that_tables_print(server):
    listed = run(server.url, "incidents").stdout.splitlines()[1]
    short = listed.split()[1]
    assert len(short) == 4
    done = run(server.url, "acknowledge", short, "--comment", "ordered")
    assert done.returncode == 0, done.stderr
    assert "acknowledged by" in done.stdout
    none = run(server.url, "acknowledge", "zzzz", short)
    assert (none.returncode, none.stdout) == (1, "")
    assert "no incident id starts with 'zzzz'" in none.stderr
    assert "acknowledgement removed" in run(server.url, "acknowledge", short, "--withdraw").stdout


def test_a_prefix_of_several_ids_is_refused_with_them(capsys):
    both = {"incidents": [{"id": "ab12"}, {"id": "ab34"}], "total": 2}
    with StandIn({"/incidents": both}) as there:
        assert cli.main(["acknowledge", "ab", "--server", there.url]) == 1
    assert "'ab' is the start of several ids: ab12, ab34; give more characters" in capsys.readouterr().err


def test_a_node_by_the_address_that_the_configuration_calls_it(capsys):
    node = {"node": "gpu-7", "presence": "live", "since": "2026-01-31T12:00:00Z"}
    answers = {
        "/nodes": {"nodes": [node], "total": 1},
        "/targets": [{"targets": ["localhost:9790"], "labels": {"instance": "gpu-7"}}],
        **{f"/{name}": {name: [], "total": 0} for name in ("incidents", "symptoms", "ports", "jobs")},
    }
    with StandIn(answers) as there:
        for name in ("localhost", "localhost:9790", "gpu-7"):
            assert cli.main(["nodes", name, "--server", there.url]) == 0
            assert capsys.readouterr().out.startswith("gpu-7  live")
        assert cli.main(["nodes", "local", "--server", there.url]) == 1


def test_a_silence_for_a_name_that_is_not_there_is_refused(server):
    done = run(server.url, "silence", "add", "node=host-0O3", "--for", "1h")
    assert (done.returncode, done.stdout) == (1, "")
    assert "'host-0O3' is no known node; did you mean 'host-0" in done.stderr
    window = run(server.url, "maintenance", "add", "--host", "hots-*", "--for", "1h")
    assert "'hots-*' is no known node" in window.stderr
    assert run(server.url, "silence", "list").stdout == "no silences\n"


def test_times_since_which_incidents_are_listed():
    noon = 1_790_000_000.0 // 86400 * 86400 + 43200
    assert [float(moment(text, noon)) - noon for text in ("yesterday", "today", "2h", "1w")] == [
        -129600, -43200, -7200, -604800,
    ]  # fmt: skip
    assert moment("2026-01-31T12:00:00Z", noon) == "2026-01-31T12:00:00Z"


def test_a_node_that_is_not_there_is_reported_with_those_that_sound_like_it(server):
    done = run(server.url, "nodes", "host-00")
    assert done.returncode == 1
    assert "did you mean host-000, host-001" in done.stderr


def test_the_topology_of_the_server_is_reported_as_that_of_a_file(server):
    said = json.loads(run(server.url, "topology", "--json").stdout)
    assert said["summary"]["hosts"] == 16
    assert said["summary"]["units"]["su0"]["rails"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert run(server.url, "topology", "show", "--strict").returncode == 0


def test_top_once_and_where_no_terminal_is(server):
    said = run(server.url, "top").stdout
    assert "su0/1" in said
    assert "PORTS by utilisation" in said
    found = json.loads(run(server.url, "top", "--json", "--sort", "waiting").stdout)
    assert set(found) == {"overview", "incidents", "silent", "rails", "ports"}
    waits = [port["waiting_ratio"] for port in found["ports"] if port["waiting_ratio"] is not None]
    assert waits == sorted(waits, reverse=True)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1", "no answer from the server at http://127.0.0.1:1"),
        ("ftp://server", "ftp://server is not an address of a server"),
        ("server:x", "is not an address of a server"),
    ],
)
@pytest.mark.parametrize("verb", ["status", "incidents", "explain", "nodes", "top", "topology", "silence list"])
def test_a_server_that_cannot_be_asked_is_one_line_that_says_what_to_do(verb, url, why, capsys):
    code = cli.main([*verb.split(), "--server", url])
    said = capsys.readouterr()
    assert code == {"status": 3, "topology": 2}.get(verb, 1)
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"fabricmon {verb.split()[0]}: ")
    assert why in said.err


def test_a_token_that_is_needed_is_asked_for_and_taken_from_its_file(server, tmp_path):
    server.token = "s3cret"
    try:
        refused = run(server.url, "status")
        assert refused.returncode == 3
        assert "--token-file" in refused.stderr
        (tmp_path / "token").write_text("s3cret\n")
        assert run(server.url, "status", FABRICMON_TOKEN_FILE=str(tmp_path / "token")).returncode == 2
        missing = run(server.url, "status", "--token-file", str(tmp_path / "none"))
        assert str(tmp_path / "none") in missing.stderr
    finally:
        server.token = ""


def test_words_for_completion_are_given_or_nothing_at_all(server):
    said = run(server.url, "completion", "ids").stdout.splitlines()
    assert "\tLeaf su0/rail1 is down: 8 of 8 links" in "".join(said)
    assert run(server.url, "completion", "nodes").stdout.startswith("host-000\tlive\n")
    silent = run("http://127.0.0.1:1", "completion", "ids")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")


def test_every_command_has_examples_and_a_place_in_the_help(server):
    assert sorted(verb for _, verbs in groups() for verb in verbs) == sorted(COMMANDS)
    for verb in COMMANDS:
        examples = module_of(verb).EXAMPLES.splitlines()
        assert examples
        assert any(re.search(rf"\bfabricmon {verb}\b", line) for line in examples), verb
    said = run(server.url, "--help").stdout
    assert all(f"  {verb} " in said for verb in COMMANDS)


HEAVY = {"msgspec", "numpy", "aiohttp", "yaml", "structlog", "prometheus_client", "dataclasses", "fabricmon.config"}


@pytest.mark.parametrize("words", [["--help"], ["status"], ["explain", "a36b"], ["nodes"], ["completion", "ids"]])
def test_what_a_person_waits_for_imports_only_what_it_needs(server, words):
    code = f"""
import contextlib, io, os, sys
os.environ["FABRICMON_SERVER"] = {server.url!r}
from fabricmon.cli import main
try:
    with contextlib.redirect_stdout(io.StringIO()):
        code = main({words!r})
except SystemExit as end:
    code = end.code
print(*sys.modules)
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == (2 if words == ["status"] else 0), done.stderr
    assert HEAVY & set(done.stdout.split()) == set()


def test_a_command_that_is_none_gets_the_nearest_one():
    done = run("", "stauts")
    assert done.returncode == 2
    assert "did you mean status?" in done.stderr
