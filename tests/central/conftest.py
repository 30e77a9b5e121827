"""Tests of the server log nothing: what commands print is looked at."""

import io

import pytest

from fabricmon.runtime import logs


@pytest.fixture(autouse=True)
def quiet():
    logs.configure(level="error", stream=io.StringIO())
