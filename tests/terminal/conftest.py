import pytest

from tests.terminal.fixed_centre import FixedCentre


@pytest.fixture(scope="session")
def centre():
    """One for all tests of a process: nothing changes it."""
    with FixedCentre() as found:
        yield found
