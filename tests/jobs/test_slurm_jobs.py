"""Jobs out of Slurm's JSON, over the versions of its data parser."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.jobs import slurm
from fabricmon.jobs.model import Job, ListingError
from tests.jobs.made import LISTS, NUMBERS, OLD, RESOURCES, VERSIONS, slurm_answer, slurm_job


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_jobs(version):
    jobs = [
        slurm_job(version, 4711, "gpu[001-003,007]"),
        slurm_job(version, 4712, "", state="PENDING"),
        slurm_job(version, 4713, "gpu008", array=(4700, 3)),
        slurm_job(version, 4714, "GPU009.example.com", het=(4714, 1)),
        slurm_job(version, 4715, "gpu010", state="COMPLETED"),
    ]
    found = slurm.parse(slurm_answer(jobs, version))
    assert found.odd == ()
    first = Job("4711", "train-4711", "mara", ("gpu001", "gpu002", "gpu003", "gpu007"), "gpu", 1_700_000_000.0)
    assert found.jobs[0] == first
    assert [(job.id, job.nodes) for job in found.jobs[1:]] == [("4700_3", ("gpu008",)), ("4714+1", ("gpu009",))]


@pytest.mark.parametrize("version", [LISTS, RESOURCES])
def test_nodes_are_found_where_only_the_resources_have_them(version):
    job = slurm_job(version, 1, "a[1-2]")
    job["nodes"] = ""
    assert slurm.parse(slurm_answer([job], version)).jobs[0].nodes == ("a1", "a2")


def test_flags_beside_the_state_do_not_hide_it():
    job = slurm_job(LISTS, 1, "a1") | {"job_state": ["RUNNING", "SIGNALING"]}
    ending = slurm_job(LISTS, 2, "a1") | {"job_state": ["COMPLETED", "COMPLETING"]}
    assert [j.id for j in slurm.parse(slurm_answer([job, ending])).jobs] == ["1"]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (17, "jobs[0]"),
        ({"job_id": {"set": True, "number": -4}, "job_state": "RUNNING"}, "job_id"),
        ({"job_id": 5, "job_state": "RUNNING", "nodes": "gpu[3-1]"}, "count upwards"),
        ({"job_id": 5, "job_state": "RUNNING", "nodes": "gpu[1-"}, "bracket"),
        ({"job_id": 5, "job_state": ["RUNNING"], "nodes": None}, "has no nodes"),
        ({"job_id": 5, "job_state": {"what": 1}}, "job_state"),
    ],
)
def test_one_odd_job_costs_itself(odd, why):
    found = slurm.parse(slurm_answer([odd, slurm_job(NUMBERS, 4711, "gpu001")]))
    assert [job.id for job in found.jobs] == ["4711"]
    assert found.odd_count == 1
    assert why in found.odd[0]


def test_an_unset_start_is_unknown_and_a_missing_user_is_its_number():
    job = slurm_job(LISTS, 1, "a1", started=0) | {"user_name": None}
    (found,) = slurm.parse(slurm_answer([job])).jobs
    assert (found.started, found.user) == (None, "1001")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"squeue: unrecognized option '--json'", "JSON"),
        (b"[]", "JSON"),
        (b"{}", "--json"),
        (b"\xff", "JSON"),
        (slurm_answer([], errors=({"description": "Unable to contact slurm controller", "error": "x"},)), "controller"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_reason(data, why):
    with pytest.raises(ListingError, match=why):
        slurm.parse(data)


def test_infinity_and_nan_as_some_versions_print_them():
    job = slurm_job(LISTS, 4711, "gpu001") | {"priority_by_partition": [float("inf")], "billable_tres": float("nan")}
    assert [j.id for j in slurm.parse(slurm_answer([job])).jobs] == ["4711"]


def test_no_job_is_an_answer():
    assert slurm.parse(slurm_answer([])).jobs == ()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just("RUNNING"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["set", "number", "infinite", "list", "nodes"]), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted(slurm_job(OLD, 1, "a"))


@given(st.lists(values | st.dictionaries(st.sampled_from(FIELDS), values), max_size=4))
def test_nothing_that_is_json_costs_more_than_itself(jobs):
    data = json.dumps({"jobs": [*jobs, slurm_job(LISTS, 4711, "gpu001")]}).encode()
    assert slurm.parse(data).jobs[-1].id == "4711"
