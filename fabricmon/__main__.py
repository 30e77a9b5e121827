"""`python -m fabricmon`: the command line, where the script `fabricmon` is not on the path."""

import sys

from fabricmon.cli import main

sys.exit(main())
