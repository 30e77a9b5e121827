"""A recording that is given away: no name of the site in it, and it still tells the same story."""

import re

import pytest

from fabricmon import cli
from fabricmon.jobs.model import Job, Jobs
from fabricmon.recording.reading import Recording
from fabricmon.replay.names import KEPT_DIGITS, Names
from fabricmon.replay.records import RecordMark
from fabricmon.replay.run import play
from tests.replay.made import bad_morning, recorded

SITE = (
    "host-0",
    "leaf-",
    "rack-",
    "agent-",
    "boot-",
    "train-70b",
    "mara",
    "carrier",
    "operations",
)
GUID = re.compile(r"\b0x[0-9a-f]{16}\b|\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b")


def _morning(made):
    job = Job("4711", "train-70b", "mara", ("host-000", "host-001"))
    made.engine.jobs([Jobs("slurm", made.world.now, (job,))], made.world.now)
    bad_morning(made)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    before, after = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after") / "new"
    recorded(before, _morning)
    assert cli.main(["replay", str(before), "--anonymise", str(after)]) == 0
    return before, after


def test_no_name_of_the_site_is_in_it(pair):
    before, after = pair
    graph = next(item.thing for item in Recording([before]).items() if item.mark is RecordMark.GRAPH)
    names = re.compile("|".join(rf"\b{re.escape(name)}" for name in (*SITE, *graph.switches, *graph.adapters)))
    said = _said(after)
    assert len(said) > 100
    assert {found for text in said for found in names.findall(text)} == set()
    sites = _guids(_said(before))
    assert sites
    assert _guids(said) & sites == set()


def _guids(texts):
    """The leading digits of all GUIDs, which tell the site; the last ones are kept, and null names nobody."""
    found = {re.sub(r"0x|:", "", guid) for text in texts for guid in GUID.findall(text)}
    return {guid[:-KEPT_DIGITS] for guid in found if len(set(guid)) > 1}


def _said(folder):
    frames = (RecordMark.FRAME, RecordMark.KNOWN_FRAME)
    return [repr(item) for item in Recording([folder]).items() if item.mark not in frames]


def test_it_is_judged_to_the_same_end(pair):
    before, after = pair
    mine, theirs = play(Recording([before]).items()), play(Recording([after]).items())
    assert theirs.verification.named == []
    assert theirs.verification.same == mine.verification.ticks

    def story(outcome):
        told = [(e.kinds, e.severity, e.onset, e.opened, e.ended, e.notified) for e in outcome.recorded.episodes]
        return sorted(told, key=str)

    assert story(theirs) == story(mine)


def test_frames_are_the_same_to_the_byte_and_names_the_same_everywhere(pair):
    def frames(directory):
        marks = (RecordMark.FRAME, RecordMark.KNOWN_FRAME)
        return [(i.now, i.thing.values.tobytes()) for i in Recording([directory]).items() if i.mark in marks]

    before, after = pair
    assert frames(before) == frames(after)
    nodes, graph, jobs = set(), None, None
    for item in Recording([after]).items():
        nodes |= {item.node} - {""}
        graph = item.thing if item.mark is RecordMark.GRAPH else graph
        jobs = item.thing if item.mark is RecordMark.JOBS else jobs
    assert nodes == set(graph.hosts) == {a.host for a in graph.adapters.values()}
    assert set(jobs[0].jobs[0].nodes) <= nodes


def test_a_directory_that_is_in_use_is_refused(pair, capsys):
    before, after = pair
    assert cli.main(["replay", str(before), "--anonymise", str(after)]) == 2
    assert "not empty" in capsys.readouterr().err


def test_the_same_key_gives_the_same_names_and_another_one_others():
    def names(key):
        made = Names(key)
        made.learn("gpu-17", "node")
        made.learn("MF0;core 3:MQM8700/U1", "switch")
        return made

    text = "gpu-17 at MF0;core 3:MQM8700/U1 and gpu-171, GUID 0x08c0eb0300a1b2c3 alias 08c0:eb03:00a1:b2c4."
    one, again, other = (names(key).text(text) for key in (b"a", b"a", b"b"))
    assert one == again != other
    assert "gpu-17 " not in one
    assert "MQM8700" not in one
    assert "gpu-171" in one  # was never said to be a name
    found = re.search(r"0x([0-9a-f]{14})c3 alias ([0-9a-f:]+)c4", one)
    assert found[1] == found[2].replace(":", "")
    assert found[1] != "08c0eb0300a1b2"
