"""What `web:` below `agent:` and `central:` says: who may do what at that listener."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Word = Literal["scrape", "read", "change"]


class WebConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The listener's security. Everything named here is read again when it changes, without a restart.

    config_file  TLS, users, headers and rate limit in the web configuration form of Prometheus's exporters.
    token_file   bearer tokens that may read, one a line, so that an old and a new one hold together while they are
                 changed; "": none.
    roles        what a caller may do: a user's name, or `san:` and a name in the caller's certificate -> scrape
                 (/metrics, /health and, at the centre, /api/v1/targets with addresses, names and labels of all agents),
                 read (everything), change (silences and maintenance too). Who is known and not named here may read.
    anonymous    what a caller may do who shows nothing; "": all, until there are users, a token to read or required
                 client certificates: then nothing; with only a token to change: read.
    probes       /-/live, /-/ready and /-/healthy answer to everybody whom TLS lets in.
    hosts        names under which this listener is reached, beside addresses, this machine's names and that of
                 `external_url`; with any named here, requests to other names are refused.
    """

    config_file: str = ""
    token_file: str = ""
    roles: dict[str, Word] = {}
    anonymous: Literal["", "nothing", "scrape", "read", "change"] = ""
    probes: bool = True
    hosts: tuple[str, ...] = ()


class LinkConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """How the centre reaches agents. The files are read again when they change; streams that are open stay.

    tls            speak TLS to agents; a target's own `https://` or `http://`, or its label `__scheme__`, wins.
    ca_file        certificates an agent's may be signed by; "": those the system trusts.
    cert_file      certificate that is shown to agents which ask for one; "": none.
    key_file       its key; "": it stands in cert_file.
    server_name    name that must stand in every agent's certificate; "": the host part of its address.
    token_file     bearer token; its first line is sent.
    username       user of basic authentication, with the password in password_file.
    password_file  one line.
    node_names     whose word is taken for which node an agent speaks: "said": its own; "target": that of its target
                   (label `node`, else host), "certificate": its certificate, in which the name must stand.
    sweepers       nodes whose sweeps of the fabric are taken, with wildcards: they alone tell of ports that are not
                   their own. None named: all while `node_names` is "said", else none.
    """

    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    node_names: Literal["said", "target", "certificate"] = "said"
    sweepers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.username) != bool(self.password_file):
            raise ValueError("`username` and `password_file` go together")
        if self.username and self.token_file:
            raise ValueError("either `username` or `token_file`, an agent takes one of them")
        if self.key_file and not self.cert_file:
            raise ValueError("`key_file` without `cert_file`")
