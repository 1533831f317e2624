"""A tool call's arguments, read once: the raw string against the tool's own schema.

The schemas are those of the tools here (one object; string, integer, number, boolean; nullable by a type
list; `minimum`, `maximum`, `enum`), so the check is complete for them and needs no library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import ToolSpec

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def parse_arguments(spec: ToolSpec, arguments: str) -> dict[str, Any]:
    """The arguments as a dict that has every key of the schema, absent nullable ones as None.

    Raises ToolError(invalid_arguments) naming what is wrong: malformed JSON, not an object, an unknown or
    missing key, a wrong type, a number out of bounds, text that is not valid Unicode, a NUL byte.
    """
    given = _object(arguments)
    properties: Mapping[str, Any] = spec.parameters["properties"]
    for name in given:
        if name not in properties:
            raise _invalid(f"{spec.name} has no argument {_quoted(name)}{_nearest(name, properties)}")
    return {name: _value(name, given.get(name), schema, name in given) for name, schema in properties.items()}


def _object(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments, object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"the arguments are not valid JSON: {_one_line(error)}") from None
    if not isinstance(value, dict):
        raise _invalid("the arguments must be one JSON object")
    return value


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"the key {_quoted(name)} is given twice")
        result[name] = value
    return result


def _value(name: str, value: Any, schema: Mapping[str, Any], given: bool) -> Any:
    allowed = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    if not given and "null" not in allowed:
        raise _invalid(f"the argument {_quoted(name)} is missing")
    if not any(_is(value, kind) for kind in allowed):
        raise _invalid(f"{_quoted(name)} must be {' or '.join(allowed)}, not {_kind_of(value)}")
    if isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_bounds(name, value, schema)
    if "enum" in schema and value not in schema["enum"]:
        raise _invalid(f"{_quoted(name)} must be one of {', '.join(map(str, schema['enum']))}")
    return value


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _kind_of(value: Any) -> str:
    return next((kind for kind in ("null", "boolean", "integer", "number", "string") if _is(value, kind)), None) or (
        "array" if isinstance(value, list) else "object"
    )


def _check_text(name: str, value: str) -> None:
    if "\x00" in value:
        raise _invalid(f"{_quoted(name)} holds a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _invalid(f"{_quoted(name)} holds half of a surrogate pair, which is not text") from None


def _check_bounds(name: str, value: float, schema: Mapping[str, Any]) -> None:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not math.isfinite(value) or not low <= value <= high:
        range_ = f"between {low} and {high}" if math.isfinite(high) else f"at least {low}"
        raise _invalid(f"{_quoted(name)} must be {range_}")


def _nearest(name: str, properties: Mapping[str, Any]) -> str:
    close = get_close_matches(name, properties, n=1)
    return f"; did you mean {_quoted(close[0])}?" if close else f"; its arguments are {', '.join(properties)}"


def _quoted(name: str) -> str:
    # Names come from the model: shown as ASCII, and never long.
    return json.dumps(name if len(name) <= 60 else name[:60] + "…")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _invalid(sentence: str) -> ToolError:
    return ToolError(ErrorKind.INVALID_ARGUMENTS, sentence)
