"""Servers that are told of a finished run: extras bring them as "tracker", by the key of `[tracking]` for each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from synth import extras
from synth.validation import Frozen, sentence


@dataclass(frozen=True)
class Tracked:
    server: str
    url: str | None = None
    failure: str = ""


class Tracker(Frozen):
    """A server, as `[tracking]` of a job describes it."""

    def check(self) -> None:
        """Refuse to track without the library that tells the server."""
        raise NotImplementedError

    def track(self, job: Any, delivery: Any, folder: Path) -> Tracked:
        """Tell the server of the job's `Delivery` in a folder; what goes wrong is in the answer, never raised."""
        raise NotImplementedError


def tracker_of(content: Any) -> Tracker:
    if isinstance(content, Tracker):
        return content
    known = extras.entries("tracker")
    name = next((name for name in known if isinstance(content, dict) and name in content), None)
    if name is None:
        raise ValueError(f"it names no server; known are: {', '.join(known) or 'none'}")
    tracker: type[Tracker] = extras.load("tracker")[name]
    try:
        return tracker.model_validate(content)
    except ValidationError as error:
        raise ValueError(sentence(error, tracker)) from None


class BroughtByExtras:
    """The annotation of a field that holds a tracker."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(tracker_of)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        known = [handler(tracker.__pydantic_core_schema__) for tracker in extras.load("tracker").values()]
        return {"anyOf": known} if known else {"not": {}}
