"""Types of `GET /api/v1/history`. Pure."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

# `from` is no name in Python
SeriesDocument = TypedDict(
    "SeriesDocument",
    {
        "name": str,
        "title": str,
        "unit": Annotated[str, Meta(description='of its values; "ratio": 0 to 1')],
        "help": Annotated[str, Meta(description="what it counts")],
        "period": Annotated[float, Meta(description="seconds between two points")],
        "top": Annotated[float | None, Meta(description="largest possible value; null: none")],
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
        "quiet": Annotated[list[str], Meta(description="counters that did not change")],
    },
)
