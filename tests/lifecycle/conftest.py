"""The logs of the simulated servers are left out."""

from collections.abc import Iterator

import pytest
import structlog

from fabricmon.runtime import logs


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    logs.configure(level="error")
    yield
    structlog.configure(**before)
