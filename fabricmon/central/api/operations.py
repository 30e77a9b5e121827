"""The operations of the API as a table: parameters, body and answer of each, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta

from fabricmon.central.api.incidents import NewAcknowledgement, NewAcknowledgements
from fabricmon.central.api.request import LIMIT, MAX_LIMIT
from fabricmon.central.api.utilisation import SORTS
from fabricmon.central.api.windows import NewMaintenance, NewSilence
from fabricmon.central.documents.answers import (
    AcknowledgedIncident,
    AcknowledgedTogether,
    CallerDocument,
    IncidentList,
    MaintenanceDocument,
    MaintenanceList,
    ServerExamination,
    SilenceDocument,
    SilenceList,
)
from fabricmon.central.documents.archive import ArchiveDocument, TimelineDocument
from fabricmon.central.documents.fleet import (
    NodeList,
    OverviewDocument,
    PortList,
    ProbesDocument,
    RailsDocument,
    SymptomList,
    TargetGroup,
    TopologyDocument,
)
from fabricmon.central.documents.jobs import JobsDocument
from fabricmon.central.documents.past import PastDocument
from fabricmon.model import Kind, Presence, Severity


class Parameter(NamedTuple):
    """A parameter of the query. `type`: of its value; a tuple of words allows these."""

    name: str
    type: Any
    text: str
    required: bool = False


class Operation(NamedTuple):
    """A method and path below PREFIX. `body`: the type of its JSON, None: no body; `statuses`: of its answers."""

    method: str
    path: str
    summary: str
    answer: Any
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    statuses: Mapping[int, str] = {200: "the answer"}


_LIMIT = Parameter("limit", Annotated[int, Meta(ge=1, le=MAX_LIMIT)], f"entries at most (default {LIMIT})")
_NODE = Parameter("node", str, "name of a node")
_PERIOD = (
    Parameter("since", str, "begin of the period: RFC 3339 or seconds since 1970 (default: a day before `until`)"),
    Parameter("until", str, "its end, at most 30 days later (default: now)"),
)
_CREATED = {201: "created", 200: "a preview"}
_ALL = Parameter("all", ("true",), "also expired ones")

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/overview", "Counts of the fabric", OverviewDocument),
    Operation("GET", "/access", "The caller: identity, role, and ways to authenticate for changes", CallerDocument),
    Operation("GET", "/incidents", "Open incidents and those resolved within the hour", IncidentList, (
        Parameter("status", ("firing", "resolved"), "only these"),
        Parameter("since", str, "all that changed since: RFC 3339 or seconds since 1970, up to 30 days ago"),
        Parameter("severity", tuple(Severity), "this or higher"),
        Parameter("kind", str, "kind of incident"),
        Parameter("node", str, "node of the component or of a bad member"),
        Parameter("id", str, "prefix of ids, also of resolved incidents"),
        _LIMIT,
    )),
    Operation("GET", "/archive", "Incidents that were open at some time of a period, of 30 days", ArchiveDocument, (
        Parameter("q", str, "words, all of which occur in texts or labels"),
        Parameter("severity", tuple(Severity), "this or higher"),
        Parameter("kind", str, "kind of incident"),
        Parameter("rail", str, "rail, its number or full name"),
        Parameter("leaf", str, "leaf"),
        Parameter("job", str, "name, id or title of an affected job"),
        Parameter("host", str, "part of the name of a node that it names"),
        *_PERIOD,
        Parameter("before", str, "`next` of the answer before"),
        Parameter("limit", Annotated[int, Meta(ge=1, le=500)], "entries at most (default 100)"),
    )),
    Operation("GET", "/timeline", "How many incidents were open when", TimelineDocument, _PERIOD),
    Operation("GET", "/incidents/{id}", "One incident with its stored history", AcknowledgedIncident),
    Operation(
        "POST", "/incidents/{id}/acknowledgement", "Acknowledge an incident", AcknowledgedIncident,
        body=NewAcknowledgement, statuses={201: "acknowledged"},
    ),
    Operation("DELETE", "/incidents/{id}/acknowledgement", "Remove the acknowledgement", AcknowledgedIncident),
    Operation(
        "POST", "/acknowledgements", "Acknowledge several incidents, all or none", AcknowledgedTogether,
        body=NewAcknowledgements, statuses=_CREATED,
    ),
    Operation("GET", "/symptoms", "Results of the rules, before correlation", SymptomList, (
        Parameter("rule", str, "name of a rule"), _NODE, _LIMIT,
    )),
    Operation("GET", "/nodes", "Expected nodes and their presence", NodeList, (
        Parameter("presence", (*Presence, "silent"), "only these; silent: all but live"), _LIMIT,
    )),
    Operation("GET", "/ports", "Ports with their utilisation, highest first, or those of one node", PortList, (
        _NODE, Parameter("sort", SORTS, "order"), _LIMIT,
    )),
    Operation("GET", "/rails", "Utilisation of rails and tiers", RailsDocument),
    Operation("GET", "/probes", "What probes show between leaves, the worst pairs first", ProbesDocument, (
        Parameter("rail", str, "name of a rail"), _LIMIT,
    )),
    Operation("GET", "/targets", "The agents, for Prometheus HTTP service discovery", list[TargetGroup]),
    Operation("GET", "/history", "The last hours of a component; starts recording it closely", PastDocument, (
        Parameter("kind", tuple(Kind), "kind of the component", required=True),
        Parameter("node", str, "node of the component", required=True),
        Parameter("name", str, "name of the component on its node"),
        Parameter("span", ("hours", "day"), "day: 24 hours at 2 minutes, of components of incidents"),
        Parameter("format", ("json", "csv"), "csv: time, series, unit and value of each point"),
    )),
    Operation("GET", "/topology", "The topology in use; 404 without one", TopologyDocument),
    Operation("GET", "/jobs", "Running jobs, affected ones first", JobsDocument, (
        _NODE, Parameter("source", str, "name of a source of jobs"), _LIMIT,
    )),
    Operation("GET", "/doctor", "Parts of the server, what is missing and what to do", ServerExamination),
    Operation("GET", "/silences", "Silences", SilenceList, (_ALL, _LIMIT)),
    Operation("POST", "/silences", "Create a silence", SilenceDocument, body=NewSilence, statuses=_CREATED),
    Operation("DELETE", "/silences/{id}", "End a silence now", SilenceDocument),
    Operation("GET", "/maintenance", "Maintenance windows", MaintenanceList, (_ALL, _LIMIT)),
    Operation(
        "POST", "/maintenance", "Create a maintenance window", MaintenanceDocument, body=NewMaintenance,
        statuses=_CREATED,
    ),
    Operation("DELETE", "/maintenance/{id}", "End a maintenance window now", MaintenanceDocument),
    Operation("GET", "/openapi.json", "This document", dict[str, Any]),
)  # fmt: skip


class ErrorDocument(TypedDict):
    """An error, in one sentence."""

    error: str


ERRORS = {
    "400": "invalid value or unknown parameter",
    "401": "missing or wrong credential",
    "403": "insufficient role, or a cross-site request",
    "404": "no object with that id",
    "408": "body too slow",
    "413": "body too large",
    "415": "not JSON",
    "421": "unknown host name",
    "429": "rate limit",
    "503": "the state cannot be saved",
}
