"""Forks processes that run turns, for tests that kill them: what takes long to import is imported once.

Reads one JSON list a line: `["start", state, api, url]` or `["resume", folder, api, url, message or null]`, to which
an object with settings of the provider may be added, and answers with the pid of the process that does it;
`["wait", pid]` answers with how it ended (minus the signal, or the exit code).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from codeagent.outcome import Outcome
from codeagent.providers.open import open_provider
from codeagent.settings import ProviderSettings
from tests.session.driver import resume, start


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if order[0] == "wait":
            _, status = os.waitpid(order[1], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                code = carry_out(order)
            finally:
                os._exit(code)
        print(pid, flush=True)


def carry_out(order: list[Any]) -> int:
    """0 when the turn ended with an answer."""
    action, where, api, url, *rest = order
    settings = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    made = ProviderSettings("scripted", api, model="model", base_url=url, api_key="key", **settings)
    provider = open_provider(made)
    ending = start(Path(where), provider) if action == "start" else resume(Path(where), provider, *rest)
    return 0 if ending.outcome is Outcome.ANSWERED else 1


if __name__ == "__main__":
    import openai

    openai.OpenAI(api_key="none").close()  # imports all that is needed, before any fork
    main()
