"""From counters and a list of jobs to an incident that says whom it hits: the engine in simulated time."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.engine.incidents.job_impacts import JobImpacts
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import JobVerdict, Severity
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from tests.engine.conftest import World
from tests.notify.made import due_notifications


def tell(world, *jobs, as_of=None):
    said = Jobs("slurm", world.now if as_of is None else as_of, tuple(jobs), stale_after=3600.0)
    world.engine.jobs((said,), world.now)


def job(id, hosts, **more):
    return Job(str(id), f"train-{id}", "mara", tuple(f"host-{n:03d}" for n in hosts), **more)


def incident(world, kind):
    (found,) = [i for i in world.engine.incidents() if i.status == "firing" and i.kind == kind]
    return found


def seen(world, kind):
    return any(i.status == "firing" and i.kind == kind for i in world.engine.incidents())


def changes(found):
    return [entry.change for entry in found.history]


@pytest.fixture
def world():
    return World()


def test_a_link_that_stays_down_stalls_its_job_and_then_crashes_it(world):
    tell(world, job(1, range(4)), job(2, range(4, 8)))
    world.break_links([("host-001", 2)])
    world.run(25, check=lambda: seen(world, "link_down"))
    first = incident(world, "link_down")
    assert [(j.id, j.verdict) for j in first.impact.jobs] == [("1", JobVerdict.STALL)]
    assert first.labels["jobs"] == "train-1#1 (stall)"
    assert (first.impact.jobs[0].nodes, first.impact.jobs[0].of) == (("host-001",), 4)
    world.run(40)
    then = incident(world, "link_down")
    assert then.impact.jobs[0].verdict is JobVerdict.CRASH
    assert then.revision == first.revision + 1
    crash = next(entry for entry in then.history if entry.change == "crash")
    assert 29 <= crash.at - then.since <= 33
    assert then.severity == first.severity
    world.run(60)
    assert incident(world, "link_down").revision == then.revision, "nothing became worse"


def test_a_crash_is_part_of_its_incident_and_no_second_notification(world):
    told, receivers = LastNotifications(), [Receiver("ops", min_severity=Severity.INFO, repeat=0.0)]
    reasons = []

    def plan():
        for note in due_notifications(world.engine.incidents(), told, receivers, (), world.now):
            told.add(note)
            reasons.append(note.reason)
        return False

    tell(world, job(1, range(4)), job(2, (1, 5)))
    world.break_links([("host-001", 2)])
    world.run(200, check=plan)
    assert reasons == ["new incident"]
    assert incident(world, "link_down").impact.jobs[0].verdict is JobVerdict.CRASH


def test_short_flaps_stall_and_do_not_crash(world):
    tell(world, job(1, range(4)))
    for _ in range(4):
        world.flap(("host-001", 2))
        world.run(15)
    found = incident(world, "link_flapping")
    assert found.impact.jobs[0].verdict is JobVerdict.STALL
    world.run(120)
    assert incident(world, "link_flapping").impact.jobs[0].verdict is JobVerdict.STALL


def test_a_dead_leaf_hits_the_jobs_below_it_and_no_other():
    world = World(units=2)
    tell(world, job(1, range(4)), job(2, range(4, 12)), job(3, range(12, 16)))
    world.break_links(world.ports(world.hosts[:8], rail=1))
    world.run(60)
    found = incident(world, "fault_domain")
    assert [(j.id, j.hit, j.of, j.verdict.value) for j in found.impact.jobs] == [
        ("1", 4, 4, "crash"), ("2", 4, 8, "crash")]  # fmt: skip


def test_a_job_that_began_later_was_set_up_without_the_port(world):
    world.break_links([("host-001", 2)])
    world.run(60)
    assert incident(world, "link_down").impact is None
    tell(world, job(7, range(4), started=world.now))
    world.run(5)
    found = incident(world, "link_down")
    assert found.impact.jobs[0].verdict is JobVerdict.SLOW
    assert "crash" not in changes(found)


def test_a_job_that_leaves_is_reported_as_gone_and_stays_in_the_resolved_incident(world):
    tell(world, job(1, range(4)))
    world.break_links([("host-001", 2)])
    world.run(50)
    tell(world)
    world.run(5)
    left = incident(world, "link_down").impact.jobs[0]
    assert (left.verdict, left.gone is not None) == (JobVerdict.CRASH, True)
    world.mend([("host-001", 2)])
    world.run(120)
    (ended,) = [i for i in world.engine.incidents() if i.status == "resolved"]
    assert ended.impact.jobs[0].id == "1"


def test_jobs_are_unknown_when_nobody_answers_for_long(world):
    tell(world, job(1, range(4)), as_of=world.now - 4000)
    world.break_links([("host-001", 2)])
    world.run(30)
    found = incident(world, "link_down")
    assert (found.impact.state, found.impact.jobs, found.labels["jobs"]) == ("unknown", (), "unknown")


def test_without_sources_incidents_are_as_they_were(world):
    world.break_links([("host-001", 2)])
    world.run(30)
    found = incident(world, "link_down")
    assert found.impact is None
    assert "jobs" not in found.labels


@pytest.mark.parametrize("busy", [True, False])
def test_a_host_that_is_gone_is_critical_only_with_a_job(world, busy):
    tell(world, job(1, range(4)), *([job(2, (6, 7))] if busy else []))
    world.break_links(world.ports(["host-006"]))
    world.run(3)
    world.silence(["host-006"])
    world.run(960, step=2.0)
    found = incident(world, "host_unreachable")
    assert found.severity is (Severity.CRITICAL if busy else Severity.WARNING)
    assert ([(j.id, j.verdict.value) for j in found.impact.jobs] if busy else found.impact) == (
        [("2", "crash")] if busy else None)  # fmt: skip


def test_a_silent_agent_alone_hits_no_job(world):
    tell(world, job(1, range(4)))
    world.silence(["host-001"])
    world.run(60)
    assert incident(world, "agent_silent").impact is None


def test_a_new_episode_begins_without_the_crash_of_the_last(world):
    tell(world, job(1, range(4)))
    world.break_links([("host-001", 2)])
    world.run(50)
    world.mend([("host-001", 2)])
    world.run(400)
    assert not seen(world, "link_down")
    tell(world, job(1, range(4)))
    world.break_links([("host-001", 2)])
    world.run(20, check=lambda: seen(world, "link_down"))
    assert incident(world, "link_down").impact.jobs[0].verdict is JobVerdict.STALL


def test_the_verdict_survives_a_restart_of_the_server(world):
    tell(world, job(1, range(4)))
    world.break_links([("host-001", 2)])
    world.run(50)
    world.restart()
    world.run(5)
    assert incident(world, "link_down").impact.jobs[0].verdict is JobVerdict.CRASH
    tell(world, job(1, range(4)))
    world.run(30)
    found = incident(world, "link_down")
    assert found.impact.jobs[0].verdict is JobVerdict.CRASH
    assert changes(found).count("crash") == 1


def test_the_same_input_gives_the_same_impact():
    def play():
        world = World(units=2)
        tell(world, job(1, range(4)), job(2, range(4, 12)), job(3, (1, 5)))
        world.break_links(world.ports(world.hosts[:8], rail=1))
        world.run(60)
        return incident(world, "fault_domain")

    assert play() == play()


running_jobs = st.dictionaries(st.sampled_from("abcde"), st.sets(st.integers(0, 5), max_size=4))


@given(st.lists(running_jobs, min_size=1, max_size=8))
def test_a_running_job_keeps_its_number_and_no_other_gets_it_at_once(rosters):
    """Ports are compared within a job: a number that moves to another job would be the same peers."""
    hosts, jobs = [f"host-{n:03d}" for n in range(6)], JobImpacts(SimpleNamespace())
    before: dict[str, int] = {}
    for step, running in enumerate(rosters):
        jobs.set_jobs((Jobs("slurm", float(step), tuple(job(id, on) for id, on in running.items())),))
        numbers = dict(zip(hosts, jobs.numbered(hosts), strict=True))
        of = {host: [id for id, on in running.items() if int(host[-3:]) in on] for host in hosts}
        now = {of[host][0]: number for host, number in numbers.items() if number >= 0}
        assert all((number >= 0) == (len(of[host]) == 1) for host, number in numbers.items())
        assert all(now[of[host][0]] == number for host, number in numbers.items() if number >= 0)
        assert len(set(now.values())) == len(now)
        assert all(before[id] == now[id] for id in before.keys() & now.keys())
        assert not {now[id] for id in now.keys() - before.keys()} & set(before.values())
        assert all(number < 2 * len(hosts) for number in now.values()), "numbers of ended jobs are used again"
        before = now
