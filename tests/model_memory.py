"""What the rules of all three APIs share: what the scripted server issued, and how a request is found wrong."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Rejection:
    message: str
    code: str | None = None
    param: str | None = None
    status: int = 400

    def body(self, api: str) -> Json:
        if api == "messages":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": self.message}}
        kind = {"type": "invalid_request_error", "param": self.param, "code": self.code}
        return {"error": {"message": self.message, **kind}}


@dataclass
class Memory:
    """What the server issued: sealed reasoning, signatures, compactions, and which items cannot do without them."""

    reasoning: dict[str, str] = field(default_factory=dict)
    needs_reasoning: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    needs_thinking: dict[str, str] = field(default_factory=dict)
    stored: dict[str, list[Json]] = field(default_factory=dict)
    compacted: dict[str, Json] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def number(self) -> int:
        return int(next(self._numbers))

    def scratch(self) -> Memory:
        """A copy to write a reply with that the client may never see whole."""
        return replace(
            self,
            reasoning=dict(self.reasoning),
            needs_reasoning=dict(self.needs_reasoning),
            signatures=dict(self.signatures),
            needs_thinking=dict(self.needs_thinking),
            stored=dict(self.stored),
        )

    def input_of(self, body: Json) -> list[Json]:
        """The whole input, with what an earlier response stored. KeyError when that is gone."""
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        earlier = body.get("previous_response_id")
        return [*self.stored[earlier], *items] if earlier else items

    def store(self, response_id: str, body: Json, output: list[Json]) -> None:
        self.stored[response_id] = [*self.input_of(body), *output]


class Wrong(Exception):
    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        self.rejection = Rejection(message, code, param)


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def surrogate(value: Any) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in as_text(value))


def only(value: Json, allowed: set[str], where: str) -> None:
    for key in value:
        if key not in allowed:
            raise Wrong(f"Unknown parameter: '{where}{key}'.", "unknown_parameter", f"{where}{key}")


def require(condition: object, message: str, code: str | None = None, param: str | None = None) -> None:
    if not condition:
        raise Wrong(message, code, param)


def function(tool: Json, schema_key: str) -> None:
    name = tool.get("name")
    require(isinstance(name, str) and NAME.match(name), f"Invalid tool name: {name!r}", "invalid_value")
    schema = tool.get(schema_key)
    require(isinstance(schema, dict) and schema.get("type") == "object", f"Invalid schema for function '{name}'")
    if tool.get("strict"):
        assert isinstance(schema, dict)
        strict(schema, str(name))


def strict(schema: Json, name: str) -> None:
    start = f"Invalid schema for function '{name}': "
    kinds = schema.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]):
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        require(closed, start + "'additionalProperties' is required to be false.", "invalid_function_parameters")
        complete = sorted(schema.get("required", [])) == sorted(properties)
        require(complete, start + "'required' must name every property.", "invalid_function_parameters")
        for inner in properties.values():
            strict(inner, name)
    if isinstance(schema.get("items"), dict):
        strict(schema["items"], name)
    for inner in schema.get("anyOf", ()):
        strict(inner, name)


def unique(names: list[str], what: str) -> None:
    for name in names:
        require(names.count(name) == 1, f"Duplicate {what}: {name}", "duplicate_item")


def words(names: str) -> set[str]:
    return set(names.split())
