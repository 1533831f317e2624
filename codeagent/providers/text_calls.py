"""Recognises a tool call that a model wrote as text. Such text is never run; it only must not pass for an answer.

Servers whose parser does not fit the model leave the call in the content, in the notation that the model was
trained on. An answer that merely quotes such a notation has prose around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

_FENCE = re.compile(r"\A\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_MARKS = re.compile(
    r"<tool_call>|<\|?tool_calls?(_begin|_section_begin)?\|?>|<function_calls?>|<function=|<invoke\s+name=|\[TOOL_CALLS\]"
    r"|<｜tool▁calls?▁(begin|sep)｜>|<｜?\w*｜?tool_calls?>|<｜DSML｜|<\|python_tag\|>|<\|channel\|>commentary to="
)
_PROSE_BEFORE = 400
"""Characters of text that models write before such a call ("Let me look at the file.")."""


def written_as_text(text: str, tools: Collection[str]) -> bool:
    """Whether the text is a call of one of `tools`, or ends in one."""
    fenced = _FENCE.match(text)
    body = (fenced[1] if fenced else text).strip()
    if _is_call(body, tools):
        return True
    mark = _MARKS.search(body)
    if mark is None or mark.start() > _PROSE_BEFORE:
        return False
    rest = body[mark.start() :]
    return any(name in rest for name in tools) and _is_last(rest)


def _is_call(body: str, tools: Collection[str]) -> bool:
    """A JSON object, or several, one after the other or in a list, that name a tool and its arguments."""
    if not body.startswith(("{", "[")):
        return False
    try:
        value, _ = json.JSONDecoder().raw_decode(body)
    except (ValueError, RecursionError):
        return False
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return False
    inner = first.get("function")
    call = inner if isinstance(inner, dict) else first
    named = call.get("name") or call.get("tool") or inner
    return named in tools and any(key in call for key in ("arguments", "parameters", "args", "input"))


def _is_last(rest: str) -> bool:
    """No prose follows the notation: the end still belongs to it."""
    return rest.rstrip().endswith((">", "}", "]", "`"))
