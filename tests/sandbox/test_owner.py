"""Whose containers may be removed: only those of a process that has provably ended."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from codeagent.sandbox.owner import Owner, is_gone

HERE = Owner.current()


def test_a_living_owner_is_not_gone() -> None:
    assert not is_gone(HERE.label(), HERE)
    assert not is_gone(replace(HERE, pid=1, started="").label(), HERE)


def test_an_owner_that_has_ended_is_gone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    label = replace(HERE, pid=ended.pid, started="1").label()
    ended.wait()
    assert is_gone(label, HERE)


def test_another_process_with_the_same_number_is_not_the_owner() -> None:
    assert is_gone(replace(HERE, pid=os.getpid(), started="1").label(), HERE)


def test_nothing_of_an_earlier_boot_lives() -> None:
    assert is_gone(replace(HERE, boot="earlier").label(), HERE)


@pytest.mark.parametrize(
    "label",
    [
        replace(HERE, machine="another", pid=999_999_999).label(),
        replace(HERE, namespace="another", pid=999_999_999).label(),
        replace(HERE, machine="another", boot="another").label(),
        "",
        "nonsense",
        "a/b/c/d/e/f",
        f"{HERE.machine}/{HERE.boot}/{HERE.namespace}/-1/",
        f"{HERE.machine}/{HERE.boot}/{HERE.namespace}/x/",
    ],
    ids=["machine", "namespace", "boot", "empty", "one word", "six fields", "negative pid", "no pid"],
)
def test_what_cannot_be_proven_is_left_alone(label: str) -> None:
    assert not is_gone(label, HERE)
