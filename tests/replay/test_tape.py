"""What the recorder leaves on disk: whole after a kill, bounded, with every loss told."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import frame as wire
from fabricmon.frame import Frame
from fabricmon.model import Presence
from fabricmon.recording import tape as tapes
from fabricmon.recording.reading import Recording, RecordingError
from fabricmon.recording.tape import Tape
from fabricmon.replay import records
from fabricmon.replay.records import PackedRecord, RecordMark
from fabricmon.replay.run import play
from fabricmon.replay.settings import RecordConfig
from tests.conftest import ROOT
from tests.replay.made import Made, recorded

FLOATS = st.floats(width=64)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(RecordMark)), st.floats(allow_nan=False), st.text(max_size=20), st.binary(max_size=99)
        ),
        max_size=20,
    )
)
def test_records_come_back_as_they_were(written):
    pieces = [records.pack(PackedRecord(*one)) for one in written]
    data = records.block(pieces)
    head = records.block_head(data[: records.BLOCK_SIZE])
    body = records.block_body(head, data[records.BLOCK_SIZE :])
    assert list(records.unpack(body)) == [PackedRecord(*one) for one in written]


@given(st.binary(max_size=400))
def test_bytes_that_are_no_block_are_an_error_that_says_so(data):
    with pytest.raises(records.RecordError):
        records.block_body(records.block_head(data[: records.BLOCK_SIZE]), data[records.BLOCK_SIZE :])


@given(st.lists(FLOATS, max_size=30), st.lists(FLOATS, max_size=4), st.booleans(), st.integers(0, 2**32 - 1))
def test_a_frame_is_encoded_to_the_bytes_it_was_decoded_from(values, taken, full, id):
    index = None if full else np.arange(len(values), dtype=np.uint32) * 2
    size = len(values) if full else 2 * len(values) + 1
    made = wire.encode_frame(Frame(id, 7, 1.5, np.array(taken), index, np.array(values), size))
    assert wire.encode_frame(wire.decode(made)) == made


def _small(directory, **options):
    return RecordConfig(directory=str(directory), **options)


def _segments(directory):
    return sorted(directory.glob("*.fmrec"))


def test_killed_at_any_moment_it_is_readable_up_to_the_last_block(tmp_path):
    code = f"""
        import sys, time
        sys.path.insert(0, {str(ROOT)!r})
        from tests.replay.made import Made
        made = Made({str(tmp_path)!r}, hosts=2, units=1)
        while True:
            made.world.run(5, 0.5)
            made.world.flap(("host-001", 0), 1.0)
            print(int(made.engine.counters()["ticks"]), flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    try:
        began = time.monotonic()
        while time.monotonic() - began < 30:
            process.stdout.readline()
            if sum(path.stat().st_size for path in _segments(tmp_path)) > 4000:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
    finally:
        process.kill()
        process.stdout.close()
    recording = Recording([tmp_path])
    outcome = play(recording.items())
    assert outcome.verification.same == outcome.verification.ticks > 10
    assert recording.notes == []


@pytest.mark.parametrize("cut", [1, 17, 400])
def test_a_torn_end_is_left_out_with_a_word(tmp_path, cut):
    recorded(tmp_path, lambda made: made.world.run(20, 0.5), hosts=2, units=1)
    (path,) = _segments(tmp_path)
    os.truncate(path, path.stat().st_size - cut)
    recording = Recording([tmp_path])
    outcome = play(recording.items())
    assert outcome.verification.different == 0
    assert len(recording.notes) == 1
    assert "ends early" in recording.notes[0]


def test_a_damaged_block_costs_what_is_behind_it_in_its_segment_and_the_next_goes_on(tmp_path):
    recorded(tmp_path, _rotating(3), hosts=2, units=1)
    first, *_ = _segments(tmp_path)
    data = bytearray(first.read_bytes())
    data[-30] ^= 0xFF
    first.write_bytes(data)
    recording = Recording([tmp_path])
    outcome = play(recording.items())
    assert any("checksum" in note for note in recording.notes)
    assert any("records before it are missing" in note for note in recording.notes)
    assert not outcome.facts.whole
    assert outcome.verification.different == 0  # what differs is behind the gap, and is reported as such
    assert outcome.verification.ticks >= 40


def _rotating(segments):
    """Runs that begin a new segment in between, as a full one does."""

    def play(made):
        for _ in range(segments - 1):
            made.world.run(10, 0.5)
            made.tape._segment_bytes = made.config.segment
        made.world.run(10, 0.5)

    return play


def test_many_segments_are_one_recording_and_each_is_a_place_to_begin(tmp_path):
    def morning(made):
        world = made.world
        world.run(10, 0.5)
        made.tape._segment_bytes = made.config.segment
        world.run(5, 0.5)
        world.break_links([("host-001", 1)])
        world.run(20, 0.5)
        made.tape._segment_bytes = made.config.segment
        world.run(10, 0.5)

    recorded(tmp_path, morning, hosts=2, units=1)
    assert len(_segments(tmp_path)) == 3
    whole = play(Recording([tmp_path]).items())
    assert whole.facts.whole
    assert whole.verification.named == []

    later = Recording(_segments(tmp_path)[2:])
    outcome = play(later.items())
    assert "begins within a run" in later.notes[0]
    assert not outcome.facts.whole
    assert outcome.facts.ticks > 10


def test_reading_begins_in_the_middle_with_what_was_known(tmp_path):
    made = Made(tmp_path, hosts=2, units=1)
    world = made.world
    world.break_links([("host-001", 1)])
    world.run(30, 0.5)
    world.silence(["host-000"], Presence.REFUSED)
    made.tape._segment_bytes = made.config.segment
    world.run(20, 0.5)
    made.close()
    from fabricmon.replay.play import Player

    player = Player()
    for item in Recording(_segments(tmp_path)[1:]).items():
        player.take(item)
    firing = {(i.kind, i.component) for i in made.engine.incidents() if i.status == "firing"}
    assert firing
    assert {(i.kind, i.component) for i in player.engine.incidents() if i.status == "firing"} == firing
    assert {n.node: n.presence for n in player.engine.nodes()} == {n.node: n.presence for n in made.engine.nodes()}
    mine, theirs = player.engine.fleet.newest("host-001", 0.0), made.engine.fleet.newest("host-001", 0.0)
    assert mine.values.tobytes() == theirs.values.tobytes()


def test_the_oldest_segments_go_when_the_total_is_reached(tmp_path):
    made = Made(tmp_path, hosts=2, units=1, segment=1 << 16, total=1 << 20)
    for _ in range(30):
        (tmp_path / f"{_:015d}-old-000000.fmrec").write_bytes(bytes(1 << 16))
    made.tape._segment_bytes = made.config.segment
    made.world.run(5, 0.5)
    made.close()
    left = _segments(tmp_path)
    assert sum(path.stat().st_size for path in left) <= made.config.total
    assert made.tape.status.removed > 10
    assert not (tmp_path / f"{0:015d}-old-000000.fmrec").exists()
    assert any("-aaaa-" in path.name for path in left)


def test_a_disk_that_refuses_makes_a_gap_that_replay_names(tmp_path, monkeypatch):
    monkeypatch.setattr(tapes, "RETRY", 0.0)
    monkeypatch.setattr(tapes, "FLUSH", 0.02)
    made = Made(tmp_path, hosts=2, units=1)
    made.world.run(5, 0.5)
    _settle(made)
    real = tapes._write_all

    def full(file, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tapes, "_write_all", full)
    made.world.run(3, 0.5)
    _until(lambda: "No space" in made.tape.status.error)
    monkeypatch.setattr(tapes, "_write_all", real)
    made.world.run(5, 0.5)
    _settle(made)
    made.world.run(30, 0.5)
    made.close()
    assert made.tape.status.error == ""
    assert made.tape.lost() > 0
    recording = Recording([tmp_path])
    outcome = play(recording.items())
    assert any("missing" in note and "lost while recording" in note for note in recording.notes)
    assert outcome.verification.different == 0
    assert outcome.facts.last == made.world.now


def test_what_waits_is_bounded_and_what_is_lost_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(tapes, "WAITING", 10_000)
    monkeypatch.setattr(Tape, "_drain", lambda self: time.sleep(0.01))
    made = Made(tmp_path, hosts=2, units=1)
    made.world.run(60, 1.0)
    assert made.tape._handed - made.tape._taken < 10_000 + (1 << 16)
    assert made.tape.lost() > 10
    made.tape.close()


def _settle(made):
    _until(lambda: made.tape._handed == made.tape._taken)


def _until(true):
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_directory_that_cannot_be_made_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Tape(_small(tmp_path / "file" / "below"))


def test_other_versions_and_other_files_are_refused_by_name(tmp_path, monkeypatch):
    recorded(tmp_path / "a", lambda made: made.world.run(2, 0.5), hosts=2, units=1)
    monkeypatch.setattr("fabricmon.replay.recorded.FRAME_VERSION", wire.VERSION + 1)
    recorded(tmp_path / "b", lambda made: made.world.run(2, 0.5), hosts=2, units=1)
    with pytest.raises(RecordingError, match=f"frames of version {wire.VERSION + 1}"):
        play(Recording([tmp_path / "b"]).items())
    (path,) = _segments(tmp_path / "a")
    data = bytearray(path.read_bytes())
    data[6] = 99
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="version 99"):
        play(Recording([tmp_path / "a"]).items())
    path.write_bytes(b"GIF89a and so on")
    with pytest.raises(RecordingError, match="not a segment"):
        play(Recording([tmp_path / "a"]).items())
    with pytest.raises(RecordingError, match="no segment"):
        Recording([tmp_path])
    with pytest.raises(RecordingError, match="No such file"):
        Recording([tmp_path / "nowhere"])


def test_two_runs_below_one_directory_are_played_one_after_the_other(tmp_path):
    recorded(tmp_path, lambda made: made.world.run(10, 0.5), hosts=2, units=1, run="aaaa")
    recorded(tmp_path, lambda made: made.world.run(10, 0.5), hosts=2, units=1, run="bbbb")
    outcome = play(Recording([tmp_path]).items())
    assert outcome.facts.runs == 2
    assert outcome.verification.named == []
