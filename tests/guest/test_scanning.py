"""The scan for protected things, again and again on a tree that changes."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from guest.protection import Protection
from hypothesis import given
from hypothesis import strategies as st

from codeagent.sandbox import files, protected
from codeagent.sandbox.files import Scan
from tests.clocks import processor_time_below
from tests.guest.in_process import InProcess, in_process
from tests.guest.trees import write

PROTECT = [list(pattern) for pattern in protected.regexes()]


def seen(guest: InProcess) -> tuple[set[str], set[str]]:
    scan = files.scan(guest)
    return set(scan.protected), set(scan.gits)


def test_new_removed_and_renamed_secrets_are_noticed(tmp_path: Path) -> None:
    write(tmp_path, {"a/.env": "", "b/c/x.pem": "", ".git/id_rsa": "", "plain": ""})
    with in_process(tmp_path, protect=PROTECT) as guest:
        assert seen(guest) == ({"a/.env", "b/c/x.pem"}, {".git"})
        write(tmp_path, {"b/c/d/e/key.KEY": "", "vendor/.git/config": ""})
        assert seen(guest) == ({"a/.env", "b/c/x.pem", "b/c/d/e/key.KEY"}, {".git", "vendor/.git"})
        (tmp_path / "a/.env").unlink()
        (tmp_path / "b/c").rename(tmp_path / "b/moved")
        (tmp_path / "plain").rename(tmp_path / ".netrc")
        assert seen(guest) == ({"b/moved/x.pem", "b/moved/d/e/key.KEY", ".netrc"}, {".git", "vendor/.git"})


def test_a_file_made_in_the_same_tick_as_the_scan_is_noticed(tmp_path: Path) -> None:
    with in_process(tmp_path, protect=PROTECT) as guest:
        for number in range(50):
            (tmp_path / f"{number}").touch()
            assert len(seen(guest)[0]) == number
            before = tmp_path.stat()
            (tmp_path / f"{number}.key").touch()
            os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_protected_links_lead_to_is_looked_at_again_each_time(tmp_path: Path) -> None:
    write(tmp_path, {"d/x": "", ".git/config": ""})
    for name, target in {
        ".env": "later/made",
        ".aws": "d",
        "a.key": "a.key",
        "b.key": "/etc/passwd",
        "c.key": ".git/config",
        "d.key": "/workspace/d/x",
        ".ssh": ".",
    }.items():
        (tmp_path / name).symlink_to(target)
    links = {".env", ".aws", "a.key", "b.key", "c.key", "d.key", ".ssh"}
    with in_process(tmp_path, protect=PROTECT) as guest:
        assert seen(guest)[0] == {*links, "d", "d/x"}
        write(tmp_path, {"later/made": ""})
        assert seen(guest)[0] == {*links, "d", "d/x", "later/made"}
        (tmp_path / ".env").unlink()
        (tmp_path / ".env").symlink_to("later")
        assert seen(guest)[0] == {*links, "d", "d/x", "later"}
        assert set(protected.find(tmp_path, protected.regexes()).names) == {*links, "d", "d/x", "later"}


def test_masks_that_are_not_mounted_are_told(tmp_path: Path) -> None:
    write(tmp_path, {".env": ""})
    with in_process(tmp_path, protect=PROTECT, mounted=[".env"]) as guest:
        assert files.scan(guest) == Scan(frozenset({".env"}), frozenset(), (".env",), True, 1)


@pytest.mark.slow
def test_a_scan_that_finds_nothing_new_is_cheap(tmp_path: Path) -> None:
    for number in range(1_000):
        (tmp_path / f"a{number % 30}/d{number}").mkdir(parents=True)
    with in_process(tmp_path, protect=PROTECT) as guest:
        files.scan(guest)
        time.sleep(0.06)
        files.scan(guest)
        with processor_time_below(0.5):  # 3 ms each on a busy machine
            for _ in range(10):
                files.scan(guest)


NAMES = st.sampled_from(
    [".env", ".ENV.x", "a.pem", "id_rsa", ".aws", ".docker", "config.json", "plain", "x y", ".env.example"]
)
EXTRA = st.lists(
    st.sampled_from(["/top", "a/b", "**/x", "x/**", "*.v?", "!a.pem", "sec[rt]et", "dir/", "!.env", "**", "a/**/b"]),
    max_size=3,
)


@given(
    st.lists(NAMES | st.sampled_from(["top", "a", "b", "x", "y.v1", "secret", "dir"]), min_size=1, max_size=4),
    EXTRA,
    st.booleans(),
)
def test_host_and_guest_protect_the_same_entries(names: list[str], extra: list[str], is_folder: bool) -> None:
    patterns = protected.regexes(extra)
    path = "/".join(names)
    text = path + "/" if is_folder else path
    plainly = False
    for regex, protects in patterns:
        if re.match(regex, text, re.IGNORECASE):
            plainly = protects
    # Below a protected folder nobody asks: the folder itself was protected.
    matches, guest = protected.matcher(patterns), Protection(patterns)
    if not any(matches("/".join(names[:depth]), True) for depth in range(1, len(names))):
        assert matches(path, is_folder) == plainly
    assert guest.covers_entry(path.encode(), is_folder) == matches(path, is_folder)
