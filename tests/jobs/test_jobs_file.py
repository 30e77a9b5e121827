"""Our own form of a list of jobs."""

import json

import pytest

from fabricmon.jobs import file
from fabricmon.jobs.model import Job, ListingError, as_text


def parse(value):
    return file.parse(json.dumps(value).encode())


def test_all_that_a_job_may_say():
    full = {"id": 4711, "name": "train", "user": "mara", "queue": "gpu", "nodes": "gpu[01-02]",
            "started": "2026-05-04T09:00:00Z", "survives": 120, "failover": True}  # fmt: skip
    found = parse({"as_of": 1_777_885_000, "jobs": [full]})
    job = Job("4711", "train", "mara", ("gpu01", "gpu02"), "gpu", 1777885200.0, 120.0, True)
    assert (found.jobs, found.as_of) == ((job,), 1_777_885_000.0)


def test_a_bare_list_and_nodes_as_a_list_do_as_well():
    assert parse([{"id": "x", "nodes": ["A.example", "b[1-2]"]}]).jobs == (Job("x", "", "", ("a", "b1", "b2")),)


@pytest.mark.parametrize(
    "odd", [3, {}, {"id": ""}, {"id": "a"}, {"id": "a", "nodes": []}, {"id": "a", "nodes": "x[2-1]"},
            {"id": "a", "nodes": {"b": 1}}],
)  # fmt: skip
def test_one_odd_job_costs_itself_and_is_named(odd):
    found = parse({"jobs": [odd, {"id": "good", "nodes": "n1"}]})
    assert [job.id for job in found.jobs] == ["good"]
    assert "jobs[0]" in found.odd[0]


@pytest.mark.parametrize("value", [{}, {"jobs": {}}, "x", {"jobs": [], "as_of": "yesterday"}])
def test_what_is_no_such_file_is_refused(value):
    with pytest.raises(ListingError):
        parse(value)


def test_half_a_file_is_refused():
    with pytest.raises(ListingError, match="JSON"):
        file.parse(b'{"jobs": [{"id"')


def test_text_that_is_no_unicode_is_kept_as_text_that_can_be_stored() -> None:
    assert as_text("train\ud800") == "train?"
