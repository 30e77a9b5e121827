"""Names with `*`: the same as the regular expression, in a time that the number of stars does not multiply."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.forms.glob import NamePatterns


@given(st.lists(st.text(alphabet="ab*.", max_size=6), max_size=3), st.text(alphabet="ab.", max_size=8))
def test_a_star_stands_for_any_characters_and_nothing_else_is_special(patterns: list[str], name: str) -> None:
    as_regex = ("".join(".*" if c == "*" else re.escape(c) for c in pattern) for pattern in patterns)
    assert NamePatterns(patterns).match(name) == any(re.fullmatch(regex, name) for regex in as_regex)


@pytest.mark.timeout(10)
def test_many_stars_against_a_long_name() -> None:
    patterns = NamePatterns(["a*" * 512 + "b"] * 10)
    assert not patterns.match("a" * 10_000 + "c")


def test_no_pattern_is_false_and_meets_nothing() -> None:
    assert not NamePatterns([])
    assert NamePatterns(["*"])
    assert not NamePatterns([]).match("")
