"""Files that are read again: half-written states, swapped links, settings that change meanwhile."""

import asyncio

import pytest

from fabricmon.web import watched
from fabricmon.web.watched import Watched


class Reader:
    """Calls at once, or when `gate` opens."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.gate.set()

    async def call(self, function, _limit):
        result = function()
        await self.gate.wait()
        return result


def loader(*paths):
    def load():
        found = "".join(path.read_text() for path in paths)
        if "bad" in found:
            raise ValueError(found)
        return found, [str(path) for path in paths]

    return load


async def test_a_state_that_fails_once_is_no_news(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    watch, told = Watched("x", loader(path), lambda value: told.append(value)), []
    reader = Reader()
    path.write_text("bad")
    await watch.check_files(reader)
    assert (watch.value, watch.error) == ("one", "")
    path.write_text("two")
    await watch.check_files(reader)
    assert (watch.value, watch.error, watch.failures, told) == ("two", "", 0, ["two"])
    path.write_text("bad again")
    for _ in range(3):
        await watch.check_files(reader)
    assert (watch.value, watch.error, watch.failures) == ("two", "bad again", 1)
    path.write_text("three")
    await watch.check_files(reader)
    assert (watch.value, watch.error) == ("three", "")


async def test_files_that_are_swapped_by_a_link_as_a_mounted_secret_is(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name)
    (tmp_path / "data").symlink_to("first")
    (tmp_path / "key").symlink_to("data/key")
    watch = Watched("x", loader(tmp_path / "key"))
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").rename(tmp_path / "data")
    await watch.check_files(Reader())
    assert watch.value == "second"


async def test_settings_that_change_while_files_are_read_win(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    new.write_text("new")
    watch, reader = Watched("x", loader(old)), Reader()
    old.write_text("older")
    reader.gate.clear()
    looking = asyncio.create_task(watch.check_files(reader))
    await asyncio.sleep(0)
    watch.adopt(Watched("x", loader(new)))
    reader.gate.set()
    await looking
    assert (watch.value, list(watch.files)) == ("new", [str(new)])


async def test_a_file_that_is_gone_keeps_what_was(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")

    def load():
        try:
            return path.read_text(), [str(path)]
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from error

    watch, reader = Watched("x", load), Reader()
    path.unlink()
    for _ in range(2):
        await watch.check_files(reader)
    assert (watch.value, watch.error) == ("one", "cannot be read: No such file or directory")


async def test_nothing_to_look_at_costs_no_thread(monkeypatch):
    monkeypatch.setattr(watched, "PERIOD", 0.001)
    monkeypatch.setattr(watched, "Reader", lambda name: pytest.fail("a thread"))
    running = asyncio.create_task(Watched("x", lambda: ("", [])).run())
    await asyncio.sleep(0.02)
    assert not running.done()
    running.cancel()
