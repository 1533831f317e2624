"""The hash by which the default image is found again."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.sandbox import image as images


def folder(tmp: Path, files: dict[str, bytes]) -> Path:
    tmp.mkdir(parents=True)
    for name, content in files.items():
        (tmp / name).write_bytes(content)
    return tmp


def test_the_inputs_are_complete() -> None:
    """Everything at the top of `sandbox/` decides what the image is; its folders are not part of it."""
    present = {path.name for path in images.sandbox_folder().iterdir() if path.is_file()}
    assert present == set(images.INPUTS)


def test_the_hash_is_of_names_and_contents_only(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", {"a": b"1", "b": b"2"})
    same = folder(tmp_path / "same", {"b": b"2", "a": b"1", "c": b"not asked for"})
    (same / "a").chmod(0o755)
    assert images.content_hash(one, ("a", "b")) == images.content_hash(same, ("b", "a"))
    assert len(images.content_hash(one, ("a",))) == 12


@given(
    st.lists(st.binary(max_size=8), min_size=2, max_size=2), st.lists(st.binary(max_size=8), min_size=2, max_size=2)
)
def test_other_contents_have_another_hash(one: list[bytes], other: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        first = folder(Path(name) / "1", {"a": one[0], "b": one[1]})
        second = folder(Path(name) / "2", {"a": other[0], "b": other[1]})
        same = images.content_hash(first, ("a", "b")) == images.content_hash(second, ("a", "b"))
    assert same == (one == other)


def test_a_build_context_is_the_same_for_the_same_content() -> None:
    files = {"b": b"2", "a": b"1"}
    assert images.context(files).read() == images.context(dict(sorted(files.items()))).read()


def test_two_builds_never_run_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second says that it waits, and goes on when the first is over, even when that one was killed."""
    monkeypatch.setenv("CODEAGENT_HOME", str(tmp_path))
    script = (
        "import sys\nfrom codeagent.sandbox.image import build_lock\n"
        "with build_lock('image', lambda *step: None):\n    print('building', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as builder:
        assert builder.stdout and builder.stdout.readline() == "building\n"
        said: list[str] = []

        def wait_and_enter() -> None:
            with images.build_lock("image", lambda what, _done, _total: said.append(what)):
                said.append("entered")

        waiting = threading.Thread(target=wait_and_enter)
        waiting.start()
        while not said:
            time.sleep(0.005)
        assert said == ["waiting for another codeagent that is building the image"]
        builder.kill()
        waiting.join(timeout=60)
    assert said[1:] == ["entered"]


def test_builds_of_different_things_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEAGENT_HOME", str(tmp_path))
    said: list[str] = []
    with images.build_lock("image", lambda *step: None), images.build_lock("toolbox", lambda *step: said.append("x")):
        assert said == []
