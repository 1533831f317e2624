"""The hash by which the default image is found again."""

from __future__ import annotations

import tempfile
from pathlib import Path

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


def test_the_package_list_is_one_for_both_builds() -> None:
    sandbox = images.sandbox_folder()
    for name in ("Dockerfile", "build"):
        recipe = (sandbox / name).read_text()
        assert "packages.txt" in recipe
        assert "openjdk" not in recipe


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
