"""Write the output of today into docs/cli.md: `python -m tests.terminal`."""

from tests.terminal.documented import PAGE, page
from tests.terminal.fixed_server import FixedServer

with FixedServer() as server:
    PAGE.write_text(page(server.url))
