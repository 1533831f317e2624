"""Runs in the default image while the toolbox is built: gathers Python and git with their loader and libraries.

`collect.py TOP` fills TOP so that it works at that path in any Linux image of the same architecture:

    TOP/bin/{python3,git}   static launchers      TOP/lib/loader, TOP/lib/*.so*   the loader and the libraries
    TOP/bin/begin           starts commands
    TOP/libexec/            the programs          TOP/lib/pythonX.Y/              the standard library
"""

from __future__ import annotations

import compileall
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data",
    "dist-packages", "site-packages", "config-*", "venv", "xmlrpc", "wsgiref", "curses", "dbm", "sqlite3", "asyncio",
    # Modules whose libraries would be the larger part of the toolbox.
    "_ssl.*", "_tkinter*", "_sqlite3*", "_curses*", "_dbm*", "_gdbm*", "readline.*", "_test*", "_ctypes_test*",
    "nis.*", "ossaudiodev*", "audioop*", "xx*",
)  # fmt: skip
LOADER = re.compile(r"^\s*(/lib\S*/ld-\S+)", re.MULTILINE)
LIBRARY = re.compile(r"=> (/\S+)")


def collect(top: Path) -> None:
    programs = {"python3": Path(sys.executable).resolve(), "git": Path("/usr/bin/git")}
    for folder in ("bin", "lib", "libexec"):
        (top / folder).mkdir(parents=True)
    for name, source in programs.items():
        shutil.copy(source, top / "libexec" / name)
        build(top / "bin" / name, "launcher.c", f'-DNAME="{name}"')
    build(top / "bin" / "begin", "begin.c")

    standard = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(standard, top / "lib" / standard.name, ignore=LEFT_OUT)
    extensions = (top / "lib" / standard.name / "lib-dynload").glob("*.so")
    needed = subprocess.run(
        ["ldd", *programs.values(), *extensions], check=True, capture_output=True, text=True
    ).stdout
    for library in sorted({*LIBRARY.findall(needed)}):
        shutil.copy(Path(library).resolve(), top / "lib" / Path(library).name)
    shutil.copy(Path(LOADER.findall(needed)[0]).resolve(), top / "lib" / "loader")
    compile_folder(top / "lib" / standard.name)


def compile_folder(folder: Path) -> None:
    """The toolbox is mounted read-only, its files' times mean nothing: compiled files are taken unchecked."""
    compileall.compile_dir(folder, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def build(target: Path, source: str, *options: str) -> None:
    file = Path(__file__).with_name(source)
    subprocess.run(["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", *options, "-o", target, file], check=True)


if __name__ == "__main__":
    collect(Path(sys.argv[1]))
