"""What an incident does to jobs, and how that is told over time."""

import msgspec
import pytest

from fabricmon.catalogue.kinds import KINDS
from fabricmon.jobs.impact import (
    MOST,
    FaultDomain,
    Strike,
    carried,
    described,
    impact_of,
    label,
    worst,
)
from fabricmon.jobs.model import Job, Jobs, Roster
from fabricmon.model import JobVerdict

NOW = 1_800_000_000.0
HERE = FaultDomain("link", "link(h1/mlx5_0/1)")


def job(id="1", nodes=("h1", "h2"), **more):
    return Job(id, more.pop("name", "train"), "mara", tuple(nodes), **more)


def roster(*jobs, as_of=NOW, **more):
    return Roster((Jobs("slurm", as_of, tuple(jobs), **more),))


def strike(kind="link_down", ago=5.0, host="h1", **more):
    return Strike(host, kind, KINDS[kind].effect, NOW - ago, **more)


def judged(*strikes, of=None, domain=HERE, now=NOW):
    return impact_of(strikes, domain, of or roster(job()), now)


def verdict(*strikes, **more):
    found = judged(*strikes, **more)
    return found.jobs[0].verdict if found else None


@pytest.mark.parametrize(("ago", "then"), [(0.0, "stall"), (29.9, "stall"), (30.0, "crash"), (300.0, "crash")])
def test_an_outage_is_a_stall_until_nccl_gives_up(ago, then):
    assert verdict(strike(ago=ago)) == then


def test_what_a_job_says_of_its_own_budget_wins_over_the_default():
    assert verdict(strike(ago=60), of=roster(job(survives=120.0))) == "stall"
    assert verdict(strike(ago=60), of=roster(job(), survives=90.0)) == "stall"
    assert verdict(strike(ago=10), of=roster(job(survives=8.0))) == "crash"


def test_failover_of_ports_makes_an_outage_a_slowdown_unless_the_host_is_gone():
    of = roster(job(failover=True))
    assert verdict(strike(ago=60), of=of) == "slow"
    assert verdict(strike("host_unreachable", ago=60, whole=True), of=of) == "crash"
    assert "unless port failover" in judged(strike(ago=60)).jobs[0].reason
    assert "failover" not in judged(strike(ago=60), of=roster(job(failover=False))).jobs[0].reason


def test_a_job_that_began_after_the_fault_is_slow_but_not_on_a_host_that_is_gone():
    of = roster(job(started=NOW - 50))
    assert verdict(strike(ago=60), of=of) == "slow"
    assert verdict(strike("nvlink_down", ago=60), of=of) == "slow"
    assert verdict(strike("host_unreachable", ago=60, whole=True), of=of) == "crash"


@pytest.mark.parametrize("kind", ["link_errors", "congestion", "packet_loss", "straggler"])
def test_what_hampers_traffic_makes_slow(kind):
    assert verdict(strike(kind, ago=9999)) == "slow"


def test_flaps_stall_and_a_flapping_link_that_stays_down_crashes():
    flapping = strike("link_flapping", ago=900)
    assert verdict(flapping) == "stall"
    assert verdict(flapping, strike(ago=31)) == "crash"


def test_what_says_nothing_of_traffic_hits_nobody():
    assert judged(strike("agent_silent"), strike("telemetry_quality")) is None


def test_a_job_of_one_node_is_at_risk_only_unless_the_fault_is_inside():
    of = roster(job(nodes=("h1",)))
    assert verdict(strike(ago=60), of=of) == "at_risk"
    assert verdict(strike("nvlink_down", ago=1), of=of) == "crash"
    assert verdict(strike("host_unreachable", ago=60, whole=True), of=of) == "crash"


def test_roles_of_ports_count():
    assert verdict(strike(ago=60, role="storage")) == "stall"
    assert verdict(strike(ago=60, role="management")) == "at_risk"
    assert verdict(strike(ago=60, role="compute")) == "crash"


def test_the_worst_of_several_symptoms_counts_with_all_its_nodes():
    found = judged(strike("link_errors"), strike(ago=40, host="h2"), of=roster(job(nodes=("h1", "h2", "h3"))))
    (hit,) = found.jobs
    assert (hit.verdict, hit.nodes, hit.hit, hit.of) == (JobVerdict.CRASH, ("h1", "h2"), 2, 3)
    assert hit.since == NOW - 40


def test_jobs_on_other_hosts_are_not_hit():
    assert judged(strike(host="h9")) is None


def test_hosts_are_matched_by_their_name_without_domain():
    assert verdict(strike(host="H1.cluster.example")) == "stall"


def test_two_jobs_on_one_node_are_both_reported_with_the_doubt():
    found = judged(strike(), of=roster(job("1"), job("2", ("h1", "h3"))))
    assert {j.id for j in found.jobs} == {"1", "2"}
    assert all("share" in j.reason for j in found.jobs)
    whole = judged(strike("host_unreachable", whole=True), of=roster(job("1"), job("2", ("h1", "h3"))))
    assert not any("share" in j.reason for j in whole.jobs)


LEAF = FaultDomain("leaf", "leaf(su0/rail2)", frozenset({"h1", "h2", "h3"}))


def test_jobs_below_what_failed_are_at_risk_once_and_after_those_that_are_hit():
    found = judged(strike("packet_loss"), of=roster(job("1"), job("2", ("h3", "h8")), job("3", ("h8", "h9"))),
                   domain=LEAF)  # fmt: skip
    assert [(j.id, j.verdict.value) for j in found.jobs] == [("1", "slow"), ("2", "at_risk")]
    assert "1 of its 2 nodes" in found.jobs[1].reason


def test_only_jobs_that_send_through_it_are_at_risk():
    spine = FaultDomain("spine", "spine(s)", LEAF.hosts, lambda nodes: "h8" in nodes)
    of = roster(job("2", ("h2", "h8")), job("3", ("h2", "h3")), job("4", ("h3",)))
    assert [j.id for j in judged(of=of, domain=spine).jobs] == ["2"]


def test_no_source_no_impact_and_nothing_running_no_impact():
    assert judged(strike(), of=Roster()) is None
    assert judged(strike(), of=roster()) is None


def test_unknown_is_not_no_job():
    never = judged(strike(), of=roster(as_of=None))
    assert (never.state, never.jobs, label(never)) == ("unknown", (), "unknown")
    stale = judged(strike(), of=roster(job(), as_of=NOW - 301))
    assert (stale.state, stale.jobs, label(stale)) == ("unknown", (), "unknown")
    two = Roster((Jobs("slurm", NOW, (job(),)), Jobs("kubernetes", None)))
    assert (judged(strike(), of=two).state, verdict(strike(), of=two)) == ("partly", "stall")


def test_more_jobs_than_can_be_named_are_counted():
    of = roster(*(job(str(n), name=f"train-{n}") for n in range(100)))
    found = judged(strike(), of=of)
    assert (len(found.jobs), found.total) == (MOST, 100)
    assert label(found) == "train-0#0 (stall), train-1#1 (stall), train-10#10 (stall), ... (+97)"


# --- over time


def test_a_verdict_never_gets_better_within_an_episode():
    crashed = judged(strike(ago=60))
    later = carried(crashed, judged(strike("link_errors", ago=1)), roster(job()), NOW)
    assert later.jobs[0].verdict is JobVerdict.CRASH
    assert later.jobs[0].reason == crashed.jobs[0].reason
    assert carried(judged(strike()), crashed, roster(job()), NOW).jobs[0].verdict is JobVerdict.CRASH


def test_a_job_that_is_listed_no_more_is_kept_with_the_time_and_one_at_risk_is_dropped():
    old = judged(strike(ago=60), of=roster(job("1"), job("2", ("h3", "h8"))), domain=LEAF)
    kept = carried(old, None, roster(), NOW + 40)
    assert [(j.id, j.gone) for j in kept.jobs] == [("1", NOW + 40)]
    again = carried(kept, None, roster(), NOW + 80)
    assert again.jobs[0].gone == NOW + 40, "when it was first seen"


def test_a_source_that_went_silent_says_nothing_about_jobs_that_left():
    old = judged(strike(ago=60))
    kept = carried(old, None, roster(as_of=NOW - 1000), NOW)
    assert (kept.state, kept.jobs[0].gone) == ("unknown", None)


def test_history_tells_what_became_worse_and_nothing_else():
    stalled, crashed = judged(strike()), judged(strike(ago=60))
    assert described(stalled, crashed).startswith("train#1: crash")
    assert described(crashed, crashed) == ""
    assert described(crashed, stalled) == ""
    both = judged(strike(), of=roster(job("1"), job("2")))
    assert described(stalled, both) == "", "one more job that is no worse off"
    younger = msgspec.structs.replace(stalled, as_of=NOW + 30)
    assert described(stalled, younger) == ""


def test_the_worst_of_an_impact():
    assert worst(None) is None
    assert worst(judged(strike(ago=60), strike("link_errors", host="h2"))) is JobVerdict.CRASH


def test_an_index_is_kept_while_the_jobs_are_the_same():
    before = roster(job())
    said = before.sources[0]
    younger = msgspec.structs.replace(said, as_of=NOW + 30, error="late")
    assert before.with_answers((younger,)) is before
    assert before.source("slurm").as_of == NOW + 30
    assert before.with_answers((msgspec.structs.replace(said, jobs=(job("2"),)),)) is not before
