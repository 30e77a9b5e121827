"""Security of a listener, and of the connections to agents: `web`, `central.agents`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Word = Literal["scrape", "read", "change"]


class WebConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Security of the listener. Changed files are reloaded without a restart.

    config_file  TLS, users, headers and rate limit in the web configuration format of Prometheus exporters.
    token_file   bearer tokens for reading, one per line, so that old and new one are valid during a rotation; "": none.
    roles        role of a caller: a user's name, or `san:` and a name in the caller's certificate -> scrape
                 (/metrics, /health and, on the server, /api/v1/targets with addresses, names and labels of all agents),
                 read (everything), change (also silences and maintenance). Authenticated callers not listed may read.
    anonymous    role of callers without credentials; "": change without any users, tokens or required client
                 certificates, else nothing; with only a token for changes: read.
    probes       /-/live, /-/ready and /-/healthy need no credentials.
    hosts        DNS names of this listener, beside addresses, the names of this machine and of `external_url`; if set,
                 requests to other names are refused.
    """

    config_file: str = ""
    token_file: str = ""
    roles: dict[str, Word] = {}
    anonymous: Literal["", "nothing", "scrape", "read", "change"] = ""
    probes: bool = True
    hosts: tuple[str, ...] = ()


class LinkConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Connections to agents. Changed files are reloaded; open streams stay.

    tls            use TLS; the scheme of a target (`https://`, `http://` or the label `__scheme__`) takes precedence.
    ca_file        CA certificates for agents (PEM); "": those of the system.
    cert_file      client certificate (PEM); "": none.
    key_file       its key; "": in cert_file.
    server_name    name that every agent's certificate must contain; "": the host part of its address.
    token_file     bearer token; the first line is sent.
    username       user of basic authentication, with the password in password_file.
    password_file  one line.
    node_names     how the node name of an agent is verified: "reported": not at all; "target": it must be that of its
                   target (label `node`, else host); "certificate": its certificate must contain it.
    sweepers       nodes that may report fabric sweeps (ports of other nodes), with wildcards. Empty: any four
                   nodes while `node_names` is "reported", else none.
    """

    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    node_names: Literal["reported", "target", "certificate"] = "reported"
    sweepers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.username) != bool(self.password_file):
            raise ValueError("`username` and `password_file` go together")
        if self.username and self.token_file:
            raise ValueError("either `username` or `token_file`, not both")
        if self.key_file and not self.cert_file:
            raise ValueError("`key_file` without `cert_file`")
