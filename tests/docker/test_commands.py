"""Commands in a real container: what they print, how they end, and that nothing of them stays."""

from __future__ import annotations

import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.output import saved_name
from codeagent.sandbox.seam import Command, Ending
from tests.clocks import at_once, once
from tests.docker.codeagent_cli import runs
from tests.docker.conftest import Opened, text

# Output


def test_stdout_and_stderr_stay_in_order_and_are_told_apart(opened: Opened) -> None:
    result = opened.run("echo a; echo b >&2; echo c; ls /missing; echo d")
    assert [stream for stream, _ in result.segments] == ["stdout", "stderr", "stdout", "stderr", "stdout"]
    assert text(result).startswith("a\nb\nc\n") and text(result).endswith("\nd\n")


@pytest.mark.parametrize("round_", range(5))
def test_the_order_holds_for_programs_and_for_shells(opened: Opened, round_: int) -> None:
    script = (
        "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done; { echo x; echo y >&2; }; sh -c 'echo z >&2; echo end'\n"
        "python3 -c 'import sys\nfor i in range(20):\n  print(i)\n  print(i, file=sys.stderr)'"
    )
    shell = "".join(f"o{i}\ne{i}\n" for i in range(1, 6)) + "x\ny\nz\nend\n"
    assert opened.output(script) == shell + "".join(f"{i}\n{i}\n" for i in range(20))


def test_redirections_of_the_commands_own_still_work(opened: Opened) -> None:
    script = (
        "{ echo out; echo err >&2; } >/tmp/o 2>/tmp/e; cat /tmp/e /tmp/o; echo to-file >/tmp/f; { echo x >&3; } 3>&1"
    )
    assert opened.output(script) == "err\nout\nx\n"
    assert opened.output("echo x >/dev/stdout; echo y >/dev/stderr; echo z | tee /dev/stderr") == "x\ny\nz\nz\n"


def test_both_streams_are_drained_together(opened: Opened) -> None:
    result = opened.run("python3 -c \"import sys; sys.stderr.write('e' * 10**6); print('o')\"")
    assert (result.ending, result.exit_code, result.total_bytes) == (Ending.EXITED, 0, 1_000_002)
    assert result.segments[-1] == ("stdout", "o\n")


def test_characters_that_are_cut_by_a_pipe_arrive_whole(opened: Opened) -> None:
    result = opened.run("python3 -c \"print('é😀' * 100_000)\"")
    saved = (opened.outputs / saved_name(last_call(opened))).read_text()
    assert saved == "é😀" * 100_000 + "\n"
    assert result.total_bytes == 600_001


def last_call(opened: Opened) -> str:
    return max(
        (path.stem for path in opened.outputs.glob("call_*")), key=lambda stem: int(stem.removeprefix("call_"))
    )


def test_bytes_that_are_no_text_survive_as_replacements(opened: Opened) -> None:
    assert opened.output("printf 'a\\000b\\377c'") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"


def test_much_output_costs_no_memory(opened: Opened) -> None:
    opened.run("true")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = opened.run("head -c 300000000 /dev/zero | tr '\\0' x", timeout=120)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (result.ending, result.total_bytes) == (Ending.EXITED, 300_000_000)
    shown = sum(len(piece) for _, piece in result.segments)
    assert shown <= 32 * 1024 and shown + result.omitted_bytes == 300_000_000
    assert grown < 30 * 1024
    assert (opened.outputs / saved_name(last_call(opened))).stat().st_size < 17 << 20


def test_others_are_answered_while_one_prints_without_end(opened: Opened) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        printing = pool.submit(opened.run, "yes", cancel=stop)
        time.sleep(0.3)
        try:
            with at_once():
                for _ in range(20):
                    opened.sandbox.read_file("hello.txt", None, None)
        finally:
            stop.set()
        assert printing.result().ending is Ending.CANCELLED


# What is run


def test_the_script_is_what_was_typed(opened: Opened) -> None:
    assert opened.output("cat > /tmp/f <<'EOF'\nhi\nEOF") == ""
    assert opened.output("cat /tmp/f") == "hi\n"
    assert opened.output("echo hi # a comment at the end") == "hi\n"
    assert opened.output('echo "$0 $#"; echo \'$HOME\' "a  b"') == "sh 0\n$HOME a  b\n"
    unterminated = opened.run("echo 'open")
    assert (unterminated.exit_code, "nterminated" in text(unterminated)) == (2, True)


def test_each_call_starts_afresh_in_its_directory(opened: Opened) -> None:
    opened.run("cd src && export A=1")
    assert opened.output('pwd; echo "[$A]"') == "/workspace\n[]\n"
    assert text(opened.run("pwd", workdir="src")) == "/workspace/src\n"


@pytest.mark.parametrize(
    ("workdir", "kind"),
    [
        ("missing", ErrorKind.FILE_NOT_FOUND),
        ("hello.txt", ErrorKind.NOT_A_DIRECTORY),
        ("..", ErrorKind.OUTSIDE_REPOSITORY),
        ("/etc", ErrorKind.OUTSIDE_REPOSITORY),
    ],
)
def test_a_directory_outside_is_refused(opened: Opened, workdir: str, kind: ErrorKind) -> None:
    with pytest.raises(ToolError) as refused:
        opened.run("pwd", workdir=workdir)
    assert refused.value.kind is kind


def test_nothing_asks_for_input(opened: Opened) -> None:
    assert opened.run("read x", timeout=5).exit_code == 1
    assert opened.run("python3 -c 'input()'", timeout=5).exit_code == 1
    assert opened.run("cat; cat /dev/tty", timeout=5).exit_code == 1
    assert opened.output("tty") == "not a tty\n"
    assert opened.run("git -c core.editor= commit --amend", timeout=5).ending is Ending.EXITED


def test_the_shell_is_no_login_shell(opened: Opened) -> None:
    assert opened.output("shopt 2>/dev/null; echo $-").strip() in ("", "hB", "c")


def test_home_is_writable_and_scripts_in_tmp_run(opened: Opened) -> None:
    assert opened.output("cd; pwd; echo 'echo ran' > run; chmod +x run; ./run; rm run") == "/tmp/home\nran\n"


def test_a_script_of_the_largest_size_runs(opened: Opened) -> None:
    assert opened.output("echo ok #" + "x" * (128 * 1024 - 11)) == "ok\n"
    with pytest.raises(ToolError) as refused:
        opened.run("#" * (128 * 1024))
    assert refused.value.kind is ErrorKind.TOO_LARGE


# How it ends


def test_a_command_that_closes_its_output_is_waited_for(opened: Opened) -> None:
    result = opened.run("exec 1>&- 2>&-; sleep 1; exit 7")
    assert (result.ending, result.exit_code, result.segments) == (Ending.EXITED, 7, ())
    assert result.duration_ms >= 1_000


def test_endings_are_told_apart(opened: Opened) -> None:
    assert (opened.run("exit 3").ending, opened.run("exit 3").exit_code) == (Ending.EXITED, 3)
    killed = opened.run("kill -9 $$")
    assert (killed.ending, killed.exit_code, killed.notes) == (Ending.SIGNALLED, 137, ())
    late = opened.run("echo early; sleep 60", timeout=2)
    assert (late.ending, late.exit_code, text(late)) == (Ending.TIMEOUT, None, "early\n")
    memory = opened.run("python3 -c \"x = b'x' * 10**9\"")
    assert (memory.ending, memory.exit_code) == (Ending.MEMORY, 137)


def test_a_part_that_ran_out_of_memory_is_noted_though_the_command_goes_on(opened: Opened) -> None:
    result = opened.run("python3 -c \"x = b'x' * 10**9\"; echo went on")
    assert (result.ending, result.exit_code) == (Ending.EXITED, 0)
    assert result.notes == (
        "the kernel killed 1 process of this container: the container's memory of 256 MiB was used up",
    )


@pytest.mark.parametrize(
    "script",
    [
        "while :; do echo x; sleep 0.2; done & wait",
        "trap '' TERM HUP INT; while :; do sleep 0.1; done",
        "setsid sh -c 'trap \"\" TERM; sleep 300' & sleep 300",
        "yes > /dev/null",
    ],
)
def test_a_timeout_ends_everything(opened: Opened, script: str) -> None:
    with at_once():
        assert opened.run(script, timeout=1).ending is Ending.TIMEOUT
    assert alive(opened) == ""


def alive(opened: Opened) -> str:
    """Processes in the container that belong to no command of ours."""
    return opened.output(
        "for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null | grep -v -e loader -e '^sh$' -e cat -e grep"
    )


def test_cancelling_ends_a_command_at_once(opened: Opened) -> None:
    cancel = threading.Event()
    (container,) = opened.containers()[:1]
    with at_once(), once(lambda: runs(container, "sleep 60"), cancel.set):
        result = opened.run("echo early; sleep 60 & sleep 60", cancel=cancel)
    assert (result.ending, result.exit_code, text(result)) == (Ending.CANCELLED, None, "early\n")
    assert alive(opened) == ""


@pytest.mark.parametrize(
    "script",
    [
        "sleep 300 & echo done",
        "nohup sleep 300 >/dev/null 2>&1 & echo done",
        "(setsid sh -c 'sleep 300; echo late' &); echo done",
        "setsid -f env -i /bin/sleep 300; echo done",
        "bash -c 'sleep 300 & disown'; echo done",
    ],
)
def test_what_is_left_in_the_background_neither_holds_the_call_nor_outlives_it(opened: Opened, script: str) -> None:
    with at_once():
        result = opened.run(script)
    assert (text(result), result.exit_code) == ("done\n", 0)
    assert any("left in the background ended with the command" in note for note in result.notes)
    assert alive(opened) == ""


def test_what_a_helper_in_the_background_still_prints_is_waited_for(opened: Opened) -> None:
    assert opened.output("bash -c 'exec > >(tee -a /tmp/log) 2>&1 && echo ok'") == "ok\n"
    assert opened.output("{ sleep 0.05; echo late; } & echo early") == "early\nlate\n"


def test_ending_one_command_leaves_the_others_alone(opened: Opened) -> None:
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(opened.run, "sleep 1.5; echo whole") for _ in range(3)]
        ended = pool.submit(opened.run, "sleep 300 & setsid sleep 300", timeout=0.5)
        assert ended.result().ending is Ending.TIMEOUT
        assert [text(other.result()) for other in others] == ["whole\n"] * 3


def test_commands_that_only_read_run_at_the_same_time(opened: Opened) -> None:
    all_there = (
        "mkdir -p /tmp/there; touch /tmp/there/$$; until [ $(ls /tmp/there | wc -l) = 8 ]; do sleep 0.05; done"
    )
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: opened.run(all_there), range(8)))
    assert {result.exit_code for result in results} == {0}


def test_a_command_in_a_missing_interpreter_is_the_shells_error(opened: Opened) -> None:
    assert opened.run("no-such-program").exit_code == 127
    assert opened.run("/workspace/hello.txt").exit_code == 126


def test_a_call_id_from_outside_names_no_file_outside(opened: Opened) -> None:
    command = Command("../../evil", "echo x")
    assert opened.sandbox.run(command, threading.Event()).saved
    assert not (opened.outputs.parent.parent / "evil.txt").exists()
    assert (opened.outputs / saved_name("../../evil")).read_text() == "x\n"
