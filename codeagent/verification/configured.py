"""What the configurations of runners name: files and plugins that they load, and what they call tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from posixpath import basename, dirname

from codeagent.verification.mentions import object_of
from codeagent.verification.names import drives
from codeagent.verification.shellwords import path_of
from codeagent.verification.tree import Tree

Read = Callable[[str], str | None]

_NAMES = frozenset(
    "package.json jest.config.js jest.config.ts jest.config.json jest.config.cjs jest.config.mjs vitest.config.ts "
    "vitest.config.js vite.config.ts vite.config.js .mocharc.json .mocharc.js .mocharc.cjs .mocharc.yml "
    ".mocharc.yaml pytest.ini pytest.toml tox.ini setup.cfg pyproject.toml conftest.py .rspec".split()
)
_ELSEWHERE = re.compile(r"(?:^|/)(?:node_modules|vendor|venv|\.venv|site-packages)/")
_RUNNER_TABLES = frozenset("jest mocha ava vitest tap nyc c8 babel".split())
_NAMED_FILE = re.compile(
    r"(?:^|[\s\"'=,\[(>/])((?:[\w.-]{1,80}/){0,12}[\w.-]{1,80}\.(?:[cm]?[jt]s|py|sh|rb|json))(?=[\s\"',\])]|$)", re.M
)
_SET_UP = re.compile(
    r"\b(?:setupFiles(?:AfterEnv)?|globalSetup|globalTeardown|testEnvironment|testRunner|snapshotSerializers|require|spec)"
    r"[\"']?\s*[:=]\s*(\[[^\]]*\]|[^\n,]*)"
)
"""What a runner loads because its configuration says so, wherever it lies."""
_LISTED = r"[\"']?\s*=[ \t]*(\[[^\]]*\]|[^\n]*(?:\n[ \t]+[^\n]+)*)"
"""The value of a key in TOML or in an ini file, where it may go on in lines that are indented."""
_PLUGINS = re.compile(r"pytest_plugins\s*=\s*(\[[^\]]*\]|\([^)]*\)|[^\n]*)")
_MOST_FILES = 60
_MOST_CHARACTERS = 200_000


def configurations(read: Read, tree: Tree) -> Iterator[tuple[str, str]]:
    """The texts that may configure a runner, each with its folder, those of the top first."""
    known = {path for path in tree.files if basename(path) in _NAMES and not _ELSEWHERE.search(path)}
    for path in sorted(known | _NAMES, key=lambda path: (path.count("/"), path))[: len(_NAMES) + _MOST_FILES]:
        if text := (read(path) or "")[:_MOST_CHARACTERS]:
            yield dirname(path), _of_runners(text) if basename(path) == "package.json" else text


def _of_runners(text: str) -> str:
    """What else a `package.json` names is the package's own."""
    package = object_of(text)
    return json.dumps({key: package[key] for key in _RUNNER_TABLES & package.keys()})


def named_files(text: str, folder: str) -> set[str]:
    """The paths of what a configuration loads, and patterns for what it calls a test."""
    loaded = {word for found in _SET_UP.findall(text) for word in _NAMED_FILE.findall(found)}
    words = loaded | {word for word in _NAMED_FILE.findall(text) if drives(word)}
    names = {path for word in words if (path := path_of(word, folder)) is not None}
    plugins = re.findall(r"(?:^|[\s\"'])-p[ =]?([\w.]+)", text)
    plugins += [name for found in _PLUGINS.findall(text) for name in re.findall(r"[\"']([\w.]+)[\"']", found)]
    for module in (name.replace(".", "/") for name in plugins):
        places = (module, path_of(module, folder))
        names |= {path for place in places for path in (f"{place}.py", f"{place}/__init__.py")}
    for patterns in re.findall(rf"python_files{_LISTED}", text):
        names |= {place for each in re.findall(r"[\w*?./-]+", patterns) for place in (each, f"*/{each}")}
    return names


def test_folders(text: str) -> list[str]:
    """What pytest is told to look through."""
    return [word for places in re.findall(rf"testpaths{_LISTED}", text) for word in re.findall(r"[\w*?./-]+", places)]
