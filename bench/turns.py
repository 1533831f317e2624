"""What a whole turn costs: rounds, requests, memory, time to the first request."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from bench.measure import Row, median, ms, process, timed
from bench.program import ask, conversation, reading, running, small_repository
from codeagent.sandbox.engine import Engine
from tests.model_script import call, reply
from tests.model_server import ModelServer

ROUNDS = 200
STARTS = 7
MEGABYTE = 1 << 20


def round_overhead(engine: Engine) -> Row:
    """From a response's last byte to the next request's last byte: read_file, log, checks, encoding, sending."""
    with small_repository() as repo:
        calls = [reading("long.py", 1 + number * 9) for number in range(ROUNDS + 5)]
        model, _ = conversation(engine, repo, calls)
    gaps = [after - before for before, after in zip(model.answered, model.arrived[1:], strict=False)]
    # The first round waits for the container's start; the ones after it are what a round costs.
    first, last = median(gaps[1:21]), median(gaps[ROUNDS - 15 : ROUNDS + 5])
    return Row(
        3,
        "a round's overhead with one read_file",
        "<= 5 ms at round 1; at round 200 at most twice that",
        f"{ms(first)}; {ms(last)} at round {ROUNDS} ({last / first:.1f} x)",
        first <= 0.005 and last <= 2 * first,
    )


def first_request(engine: Engine) -> Row:
    bare = process(sys.executable, "-c", "from openai import OpenAI")
    with small_repository() as repo:
        starts, imports = [], []
        for _ in range(STARTS):
            model, run = conversation(engine, repo, [])
            starts.append(model.arrived[0] - run.started)
            imports.append(timed(bare))
    start, import_ = median(starts), median(imports)
    return Row(
        5,
        "process start -> first model request",
        "<= 1.3 x `from openai import OpenAI`",
        f"{start / import_:.2f} x ({ms(start)} against {ms(import_)})",
        start <= 1.3 * import_,
    )


def stable_prefix(engine: Engine) -> Row:
    """By the tests' strict server, which refuses what a real one refuses and compares each request with the last."""
    script = [*(reading("long.py", 1 + number * 50) for number in range(20)), running("true"), reply("Done.")]
    with small_repository() as repo, ModelServer(script) as server:
        run = ask(engine, repo, server.url)
        count = len(server.requests)
    return Row(
        7,
        "consecutive requests share a byte-identical prefix",
        "always",
        f"{count} requests, {server.prefix_changes} changes",
        server.prefix_changes == 0 and not server.faults and run.exit_code == 0 and count == len(script),
    )


def memory(engine: Engine) -> Row:
    with small_repository() as repo:
        _, normal = conversation(engine, repo, [reading("long.py", 1), running("true"), reading("small.py", 1)])
        _, flood = conversation(engine, repo, [reading("long.py", 1), running("yes | head -c 1000000000")])
    more = flood.peak - normal.peak
    return Row(
        8,
        "host memory while a command prints 1 GB; peak of a normal turn",
        "<= 50 MB more; <= 110 MB",
        f"{max(more, 0) / MEGABYTE:.0f} MB more; {normal.peak / MEGABYTE:.0f} MB",
        more <= 50 * MEGABYTE and normal.peak <= 110 * MEGABYTE,
    )


def large_repository(engine: Engine) -> Row:
    """The first request must not wait for a walk of the tree, and its first listing comes within a second."""
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        large = Path(name)
        for folder in range(500):
            (large / f"package_{folder:03}").mkdir()
            for number in range(200):
                os.close(os.open(large / f"package_{folder:03}/module_{number:03}.py", os.O_CREAT | os.O_WRONLY))
        with small_repository() as small:
            # In turn, because the machine's speed drifts.
            pairs = [(_first_listing(engine, large), _first_listing(engine, small)) for _ in range(3)]
    (start, listed), (small_start, small_listed) = (
        tuple(median(column) for column in zip(*runs, strict=True)) for runs in zip(*pairs, strict=True)
    )
    return Row(
        9,
        "100,000 files: first list_dir (container start included); first request",
        "<= 1 s; not later than in a small repository",
        f"{ms(listed)} ({ms(small_listed)} in a small one); {ms(start)} against {ms(small_start)}",
        listed <= 1.0 and start <= 1.2 * small_start,
    )


def _first_listing(engine: Engine, repo: Path) -> tuple[float, float]:
    """Seconds from the process's start to its first request, and from the first response to the listing."""
    listing = reply(call("list_dir", {"path": ".", "depth": 2, "offset": None}))
    model, run = conversation(engine, repo, [listing])
    return model.arrived[0] - run.started, model.arrived[1] - model.answered[0]


def first_size(engine: Engine) -> Row:
    with small_repository() as repo:
        model, _ = conversation(engine, repo, [])
    request = model.request(0)
    fixed = {name: request.get(name) for name in ("instructions", "tools")}
    size = len(json.dumps(fixed, separators=(",", ":")).encode())
    return Row(
        10,
        "instructions and tool schemas of the first request",
        "<= 6 KB",
        f"{size / 1024:.1f} KB of {len(model.bodies[0]) / 1024:.1f} KB",
        size <= 6 * 1024,
    )
