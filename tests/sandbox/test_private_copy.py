"""Whose a private copy is."""

from __future__ import annotations

import io
import tarfile
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import docker.errors
import pytest

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox import private_copy
from codeagent.sandbox.hardening import Mount
from codeagent.sandbox.private_copy import Copy, make_copy, sent_as
from codeagent.sandbox.view import View
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


class Copying:
    """An engine that keeps volumes for root until it is told otherwise in a running container, and its copier."""

    def __init__(self, refusal: str, *, obeys: bool = True) -> None:
        self.refusal, self.obeys = refusal, obeys
        self.owned: dict[str, tuple[int, int]] = {}
        self.taken_down: list[str] = []

    def put_archive(self, container: str, path: str, content: bytes) -> None:
        assert container == "copier-1"
        if not self.obeys:
            raise docker.errors.APIError("404")
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            (top,) = tar.getmembers()
        assert content.startswith(b"/\0")
        self.owned[path] = (top.uid, top.gid)

    def fill(self, _channel: object, _steps: object) -> str:
        if set(self.owned) != {"/workspace", "/baseline"}:
            raise ToolError(ErrorKind.SANDBOX_FAILED, self.refusal)
        return "a note"

    def copy(self, monkeypatch: pytest.MonkeyPatch) -> Copy:
        monkeypatch.setattr(private_copy, "create_volumes", lambda *_: None)
        monkeypatch.setattr(private_copy, "take_down", lambda *_: self.taken_down.append("volumes"))
        closing = partial(self.taken_down.append, "copier")
        copier = SimpleNamespace(name="copier-1", channel=None, close=closing)
        volumes = [Mount("volume", top, "v", read_only=False) for top in ("/workspace", "/baseline")]
        view = View((*volumes, Mount("bind", "/source", "/repo")))
        layout = SimpleNamespace(copying=lambda *_: view, copied=lambda *_: view, fill=self.fill)
        starter = SimpleNamespace(ids=(1234, 1235), labels=lambda role: {}, start=lambda role, view: copier)
        engine = SimpleNamespace(client=SimpleNamespace(api=self))
        parts = SimpleNamespace(layout=layout, engine=engine, image=SimpleNamespace(id="i"), session_id="s")
        return make_copy(cast(Any, parts), cast(Any, starter), silent, (), from_host=False)


CLOSED = "copy failed: Permission denied"


def test_volumes_that_the_engine_has_given_to_root_are_given_away_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman does when they are first mounted."""
    copying = Copying(CLOSED)
    assert copying.copy(monkeypatch).note == "a note"
    assert set(copying.owned.values()) == {(1234, 1235)} and copying.taken_down == ["copier"]


@pytest.mark.parametrize(
    ("refusal", "raised", "told"),
    [(CLOSED, SandboxError, "keeps volumes for root"), ("copy failed: No space left", ToolError, "No space left")],
)
def test_a_copy_that_cannot_be_made_says_why_and_leaves_nothing(
    refusal: str, raised: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying = Copying(refusal, obeys=False)
    with pytest.raises(raised, match=told):
        copying.copy(monkeypatch)
    assert copying.taken_down == ["copier", "volumes"]
