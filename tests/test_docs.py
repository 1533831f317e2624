"""What the documents say, held against the code: links, commands, configuration, exit codes, variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.cli.main import build_parser
from codeagent.config import VARIABLES, load_config

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(document.relative_to(ROOT)) for document in DOCUMENTS]


def blocks(text: str, language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> Iterator[list[str]]:
    """Every `codeagent …` line of the shell examples, as words; what follows a pipe or redirection is the shell's."""
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            words = list(lexer)
            while any(word.endswith("codeagent") for word in words):
                start = next(at for at, word in enumerate(words) if word.endswith("codeagent"))
                words = words[start + 1 :]
                end = next((at for at, word in enumerate(words) if set(word) <= set("|&;<>")), len(words))
                if words and words[0] != "…":
                    yield words[:end]
                words = words[end:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "", text)  # what is code is no link
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            linked = (document.parent / path) if path else document
            assert linked.exists(), target
            if anchor:
                headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in anchors, target


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_command_shown_is_one_that_the_program_takes(document: Path) -> None:
    parser = build_parser()
    for words in commands(document.read_text(encoding="utf-8")):
        if "--help" not in words:
            parser.parse_args([word for word in words if not word.startswith("#")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_configuration_shown_is_valid(document: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(document.read_text(encoding="utf-8"), "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        for profile in [None, *re.findall(r"^\[profiles\.(\w+)\]", block, flags=re.MULTILINE)]:
            load_config(environ={"CODEAGENT_HOME": str(tmp_path)}, config=file, profile=profile)


def test_the_guide_names_every_variable() -> None:
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    for variable in [*VARIABLES, "CODEAGENT_HOME", "CODEAGENT_CONFIG", "CODEAGENT_PROFILE"]:
        assert f"`{variable}`" in guide


def test_the_guide_names_every_exit_code() -> None:
    from codeagent.outcome import Outcome

    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    shown = {int(code) for code in re.findall(r"^\| (\d+) \| ", guide, flags=re.MULTILINE)}
    assert shown == {outcome.exit_code for outcome in Outcome} | {1, 2, 5}


def test_the_guide_names_every_command_of_chat() -> None:
    from codeagent.cli.chat_commands import HELP

    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    for name in HELP:
        assert f"| `{name}" in guide


def test_continuous_integration_runs_the_readmes_command_for_the_tests() -> None:
    _, tests, *_ = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "sh")
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith(f"\nexec {tests}")


def test_the_page_for_whoever_works_here_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 120
