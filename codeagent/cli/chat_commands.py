"""The commands of `codeagent chat`, and the line above its prompt. Everything here goes to the terminal's stderr."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent import paths
from codeagent.config import OFFLINE, require_key
from codeagent.errors import Interrupted, UsageError
from codeagent.settings import ProviderSettings
from codeagent.ui import ending, wording
from codeagent.ui.terminal import DEFAULT_IMAGE
from codeagent.ui.turn import cost_of

if TYPE_CHECKING:
    from codeagent.cli.wiring import Workbench
    from codeagent.ui.editor import Editor

HELP: Mapping[str, str] = {
    "/help": "this list",
    "/diff": "what the agent changed in its private copy",
    "/approvals": "what is allowed in this session; `/approvals revoke N` takes one back",
    "/model": "the model; `/model NAME` (or the name of a provider) changes it for the next turns",
    "/usage": "rounds, tokens and outcome of each turn",
    "/verify": "`/verify CMD`: does CMD fail without the change and pass with it, in fresh containers?",
    "/save": "where the session is stored; `/save FILE.html` (.md, .json) writes a report",
    "/exit": "end the chat; the session can be resumed",
}

KEYS = (
    "Enter sends; Alt-Enter, or a backslash before Enter, begins a new line; Tab completes; the arrow keys bring "
    "earlier messages back. Ctrl-C stops the turn, Ctrl-D ends the chat."
)


class Chat:
    """One chat: the commands, and what is remembered for them."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._ended: list[Mapping[str, Any]] = []
        self._cost = 0.0
        bench.session.journal.subscribe(self._remember)
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/help": self._help,
            "/diff": self._diff,
            "/approvals": self._approvals,
            "/model": self._model,
            "/usage": self._usage,
            "/verify": self._verify,
            "/save": self._save,
        }

    def open_editor(self) -> Editor:
        from codeagent.ui.editor import Editor

        state = paths.state_dir()
        return Editor(self._bench.choices.repo, HELP, state / "chat_history" if state.is_dir() else None)

    def status(self) -> str:
        """Model, repository, mode and budget used."""
        config = self._bench.choices.config
        used = sum(self._used(record) for record in self._ended)
        budget = f"{wording.tokens(used)} tokens"
        if config.provider.price:
            budget += f", cost {self._cost:.4f}"
        if config.token_limit:
            budget += f" (limit {wording.tokens(config.token_limit)} a turn)"
        mode = f"approve {config.approve}"
        return " · ".join((self._bench.choices.repo.name, self._model_name(), mode, budget))

    def command(self, name: str, rest: str) -> bool:
        """Runs `/name rest`; False when it ends the chat. Raises UsageError."""
        if name == "/exit":
            return False
        if name not in self._commands:
            near = get_close_matches(name[1:], [known[1:] for known in HELP], n=1)
            perhaps = f"Did you mean /{near[0]}? " if near else ""
            raise UsageError(f"There is no command {name}.", f"{perhaps}/help lists the commands.")
        self._commands[name](rest)
        return True

    def say_how_to_go_on(self) -> None:
        """What can be done with the session in the shell, once something was asked in it."""
        if self._ended:
            image = self._bench.choices.config.sandbox.image
            named = "" if image == DEFAULT_IMAGE else image
            for line in ending.next_steps(self._ended[-1], changed=bool(self._patch()), image=named):
                self._say(line, "dim")

    def _remember(self, record: Mapping[str, Any]) -> None:
        if record.get("type") == "turn_ended":
            self._ended.append(record)
            # The price is that of the model that was asked; `/model` may change it for the next turn.
            self._cost += cost_of(record.get("usage") or {}, self._bench.choices.config.provider.price) or 0.0

    @staticmethod
    def _used(record: Mapping[str, Any]) -> int:
        usage = record.get("usage") or {}
        return int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))

    def _model_name(self) -> str:
        provider = self._bench.choices.config.provider
        if not provider.model:
            return f"{provider.name}, the only model that it serves"
        return provider.name if provider.name == provider.model else f"{provider.name} {provider.model}"

    def _say(self, text: str, style: str = "") -> None:
        self._bench.terminal.note(text, style)

    # -- the commands ----------------------------------------------------------------------------

    def _help(self, _rest: str) -> None:
        for name, line in HELP.items():
            self._bench.terminal.note(f"{name:<11} {line}", hang=12)
        self._say(KEYS, "dim")

    def _patch(self) -> bytes:
        try:
            return self._bench.session.diff_file.read_bytes()
        except FileNotFoundError:
            return b""

    def _diff(self, _rest: str) -> None:
        patch = self._patch()
        if not patch:
            self._say("Nothing was changed.")
            return
        from codeagent.ui.patch import readable

        for line in readable(patch).removesuffix("\n").split("\n"):
            style = "bold" if line.startswith(("diff ", "--- ", "+++ ")) else _DIFF_STYLES.get(line[:1], "")
            self._bench.terminal.verbatim(line, style)

    def _approvals(self, rest: str) -> None:
        gate = self._bench.means().gate
        words = rest.split()
        if words and (words[0] != "revoke" or len(words) != 2 or not words[1].isdecimal()):
            raise UsageError("That is not how approvals are changed.", "Use /approvals, or /approvals revoke N.")
        if words:
            number = int(words[1])
            if not 1 <= number <= len(gate.grants):
                raise UsageError(f"There is no approval number {number}.", "/approvals lists them.")
            gate.revoke(gate.grants[number - 1])
        self._say(f"Mode: {self._bench.choices.config.approve}. Approvals given in this session:")
        for number, grant in enumerate(gate.grants, 1):
            where = f" in {grant.workdir}" if grant.workdir else ""
            what = f"everything that begins with: {' '.join(grant.prefix)}" if grant.prefix else grant.command
            self._say(f"{number:>3}  {grant.kind:<6}  {what}{where}")
        if not gate.grants:
            self._say("  none")

    def _model(self, rest: str) -> None:
        if rest:
            self._bench.use_provider(self._named(rest))
        self._say(f"Model: {self._model_name()}")
        if not rest:
            for name, provider in self._bench.choices.config.providers.items():
                ready = "" if provider.api_key or not provider.api_key_env else f" ({provider.api_key_env} not set)"
                self._say(f"  {name:<10} {provider.model or 'no model named'}{ready}", "dim")
            self._say(f"  {OFFLINE.name:<10} the built-in rules, no model", "dim")

    def _named(self, name: str) -> ProviderSettings:
        """A provider's name stands for its own model; anything else is a model of the present provider."""
        config = self._bench.choices.config
        if name == OFFLINE.name:
            return OFFLINE
        found = config.providers.get(name) or replace(config.provider, model=name)
        if found.api == "offline":
            ready = next((one.name for one in config.providers.values() if one.api_key), "NAME")
            raise UsageError(
                f"{OFFLINE.name} has no models, and {name} is no provider.",
                f"Name its provider first, for example `/model {ready}`, then `/model {name}`. /model lists them.",
            )
        require_key(found)
        return found

    def _usage(self, _rest: str) -> None:
        if not self._ended:
            self._say("No turn has ended yet.")
        for record in self._ended:
            usage = record.get("usage") or {}
            sent, cached, out = (int(usage.get(f"{key}_tokens", 0)) for key in ("input", "cached_input", "output"))
            share = f" ({100 * cached // sent}% cached)" if sent else ""
            rounds = wording.counted(int(record.get("rounds") or 0), "round")
            spent = f"{wording.tokens(sent)} tokens in{share}, {wording.tokens(out)} out"
            self._say(f"turn {record.get('turn')}: {record.get('outcome')}, {rounds}, {spent}")
        config = self._bench.choices.config
        tokens = f"{config.token_limit:,}" if config.token_limit else "any number of"
        bounds = f"{config.max_rounds} rounds, {wording.duration(config.time_limit)} and {tokens} tokens"
        self._say(f"Each turn may take {bounds}.", "dim")

    def _verify(self, rest: str) -> None:
        if not rest:
            raise UsageError("/verify needs a command.", "For example: /verify pytest -q tests/test_user.py")
        from codeagent.cli.afterwards import Afterwards
        from codeagent.cli.verifier import Verifier
        from codeagent.outcome import Outcome

        bench = self._bench
        verifier = Verifier(replace(bench.choices, verify=rest, patching=False), bench.session, bench.terminal.steps)
        try:
            with bench.interrupts.waiting():
                means = bench.means()
                verifier.run_baseline(means.fresh, means.image)
            after = Afterwards(bench.session.journal)
            record = verifier.verify(Outcome.ANSWERED, means, bench.interrupts, after)
        except Interrupted:
            bench.terminal.steps("", 0, 0)
            self._say("The verification was stopped.")
            raise
        after.tell(str(record.get("reason") or ""), verbose=bench.choices.verbose)
        self._say(wording.fix_line(record), "good" if record.get("status") == "passed" else "")
        for line in ending.verified({"verification": record}):
            self._say(line, "dim")

    def _save(self, rest: str) -> None:
        session = self._bench.session
        if not rest:
            self._say(
                f"Stored in {session.folder}; go on with it another time: codeagent resume --session {session.id}"
            )
            return
        forms = {".html": "html", ".md": "markdown", ".json": "json", ".jsonl": "json"}
        form = next((form for suffix, form in forms.items() if rest.endswith(suffix)), None)
        if form is None:
            raise UsageError(f"{rest} does not say what to write.", "Name a file that ends in .html, .md or .json.")
        file = Path(rest).expanduser()
        if file.exists() or file.is_symlink():
            raise UsageError(f"{rest} exists already.", "Name another file: a chat overwrites nothing.")
        from codeagent.session.export import export

        export(session.folder, form, str(file))
        self._say(f"Written: {rest}")


_DIFF_STYLES = {"+": "good", "-": "bad", "@": "name"}
