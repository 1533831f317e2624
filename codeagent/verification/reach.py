"""Which files a verification command reaches before any code under test runs: those that decide what it checks.

What the command itself names is followed into makefiles, the scripts of package.json and shell scripts, as far as
their text tells. Nothing is executed, and what cannot be told from the text (a name that a program computes) is not
found. `read(path)` gives a file of the untouched tree as text, None where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from posixpath import basename, dirname, join, normpath, splitext

from codeagent.verification.configured import configurations, named_files, test_folders
from codeagent.verification.insource import runs_doctests
from codeagent.verification.makefile import Makefile
from codeagent.verification.mentions import mentioned, object_of
from codeagent.verification.names import drives, in_checks, in_sources, is_code, is_configuration, is_test, subject
from codeagent.verification.shellwords import (
    PLACE,
    commands,
    meanings,
    modules,
    operands,
    path_of,
    shell_words,
    spellings,
    started_by_node,
    values,
    with_unknown,
)
from codeagent.verification.tree import Tree

Read = Callable[[str], str | None]

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_SHELLS = frozenset("sh bash dash ash ksh zsh".split())
_INTERPRETERS = _SHELLS | frozenset(
    "python python2 python3 node nodejs deno bun ruby perl php tsx ts-node Rscript lua".split()
)
_PACKAGE_RUNNERS = frozenset("npm yarn pnpm bun run-s run-p npm-run-all npm-run-all2".split())
_RUNNERS = frozenset("pytest py.test mocha jest vitest ava tape tap bats prove nose2 discover".split())
_DISCOVERED = {
    **dict.fromkeys(("unittest", "nose2", "nosetests"), "test*.py"),
    **dict.fromkeys(("behave", "cucumber", "cucumber-js"), "features/*"),
}
"""What runners take for tests by themselves, beside what is guarded everywhere. Without a slash: in any folder."""
_STARTED = _RUNNERS | _DISCOVERED.keys()
_BY_NODE = ("/index.js", "/index.mjs", "/index.ts", ".js", ".cjs", ".mjs", ".ts", ".json")
_COMPARING = frozenset("diff cmp comm colordiff".split())
_LOOKING = frozenset("for cat echo printf test [".split())
_MOST_FILES = 60
_MOST_CHARACTERS = 200_000
_TESTS = re.compile(r"^[ \t]*(?:async )?(?:def test|class \w*Test)", re.M)
_MOST_COMMANDS, _MOST_WORDS = 2_000, 1_000


@dataclass(frozen=True, slots=True)
class Reached:
    """`names(path)` tells whether the command reaches a path, `builds(path)` whether make would take a new file for
    what a recipe makes. In `roots` Python looks for modules, beside the top. `texts` are the shell's that run, and
    `compares(path)` tells whether they compare an output with a path, which may be code as well."""

    names: Callable[[str], bool]
    builds: Callable[[str], bool]
    roots: frozenset[str]
    texts: tuple[str, ...] = ()
    compares: Callable[[str], bool] = lambda _path: False


def reached(command: str, read: Read, tree: Tree | None = None) -> Reached:
    """What a command reaches."""
    reach = Reach(read, tree or Tree())
    reach.name(command)
    reach.follow(command, "")
    reach.configure()
    reach.names |= mentioned(command, read, reach.tree)
    roots = frozenset(reach.roots - {"", "."})
    return Reached(reach.matcher(), reach.is_built, roots, reach.texts(), reach.is_compared)


def _patterns(names: Iterable[str]) -> list[str]:
    """The patterns among names; an unknown folder (`$HERE/check.sh`) may be the top as well."""
    patterns = {name for name in names if set(name) & set("*?[") and not set(name) <= set("*./")}
    return sorted(patterns | {name[2:] for name in patterns if name.startswith("*/") and name[2:].strip("*./")})


def _is_among(path: str, names: set[str]) -> bool:
    return path in names or any(fnmatchcase(path, name) for name in names if dirname(name).strip("*./"))


@dataclass
class Reach:
    """Names found so far, as paths and as patterns; `discovered` are patterns of a file's name in any folder."""

    read: Read
    tree: Tree
    names: set[str] = field(default_factory=set)
    discovered: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    """Patterns of what the check compares with, or reads its examples in, unless it is the program's text."""
    compared: set[str] = field(default_factory=set)
    operands: set[str] = field(default_factory=set)
    """What other commands are given: to run it, to compile it."""
    targets: dict[str, list[str]] = field(default_factory=dict)
    """What makefiles make, with what each is made of: paths, `%` in pattern rules, `*` for what is not known."""
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def matcher(self) -> Callable[[str], bool]:
        patterns, data = _patterns(self.names), _patterns(self.data)

        def matches(path: str) -> bool:
            if path in self.names or any(fnmatchcase(path, pattern) for pattern in patterns):
                return True
            is_data = path in self.data or any(fnmatchcase(path, pattern) for pattern in data)
            if is_data and not is_code(path) and not in_sources(path):
                return True
            return any(fnmatchcase(basename(path), pattern) for pattern in self.discovered)

        return matches

    def is_compared(self, path: str) -> bool:
        return _is_among(path, self.compared) and not _is_among(path, self.operands)

    def texts(self) -> tuple[str, ...]:
        return tuple(sorted({script for script, _ in self._seen}))

    def is_built(self, path: str) -> bool:
        """Whether make would take a new file, or a folder that is new with it, for the product of a recipe, and
        leave the recipe out."""
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return self._is_product(path) or any(self._is_product(one) for one in above if one not in self.tree.folders)

    def _is_product(self, path: str) -> bool:
        for target, needed in self.targets.items():
            expression = re.escape(target).replace("%", "(.+)").replace(r"\*", ".*")
            if match := re.fullmatch(expression, path):
                stem = match[1] if "%" in target else ""
                if "%" not in target or all(self._may_be(need.replace("%", stem)) for need in needed):
                    return True
        return False

    def _may_be(self, path: str) -> bool:
        return "*" in path or path in self.targets or self.read(path) is not None

    def name(self, command: str) -> None:
        """Takes every word of the user's own command line that may name a file, however it reaches it."""
        words = shell_words(command)
        folders = {"", *(after for word, after in pairwise(words) if word in ("cd", "pushd"))}
        folders |= {name for word in words for name in meanings(word) if name in self.tree.folders}
        names = {normpath(join(folder, name)) for word in words for name in meanings(word) for folder in folders}
        named = {normpath(join(folder, name)) for name in modules(words) for folder in folders}
        names |= {path for name in named for path in (f"{name}.py", f"{name}/__main__.py")}
        names |= {f"{name}/__main__.py" for name in names if not name.endswith(".py")}
        # What a folder's name starts, and what is taken before that folder.
        without = {normpath(join(folder, name)) for name in started_by_node(words) for folder in folders}
        names |= {f"{name}{end}" for name in without if "." not in basename(name) for end in _BY_NODE}
        self.names |= names - self._with_examples(command)

    def _with_examples(self, command: str) -> set[str]:
        """Modules of which a command line runs the examples alone: those are put back, and the rest may be a fix."""
        by_pytest = {"pytest", "py.test"} if runs_doctests(command, self.read) else set()
        found: set[str] = set()
        others: set[str] = set()
        for words in commands(command):
            paths = {path for word in words for path in meanings(word)}
            if {"doctest", *by_pytest}.isdisjoint(map(basename, words)):
                others |= paths
            else:
                found |= {path for path in paths if path.endswith(".py") and not _TESTS.search(self.read(path) or "")}
        return found - others

    def follow(self, script: str, folder: str, place: str | None = None) -> None:
        """Follows what a shell script that runs in `folder` starts; its file lies in `place`."""
        if (script, folder) in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add((script, folder))
        for given in re.findall(r"\bPYTHONPATH=[\"']?([^\s\"';]+)", script):
            self.roots |= {path for part in given.split(":") if (path := path_of(part, folder))}
        known = values(script)
        if place is not None:
            known[PLACE] = [f"/workspace/{place}".rstrip("/")]
        for words in islice(commands(script), _MOST_COMMANDS):
            spelt = list(spellings(words[:_MOST_WORDS], known))
            if words[0] in ("cd", "pushd") and len(words) > 1:
                folder = path_of(spelt[-1][1], folder) or ""
                self.roots.add(folder)
            for each in spelt:
                self._start(each, folder)

    def _start(self, words: Sequence[str], folder: str) -> None:
        if basename(words[0]) not in _COMPARING | _LOOKING:
            self.operands |= {path for word in words if (path := path_of(word, folder)) is not None}
        for at, word in enumerate(words):
            program, rest = basename(word), words[at + 1 :]
            if not word.startswith("-") and (path := path_of(word, folder)) is not None and in_checks(path):
                self.names.add(path)
            if program in ("make", "gmake"):
                self._make(rest, folder)
            elif program in _PACKAGE_RUNNERS or (program in ("node", "nodejs") and "--run" in rest):
                self._package(rest, folder)
            elif program in ("source", ".") and at == 0 and rest:
                self._script(rest[0], folder, sourced=True)
            elif re.sub(r"[\d.]+$", "", program) in _INTERPRETERS:
                for operand in operands(rest):
                    if program.startswith("python") and (path := path_of(operand, folder)):
                        self.roots.add(dirname(path))
                    self._script(operand, folder, shell=program in _SHELLS)
            elif "/" in word and at == 0:
                self._script(word, folder)
            elif program in _COMPARING and at == 0:
                self._compared(rest, folder)
            elif word == "doctest" and at:
                self.data |= {path for each in rest if (path := path_of(each, folder)) is not None}
            if word.startswith("--doctest-glob"):
                self.discovered.add(word.partition("=")[2] or next(iter(rest), ""))
            if program in _RUNNERS or word == "--test":
                self._given(rest, folder)
            if program in _DISCOVERED:
                self._discover(program, rest, folder)

    def _compared(self, words: Sequence[str], folder: str) -> None:
        """What an output is compared with: files, folders, and what lies beside such a file under the same name."""
        for word in words:
            path = None if word.startswith("-") else path_of(word.rstrip("/"), folder)
            if path is not None:
                self.compared.add(path)
                self.data |= {path, f"{path}/*"}
                self.data |= {f"{splitext(path)[0]}.*"} if dirname(path).strip("*./") else set()

    def _discover(self, program: str, words: Sequence[str], folder: str) -> None:
        """What a runner finds by itself, unless it is told the names of its tests."""
        given = [after for word, after in pairwise(words) if word in ("-p", "--pattern")]
        given += [word.partition("=")[2] for word in words if word.startswith("--pattern=")]
        operand = next((word for word in words if not word.startswith("-")), "discover")
        if program == "unittest" and operand != "discover":
            return
        for pattern in given or [_DISCOVERED[program]]:
            if "/" in pattern:
                self.names.add(normpath(join(folder, pattern)))
            else:
                self.discovered.add(pattern)

    def _given(self, words: Sequence[str], folder: str) -> None:
        """What a runner is given and is named as the check's: files, and folders with all that is in them."""
        for word in words:
            path = None if word.startswith("-") else path_of(word.rstrip("/"), folder)
            if path is not None and (drives(path) or self._holds_tests(path)):
                self.names.add(path if "." in basename(path) else f"{path}/*")

    def _holds_tests(self, folder: str) -> bool:
        """Whether a folder is one of tests: it has some, none of them beside what it tests, and the program is not
        in it, but elsewhere."""
        if in_sources(f"{folder}/"):
            return False
        inside = {path for path in self.tree.files if path.startswith(f"{folder}/")}
        tests = {path for path in inside if is_test(basename(path)) and not is_test(dirname(path))}
        endings = {splitext(path)[1] for path in tests}
        stems = [splitext(basename(path))[0].lower() for path in inside - tests]
        beside = any(subject(test).startswith(stem) for test in tests for stem in stems)
        others = (path for path in self.tree.files - inside if splitext(path)[1] in endings)
        return bool(tests) and not beside and not all(is_test(path) or is_configuration(path) for path in others)

    def _script(self, operand: str, folder: str, *, sourced: bool = False, shell: bool = False) -> None:
        """A file that is run. One that is part of the program under test is not the check's."""
        path = path_of(operand, folder)
        if path is None and folder and re.fullmatch(r"[./]*\*", with_unknown(operand)):
            # Each file of a folder is run (`cd cases; for f in *; do sh $f; done`): that is how checks are.
            self.names |= set() if in_sources(f"{folder}/") else {f"{folder}/*"}
        if path is None or not (sourced or path in self.names or drives(path) or self._runs_tests(path)):
            return
        self.names.add(path)
        for file in self._files(path):
            text = (self.read(file) or "")[:_MOST_CHARACTERS]
            # A test may start the program under test: it is guarded itself, and not followed.
            if text and (shell or sourced or re.match(r"#!.*\b(?:sh|bash|dash|ash)\b", text)):
                self.follow(text, folder, dirname(file))

    def _runs_tests(self, path: str) -> bool:
        """Whether a script starts a runner: then it is a check's, wherever it lies."""
        is_script = not in_sources(path) and (path.endswith("sh") or not is_code(path))
        text = (self.read(path) or "")[:_MOST_CHARACTERS] if is_script else ""
        return any({*words[:4]} & _STARTED for words in islice(commands(text), _MOST_COMMANDS))

    def _files(self, path: str) -> list[str]:
        """The files that a path with `*` for what is not known may be."""
        if "*" not in path:
            return [path]
        patterns = _patterns({path})
        matching = (file for file in self.tree.files if any(fnmatchcase(file, each) for each in patterns))
        return sorted(matching)[:_MOST_FILES]

    def _make(self, words: Sequence[str], folder: str) -> None:
        given, targets, files, variables = iter(words), [], [], {}
        for word in given:
            if word in ("-C", "--directory"):
                folder = normpath(join(folder, with_unknown(next(given, ""))))
            elif word in ("-f", "--file", "--makefile"):
                files.append(next(given, ""))
            elif match := re.match(r"(?:-C|--directory=)(.+)", word):
                folder = normpath(join(folder, with_unknown(match[1])))
            elif match := re.match(r"(?:-f|--file=|--makefile=)(.+)", word):
                files.append(match[1])
            elif match := re.match(r"([\w.-]+):?=(.*)", word):
                variables[match[1]] = match[2]
            elif not word.startswith("-") and "=" not in word:
                targets.append(word)
        for place in self._places(folder, _MAKEFILES):
            self._made_in(place, files, targets, variables)

    def _places(self, folder: str, names: Sequence[str]) -> list[str]:
        """The folders that a name with `*` for what is not known may be of: those which have such a file."""
        if "*" not in folder:
            return [folder]
        known = (dirname(path) for path in self.tree.files if basename(path) in names)
        return sorted(each for each in known if fnmatchcase(each, folder))[:_MOST_FILES]

    def _made_in(
        self, folder: str, files: Sequence[str], targets: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        makefile = Makefile(given=variables)
        self._include(makefile, files or _MAKEFILES, folder)
        for target in makefile.made(targets):
            path = path_of(target, folder)
            # A rule for any name at all (`%:`) tells nothing.
            if path is not None and not set(target) <= set("%*./"):
                needed = makefile.prerequisites.get(target, [])
                self.targets[path] = [need for word in needed if (need := path_of(word, folder)) is not None]
        for line in makefile.run_by(targets):
            self.follow(line, folder)

    def _include(self, makefile: Makefile, names: Iterable[str], folder: str) -> None:
        waiting = [path for name in names if (path := path_of(name, folder)) is not None]
        seen: set[str] = set()
        while waiting and len(seen) < _MOST_FILES:
            path = waiting.pop(0)
            if path in seen:
                continue
            seen.add(path)
            self.names.add(path)
            if text := self.read(path):
                found = makefile.read(text[:_MOST_CHARACTERS])
                waiting += [path for name in found if (path := path_of(name, folder)) is not None]

    def configure(self) -> None:
        """Takes what the configurations of runners name."""
        for folder, text in configurations(self.read, self.tree):
            self.names |= named_files(text, folder)
            self._given(test_folders(text), folder)
            self.discovered |= set(re.findall(r"--doctest-glob[= ]+[\"']?([\w*.?-]+)", text))

    def _package(self, words: Sequence[str], folder: str) -> None:
        """Scripts of a package, and of those below: options choose them by their folder or by their name."""
        wanted = {*words, *({"test"} if {"t", "tst"} & {*words} else ())}
        inner = (dirname(path) for path in self.tree.files if basename(path) == "package.json")
        below = sorted(each for each in inner if not folder or each.startswith(f"{folder}/"))
        for place in dict.fromkeys((folder, *below[:_MOST_FILES])):
            self._scripts_of(place, wanted)

    def _scripts_of(self, folder: str, wanted: set[str]) -> None:
        scripts = object_of(self.read(join(folder, "package.json")) or "").get("scripts")
        if not isinstance(scripts, dict):
            return
        for name in [name for name in scripts if any(fnmatchcase(name, each) for each in wanted)]:
            for each in (f"pre{name}", name, f"post{name}"):
                if isinstance(line := scripts.get(each), str):
                    self.follow(line, folder)
