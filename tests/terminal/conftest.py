import pytest

from tests.terminal.fixed_server import FixedServer


@pytest.fixture(scope="session")
def server():
    """One for all tests of a process: nothing changes it."""
    with FixedServer() as found:
        yield found
