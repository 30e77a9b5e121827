"""Incidents and nodes by what a person calls them: the start of an id as tables print it, the address of an agent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fabricmon.commands.remote import CentralClient, RemoteError

MOST = 20  # incidents listed for an ambiguous prefix


def incidents_called(client: CentralClient, prefix: str) -> tuple[list[dict[str, Any]], float]:
    """Incidents whose id begins with `prefix`, only the one where it is the whole id; and the server's time.
    RemoteError."""
    wanted = prefix.strip().lower()
    answer = client.request("GET", f"/incidents?{urlencode({'id': wanted, 'limit': MOST})}")
    found: list[dict[str, Any]] = answer.body["incidents"]
    return [one for one in found if one["id"] == wanted] or found, answer.at


def incident_called(client: CentralClient, prefix: str) -> str:
    """The id of the one incident whose id begins with `prefix`. RemoteError where there are none or several."""
    found = [incident["id"] for incident in incidents_called(client, prefix)[0]]
    if len(found) == 1:
        return str(found[0])
    if not found:
        raise RemoteError(f"no incident id starts with {prefix!r}; `fabricmon incidents --all` lists the ids")
    raise RemoteError(f"{prefix!r} is the start of several ids: {', '.join(found[:5])}; give more characters")


def node_called(client: CentralClient, name: str) -> str:
    """The node whose agent is at this address, as in `central.targets`, with or without its port; "" unknown."""
    try:
        groups = client.get("/targets")
    except RemoteError as error:
        if error.status != 404:
            raise
        groups = []
    for group in groups:
        for address in group["targets"]:
            if name in (address, address.rpartition(":")[0].strip("[]")):
                return str(group["labels"]["instance"])
    return ""
