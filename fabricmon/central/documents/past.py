"""Types of `GET /api/v1/history`, and its CSV. Pure."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from fabricmon.forms.times import rfc3339


class LimitDocument(TypedDict):
    """A limit of the values: its name, its value in the same unit."""

    text: str
    value: float


# `from` is no name in Python
MarkDocument = TypedDict(
    "MarkDocument",
    {
        "id": str,
        "title": str,
        "severity": str,
        "from": Annotated[float, Meta(description="seconds since 1970")],
        "to": Annotated[float | None, Meta(description="seconds since 1970; null: still open")],
    },
)
SeriesDocument = TypedDict(
    "SeriesDocument",
    {
        "name": str,
        "title": str,
        "unit": Annotated[str, Meta(description='of its values; "ratio": 0 to 1')],
        "help": Annotated[str, Meta(description="what it counts")],
        "period": Annotated[float, Meta(description="seconds between two points")],
        "top": Annotated[float | None, Meta(description="largest possible value; null: none")],
        "scale": Annotated[Literal["linear", "log"], Meta(description="of the axis")],
        "limits": Annotated[list[LimitDocument], Meta(description="of the device itself, and of rules that fired")],
        "points": Annotated[list[tuple[float, float]], Meta(description="seconds since 1970 and value")],
        "from": Annotated[float, Meta(description="begin of its chart, seconds since 1970")],
    },
)
PastDocument = TypedDict(
    "PastDocument",
    {
        "kind": str,
        "node": str,
        "name": str,
        "from": Annotated[float, Meta(description="seconds since 1970")],
        "to": Annotated[float, Meta(description="seconds since 1970")],
        "step": Annotated[float, Meta(description="seconds between two records")],
        "series": list[SeriesDocument],
        "marks": Annotated[list[MarkDocument], Meta(description="incidents that concern the component")],
        "quiet": Annotated[list[str], Meta(description="counters that did not change")],
    },
)


def as_csv(past: PastDocument) -> str:
    """Every point on a line: time, series, unit, value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("time", "series", "unit", "value"))
    for series in past["series"]:
        writer.writerows((rfc3339(at), series["name"], series["unit"], value) for at, value in series["points"])
    return text.getvalue()
