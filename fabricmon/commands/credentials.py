"""Credentials for a server or an agent: the options that name the files, and the HTTP header made of them.

Certificates are passed on as file names; the code that opens the connection reads them."""

from __future__ import annotations

import argparse
import base64
import os

MAX_SECRET = 65536  # bytes of a file with a token or a password
OPTIONS = (
    ("token", "bearer token"),
    ("user", "USER:PASSWORD for basic authentication"),
    ("ca", "CA certificates to verify the {peer} with, instead of the system's"),
    ("cert", "client certificate"),
    ("key", "private key of the client certificate, if it is in a separate file"),
)
"""Word -> content of the file that `--WORD-file` names. With both token and user, the token is sent."""


def add_arguments(group: argparse._ArgumentGroup, peer: str, variables: str = "") -> None:
    """Add the options, "" where one is not given. `peer`: "server" or "agent", for the help. `variables`: prefix of the
    environment variables that are their defaults; "": none, so that a secret is sent only to its own peer."""
    for word, content in OPTIONS:
        about, default = content.format(peer=peer), ""
        if variables:
            name = f"{variables}{word.upper()}_FILE"
            about, default = f"{about} [{name}]", os.environ.get(name, "")
        group.add_argument(f"--{word}-file", metavar="FILE", default=default, help=about)


def header(token_file: str, user_file: str = "") -> dict[str, str]:
    """The Authorization header: the token, else user and password, none where no file is named.

    OSError for a file that cannot be read, ValueError with its name for one that is not text.
    """
    if token_file:
        return {"Authorization": f"Bearer {_line(token_file)}"}
    if user_file:
        return {"Authorization": f"Basic {base64.b64encode(_line(user_file).encode()).decode()}"}
    return {}


def _line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_SECRET).strip().partition("\n")[0].strip()
    except UnicodeError as error:
        raise ValueError(f"{path}: {error}") from error
