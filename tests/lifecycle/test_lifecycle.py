"""Restart x changed fleet x changed configuration x time: a state machine over the real engine, store and planning.

`make test` runs a few, `make test-all` more, and on demand `FABRICMON_LIFECYCLE=1000 .venv/bin/python -m pytest -s
tests/lifecycle -k many` any number.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fabricmon.model import Presence
from tests.lifecycle.agents import Port
from tests.lifecycle.site import COUNTS, DAY, HOSTS, PARAMS, RECEIVERS, LivingSite, plan, words

hosts = st.integers(0, HOSTS - 1).map(lambda n: f"a{n}:1")
devices = st.sampled_from(LivingSite.devices)
then = st.sampled_from((10.0, 30.0, 60.0))
spans = st.sampled_from((10.0, 30.0, 60.0, 120.0, 600.0))
long = st.sampled_from((60.0, 600.0, 3600.0, 8 * 3600.0, DAY, 8 * DAY, 31 * DAY))


class Lifecycle(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.site = LivingSite()
        self.fresh = 0
        self.site.run(60)

    def check_invariants(self, *about: object) -> None:
        """Called after each step; an @invariant would appear in the printed sequence."""
        COUNTS["steps"] += 1
        super().check_invariants(*about)

    # --- time

    @rule(seconds=spans)
    def time_passes(self, seconds: float) -> None:
        self.site.run(seconds)

    @rule(seconds=long)
    def the_server_is_suspended(self, seconds: float) -> None:
        self.site.pause(seconds)

    @rule(seconds=st.sampled_from((30.0, 120.0)))
    def no_agent_is_heard(self, seconds: float) -> None:
        self.site.run(seconds, heard=False)

    @rule(seconds=st.sampled_from((-3600.0, -30.0, 30.0, 3600.0, 40 * DAY)))
    def the_clock_of_the_machine_steps(self, seconds: float) -> None:
        self.site.wall_offset += seconds

    # --- faults

    @rule(address=hosts, which=st.integers(0, 2), times=st.integers(1, 3), then=then)
    def a_link_goes_down(self, address: str, which: int, times: int, then: float) -> None:
        for port in list(self.site.agents[address].ports.values())[which : which + 1]:
            port.up, port.downs = False, port.downs + times
        self.site.run(then)

    @rule(address=hosts, which=st.integers(0, 2), then=then)
    def a_link_is_slow(self, address: str, which: int, then: float) -> None:
        for port in list(self.site.agents[address].ports.values())[which : which + 1]:
            port.half = not port.half
        self.site.run(then)

    @rule(address=hosts)
    def links_of_a_host_come_up(self, address: str) -> None:
        for port in self.site.agents[address].ports.values():
            port.up = True

    @rule(device=devices, up=st.booleans(), then=then)
    def a_leaf_changes(self, device: str, up: bool, then: float) -> None:
        for agent in self.site.agents.values():
            port = agent.ports.get(device)
            if port is not None and port.up is not up:
                port.up, port.downs = up, port.downs + (not up)
        self.site.run(then)

    @rule(address=hosts, how=st.sampled_from((Presence.REFUSED, Presence.UNREACHABLE)), then=then)
    def a_host_goes_down(self, address: str, how: Presence, then: float) -> None:
        self.site.agents[address].down = how
        self.site.run(then)

    @rule(address=hosts, booted=st.booleans())
    def a_host_comes_back(self, address: str, booted: bool) -> None:
        agent = self.site.agents[address]
        agent.down = None
        agent.reboot(self.site.steady) if booted else agent.restart(self.site.steady)
        if self.site.server is not None:
            self.site.server.close_streams(address)

    # --- the fleet changes

    @rule(address=hosts, device=devices, on_purpose=st.booleans(), then=then)
    def an_adapter_leaves(self, address: str, device: str, on_purpose: bool, then: float) -> None:
        agent = self.site.agents[address]
        if agent.ports.pop(device, None) is not None:
            if on_purpose:
                agent.removed.add(device)
            self.site.reshaped(agent)
        self.site.run(then)

    @rule(address=hosts, device=devices)
    def an_adapter_is_put_in(self, address: str, device: str) -> None:
        self.fresh += 1
        agent = self.site.agents[address]
        agent.ports[device] = Port(words(0xCC0000 + self.fresh))
        agent.removed.discard(device)
        self.site.reshaped(agent)

    @rule(address=hosts, old=devices, new=devices)
    def an_adapter_is_renamed(self, address: str, old: str, new: str) -> None:
        agent = self.site.agents[address]
        if old in agent.ports and new not in agent.ports:
            agent.ports[new] = agent.ports.pop(old)
            agent.removed.discard(new)
            self.site.reshaped(agent)

    @rule(address=hosts, name=st.sampled_from(("host-0", "host-1", "new-a", "new-b")))
    def a_node_is_renamed(self, address: str, name: str) -> None:
        agent = self.site.agents[address]
        if all(other.name != name for other in self.site.agents.values()):
            agent.name = name
            agent.restart(self.site.steady)
            self.site.reshaped(agent)
            if self.site.server is not None:
                self.site.server.close_streams(address)

    @rule(address=hosts)
    def a_node_is_replaced(self, address: str) -> None:
        self.fresh += 1
        agent = self.site.agents[address]
        agent.machine = f"machine-new-{self.fresh}"
        for port in agent.ports.values():
            self.fresh += 1
            port.guid = words(0xDD0000 + self.fresh)
        agent.reboot(self.site.steady)
        if self.site.server is not None:
            self.site.server.close_streams(address)

    @rule(address=hosts, there=st.booleans())
    def a_target_comes_or_goes(self, address: str, there: bool) -> None:
        (self.site.targets.add if there else self.site.targets.discard)(address)
        self.site.retarget()

    # --- the server

    @precondition(lambda self: self.site.server is not None)
    @rule()
    def the_server_is_killed_and_started(self) -> None:
        self.site.stop()
        self.site.start()

    @precondition(lambda self: self.site.server is not None and not self.site.server.store.broken)
    @rule()
    def a_restart_changes_nothing_that_is_open(self) -> None:
        self.site.run(120)
        before = self.site.broken_links()
        self.site.stop()
        self.site.start()
        self.site.run(60)
        assert self.site.server is not None
        into = {i.id: i.labels.get("absorbed_by") for i in self.site.server.engine.incidents()}
        lost = [before[id] for id in before.keys() - self.site.broken_links().keys() if not into.get(id)]
        assert not lost, f"a restart ended {lost}"

    @precondition(lambda self: self.site.server is not None)
    @rule()
    def the_server_is_killed(self) -> None:
        self.site.stop()

    @precondition(lambda self: self.site.server is None)
    @rule()
    def the_server_is_started(self) -> None:
        self.site.start()

    @precondition(lambda self: self.site.server is not None)
    @rule(broken=st.booleans())
    def the_disk_changes(self, broken: bool) -> None:
        assert self.site.server is not None
        self.site.server.store.broken = broken

    # --- configuration

    @rule(params=st.sampled_from(tuple(PARAMS)), planned=st.booleans())
    def rules_and_topology_change(self, params: str, planned: bool) -> None:
        self.site.params, self.site.graph = params, plan() if planned else None
        self.site.reconfigure()

    @rule(name=st.sampled_from(tuple(RECEIVERS)))
    def receivers_change(self, name: str) -> None:
        self.site.notified = name
        self.site.reconfigure()

    @rule(away=st.booleans())
    def receivers_go_or_come(self, away: bool) -> None:
        self.site.receivers.away = away

    @precondition(lambda self: self.site.server is not None and not self.site.server.store.broken)
    @rule(what=st.sampled_from(("kind=link_down", 'component=~".*host-1.*"', "kind=mass_alarm")), seconds=long)
    def a_silence_begins(self, what: str, seconds: float) -> None:
        assert self.site.server is not None
        evaluator, now = self.site.server.evaluator, self.site.clock.now()
        self.site.server.run(evaluator.silences.add([what], now, now + seconds, "m", "c", now))
        evaluator.silences_changed()

    @precondition(lambda self: self.site.server is not None and not self.site.server.store.broken)
    @rule(hosts=st.sampled_from((["host-1"], ["host-*"], ["new-a", "host-3"])), seconds=long)
    def maintenance_begins(self, hosts: list[str], seconds: float) -> None:
        assert self.site.server is not None
        evaluator, now = self.site.server.evaluator, self.site.clock.now()
        self.site.server.run(evaluator.maintenance.add(now, now + seconds, now, hosts, (), "m", "c"))
        evaluator.silences_changed()

    @precondition(lambda self: self.site.server is not None and not self.site.server.store.broken)
    @rule()
    def silences_and_maintenance_end(self) -> None:
        assert self.site.server is not None
        evaluator, now = self.site.server.evaluator, self.site.clock.now()
        for kept in (evaluator.silences, evaluator.maintenance):
            for window in kept.open(now):
                self.site.server.run(kept.expire(window.id, now))
        evaluator.silences_changed()

    # --- the end

    def teardown(self) -> None:
        if hasattr(self, "site"):
            try:
                self.site.everything_ends()
            finally:
                self.site.close()


def run(runs: int, search: bool = False) -> None:
    """`search`: a failure is reported as it was found, without the minutes of making it shorter."""
    phases = [phase for phase in Phase if not search or phase is not Phase.shrink]
    run_state_machine_as_test(
        Lifecycle,
        settings=settings(
            max_examples=runs, stateful_step_count=40, phases=phases, suppress_health_check=list(HealthCheck)
        ),
    )


FEW = 5
ASKED = int(os.environ.get("FABRICMON_LIFECYCLE", "0"))
MANY = ASKED or 60
LONGEST_S = 60.0
"""Of one run, which takes 1 to 4 s of CPU time: the machine may be busy."""


@pytest.mark.timeout(FEW * LONGEST_S)
def test_whatever_happens_incidents_end_and_notifications_are_complete() -> None:
    run(FEW)


@pytest.mark.timeout(MANY * LONGEST_S)
def test_the_same_many_times() -> None:
    run(MANY, search=ASKED > 0)
    print(", ".join(f"{count} {what}" for what, count in sorted(COUNTS.items())))
