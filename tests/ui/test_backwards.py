"""A patch read backwards is what git says of the way back."""

from __future__ import annotations

import pytest

from codeagent.patches import parse, reverse
from codeagent.ui.backwards import backwards
from tests.applying.applied import Tree, patch_between

LINES = b"".join(b"line %d\n" % number for number in range(40))
KEPT: Tree = {"kept": (0o100644, b"kept\n")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": (0o100644, b"one\ntwo\nsix\n")}, {"a": (0o100755, b"one\n-- 2\n++ 3\nsix")}),
        ({"a": (0o100644, b"x\n")}, {"b b\t\xc3\xa9": (0o100644, b"y\n")}),
        ({"a": (0o100644, LINES)}, {"quoted\tname": (0o100644, LINES.replace(b"line 7\n", b""))}),
        ({"a": (0o100644, LINES)}, {"a": (0o100644, b"new\n" + LINES.replace(b"line 30\n", b"@@ -1 +1 @@\n"))}),
        ({"a": (0o100644, b"\0" * 99)}, {"a": (0o100644, bytes(range(256)) * 3)}),
        ({"a": (0o100644, b"")}, {"a": (0o100755, b""), "link": (0o120000, b"a")}),
    ],
)
def test_it_is_the_patch_of_the_way_back(old: Tree, new: Tree) -> None:
    there, back = patch_between({**KEPT, **old}, {**KEPT, **new}), patch_between({**KEPT, **new}, {**KEPT, **old})
    assert sorted(backwards(there).splitlines()) == sorted(back.splitlines())
    assert parse(backwards(there)) == [reverse(one) for one in parse(there)]
    assert backwards(backwards(there)) == there


def test_what_is_no_patch_stays() -> None:
    assert (backwards(b""), backwards(b"no patch\n")) == (b"", b"no patch\n")
