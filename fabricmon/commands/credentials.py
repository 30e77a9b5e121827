"""What a command shows of itself to a centre or an agent: the options that name its files, and the header it sends.

Certificates are handed on by name; whoever opens the connection reads them."""

from __future__ import annotations

import argparse
import base64
import os

MAX_SECRET = 65536  # bytes of a file with a token or a password
OPTIONS = (
    ("token", "a bearer token"),
    ("user", "USER:PASSWORD"),
    ("ca", "certificates of who may vouch for the {peer}, in place of the system's"),
    ("cert", "this client's certificate"),
    ("key", "the key of that certificate, where it is a file of its own"),
)
"""Word -> what is in the file that `--WORD-file` names. Of token and user the token is shown where both are named."""


def add_arguments(group: argparse._ArgumentGroup, peer: str, variables: str = "") -> None:
    """The options, "" where one is not given. `peer` is what they let one into, in a word. `variables` is how the names
    of the environment variables begin that stand in for them; "": none does, so that a secret in the environment goes
    nowhere but where it was meant for."""
    for word, what in OPTIONS:
        about, default = what.format(peer=peer), ""
        if variables:
            name = f"{variables}{word.upper()}_FILE"
            about, default = f"{about} [{name}]", os.environ.get(name, "")
        group.add_argument(f"--{word}-file", metavar="FILE", default=default, help=about)


def header(token_file: str, user_file: str = "") -> dict[str, str]:
    """The header of HTTP that lets one in: by the token, else by user and password, none where no file is named.

    OSError for a file that cannot be read, ValueError that names it for one that is no text.
    """
    if token_file:
        return {"Authorization": f"Bearer {_line(token_file)}"}
    if user_file:
        return {"Authorization": f"Basic {base64.b64encode(_line(user_file).encode()).decode()}"}
    return {}


def _line(path: str) -> str:
    """The first line of a file: of several tokens the first."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_SECRET).strip().partition("\n")[0].strip()
    except UnicodeError as error:
        raise ValueError(f"{path}: {error}") from error
