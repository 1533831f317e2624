"""`sandbox/build`, run for real but for debootstrap, which takes minutes: what is asked of it and made of it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

from codeagent.sandbox import image as images

DEBOOTSTRAP = """#!/bin/sh
set -e
for word; do case $word in --include=*) packages=${word#*=} ;; /*/root) root=$word ;; esac; done
mkdir -p "$root/etc/apt" "$root/usr/share/locale/de" "$root/usr/share/doc/git" "$root/var/cache/apt" "$root/proc"
echo "$packages" >"$root/packages"
echo "$@" >"$root/asked"
touch "$root/usr/share/doc/git/copyright" "$root/usr/share/doc/git/changelog" "$root/var/cache/apt/pkgcache.bin"
touch "$root/etc/resolv.conf" "$root/proc/1"
echo "I: Retrieving git 2.39" >&2
"""


def listed(folder: Path) -> list[str]:
    """The packages of the list, in its order."""
    lines = (folder / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def built(folder: Path, work: Path) -> dict[str, str]:
    """The files in the archive that the folder's build writes, with their contents."""
    programs = work / "bin"
    programs.mkdir()
    (programs / "debootstrap").write_text(DEBOOTSTRAP)
    (programs / "debootstrap").chmod(0o755)
    done = subprocess.run(
        ["sh", str(folder / "build"), str(work), "http://mirror.invalid/debian"],
        env={"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        check=True,
    )
    assert done.stderr.decode().splitlines() == ["I: Retrieving git 2.39", "I: Importing"]
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name.removeprefix("./"): file.read().decode() for name, file in files.items() if file}


def test_the_archive_is_a_trimmed_debian_with_the_listed_packages(tmp_path: Path) -> None:
    folder = images.sandbox_folder()
    found = built(folder, tmp_path)
    assert found.pop("packages").strip().split(",") == listed(folder)
    asked = found.pop("asked").split()
    assert "--force-check-gpg" in asked
    assert asked[-3:] == ["bookworm", str(tmp_path / "root"), "http://mirror.invalid/debian"]
    assert set(found) == {"etc/apt/sources.list", "usr/share/doc/git/copyright"}
    assert not (tmp_path / "root").exists()
