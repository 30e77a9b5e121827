"""What another configuration makes of the same recording, by the command that a person runs."""

import json

import numpy as np
import pytest

from fabricmon import cli
from fabricmon.model import Change, Incident, Severity
from fabricmon.recording.reading import Recording
from fabricmon.recording.samples import samples, snapshots
from fabricmon.replay.compare import compare
from fabricmon.replay.story import Story
from tests.engine.conftest import START
from tests.replay.made import bad_morning, recorded


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording")
    recorded(path, bad_morning)
    return path


def _config(tmp_path, text):
    path = tmp_path / "new.yaml"
    path.write_text(text)
    return str(path)


def test_the_same_configuration_differs_in_nothing(directory, tmp_path, capsys):
    config = _config(tmp_path, "{}")
    assert cli.main(["replay", str(directory), "--config", config, "--json", "--to", str(START + 90)]) == 0
    said = json.loads(capsys.readouterr().out)["comparison"]
    assert said["counts"]["same"] > 1
    assert said["counts"] == {"same": said["counts"]["same"], "differs": 0, "only in A": 0, "only in B": 0}


def test_a_longer_hold_is_shown_as_a_delay_and_a_higher_limit_as_an_incident_only_in_a(directory, tmp_path, capsys):
    config = _config(tmp_path, "rules: {link_down: {hold: 9s}, link_flapping: {raise_at: 11000.0}}")
    assert cli.main(["replay", str(directory), "--config", config]) == 0
    text = capsys.readouterr().out
    assert "evaluations identical" in text
    rows = [
        [cell.strip() for cell in line.split("  ")]
        for line in text.splitlines()
        if line.startswith(("only in", "differs"))
    ]
    assert any(row[0] == "only in A" and "link_flapping" in row for row in rows)
    assert any("opened +" in row[-1] for row in rows if row[0] == "differs"), text
    assert "operations: " in text


def test_receivers_of_the_other_configuration_are_counted(directory, tmp_path, capsys):
    config = _config(tmp_path, "senders: {pager: {kind: webhook, url: 'http://127.0.0.1:1/', min_severity: critical}}")
    assert cli.main(["replay", str(directory), "--config", config, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["comparison"]["notifications"]
    assert set(told) == {"operations", "pager"}
    assert told["operations"][1] == told["pager"][0] == 0
    assert 0 < told["pager"][1] < told["operations"][0]


def test_only_the_time_asked_for_is_counted(directory, capsys):
    begin, end = START + 40, START + 70
    assert cli.main(["replay", str(directory), "--from", str(begin), "--to", str(end), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["decisions"]["ticks"] == said["decisions"]["same"] < 80
    assert all(begin <= e["opened"] <= end for e in said["incidents"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["replay", "{}/nowhere"], "No such file"),
        (["replay", "{}"], "no segment"),
        (["replay", "{}", "--from", "teatime"], "is not a time"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path, capsys, words, expected):
    try:
        code = cli.main([word.format(tmp_path) for word in words])
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    assert expected in capsys.readouterr().err


def _incident(id, status="firing", since=START, **more):
    base = {"severity": Severity.WARNING, "kind": "link_down", "component": f"link({id})", "confidence": 0.9}
    return Incident(id=id, status=status, since=since, title="", why="", action="", evidence=(), **{**base, **more})


def _story(*steps):
    story = Story()
    for at, incident in steps:
        story.tick(START + at, Change([], [incident]), list)
    return story


def test_episodes_of_one_incident_are_paired_by_the_time_they_share():
    a = _story((1, _incident("x")), (9, _incident("x", "resolved")), (60, _incident("x", since=START + 59)))
    b = _story((62, _incident("x", since=START + 59, severity=Severity.CRITICAL)))
    rows = compare(a, b).rows
    assert [(row.what, row.onset) for row in rows] == [("only in A", START), ("differs", START + 59)]
    assert rows[1].fields == ("severity warning -> critical", "opened +2.0 s")
    assert rows[1].delay == pytest.approx(2.0)


def test_samples_are_what_the_agents_sent(directory):
    seen, last = set(), {}
    for now, node, found in samples(directory):
        assert now >= START
        for sample in found:
            assert sample.component.node == node
            assert not np.isnan(sample.value)
            seen.add(sample.counter)
            last[sample.component, sample.counter] = sample.value
    assert {"state", "phys_state", "link_downed", "rate", "symbol_errors"} <= seen
    assert max(value for (row, counter), value in last.items() if counter == "link_downed") == 3.0


def test_snapshots_say_which_parts_were_read_anew(directory):
    counted = 0
    for _, node, snapshot, read in snapshots(Recording([directory])):
        assert snapshot.inventory.identity.node == node
        assert len(read) == len(snapshot.inventory.parts)
        assert len(snapshot.values) == snapshot.inventory.size
        counted += bool(read.all())
    assert counted > 100
