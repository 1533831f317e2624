"""Who decides what, in which mode, and what stays allowed for the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from codeagent.approval.gate import Answer, Ask, Gate, Grant, Question, digest_by
from codeagent.approval.rules import Rules
from codeagent.approval.seam import Approval, Review
from codeagent.errors import ErrorKind, Interrupted, ToolError
from codeagent.events import ApprovalDecided, ApprovalRequested, Event, GrantChanged
from codeagent.settings import ApproveMode, Rule
from tests.clocks import processor_time_below

RULES = Rules(allow=(Rule(("pytest",)),), deny=(Rule(("git", "push")),))


class Person:
    """Gives prepared answers and remembers what was asked."""

    def __init__(self, answers: Sequence[Answer | type[BaseException]]) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, Answer):
            return answer
        raise answer


class Bench:
    """A gate with everything that it said."""

    def __init__(
        self, mode: ApproveMode = "ask", ask: Ask | None = None, files: dict[str, str] | None = None
    ) -> None:
        self.events: list[Event] = []
        self.person = ask
        self.files = files if files is not None else {}
        self.gate = Gate(mode, emit=self.events.append, ask=ask, digest=self.files.get, rules=RULES)
        self.count = 0

    def run(self, command: str, *, workdir: str = "", writable: bool = True) -> Approval:
        self.count += 1
        return self.gate(
            Review(f"c{self.count}", "run_command", command, workdir, writable, self.gate.classify(command))
        )

    def patch(self, patch: str, check: Callable[[], None] = lambda: None) -> Approval:
        self.count += 1
        return self.gate(Review(f"c{self.count}", "apply_patch", patch, "", True, self.gate.classify("rm x"), check))


def person(*kinds: str, reason: str = "") -> Person:
    return Person([Answer(kind, reason) for kind in kinds])  # type: ignore[arg-type]


NO_TERMINAL = (
    "there is no terminal to ask for approval; --approve contained would allow it (rm is not known to be read-only)"
)
READ_ONLY = "--approve read-only denies whatever is not known to only read (rm is not known to be read-only)"


@pytest.mark.parametrize(
    ("mode", "command", "approval"),
    [
        ("ask", "ls", Approval("allow", "class", "ls with these flags only reads")),
        ("ask", "rm x", Approval("deny", "no_terminal", NO_TERMINAL)),
        ("ask", "pytest -q | tail", Approval("allow", "rule", "allow pytest")),
        ("read-only", "ls", Approval("allow", "class", "ls with these flags only reads")),
        ("read-only", "rm x", Approval("deny", "flag", READ_ONLY)),
        ("read-only", "pytest", Approval("allow", "rule", "allow pytest")),
        ("contained", "rm x", Approval("allow", "flag", "--approve contained")),
        ("contained", "sh -c 'make; x=$y'", Approval("allow", "flag", "--approve contained")),
        ("all", "rm x", Approval("allow", "flag", "--approve all")),
        *(
            (mode, "mount x", Approval("deny", "class", "this command is forbidden: mount never runs"))
            for mode in ("ask", "read-only", "contained", "all")
        ),
        *(
            (mode, "git push", Approval("deny", "rule", "this command is forbidden: your rule denies `git push`"))
            for mode in ("ask", "read-only", "contained", "all")
        ),
    ],
)
def test_each_mode_decides_without_a_person(mode: ApproveMode, command: str, approval: Approval) -> None:
    bench = Bench(mode)
    assert bench.run(command) == approval
    assert bench.events == [ApprovalDecided("c1", approval.decision, approval.by, approval.reason)]


def test_a_patch_goes_the_same_way() -> None:
    assert Bench("contained").patch("x") == Approval("allow", "flag", "--approve contained")
    assert Bench("read-only").patch("x").decision == "deny"
    assert Bench("ask").patch("x").by == "no_terminal"


def test_nobody_is_asked_about_what_cannot_be_carried_out() -> None:
    def unfit() -> None:
        raise ToolError(ErrorKind.PATCH_FAILED, "it does not fit")

    ask = person("no", "once", "no")
    bench = Bench(ask=ask)
    assert bench.patch("x").decision == "deny"
    asked_before = list(bench.events)
    with pytest.raises(ToolError, match="it does not fit"):
        bench.patch("y", unfit)
    assert (len(ask.asked), bench.events) == (1, asked_before)
    bench.patch("y")
    bench.patch("y")
    assert [question.denied for question in ask.asked] == [0, 0, 0]


@pytest.mark.parametrize(("mode", "decision"), [("contained", "allow"), ("read-only", "deny"), ("ask", "deny")])
def test_where_no_person_is_asked_nothing_is_looked_at_first(mode: ApproveMode, decision: str) -> None:
    looked: list[str] = []
    bench = Bench(mode)
    assert (bench.patch("x", lambda: looked.append("x")).decision, looked) == (decision, [])


def test_a_person_is_asked_only_where_nothing_else_decides() -> None:
    ask = person("once", "no")
    bench = Bench(ask=ask)
    assert bench.run("ls").by == "class"
    assert bench.run("rm x") == Approval("allow", "user", "")
    assert bench.run("rm y") == Approval("deny", "user", "the user denied this call")
    assert [question.review.subject for question in ask.asked] == ["rm x", "rm y"]
    assert bench.events == [
        ApprovalDecided("c1", "allow", "class", "ls with these flags only reads"),
        ApprovalRequested("c2", "rm x", "ask", "rm is not known to be read-only"),
        ApprovalDecided("c2", "allow", "user", ""),
        ApprovalRequested("c3", "rm y", "ask", "rm is not known to be read-only"),
        ApprovalDecided("c3", "deny", "user", "the user denied this call"),
    ]


def test_a_reason_for_a_denial_reaches_the_approval() -> None:
    assert Bench(ask=person("no", reason="use rg")).run("rm x").reason == "the user denied this call: use rg"


def test_stop_stops() -> None:
    assert Bench(ask=person("stop")).run("rm x") == Approval("stop", "user", "the user stopped the turn")


def test_the_third_denial_of_the_same_command_in_a_row_stops() -> None:
    bench = Bench(ask=person("no", "no", "no", "no"))
    decisions = [bench.run("rm x").decision for _ in range(4)]
    assert decisions == ["deny", "deny", "stop", "deny"]


def test_reading_between_denials_does_not_break_the_row_and_another_answer_does() -> None:
    bench = Bench(ask=person("no", "no", "no"))
    assert [bench.run(command).decision for command in ("rm x", "ls", "rm x", "ls", "rm x")][-1] == "stop"
    bench = Bench(ask=person("no", "no", "no", "no"))
    assert [bench.run(command).decision for command in ("rm x", "rm x", "rm y", "rm x")] == ["deny"] * 4
    bench = Bench(ask=person("no", "no", "once", "no"))
    assert [bench.run("rm x").decision for _ in range(4)] == ["deny", "deny", "allow", "deny"]


def test_an_interruption_is_recorded_and_goes_on_up() -> None:
    bench = Bench(ask=Person([Interrupted]))
    with pytest.raises(Interrupted):
        bench.run("rm x")
    assert bench.events[-1] == ApprovalDecided("c1", "stop", "user", "interrupted at the prompt")


def test_an_exact_grant_covers_exactly_this_command_in_this_directory() -> None:
    ask = person("exact", *["no"] * 4)
    bench = Bench(ask=ask)
    bench.run("rm x", workdir="src")
    assert bench.run("rm x", workdir="src") == Approval("allow", "grant", "allowed earlier in this session")
    assert bench.run("rm  x", workdir="src").by == "user"
    assert bench.run("rm x").by == "user"
    assert bench.run("rm x y", workdir="src").by == "user"
    assert bench.gate.grants == (Grant("exact", "rm x", "src", (), True, (("src/rm", None), ("src/x", None))),)
    assert bench.events[1] == GrantChanged("given", "exact", "rm x", "src")


def change(path: str) -> Callable[[dict[str, str]], None]:
    return lambda files: files.update({path: "other"})


@pytest.mark.parametrize(
    ("command", "touched"),
    [
        ("python3 tools/build.py --fast", "w/tools/build.py"),
        ("sh tools/run.sh > out", "w/tools/run.sh"),
        ("./run", "w/run"),
        ("make -f build/Makefile", "w/build/Makefile"),
        ("python3 --config=conf/a.ini x", "w/conf/a.ini"),
        ("cd tools && python3 build.py", "w/tools/build.py"),
        ("python3 ../shared/a.py", "shared/a.py"),
        ("python3 /workspace/b.py", "b.py"),
        ('python3 "my file.py"', "w/my file.py"),
        ("x=$(cat a.sh); sh a.sh", "w/a.sh"),
        ("sh run.sh conf/a.ini", "w/conf/a.ini"),
        ("sh -c 'cd tools && ./build.sh'", "w/tools/build.sh"),
        ("cd tools; cd deep; sh a.sh", "w/tools/deep/a.sh"),
        ("sh -c 'cd tools; cd deep; sh a.sh'", "w/tools/deep/a.sh"),
        ("env -C tools sh a.sh", "w/tools/a.sh"),
        ('cd "my tools" && sh a.sh', "w/my tools/a.sh"),
        ("sh link/../a.sh", "w/link/../a.sh"),
        ("cd link && sh ../a.sh", "w/link/../a.sh"),
    ],
)
def test_an_exact_grant_ends_when_a_file_that_the_command_names_changes(command: str, touched: str) -> None:
    files = {touched: "first"}
    bench = Bench(ask=person("exact", "no"), files=files)
    bench.run(command, workdir="w")
    assert bench.run(command, workdir="w").by == "grant"
    files[touched] = "other"
    assert bench.run(command, workdir="w").by == "user"
    files[touched] = "first"
    assert bench.run(command, workdir="w").by == "grant"


def test_a_file_that_is_too_large_to_be_compared_never_counts_as_unchanged() -> None:
    def fetch(path: str) -> bytes:
        raise ToolError(ErrorKind.TOO_LARGE if path == "large.py" else ErrorKind.FILE_NOT_FOUND, "no")

    bench = Bench(ask=person("exact", "exact", "no"))
    bench.gate = Gate("ask", emit=bench.events.append, ask=bench.person, digest=digest_by(fetch))
    decided = [bench.run(command).by for command in ("rm x", "rm x", "python3 large.py", "python3 large.py")]
    assert decided == ["user", "grant", "user", "user"]


def test_a_command_that_changes_folder_very_often_is_still_judged_at_once() -> None:
    command = "; ".join(f"cd d{number}" for number in range(60)) + "; sh a.sh"
    with processor_time_below(5):
        bench = Bench(ask=person("exact"))
        assert (bench.run(command).by, bench.run(command).by) == ("user", "grant")


def test_a_grant_for_a_command_that_could_not_write_does_not_let_it_write() -> None:
    bench = Bench(ask=person("exact", "no"))
    bench.run("rm x", writable=False)
    assert bench.run("rm x", writable=False).by == "grant"
    assert bench.run("rm x", writable=True).by == "user"


def test_a_prefix_grant_covers_its_commands_alone_or_beside_commands_that_read() -> None:
    ask = person("prefix", *["no"] * 20)
    bench = Bench(ask=ask)
    assert bench.run("npm test").decision == "allow"
    allowed = [
        "npm test",
        "npm test -- -u -count=1 --timeout=5 @a/b",
        "cd web && npm test | tail -5",
        "npm test 2>&1",
    ]
    asked = [
        "npm install",
        "npm",
        "npm test > out",
        "npm test; rm x",
        "npm test $x",
        "npm test | sh",
        "npm test *",
        "npx test",
        "./npm test",
        "npm test --script-shell=./x",
        "npm test --script-she ./x",
        "npm test -- --outp=x",
        "npm test -- --outDir x",
        "npm test -- -o x",
        "npm test -- -c x.json",
        "sudo npm test",
        "npm test & ls",
        "(npm test; node x.js)",
    ]
    assert {command: bench.run(command).by for command in [*allowed, *asked]} == {
        **dict.fromkeys(allowed, "grant"),
        **dict.fromkeys(asked, "user"),
    }
    assert bench.events[1] == GrantChanged("given", "prefix", "npm test", "")


def test_grants_are_listed_and_revoked() -> None:
    bench = Bench(ask=person("exact", "prefix", "no", "no"))
    bench.run("rm x")
    bench.run("npm test")
    assert [grant.command for grant in bench.gate.grants] == ["rm x", "npm test"]
    for grant in bench.gate.grants:
        bench.gate.revoke(grant)
    assert bench.gate.grants == ()
    assert bench.events[-2:] == [
        GrantChanged("revoked", "exact", "rm x", ""),
        GrantChanged("revoked", "prefix", "npm test", ""),
    ]
    assert [bench.run(command).by for command in ("rm x", "npm test")] == ["user", "user"]


def test_forbidden_stays_forbidden_beside_a_grant() -> None:
    bench = Bench(ask=person("prefix"))
    bench.run("npm test")
    assert bench.run("npm test; mount x") == Approval("deny", "class", "this command is forbidden: mount never runs")


def test_the_question_tells_what_a_prefix_would_have_covered() -> None:
    ask = person("once", "once", "no", "once")
    bench = Bench(ask=ask)
    for command in ("npm test", "rm x", "npm test -- a", "npm test"):
        bench.run(command)
    assert [(question.prefix, question.covers) for question in ask.asked] == [
        (("npm", "test"), ()),
        ((), ()),
        (("npm", "test"), ("npm test",)),
        (("npm", "test"), ("npm test", "npm test -- a")),
    ]


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m pytest",
        "python3.11 x.py",
        "node x.js",
        "perl -e 1",
        "sh x.sh",
        "bash -c ls",
        "sudo ls",
        "env ls",
        "ls | xargs rm",
        "find . -exec rm {} +",
        "find . -delete",
        "./run.sh",
        "/usr/bin/make",
        "make test",
        "rm x",
        "awk 1 a",
        "sed -i s/a/b/ f",
        "git -c a=b log",
        "git rebase main",
        "npx x",
        "npm run build",
        "npm exec x",
        "go run .",
        "cargo run",
        "timeout 5 pytest",
        "rg --pre ./x foo",
        "eval ls",
        "touch $x",
        "touch a > b",
        "touch a; touch b",
        "x=1 touch a",
        "touch src/*",
        "'touch' a",
        "ssh host",
        "tar xf a",
        "vim a",
        "ls | sh",
        "mvn -f x",
        "git log --output=x",
        "jest --config=x",
        "sort -o a b",
        "sort --compress-prog=./x a",
        "tree -o x",
        "date -s now",
        "git branch new",
        "git tag v1",
        "git stash",
        "git grep --open-files-in-pag=./x foo",
        "gcc a.c",
        "pwsh x.ps1",
        "ipython x.py",
    ],
)
def test_no_prefix_is_offered_where_it_would_say_nothing(command: str) -> None:
    ask = person("no")
    Bench(ask=ask).run(command)
    assert ask.asked[0].prefix == ()


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("npm test", ("npm", "test")),
        ("mkdir -p out", ("mkdir",)),
        ("touch notes", ("touch",)),
        ("git add src", ("git", "add")),
        ("cargo test -- --nocapture", ("cargo", "test")),
        ("cd web && npm test 2>&1 | tail -5", ("npm", "test")),
        ("jest -u", ("jest",)),
    ],
)
def test_the_prefix_is_the_program_and_its_sub_command(command: str, prefix: tuple[str, ...]) -> None:
    ask = person("no")
    Bench(ask=ask).run(command)
    assert ask.asked[0].prefix == prefix
