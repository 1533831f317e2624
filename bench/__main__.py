"""`python -m bench [NUMBER…]`: prints the table, all rows or those named. Exit code 1 when a row misses its goal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench import sandbox, startup, turns
from bench.measure import Row
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import Engine, connect

ROWS: dict[int, Callable[[Engine], Row]] = {
    1: sandbox.read_file,
    2: sandbox.run_true,
    3: turns.round_overhead,
    4: sandbox.parallel_reads,
    5: turns.first_request,
    6: startup.help_and_policy,
    7: turns.stable_prefix,
    8: turns.memory,
    9: turns.large_repository,
    10: turns.first_size,
}


def main(numbers: list[int]) -> int:
    engine = connect()
    image.ensure(engine, image.DEFAULT, _silent)
    toolbox.ensure(engine, _silent)
    print("| # | measure | to reach | reached | |\n| --- | --- | --- | --- | --- |", flush=True)
    missed = False
    for number in numbers or ROWS:
        row = _measured(number, engine)
        missed |= not row.reached
        word = {True: "yes", False: "NO", None: "not measured"}[row.reached]
        print(f"| {row.number} | {row.measure} | {row.goal} | {row.figures} | {word} |", flush=True)
    engine.close()
    return int(missed)


def _measured(number: int, engine: Engine) -> Row:
    try:
        return ROWS[number](engine)
    except Exception as error:  # one row that cannot run is a line of the table, the others go on
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Row(number, ROWS[number].__name__.replace("_", " "), "", f"cannot run: {reason}", None)


def _silent(what: str, done: int, total: int) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
