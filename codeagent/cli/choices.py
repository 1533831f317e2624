"""What a command line asked for, checked before anything is started."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeagent.applying.record import require_finished
from codeagent.cli.flags import config_of
from codeagent.cli.repository import repository
from codeagent.config import Config, require_key
from codeagent.errors import UsageError
from codeagent.paths import state_dir


@dataclass(frozen=True)
class Choices:
    """Nothing was started yet, and everything named exists.

    `patching` offers `apply_patch` to the model; `force` goes on with a fix of something that already passes.
    """

    config: Config
    repo: Path
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False
    install: bool = False
    verify: str | None = None
    verify_repeat: int = 1
    patching: bool = False
    force: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace, *, patching: bool = False, **instead: Any) -> Choices:
        """Raises UsageError. `instead` stands for flags that were not given (a stored session's own choices)."""
        repo = repository(args.repo if args.repo is not None else instead.pop("repo", None))
        require_finished(state_dir(), repo)
        config = config_of(args, **instead)
        require_key(config.provider)
        if config.provider.api != "offline":
            from codeagent.providers.open import check

            check(config.provider)
        return cls(
            config,
            repo,
            json=args.json,
            quiet=args.quiet,
            verbose=args.verbose,
            no_color=args.no_color,
            install=args.install,
            verify=args.verify,
            verify_repeat=args.verify_repeat,
            patching=patching,
            force=getattr(args, "force", False),
        )

    def require_model(self) -> None:
        """For a fix. Raises UsageError."""
        if self.config.provider.api == "offline":
            raise UsageError(
                "The offline investigator changes nothing, so it cannot fix anything.",
                'Name a model: --model NAME or --provider NAME. To look only: codeagent ask "…" --model offline',
            )
