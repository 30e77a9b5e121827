"""Silences and maintenance windows of a running server outlive it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon.central.delivery.silences import KEPT, MaintenanceWindows, Silences
from fabricmon.central.store.store import Store
from fabricmon.notify.matchers import MatcherError
from fabricmon.notify.silence import SilenceError
from tests.notify.made import T0


async def test_a_silence_is_durable_when_made_and_when_ended(tmp_path: Path) -> None:
    store = Store(tmp_path)
    silences, maintenance = Silences(store, store.load(T0)), MaintenanceWindows(store, store.load(T0))
    first = await silences.add(["kind=link_down"], T0, T0 + 60, "me", "why", T0)
    second = await silences.add(["node=host-1"], T0 + 30, T0 + 60, "me", "", T0)
    window = await maintenance.add(T0, T0 + 60, T0, hosts=["host-1"], author="me")
    assert silences.active(T0 + 1) == [first]
    assert maintenance.open(T0 + 1) == [window]
    ended = await silences.expire(second.id, T0 + 10)
    assert ended is not None
    assert (ended.starts, ended.ends) == (T0 + 10, T0 + 10), "one that has not begun never begins"
    assert await silences.expire("s-none", T0) is None
    assert (await maintenance.expire(window.id, T0 + 20)) is not None
    store.close()

    store = Store(tmp_path)
    again = Silences(store, store.load(T0))
    assert again.active(T0 + 40) == [first]
    kept = MaintenanceWindows(store, store.load(T0))
    assert kept.open(T0 + 40) == []
    assert [m.id for m in kept.all()] == [window.id]
    store.close()


async def test_a_bad_silence_is_refused_and_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    silences = Silences(store, store.load(T0))
    with pytest.raises(MatcherError):
        await silences.add(["kind"], T0, T0 + 60, "me", "", T0)
    with pytest.raises(SilenceError, match="past"):
        await silences.add(["kind=x"], T0 - 60, T0 - 1, "me", "", T0)
    with pytest.raises(SilenceError, match="hosts"):
        await MaintenanceWindows(store, store.load(T0)).add(T0, T0 + 60, T0)
    assert silences.all() == store.load(T0).maintenance == store.load(T0).silences == []
    store.close()


async def test_ended_ones_do_not_pile_up(tmp_path: Path) -> None:
    store = Store(tmp_path)
    silences = Silences(store, store.load(T0))
    for n in range(KEPT + 5):
        await silences.add(["kind=x"], T0 + n, T0 + n + 0.5, "me", "", T0 + n)
    assert len(silences.all()) <= KEPT + 1
    store.close()
