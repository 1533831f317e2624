"""docs/sessions.md is the contract of the log: every event and every field of it stands there."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from codeagent.events import Event

DOCUMENT = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text()


@pytest.mark.parametrize("event", get_args(Event), ids=lambda event: event.type)
def test_every_event_is_documented_with_all_its_fields(event: type[Event]) -> None:
    (row,) = (line for line in DOCUMENT.splitlines() if line.startswith(f"| `{event.type}` |"))
    names = [each.name.rstrip("_") for each in fields(event)]
    assert [name for name in names if f"`{name}`" not in row] == []
