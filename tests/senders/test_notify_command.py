"""`fabricmon notify`: what it sends, what it says of the answers, and what it never says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fabricmon import cli
from fabricmon.notify.message_fields import FIELDS

KEY = "0123456789abcdef0123456789SECRET"


class Receiver:
    """Answers every POST with `status`, and keeps what it got."""

    def __init__(self) -> None:
        self.status, self.got = 202, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                said = b'{"status": "answer"}'
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def site(tmp_path: Path, receiver: Receiver) -> Path:
    nodes = tmp_path / "nodes.json"
    nodes.write_text('{"host-000": {"state": "IDLE", "reason": ""}}')
    (tmp_path / "key").write_text(KEY)
    senders: dict[str, Any] = {
        "ops": {"kind": "webhook", "url": receiver.url},
        "oncall": {"kind": "pagerduty", "routing_key_file": str(tmp_path / "key"), "url": receiver.url},
        "drain": {"kind": "slurm", "kinds": ["nic_fault"], "dry_run": False,
                  "scontrol": [sys.executable, "-m", "tests.rigs.scontrol", str(nodes)]},
    }  # fmt: skip
    (tmp_path / "fabricmon.yaml").write_text(json.dumps({"central": {"fabric": "east"}, "senders": senders}))
    return tmp_path / "fabricmon.yaml"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabricmon.commands.notify.PAUSE", 0.0)


def test_a_test_incident_begins_and_ends_at_every_receiver(site, receiver, capsys):
    assert cli.main(["notify", "test", "--config", str(site), "--kind", "nic_fault"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["ok", "ops", "webhook", "firing"], ["ok", "ops", "webhook", "resolved"],
        ["ok", "oncall", "pagerduty", "firing"], ["ok", "oncall", "pagerduty", "resolved"],
        ["ok", "drain", "slurm", "query"],
    ]  # fmt: skip
    assert "nothing was changed" in lines[-1]
    assert json.loads((site.parent / "nodes.json").read_text())["host-000"]["reason"] == ""
    begin, end = (post for post in receiver.got if "event_action" in post)
    assert [begin["event_action"], end["event_action"]] == ["trigger", "resolve"]
    assert begin["dedup_key"] == end["dedup_key"]
    assert "TEST, nothing is broken" in begin["payload"]["summary"]


def test_it_says_what_the_receiver_answered_and_never_a_secret(site, receiver, capsys):
    receiver.status = 503
    assert cli.main(["notify", "test", "oncall", "ops", "--config", str(site), "--json"]) == 1
    said = capsys.readouterr().out
    attempts = json.loads(said)
    assert [(a["receiver"], a["step"], a["outcome"]) for a in attempts] == [
        ("oncall", "firing", "not accepted, would be retried"), ("ops", "firing", "not accepted, would be retried"),
    ]  # fmt: skip
    assert "HTTP 503" in attempts[0]["answer"]
    assert KEY not in said
    receiver.status = 400
    assert cli.main(["notify", "test", "ops", "--config", str(site)]) == 1
    assert "rejected, would be dropped" in capsys.readouterr().out


def test_a_preview_sends_nothing(site, receiver, capsys):
    assert cli.main(["notify", "preview", "ops", "oncall", "--config", str(site), "--ended"]) == 0
    shown = capsys.readouterr().out
    assert '"event_action": "resolve"' in shown
    assert '"routing_key": "***"' in shown
    assert KEY not in shown
    assert receiver.got == []
    assert cli.main(["notify", "preview", "oncall", "--config", str(site), "--many", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["oncall"].count("dedup_key") == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [(["test", "nobody"], "unknown receiver nobody"), (["test", "--kind", "nonsense"], "unknown kind 'nonsense'")],
)  # fmt: skip
def test_a_wrong_word_is_named(words, said, site, capsys):
    assert cli.main(["notify", *words, "--config", str(site)]) == 2
    assert said in capsys.readouterr().err


def test_a_preview_of_too_many_is_an_error_of_usage(site, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["notify", "preview", "--config", str(site), "--many", "99"])
    assert "--many: expected 1 to 25, got 99" in capsys.readouterr().err


def test_a_template_that_cannot_be_used_stops_the_start_with_its_place(site, capsys):
    text = json.loads(site.read_text())
    text["senders"]["oncall"]["title"] = "{tittle}"
    site.write_text(json.dumps(text))
    assert cli.main(["config", "check", str(site)]) == 2
    said = capsys.readouterr().err
    assert "senders.oncall: 'title': line 1, column 1: unknown field 'tittle', did you mean 'title'?" in said


def test_the_fields_of_templates(capsys):
    assert cli.main(["notify", "fields"]) == 0
    said = capsys.readouterr().out
    assert all(f"{{{name}}}" in said for name in FIELDS)
