"""Whose a private copy is."""

from __future__ import annotations

import pytest

from codeagent.sandbox.private_copy import sent_as


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
