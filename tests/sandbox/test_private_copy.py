"""Whose a private copy is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox import private_copy
from codeagent.sandbox.private_copy import make_copy, sent_as
from tests.conftest import silent


@pytest.mark.parametrize(
    ("owner", "in_user_namespace", "expected"),
    [
        ((501, 20), False, (501, 20)),
        ((501, 20), True, (501, 20)),
        ((1_234_567, 100), False, (1_234_567, 100)),
        ((1_234_567, 100), True, (1_000, 1_000)),
        ((1_000, 70_000), True, (1_000, 1_000)),
    ],
)
def test_a_sent_copy_belongs_to_its_owner_where_the_engine_has_such_a_user(
    owner: tuple[int, int], in_user_namespace: bool, expected: tuple[int, int]
) -> None:
    assert sent_as(*owner, in_user_namespace=in_user_namespace) == expected


@pytest.mark.parametrize(
    ("reason", "raised", "told"),
    [
        ("copy failed: Permission denied", SandboxError, "the engine keeps volumes for root"),
        ("copy failed: No space left on device", ToolError, "No space left on device"),
    ],
)
def test_a_copy_that_its_owner_may_not_write_says_so(
    reason: str, raised: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman gives a volume to root when it is first mounted."""

    def fill(_channel: object, _steps: object) -> str:
        raise ToolError(ErrorKind.SANDBOX_FAILED, reason)

    monkeypatch.setattr(private_copy, "create_volumes", lambda *_: None)
    taken_down: list[object] = []
    monkeypatch.setattr(private_copy, "take_down", lambda *_: taken_down.append("volumes"))
    container = SimpleNamespace(channel=None, close=lambda: taken_down.append("copier"))
    starter = SimpleNamespace(ids=(1234, 1234), labels=lambda role: {}, start=lambda role, view: container)
    layout = SimpleNamespace(copying=lambda *_: None, fill=fill)
    parts = SimpleNamespace(layout=layout, engine=None, image=SimpleNamespace(id="i"), session_id="s")
    with pytest.raises(raised, match=told):
        make_copy(cast(Any, parts), cast(Any, starter), silent, (), from_host=False)
    assert taken_down == ["copier", "volumes"]
