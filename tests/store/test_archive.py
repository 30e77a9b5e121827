"""Past incidents: episodes from transitions, a search over a period in pages, the time line; over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from fabricmon.central.page.search_filter import Filter
from fabricmon.central.store import archive
from fabricmon.central.store.archive import past_changes, past_incidents
from fabricmon.central.store.episodes import ArchivePlace, OpenPeriod, StoredChange, episodes, timeline, within
from fabricmon.central.store.store import Store
from fabricmon.model import HistoryEntry, Incident, Severity
from tests.page.scenes import NOW, incident
from tests.page.stage import Stage

DAY = 86400.0
INF = float("inf")


def history(*changes: tuple[float, str]) -> list[HistoryEntry]:
    return [HistoryEntry(at, change, "") for at, change in changes]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([], []),
        ([(1, "opened")], [(1, INF)]),
        ([(1, "opened"), (2, "members"), (5, "resolved")], [(1, 5)]),
        ([(1, "opened"), (5, "resolved"), (7, "reopened"), (9, "absorbed")], [(1, 5), (7, 9)]),
        ([(5, "resolved"), (7, "reopened")], [(-INF, 5), (7, INF)]),
        ([(1, "opened"), (2, "opened"), (3, "resolved"), (4, "resolved")], [(1, 3)]),
    ],
)
def test_episodes_begin_with_an_opening_and_end_with_an_end(
    changes: list[tuple[float, str]], found: list[tuple[float, float]]
) -> None:
    assert [tuple(one) for one in episodes(history(*changes))] == found


def test_what_was_open_within_a_period() -> None:
    own = [OpenPeriod(1, 5), OpenPeriod(7, INF)]
    assert within(own, 5, 6) == own[:1]
    assert within(own, 5.5, 6.5) == []
    assert within(own, 0, 100) == own


def test_the_time_line_counts_the_most_that_were_open() -> None:
    changes = [
        StoredChange("b", "critical", 70.0, "opened"), StoredChange("a", "warning", 35.0, "resolved"),
        StoredChange("c", "warning", 5.0, "resolved"), StoredChange("a", "warning", 15.0, "opened"),
    ]  # fmt: skip
    line = timeline(changes, 10.0, 110.0, 10, True)
    assert line.edges == [10.0 + 10 * at for at in range(11)]
    assert line.counts == {"critical": [0] * 6 + [1] * 4, "warning": [1] * 3 + [0] * 7, "info": [0] * 10}
    assert line.since == 10.0
    assert timeline(changes, 10.0, 110.0, 10, False).since == 15.0


def past(number: int) -> Incident:
    """The one that was resolved `number` hours ago and open for half an hour."""
    end = NOW - 3600.0 * number
    changes = history((end - 1800, "opened"), (end, "resolved"))
    kind, severity = ("link_down", Severity.CRITICAL) if number % 3 == 0 else ("link_errors", Severity.WARNING)
    return incident(
        id=f"{number:04x}", status="resolved", since=end - 1800, resolved=end, updated=end, kind=kind,
        severity=severity, title=f"Past {number}",
        component=f"link(host-{number:03}/mlx5_0/1)", parts=(f"host-{number:03}/mlx5_0/1",),
        labels={"rail": f"su0/{number % 8}", "leaf": f"su0/rail{number % 8}"}, history=tuple(changes),
    )  # fmt: skip


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = Store(tmp_path, NOW)
    still = incident(id="open", since=NOW - 2 * DAY, updated=NOW - 2 * DAY, title="Still open",
                     history=tuple(history((NOW - 2 * DAY, "opened"))))  # fmt: skip
    await made.commit(incidents=[*(past(number) for number in range(1, 60)), still])
    yield made
    made.close()


async def read(store: Store, since: float, until: float, begin: ArchivePlace, limit: int = 500, **wanted: Any) -> Any:
    matches = Filter(**wanted).incident
    return await store.query(lambda rows: past_incidents(rows, since, until, begin, limit, matches))


async def test_those_open_in_the_period_the_last_change_first(store: Store) -> None:
    found = await read(store, NOW - 10 * 3600, NOW, ArchivePlace())
    assert [i.title for i, _ in found.found] == [*(f"Past {number}" for number in range(1, 11)), "Still open"]
    assert found.next is None
    assert found.found[0][1] == [OpenPeriod(NOW - 3600 - 1800, NOW - 3600)]
    earlier = await read(store, NOW - 10.2 * 3600, NOW - 9.9 * 3600, ArchivePlace())
    assert [i.title for i, _ in earlier.found] == ["Past 10", "Still open"]
    assert (await read(store, NOW - 3 * DAY, NOW - 2.9 * DAY, ArchivePlace())).found == []


@pytest.mark.parametrize(
    ("wanted", "titles"),
    [({"kind": "link_down"}, [3, 6, 9]), ({"severity": "critical"}, [3, 6, 9]), ({"rail": "2"}, [2, 10]),
     ({"leaf": "su0/rail5"}, [5]), ({"host": "host-007"}, [7]), ({"q": "past 4"}, [4]), ({"job": "x"}, [])],
)  # fmt: skip
async def test_a_search_finds_what_the_page_would_find(
    store: Store, wanted: dict[str, str], titles: list[int]
) -> None:
    found = await read(store, NOW - 10 * 3600, NOW, ArchivePlace(), **wanted)
    assert [i.title for i, _ in found.found if i.id != "open"] == [f"Past {number}" for number in titles]


async def test_pages_have_each_incident_once_and_a_request_reads_no_more_than_it_may(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scan, chunk in ((2000, 200), (10, 7), (4, 4)):
        monkeypatch.setattr(archive, "MAX_SCAN", scan)
        monkeypatch.setattr(archive, "CHUNK", chunk)
        begin, titles, requests = ArchivePlace(), [], 0
        while begin is not None:
            page = await read(store, NOW - 30 * DAY, NOW, begin, 7)
            assert len(page.found) <= 7
            titles += [i.title for i, _ in page.found]
            begin, requests = page.next, requests + 1
        assert len(titles) == len(set(titles)) == 60
        assert requests >= 60 // min(7, scan + chunk)


async def test_the_queries_use_their_indexes(store: Store) -> None:
    def plans(rows: Any) -> str:
        values = {archive._FOUND: (INF, "", 0.0, NOW, 10), archive._OWN: ("a", 10), archive._CHANGES: (NOW, 10)}
        return " ".join(
            row[3] for sql, given in values.items() for row in rows.db.execute(f"EXPLAIN QUERY PLAN {sql}", given)
        )

    plan = await store.query(plans)
    assert "incidents_updated" in plan
    assert "transitions_at" in plan
    assert "SCAN incidents" not in plan.replace("SCAN incidents USING INDEX", "")


async def test_changes_are_read_newest_first_up_to_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, whole = await store.query(lambda rows: past_changes(rows, NOW - 58 * 3600))
    assert whole
    assert [(c.incident, c.change) for c in changes][:2] == [(f"{58:04x}", "resolved"), (f"{58:04x}", "opened")]
    monkeypatch.setattr(archive, "MAX_CHANGES", 3)
    assert [len((await store.query(lambda rows: past_changes(rows, NOW)))[0])] == [3]
    assert not (await store.query(lambda rows: past_changes(rows, NOW)))[1]


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, 16) as stage:
        now = stage.central.evaluator.now()
        shifted = []
        for number in range(1, 40):
            one = past(number)
            shift = now - NOW
            moved = tuple(HistoryEntry(entry.at + shift, entry.change, "") for entry in one.history)
            shifted.append(
                incident(**{**{name: getattr(one, name) for name in ("id", "status", "kind", "severity", "title")},
                            "component": "<script>", "since": one.since + shift, "resolved": one.updated + shift,
                            "updated": one.updated + shift, "history": moved})
            )  # fmt: skip
        await stage.central.store.commit(incidents=shifted)
        yield stage


async def test_the_page_and_the_api(stage: Stage) -> None:
    async with aiohttp.ClientSession() as session:

        async def get(path: str, **words: str) -> tuple[int, Any]:
            async with session.get(stage.url + path, params=words) as answer:
                json = answer.content_type == "application/json"
                return answer.status, await (answer.json() if json else answer.text())

        status, found = await get("api/v1/archive", limit="10", severity="critical")
        assert status == 200
        assert [i["title"] for i in found["incidents"]] == [f"Past {number}" for number in range(3, 24, 3)]
        assert found["incidents"][0]["episodes"][0]["ended"].endswith("Z")
        status, found = await get("api/v1/archive", limit="5")
        _, more = await get("api/v1/archive", limit="5", before=found["next"])
        assert [i["title"] for i in more["incidents"]] == [f"Past {number}" for number in range(6, 11)]
        _, line = await get("api/v1/timeline")
        assert len(line["edges"]) == len(line["open"]["critical"]) + 1
        assert 8 <= sum(line["open"]["critical"]) <= 3 * 8
        for words in ({"since": "x"}, {"limit": "501"}, {"before": "x"}, {"since": "9", "until": "8"}, {"since": "9"},
                      {"severity": "high"}, {"unknown": "1"}):  # fmt: skip
            assert (await get("api/v1/archive", **words))[0] == 400, words
        status, html = await get("archive")
        assert (status, html.count("<tr class=")) == (200, 23)  # the 24th ended just before
        assert html.count('<svg class="timeline') == 24
        assert "<script>" not in html.replace('<script type="module"', "")
        assert "Older" not in html
        status, html = await get("archive", q="past 7", since="0")
        assert (status, "at most 30 days" in html) == (400, True)
        status, html = await get("archive", q="nothing like it")
        assert "No incident was open then that matches." in html
