"""The state of a link from all it shows, and what is kept of it over time, against plain tellings of the same rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.fleet import link
from fabricmon.fleet.downs import MOST
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.link import DOWN, INIT, ORDERED, UNKNOWN, UP
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.tracks import Tracks
from fabricmon.model import Kind
from tests.fleet.site import Site, port_part

NAN = math.nan
SHOWN = {
    "state": (NAN, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0),
    "phys_state": (NAN, 2.0, 3.0, 5.0),
    "carrier": (NAN, 0.0, 1.0),
    "operstate": (NAN, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
    "admin_up": (NAN, 0.0, 1.0),
}
RDMA = {1: DOWN, 2: INIT, 3: INIT, 4: UP, 5: UP}  # down, init, armed, active, active-defer
OPER = {1: DOWN, 2: DOWN, 3: DOWN, 6: UP}  # not present, down, lower layer down, up


class Shown:
    """What `classify` asks of a table: columns that are there."""

    def __init__(self, columns: dict[str, list[float]]) -> None:
        self.columns = {name: np.array(values) for name, values in columns.items()}
        self.n = len(next(iter(self.columns.values())))

    def values(self, name: str) -> np.ndarray | None:
        return self.columns.get(name)


def told(state: float, phys: float, carrier: float, oper: float, admin: float, infiniband: bool) -> int:
    """docs/methods.md#link-state, one port at a time."""
    rdma = RDMA.get(int(state), UNKNOWN) if state == state else UNKNOWN
    if rdma == INIT and phys == phys and phys != 5:
        rdma = DOWN  # nobody can configure a port without a signal
    if infiniband:
        return ORDERED if rdma == DOWN and phys == 3 else rdma
    if admin == 0:
        return ORDERED
    if carrier == 0:
        return DOWN
    if state == state and 0 <= state < 7:
        return rdma
    return UP if carrier == 1 else OPER.get(int(oper), UNKNOWN) if oper == oper else UNKNOWN


@pytest.mark.parametrize("infiniband", [False, True])
def test_the_state_of_a_link_from_every_combination_of_what_it_shows(infiniband: bool) -> None:
    every = list(itertools.product(*SHOWN.values()))
    table = Shown({name: [one[at] for one in every] for at, name in enumerate(SHOWN)})
    found = link.classify(table, np.full(len(every), infiniband))  # type: ignore[arg-type]
    for one, state in zip(every, found.tolist(), strict=True):
        assert state == told(*one, infiniband), dict(zip(SHOWN, one, strict=True))


@pytest.mark.parametrize("missing", SHOWN)
def test_a_column_that_nobody_delivers_is_unknown(missing: str) -> None:
    some = {name: values[-2:] * 2 for name, values in SHOWN.items()}
    there = {name: list(values) for name, values in some.items() if name != missing}
    same = there | {missing: [NAN] * 4}
    for infiniband in (False, True):
        layer = np.full(4, infiniband)
        found = [link.classify(Shown(shown), layer).tolist() for shown in (there, same)]  # type: ignore[arg-type]
        assert found[0] == found[1]


# --- over time

COLUMNS = ("state", "phys_state", "link_downed")
SETTLE, GRACE, EPISODE = TrackSettings().settle, TrackSettings().grace, TrackSettings().episode


class Told:
    """One InfiniBand port, in plain words."""

    def __init__(self) -> None:
        self.link, self.last_known, self.since, self.ever = UNKNOWN, UNKNOWN, NAN, False
        self.counter = self.down_at = self.begun = NAN
        self.downs: list[tuple[float, int]] = []
        self.excused = 0
        self.counted, self.taken = [0.0, 0.0], 0.0

    def reads(self, state: float, counter: float, now: float, seconds: float, quiet: bool) -> None:
        after = RDMA[int(state)] if state == state else UNKNOWN
        rise = counter - self.counter if counter == counter and self.counter == self.counter else 0.0
        fell = self.last_known == UP and after == DOWN and self.link != DOWN
        if after != self.link or self.since != self.since:
            self.link, self.since = after, now
        self.last_known = after if after != UNKNOWN else self.last_known
        self.ever |= after == UP or (after == DOWN and counter > 0)
        self.counter = counter if counter == counter else self.counter
        if rise > 0 or fell:
            self.down(max(rise, 0.0), float(fell), now, seconds, quiet)

    def down(self, rise: float, fell: float, now: float, seconds: float, quiet: bool) -> None:
        if not now - self.down_at <= EPISODE:
            self.counted, self.taken = [0.0, 0.0], 0.0
        self.counted = [self.counted[0] + rise, self.counted[1] + fell]
        new = max(max(self.counted) - self.taken, 0.0)
        self.taken, self.down_at = max(*self.counted, self.taken), now
        if new and (quiet or now - self.begun < GRACE):
            self.excused += int(new)
        elif new:
            self.downs.append((now - (seconds / 2 if seconds > 30 else 0.0), int(new)))

    def settled(self, now: float) -> bool:
        lately = now - self.down_at < SETTLE or now - self.begun < SETTLE
        return self.link == UP and now - self.since >= SETTLE and not lately


polls = st.tuples(
    st.sampled_from((10.0, 10.0, 20.0, 30.0, 60.0, 100.0)),  # seconds since the last
    st.lists(st.tuples(st.sampled_from((4.0, 4.0, 4.0, 1.0, 2.0, NAN)), st.sampled_from((0, 0, 1, 3))),
             min_size=3, max_size=3),
    st.sampled_from(("", "", "", "quiet", "loud", "boot")),
)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(polls, min_size=4, max_size=25))
def test_since_when_a_link_has_its_state_and_which_downs_count(happens: list) -> None:
    """Three ports of one node. Downs within a minute are one episode, of which the greatest count is taken."""
    site, names, boots, quiet = Site(), ("p0/1", "p1/1", "p2/1"), 1, False
    ports, counters, taken = [Told() for _ in names], [0.0, 5.0, 0.0], 100.0
    part = port_part("infiniband", COLUMNS, *names, device="x", link_layer="InfiniBand")
    site.inventory("a", part)
    for seconds, shown, event in happens:
        site.now += seconds
        taken += seconds
        if event == "boot":
            boots += 1
            counters = [0.0] * 3
            site.inventory("a", part, boot=f"boot-{boots}")
            for port in ports:
                port.begun, port.counter = site.now, NAN
        elif event:
            quiet = event == "quiet"
            site.fleet.maintain(["a"] if quiet else [])
        counters = [count + more for count, (_, more) in zip(counters, shown, strict=True)]
        cells = {(name, "link_downed"): count for name, count in zip(names, counters, strict=True)}
        cells |= {(name, "state"): state for name, (state, _) in zip(names, shown, strict=True)}
        site.send("a", cells | {(name, "phys_state"): 5.0 for name in names}, taken)
        view = site.tick()
        settled = view.tracks.settled(view.table, site.now, SETTLE)
        for name, port, count, (state, _) in zip(names, ports, counters, shown, strict=True):
            port.reads(state, count, site.now, seconds, quiet)
            row, tracks = site.row("a", name), view.tracks
            assert (tracks.link[row], tracks.last_known[row]) == (port.link, port.last_known)
            assert (tracks.since[row], bool(tracks.ever_up[row])) == (port.since, port.ever)
            assert tracks.downs.of_row(row) == port.downs[-16:]
            assert tracks.downs.excused[row] == port.excused
            assert bool(settled[row]) is port.settled(site.now)


def test_the_carrier_counts_downs_where_the_port_s_own_counter_cannot() -> None:
    site = Site()
    columns = ("state", "phys_state", "link_downed", "carrier_down_changes")
    site.inventory(
        "a",
        port_part("infiniband", columns, "ib/1", "full/1", device="x", link_layer="InfiniBand"),
        port_part("roce", columns, "roce/1", device="x", link_layer="Ethernet"),
    )
    up = {(name, "state"): 4.0 for name in ("ib/1", "full/1", "roce/1")}
    up |= {(name, "phys_state"): 5.0 for name in ("ib/1", "full/1", "roce/1")}
    full = {("full/1", "link_downed"): 255.0}
    site.send("a", up | full, 100.0)
    site.tick()
    moved = {(name, "carrier_down_changes"): 2.0 for name in ("ib/1", "full/1", "roce/1")}
    site.send("a", up | full | moved, 110.0)
    tracks = site.tick(10.0).tracks
    assert tracks.downs.of_row(site.row("a", "ib/1")) == []  # its carrier follows the subnet manager, too
    assert tracks.downs.of_row(site.row("a", "full/1")) == [(site.now, 2)]
    assert tracks.downs.of_row(site.row("a", "roce/1")) == [(site.now, 2)]


@pytest.mark.parametrize("risen", [2.0**24 + 1, 2.0**53, 1e300])
def test_a_counter_that_leaps_is_a_bounded_number_of_downs(risen: float) -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", COLUMNS, "p/1", "q/1", device="x", link_layer="InfiniBand"))
    shown = {(name, column): at for name in ("p/1", "q/1") for column, at in (("state", 4.0), ("phys_state", 5.0))}
    site.send("a", shown | {("p/1", "link_downed"): 0.0}, 100.0)
    site.tick()
    site.send("a", shown | {("p/1", "link_downed"): risen}, 110.0)
    downs = site.tick(10.0).tracks.downs
    assert downs.of_row(site.row("a", "p/1")) == [(site.now, MOST)]
    assert downs.of_row(site.row("a", "q/1")) == []


def test_a_port_that_left_the_inventory_is_unknown_and_an_ordered_down_does_not_count() -> None:
    site = Site()
    both = port_part("infiniband", COLUMNS, "p/1", "q/1", device="x", link_layer="InfiniBand")
    site.inventory("a", both)
    shown = {
        (name, column): value for name in ("p/1", "q/1") for column, value in (("state", 4.0), ("phys_state", 5.0))
    }
    site.send("a", shown, 100.0)
    site.tick()
    ordered = {("p/1", "state"): 1.0, ("p/1", "phys_state"): 3.0, ("p/1", "link_downed"): 1.0}
    site.send("a", shown | ordered, 110.0)
    tracks = site.tick(10.0).tracks
    p, q = site.row("a", "p/1"), site.row("a", "q/1")
    assert tracks.link[[p, q]].tolist() == [ORDERED, UP]
    assert (tracks.downs.of_row(p), int(tracks.downs.excused[p])) == ([], 1)
    site.inventory("a", port_part("infiniband", COLUMNS, "p/1", device="x", link_layer="InfiniBand"))
    tracks = site.tick(10.0).tracks
    assert (tracks.link[q], tracks.last_known[q], tracks.since[q]) == (UNKNOWN, UP, site.now)
    fleet: Fleet = site.fleet
    assert isinstance(fleet.tables[Kind.PORT].tracks, Tracks)
