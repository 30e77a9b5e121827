"""Read by each Python process that a test of a changed module starts."""

from tests.mutation.hook import install_from_environment

install_from_environment()
