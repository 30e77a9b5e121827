"""The server's sources of jobs against a Slurm that is a script, a slurmrestd and an API server over real HTTP."""

import asyncio
import contextlib
import io
import json
import os
import time
from pathlib import Path

import pytest
from aiohttp import web

from fabricmon.central.jobs.feed import JobFeed
from fabricmon.central.jobs.settings import JobsConfig, KubernetesJobs, SlurmJobs
from fabricmon.runtime import logs
from fabricmon.units import Duration
from tests.central.streams import until
from tests.jobs.made import LISTS, NUMBERS, pod, slurm_answer, slurm_job
from tests.rigs.kube.standin import StandIn
from tests.rigs.served import serve

PODS = "/api/v1/pods"


@pytest.fixture(autouse=True)
def quiet():
    logs.configure(level="error", stream=io.StringIO())


class Told:
    """Stands for the engine."""

    def __init__(self):
        self.said = []

    def jobs(self, sources, now):
        self.said.append(sources)

    @property
    def last(self):
        return self.said[-1][0]

    def ids(self):
        return [job.id for source in self.said[-1] for job in source.jobs]


@pytest.fixture
async def follow():
    running = []

    async def make(**settings):
        settings.setdefault("period", Duration(1))
        told = Told()
        feed = JobFeed(JobsConfig(**settings), told, time.time)
        running.append(asyncio.create_task(feed.run()))
        await asyncio.sleep(0)
        return feed, told

    yield make
    for task in running:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return SlurmJobs(command=(str(path), "--json"))


# --- Slurm by a command


async def test_a_command_is_asked_again_and_again(follow, tmp_path):
    answer = tmp_path / "answer"
    answer.write_bytes(slurm_answer([slurm_job(LISTS, 1, "gpu[1-2]")]))
    feed, told = await follow(slurm=script(tmp_path / "squeue", f'test "$1" = --json && cat {answer}'))
    assert told.last.as_of is None
    await until(lambda: told.ids() == ["1"])
    answer.write_bytes(slurm_answer([slurm_job(LISTS, 2, "gpu[1-2]")]))
    await until(lambda: told.ids() == ["2"])
    assert feed.states["slurm"].failures == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        ("echo no json here", "JSON"),
        ("sleep 60 & echo $! > $0.child; sleep 60", "did not finish within"),
    ],
)
async def test_a_command_that_fails_keeps_what_was_reported_and_says_why(follow, tmp_path, text, why):
    good = tmp_path / "answer"
    good.write_bytes(slurm_answer([slurm_job(LISTS, 1, "gpu1")]))
    slurm = script(tmp_path / "squeue", f"cat {good}; rm {good} && exit 0\n{text}".replace("cat", "cat 2>/dev/null"))
    _, told = await follow(slurm=slurm, deadline=Duration(0.5))
    await until(lambda: why in told.last.error)
    assert told.ids() == ["1"]
    child = Path(f"{tmp_path / 'squeue'}.child")
    if child.exists():
        await until(lambda: not alive(int(child.read_text())))


def alive(pid):
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_command_that_is_not_there_is_an_error_and_not_an_empty_list(follow, tmp_path):
    feed, told = await follow(slurm=SlurmJobs(command=(str(tmp_path / "nothing"),)))
    await until(lambda: told.last.error)
    assert told.last.as_of is None
    assert "cannot be run" in feed.warnings()[0]


async def test_odd_jobs_are_counted(follow, tmp_path):
    answer = tmp_path / "answer"
    answer.write_bytes(slurm_answer([{"job_state": "RUNNING"}, slurm_job(LISTS, 1, "gpu1")]))
    _, told = await follow(slurm=script(tmp_path / "squeue", f"cat {answer}"))
    await until(lambda: told.ids() == ["1"])
    assert told.last.odd == 1


# --- slurmrestd


class Restd:
    def __init__(self, version):
        self.version, self.asked, self.status = version, [], 200

    async def jobs(self, request):
        self.asked.append((request.match_info["version"], dict(request.headers)))
        if request.match_info["version"] != self.version:
            return web.Response(status=404, text="Unable find requested URL")
        body = slurm_answer([slurm_job(self.version, 1, "gpu1")], self.version)
        return web.Response(status=self.status, body=body, content_type="application/json")

    async def serve(self, socket=""):
        app = web.Application()
        app.router.add_get("/slurm/{version}/jobs", self.jobs)
        return await serve(app, socket=socket)


@pytest.mark.parametrize("unix", [False, True])
async def test_slurmrestd_is_asked_in_its_own_version_with_the_token_of_the_file(follow, tmp_path, unix):
    restd = Restd(NUMBERS)
    token = tmp_path / "token"
    token.write_text("first\n")
    async with await restd.serve(str(tmp_path / "restd.sock") if unix else "") as served:
        _, told = await follow(slurm=SlurmJobs(url=served.url, user="slurm", token_file=str(token)))
        await until(lambda: told.ids() == ["1"])
        versions = [version for version, _ in restd.asked]
        assert versions[0] == "v0.0.44"
        assert versions[-1] == NUMBERS
        token.write_text("second\n")
        count = len(restd.asked)
        await until(lambda: restd.asked[-1][1]["X-SLURM-USER-TOKEN"] == "second")
        assert {version for version, _ in restd.asked[count:]} == {NUMBERS}, "what it speaks is remembered"
        assert restd.asked[-1][1]["X-SLURM-USER-NAME"] == "slurm"


async def test_a_slurmrestd_that_refuses_is_reported_with_its_words(follow):
    restd = Restd(NUMBERS)
    restd.status = 401
    async with await restd.serve() as served:
        _, told = await follow(slurm=SlurmJobs(url=served.url))
        await until(lambda: "HTTP 401" in told.last.error)


# --- Kubernetes


@pytest.fixture
async def cluster():
    made = await StandIn().start()
    yield made
    await made.stop()


def of(cluster, **more):
    return {"kubernetes": KubernetesJobs(api=cluster.url, **more)}


async def test_all_pages_are_listed_and_then_changes_come_by_watch(follow, cluster, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    cluster.tokens = {"secret"}
    for n in range(5):
        cluster.put(PODS, pod(f"p{n}", f"gpu{n}", owner=("Job", "train")))
    _, told = await follow(**of(cluster, token_file=str(token)))
    await until(lambda: told.ids() == ["team/train"])
    assert len(told.last.jobs[0].nodes) == 5
    await until(lambda: cluster.watches)
    cluster.put(PODS, pod("other", "gpu9"))
    await until(lambda: told.ids() == ["team/other", "team/train"])
    cluster.delete(PODS, "p0")
    await until(lambda: told.last.jobs[1].nodes == ("gpu1", "gpu2", "gpu3", "gpu4"))
    cluster.put(PODS, pod("other", "gpu9", phase="Failed"))
    await until(lambda: told.ids() == ["team/train"])
    assert sum("watch" not in query for *_, query in cluster.asked) == 3, "one LIST of three pages"


async def test_a_watch_that_ends_is_taken_up_from_its_bookmark(follow, cluster):
    cluster.put(PODS, pod("a", "gpu1"))
    _, told = await follow(**of(cluster))
    await until(lambda: cluster.watches)
    cluster.bookmark(PODS)
    marked = cluster.version
    await asyncio.sleep(0.1)
    cluster.end_watches()
    await until(lambda: sum("watch" in query for *_, query in cluster.asked) == 2)
    assert cluster.asked[-1][2]["resourceVersion"] == str(marked)
    await until(lambda: cluster.watches)
    cluster.put(PODS, pod("b", "gpu2"))
    await until(lambda: told.ids() == ["team/a", "team/b"])


async def test_after_410_all_is_listed_anew_and_what_left_meanwhile_is_gone(follow, cluster):
    cluster.put(PODS, pod("a", "gpu1"))
    feed, told = await follow(**of(cluster))
    await until(lambda: cluster.watches)
    cluster.objects[PODS].clear()
    cluster.version += 10
    cluster.put(PODS, pod("b", "gpu2"))
    cluster.forget()
    cluster.say(json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}).encode() + b"\n")
    await until(lambda: told.ids() == ["team/b"])
    assert feed.states["kubernetes"].failures == 0


async def test_a_version_too_old_at_the_start_of_a_watch_leads_to_a_new_list(follow, cluster):
    cluster.put(PODS, pod("a", "gpu1"))
    _, told = await follow(**of(cluster))
    await until(lambda: cluster.watches)
    cluster.objects[PODS].clear()
    cluster.version += 10
    cluster.forget()
    cluster.end_watches()
    await until(lambda: told.ids() == [])


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_refusal_keeps_what_was_reported_and_goes_away_again(follow, cluster, status):
    cluster.put(PODS, pod("a", "gpu1"))
    feed, told = await follow(**of(cluster))
    await until(lambda: cluster.watches)
    cluster.refuse = [status]
    cluster.end_watches()
    await until(lambda: f"HTTP {status}" in told.last.error)
    assert told.ids() == ["team/a"]
    cluster.put(PODS, pod("b", "gpu2"))
    await until(lambda: told.ids() == ["team/a", "team/b"])
    assert told.last.error == ""
    assert feed.states["kubernetes"].failures == 1


async def test_an_event_that_is_none_begins_anew(follow, cluster):
    cluster.put(PODS, pod("a", "gpu1"))
    feed, told = await follow(**of(cluster))
    await until(lambda: cluster.watches)
    cluster.say(b"<html>gateway\n")
    await until(lambda: feed.states["kubernetes"].failures == 1)
    cluster.put(PODS, pod("b", "gpu2"))
    await until(lambda: told.ids() == ["team/a", "team/b"])


async def test_namespaces_are_followed_one_by_one(follow, cluster):
    for space in ("x", "y", "z"):
        cluster.put(f"/api/v1/namespaces/{space}/pods", pod("a", "gpu1", namespace=space))
    feed, told = await follow(**of(cluster, namespaces=("x", "y")))
    await until(lambda: told.ids() == ["x/a", "y/a"])
    assert list(feed.states) == ["kubernetes x", "kubernetes y"]


async def test_outside_a_cluster_the_word_cluster_is_an_error(follow, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    _, told = await follow(kubernetes=KubernetesJobs(api="cluster"))
    await until(lambda: "not inside a cluster" in told.last.error)


# --- files, and all of them together


async def test_a_file_is_read_again_when_it_changes_and_keeps_its_jobs_when_it_breaks(follow, tmp_path, monkeypatch):
    monkeypatch.setattr("fabricmon.central.jobs.file_source.PERIOD", 0.05)
    path = tmp_path / "jobs.json"
    _, told = await follow(files=(str(path),))
    await until(lambda: "cannot be read" in told.last.error)
    write(path, [{"id": "1", "nodes": "gpu[1-2]"}])
    await until(lambda: told.ids() == ["1"])
    path.write_text('{"jobs": [')
    await until(lambda: "JSON" in told.last.error)
    assert told.ids() == ["1"]
    write(path, [{"id": "2", "nodes": "gpu[1-2]"}])
    await until(lambda: told.ids() == ["2"])


async def test_a_file_says_itself_how_old_it_is(follow, tmp_path):
    path = tmp_path / "jobs.json"
    write(path, {"as_of": 1000.0, "jobs": [{"id": "1", "nodes": "gpu1"}]})
    _, told = await follow(files=(str(path),))
    await until(lambda: told.ids() == ["1"])
    assert told.last.as_of == 1000.0
    assert not told.last.fresh(time.time())


def write(path, value):
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value))
    os.replace(new, path)


async def test_one_source_that_hangs_does_not_keep_others_from_answering(follow, tmp_path):
    path = tmp_path / "jobs.json"
    write(path, [{"id": "1", "nodes": "gpu1"}])
    _, told = await follow(slurm=script(tmp_path / "squeue", "sleep 60"), files=(str(path),))
    await until(lambda: told.ids() == ["1"])
    assert told.last.source == "slurm"
    assert told.last.as_of is None


async def test_other_settings_keep_what_sources_that_stay_said(follow, tmp_path):
    path = tmp_path / "jobs.json"
    write(path, [{"id": "1", "nodes": "gpu1"}])
    feed, told = await follow(files=(str(path),))
    await until(lambda: told.ids() == ["1"])
    await feed.configure(JobsConfig(files=(str(path), str(tmp_path / "more.json")), survives=Duration(60)))
    assert told.ids() == ["1"]
    assert next((s.source, s.survives) for s in told.said[-1]) == (f"file {path}", 60.0)
    await feed.configure(JobsConfig())
    assert told.said[-1] == ()


@pytest.mark.parametrize(
    "wrong",
    [lambda: SlurmJobs(command=("a",), url="http://x"), lambda: SlurmJobs(url="slurm:6820"),
     lambda: KubernetesJobs(api="k8s"), lambda: JobsConfig(stale_after=Duration(30)),
     lambda: JobsConfig(period=Duration(0.1)), lambda: KubernetesJobs(api="cluster", resources=())],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="`"):
        wrong()
