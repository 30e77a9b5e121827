"""Print a JSON Schema: of the configuration, a cable plan, a file of jobs or the webhook's body; or the API's OpenAPI.

The same files are in docs/schemas. Editors with the YAML language server complete a file that begins with
`# yaml-language-server: $schema=PATH`.
"""

from __future__ import annotations

import argparse

NAMES = ("config", "plan", "jobs", "webhook", "api")

EXAMPLES = """\
fabricmon schema config > fabricmon.schema.json
fabricmon schema api
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=NAMES, help="what to describe")


def run(args: argparse.Namespace) -> int:
    """0."""
    from fabricmon.commands.schemas.tables import text_of

    print(text_of(args.name), end="")
    return 0
