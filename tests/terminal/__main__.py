"""Write the output of today into docs/cli.md: `python -m tests.terminal`."""

from tests.terminal.documented import PAGE, page
from tests.terminal.fixed_centre import FixedCentre

with FixedCentre() as centre:
    PAGE.write_text(page(centre.url))
