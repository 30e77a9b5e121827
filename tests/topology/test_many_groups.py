"""Rows that are in several groups of one domain: members of groups are counted, of those that have none, too."""

import numpy as np

from fabricmon.topology.groups import Many


def test_members_are_counted_by_group():
    paths = Many(np.array([0, 2, 2, 3]), np.array([1, 0, 1], np.int32))
    known = np.array([True, True, False])
    assert paths.count(np.array([0, 1, 1, 7, -1]), known).tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_rows_in_no_group_leave_every_group_without_members():
    """As of a node that delivered flows, whose rows are free since it left."""
    paths = Many(np.array([0, 0, 0]), np.zeros(0, np.int32))
    assert paths.count(np.array([0, 3]), np.array([True, True])).tolist() == [0.0, 0.0]
    assert paths.count(np.zeros(0, np.int64), np.array([True, True])).tolist() == []
