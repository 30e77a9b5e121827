"""Jobs on an incident's card and at the API."""

from fabricmon.central.documents.jobs import jobs_document
from fabricmon.central.documents.overview import overview
from fabricmon.central.page.cards import MAX_JOBS
from fabricmon.central.page.document import document
from fabricmon.central.page.scene import Scene
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Impact, JobImpact, JobVerdict
from tests.page.scenes import NOW, incident, node


def hit(id="4711", name="train", verdict=JobVerdict.CRASH, **more):
    return JobImpact(id, name, "mara", "slurm", verdict, "link down for long", ("host-007",), 1, 64, NOW - 60, **more)


def card(impact):
    incidents = [incident(impact=impact)]
    nodes = [node("host-007")]
    return document(Scene(NOW, overview("east", nodes, incidents, 1, NOW), nodes, incidents))


def test_a_card_names_its_jobs_with_verdict_and_reason():
    html = card(Impact("known", "slurm", NOW, (hit(gone=NOW), hit("9", "eval", JobVerdict.AT_RISK)), 2))
    for word in ("train#4711", "crash", "1 of 64 nodes", "link down for long", "at risk", "not running since"):
        assert word in html


def test_names_of_jobs_cannot_write_into_the_page():
    assert "<script>alert" not in card(Impact("known", "slurm", NOW, (hit(name="<script>alert(1)</script>"),), 1))


def test_what_is_not_known_is_said():
    assert "unknown: no scheduler responds" in card(Impact("unknown", "", None))
    assert "may be incomplete" in card(Impact("partly", "slurm", NOW, (hit(),), 1))
    assert "class='jobs'" not in card(None)


def test_many_jobs_are_counted():
    html = card(Impact("known", "slurm", NOW, tuple(hit(str(n), f"t{n}") for n in range(32)), 500))
    assert html.count("link down for long") == MAX_JOBS
    assert f"and {500 - MAX_JOBS} more" in html


def test_the_api_tells_hit_jobs_first_and_how_sources_stand():
    jobs = (Job("1", "a", "x", ("n1",)), Job("2", "b", "y", ("host-007", "n2"), survives=9.0))
    sources = (Jobs("slurm", NOW, jobs, odd=3), Jobs("kubernetes", None, error="HTTP 403"))
    incidents = [incident(impact=Impact("known", "slurm", NOW, (hit("2", "b"),), 1)), incident(id="other")]
    found = jobs_document(sources, incidents, NOW, {}, 10)
    hits = [{"id": "5f1c0a", "verdict": "crash"}]
    assert [(j["id"], j["incidents"]) for j in found["jobs"]] == [("2", hits), ("1", [])]
    assert [(j["survives"], j["known"]) for j in found["jobs"]] == [(9.0, True), (30.0, True)]
    assert [(s["source"], s["known"], s["odd"], s["error"]) for s in found["sources"]] == [
        ("slurm", True, 3, ""), ("kubernetes", False, 0, "HTTP 403")]  # fmt: skip
    assert [j["id"] for j in jobs_document(sources, [], NOW, {"node": "HOST-007.example"}, 10)["jobs"]] == ["2"]
    assert jobs_document(sources, [], NOW, {"source": "kubernetes"}, 10)["total"] == 0
    assert len(jobs_document(sources, [], NOW, {}, 1)["jobs"]) == 1
