"""`--3way`: a change is put into a file that the user has changed too, unless the two touch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.applying.merge import keep_bases
from codeagent.applying.merge import merged as merged_patch
from codeagent.patches import parse
from tests.applying.applied import applied, make, patch_between, planned, tree

LINES = [b"line %d\n" % number for number in range(1, 21)]
BASE = b"".join(LINES)


def merged(base: bytes, theirs: bytes, mine: bytes) -> bytes | int:
    patches = parse(patch_between({"f": (0o100644, base)}, {"f": (0o100644, theirs)}))
    return merged_patch(base, patches[0], mine) if patches else mine


def edited(changed: dict[int, bytes]) -> bytes:
    return b"".join(changed.get(number, line) for number, line in enumerate(LINES, 1))


CHANGES = st.dictionaries(st.integers(1, 20), st.sampled_from([b"", b"x\n", b"y\nz\n"]), max_size=6)


@settings(max_examples=200, deadline=None)
@given(theirs=CHANGES, mine=CHANGES)
def test_a_merge_takes_all_of_both_or_says_where_they_touch(theirs: dict[int, bytes], mine: dict[int, bytes]) -> None:
    found = merged(BASE, edited(theirs), edited(mine))
    if isinstance(found, int):
        assert any(abs(here - there) <= 1 for here in theirs for there in mine)
    else:
        assert found == edited({**mine, **theirs})
        assert found == merged(BASE, edited(mine), edited(theirs))


@pytest.mark.parametrize("mine", [{9: b"mine\n"}, {10: b"mine\n"}, {11: b""}, {10: b"theirs\nmine\n"}])
def test_changes_that_touch_are_a_conflict(mine: dict[int, bytes]) -> None:
    assert merged(BASE, edited({10: b"theirs\n"}), edited(mine)) in (10, 11)


def test_the_same_change_of_both_is_none() -> None:
    assert merged(BASE, edited({3: b"x\n"}), edited({3: b"x\n", 9: b""})) == edited({3: b"x\n", 9: b""})
    assert merged(b"a", b"b", b"b") == b"b"
    assert merged(b"a\n", b"a", b"a\nb\n") == 2


def test_a_change_beside_an_edited_line_does_not_wander_to_a_like_place() -> None:
    block = [b"a {\n", b"  x\n", b"}\n", b"\n"]
    old = [*block, *block, *block]
    theirs = b"".join([*old[:6], b"  theirs\n", *old[6:]])
    assert merged(b"".join(old), theirs, b"".join([*old[:5], b"  mine\n", *old[6:]])) == 7


def test_a_diff_is_merged_with_what_the_files_were(tmp_path: Path) -> None:
    old = {"f": (0o100644, BASE), "logo": (0o100644, b"\0")}
    repo = make(tmp_path / "repo", old)
    patch = patch_between(old, {"f": (0o100755, edited({10: b"theirs\n"})), "logo": (0o100644, b"\0\0")})
    keep_bases(repo, patch, tmp_path / "bases")
    assert [path.read_bytes() for path in (tmp_path / "bases").iterdir()] == [BASE]
    (repo / "f").write_bytes(edited({8: b"mine\n"}))
    assert applied(repo, patch, merge=True) == {
        "f": "it was changed since the copy was made, and hunk 1 of 1 does not fit at line 7"
    }
    (shown,) = planned(repo, patch, merge=True, bases=tmp_path / "bases").merges()
    assert [line for line in shown.splitlines() if line[:1] in b"+-@"] == [
        b"--- f (as it is now)",
        b"+++ f (merged)",
        b"@@ -7,7 +7,7 @@",
        b"-line 10",
        b"+theirs",
    ]
    assert applied(repo, patch, merge=True, bases=tmp_path / "bases") == {}
    assert tree(repo) == {
        "f": (0o100755, edited({8: b"mine\n", 10: b"theirs\n"})),
        "logo": (0o100644, b"\0\0"),
    }
    assert applied(repo, patch, merge=True, back=True, bases=tmp_path / "bases") == {}
    assert tree(repo) == {**old, "f": (0o100644, edited({8: b"mine\n"}))}
    (repo / "f").write_bytes(edited({8: b"mine\n", 11: b"mine\n"}))
    assert applied(repo, patch, merge=True, bases=tmp_path / "bases") == {
        "f": "it was changed since the copy was made, and both changes meet (at line 11 of what it was then)"
    }


def test_without_what_it_was_lines_that_only_moved_are_found(tmp_path: Path) -> None:
    old = {"f": (0o100644, BASE)}
    repo = make(tmp_path / "repo", {"f": (0o100644, b"mine\n" * 5 + BASE)})
    patch = patch_between(old, {"f": (0o100644, edited({10: b"theirs\n"}))})
    assert applied(repo, patch, merge=True) == {}
    assert tree(repo) == {"f": (0o100644, b"mine\n" * 5 + edited({10: b"theirs\n"}))}


def test_what_has_no_lines_is_not_merged(tmp_path: Path) -> None:
    old = {"logo": (0o100644, b"\0"), "gone": (0o100644, b"1\n"), "link": (0o120000, b"a")}
    new = {"logo": (0o100644, b"\0\1"), "link": (0o120000, b"b")}
    mine = {"logo": (0o100644, b"\0\2"), "gone": (0o100644, b"2\n"), "link": (0o120000, b"c")}
    repo = make(tmp_path / "repo", mine)
    reason = "it was changed since the copy was made, and cannot be merged"
    assert applied(repo, patch_between(old, new), merge=True) == dict.fromkeys(("gone", "link", "logo"), reason)
