"""Types of the API's answers about incidents, windows, the caller and the server. Pure."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from fabricmon.central.documents.self_check import ServerFinding
from fabricmon.forms.documents import IncidentDocument, Time


class AcknowledgementDocument(TypedDict):
    """Who acknowledged an incident, and when."""

    at: Time
    author: str
    comment: str


class AcknowledgedIncident(IncidentDocument):
    """An incident in the API.

    silenced_by   ids of the silences that match it now
    acknowledged  its acknowledgement; null: none
    """

    silenced_by: list[str]
    acknowledged: AcknowledgementDocument | None


class IncidentList(TypedDict):
    """Incidents: open first, then by severity. `total` counts all matches."""

    incidents: list[AcknowledgedIncident]
    total: int


class AcknowledgedTogether(TypedDict):
    """Several incidents that were acknowledged.

    covers     number of them
    incidents  their ids
    """

    covers: int
    incidents: list[str]


class WindowDocument(TypedDict):
    """A silence or a maintenance window.

    disabled  why it is not applied
    """

    id: str
    state: Literal["pending", "active", "ended", "disabled"]
    disabled: NotRequired[str]
    starts: Time
    ends: Time
    author: str
    comment: str


class SilenceDocument(WindowDocument):
    """A silence.

    matchers   NAME=VALUE, NAME!=VALUE, NAME=~REGEX, NAME!~REGEX; all must match
    covers     number of open incidents that match now; in the answer to its creation
    incidents  their ids; in a preview
    """

    matchers: list[str]
    covers: NotRequired[int]
    incidents: NotRequired[list[str]]


class SilenceList(TypedDict):
    """Silences. `total` counts all."""

    silences: list[SilenceDocument]
    total: int


class MaintenanceDocument(WindowDocument):
    """A maintenance window: its hosts and components, with wildcards."""

    hosts: tuple[str, ...]
    components: tuple[str, ...]


class MaintenanceList(TypedDict):
    """Maintenance windows. `total` counts all."""

    maintenance: list[MaintenanceDocument]
    total: int


class CallerDocument(TypedDict):
    """The caller.

    caller  identity; "": anonymous
    may     role: scrape, read or change
    ways    credentials that would allow changes: basic, bearer
    """

    caller: str
    may: str
    ways: list[str]


class ServerExamination(TypedDict):
    """Parts of the server."""

    parts: list[ServerFinding]
