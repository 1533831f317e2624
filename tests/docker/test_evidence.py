"""Evidence in whole runs: what citations are worth, and edits on the host while the model works."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.docker.codeagent_cli import Program
from tests.fixtures_expected import ORDER_PRICING
from tests.model_forms import Call, Text
from tests.model_server import ModelServer, Received, call, reply, text

BOOK = "pricing/catalog/price_book.py"
ORDERS = "pricing/money.py"
SKU = "pricing/catalog/sku.py"
PERIOD = "pricing/catalog/period.py"


@pytest.fixture
def program(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> Iterator[Program]:
    yield Program(tmp_path, engine)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    shutil.copytree(ORDER_PRICING.root, tmp_path / "repo", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "repo"


def read(path: str, call_id: str, start: int | None = None, end: int | None = None) -> Call:
    return call("read_file", {"path": path, "start_line": start, "end_line": end}, call_id=call_id)


def command(script: str, call_id: str, writes: bool | None = None) -> Call:
    arguments = {"command": script, "workdir": None, "timeout_seconds": None, "writes": writes}
    return call("run_command", arguments, call_id=call_id)


def after(change: Callable[[], object], *parts: Call | Text) -> Callable[[Received], object]:
    """Changes something on the host while the model thinks, then replies."""

    def respond(_request: Received) -> object:
        change()
        return reply(*parts)

    return respond


def run(program: Program, repo: Path, script: list[Any], *flags: str) -> Any:
    with ModelServer(script) as server:
        return program.run("ask", "why?", "--repo", str(repo), "--json", *flags, server=server)


def states(ran: Any) -> dict[str, tuple[str, list[str]]]:
    return {f"{one['path']}:{one['start_line']}": (one["state"], one["call_ids"]) for one in ran.end["citations"]}


def notes(ran: Any) -> list[str]:
    return [event["text"] for event in ran.of("note") if event["origin"] == "program"]


def test_each_citation_says_what_the_record_says(program: Program, repo: Path) -> None:
    answer = (
        f"It is `{BOOK}:21`, because {PERIOD}:22 is wrong, see {PERIOD}:14 and price_book.py:16-17. "
        f"`{BOOK}:1`: `def price_for(self, sku, day):` nonesuch.py:3 {BOOK}:999 at 10:30 on localhost:8080. "
        "All tests pass."
    )
    ran = run(
        program,
        repo,
        [
            reply(read(BOOK, "one"), command(f"grep -n 'return day' {PERIOD}", "two"), read("nonesuch.py", "three")),
            reply(text(answer)),
        ],
    )
    assert states(ran) == {
        f"{BOOK}:21": ("read", ["one"]),
        f"{PERIOD}:22": ("read", ["two"]),
        f"{PERIOD}:14": ("unread", []),
        f"{BOOK}:16": ("read", ["one"]),
        f"{BOOK}:11": ("moved", ["one"]),
        "nonesuch.py:3": ("missing", []),
        f"{BOOK}:999": ("missing", []),
    }
    assert ran.end["limits"] == [{"kind": "not_found", "call_id": "three", "subject": "nonesuch.py"}]
    assert ran.end["unsupported"] == ["All tests pass."]


def test_a_host_edit_is_told_before_the_next_inference_and_makes_citations_stale(
    program: Program, repo: Path
) -> None:
    book = repo / BOOK
    ran = run(
        program,
        repo,
        [
            reply(read(BOOK, "one")),
            after(lambda: book.write_text(book.read_text() + "# new\n"), read(PERIOD, "two")),
            after(lambda: (repo / PERIOD).touch(), text(f"See {BOOK}:21 and {PERIOD}:22.")),
        ],
    )
    assert notes(ran) == [
        "Files changed in the repository after you were shown them:\n"
        f"- {BOOK}: lines that differ now: 25; what you were shown of it no longer holds."
    ]
    assert f"told the model: {notes(ran)[0]}" in ran.err  # whoever asked should know, too
    assert states(ran) == {f"{BOOK}:21": ("stale", ["one"]), f"{PERIOD}:22": ("read", ["two"])}


def test_a_host_edit_goes_into_the_private_copy_and_the_agents_own_writes_are_no_news(
    program: Program, repo: Path
) -> None:
    period, orders = repo / PERIOD, repo / ORDERS
    edited = period.read_text().replace("return day < self.end", "return day <= self.end")
    added = "# new\n" + orders.read_text()
    ran = run(
        program,
        repo,
        [
            reply(read(PERIOD, "one"), read(BOOK, "two")),
            reply(command(f"sed -i 's/return price$/return price  # found/' {BOOK}; echo >> {SKU}", "three", True)),
            after(
                lambda: (period.write_text(edited), orders.write_text(added)), read(BOOK, "four"), read(SKU, "own")
            ),
            reply(read(PERIOD, "five"), read(ORDERS, "six")),
            reply(read(ORDERS, "seven")),
            after(lambda: (repo / BOOK).write_text("# mine\n"), read(PERIOD, "eight")),
            reply(text(f"I changed {BOOK}:20. {PERIOD}:22 is new, {ORDERS}:1 too.")),
        ],
        "--approve",
        "contained",
    )
    head = "Files changed in the repository after you were shown them:\n"
    assert notes(ran) == [
        f"{head}- {PERIOD}: lines that differ now: 22; the private copy has the new version.",
        f"{head}- {ORDERS}: lines that differ now: 1; the private copy has the new version.",
        f"{head}- {BOOK}: lines that differ now: 1; conflict: you changed the same file in the private copy, which "
        "keeps your version.",
    ]
    assert "return day <= self.end" in ran.outputs["five"]
    assert "# new" not in ran.outputs["six"]
    assert "1\t# new" in ran.outputs["seven"]
    assert states(ran) == {
        f"{BOOK}:20": ("own_change", ["four"]),
        f"{PERIOD}:22": ("read", ["five", "eight"]),
        f"{ORDERS}:1": ("read", ["seven"]),
    }


def test_what_the_agent_wrote_is_its_own_also_where_no_diff_shows_it(program: Program, repo: Path) -> None:
    (repo / ".gitignore").write_text("build/\n")
    (repo / "build").mkdir()
    (repo / "build/log.txt").write_text("a line of the host\n")
    script = (
        "echo made up > build/log.txt; echo made up > build/new.txt; "
        "{ echo made up; head -c 18000000 /dev/zero | tr '\\0' y | fold -w 99; } > big.txt"
    )
    places = ["build/log.txt", "build/new.txt", "big.txt"]
    reads = [read(path, path, 1, 1) for path in places]
    answer = text(" and ".join(f"{path}:1" for path in places))
    ran = run(
        program, repo, [reply(command(script, "write", True)), reply(*reads), reply(answer)], "--approve", "contained"
    )
    assert states(ran) == {f"{path}:1": ("own_change", [path]) for path in places}
    assert notes(ran) == []
