"""Parameters of the state of ports that is carried from tick to tick. Pure data."""

from __future__ import annotations

from msgspec import Struct


class TrackSettings(Struct, frozen=True):
    """Sources: docs/methods.md#flap-damping, docs/methods.md#cusum, docs/methods.md#ber-bounds.

    episode     s; downs this close together are one episode
    grace       s after a boot or a new epoch in which downs are not counted
    settle      s after a link came up, or a down, in which errors are not counted: training makes them (design choice)
    cap         errors of one poll that count towards an onset; errors come in bursts
    poll        s; the interval that `background` and `elevated` are counts of
    background  errors per poll that are usual at least, so that a first error is no onset
    elevated    errors per poll the onset test is tuned to, at least (0.01 -> 1 is found in 7 polls)
    ratio       the same as a multiple of the learned background
    ceiling     nats; the onset statistic is kept below, so that it can fall again (design choice: twice the alarm
                level)
    memory      s; time constant of the learned background (design choice)
    short       s; horizon of the window that shows new sickness (design choice)
    long        s; horizon of the window that shows health: above the 125 minutes vendors ask for
                (docs/methods.md#ber-bounds)
    """

    episode: float = 60.0
    grace: float = 120.0
    settle: float = 30.0
    cap: float = 3.0
    poll: float = 10.0
    background: float = 0.01
    elevated: float = 1.0
    ratio: float = 10.0
    ceiling: float = 41.2
    memory: float = 21_600.0
    short: float = 600.0
    long: float = 9_000.0
