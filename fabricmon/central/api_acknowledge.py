"""The part of the centre's API by which a person says that an incident is taken on; docs/api.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from fabricmon.central.centre import Centre
from fabricmon.model import Incident
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.senders.webhook import rfc3339

Document = Callable[[Incident], dict[str, Any]]


class NewAcknowledgement(Struct, forbid_unknown_fields=True):
    """Body of POST /api/v1/incidents/{id}/acknowledgement."""

    author: str = ""
    comment: str = ""


async def acknowledge(centre: Centre, id: str, body: NewAcknowledgement, document: Document) -> dict[str, Any] | None:
    """The incident as it is then; None where there is none of that id. ValueError where it has ended."""
    found = next((i for i in centre.look()[3] if i.id == id), None)
    if found is None:
        return None
    await centre.acknowledgements.add(found, centre.now(), body.author, body.comment)
    centre.replan()
    return document(found)


async def withdraw(centre: Centre, id: str, document: Document) -> dict[str, Any] | None:
    """The incident without its acknowledgement; None where there is no such incident, or nobody has taken it on."""
    found = next((i for i in centre.look()[3] if i.id == id), None)
    if found is None or await centre.acknowledgements.withdraw(id) is None:
        return None
    centre.replan()
    return document(found)


def told(ack: Acknowledgement | None) -> dict[str, Any] | None:
    """As it stands in an incident of the API."""
    return None if ack is None else {"at": rfc3339(ack.at), "author": ack.author, "comment": ack.comment}
