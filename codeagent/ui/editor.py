"""The line editor of `chat`: history, several lines, completion of commands and paths. Built on prompt_toolkit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.ui.inert import inert_line
from codeagent.ui.streams import filled

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

MOST_ENTRIES = 500
"""Names offered from one folder."""


class Editor:
    """Reads messages from the terminal behind stdin, drawing on stderr.

    `commands` maps each command (`/help`) to its one-line help; paths are completed below `root`. The history
    lives in `history_file`, private to the user; None keeps it in memory.
    """

    def __init__(self, root: Path, commands: Mapping[str, str], history_file: Path | None) -> None:
        self._root = root
        self._commands = commands
        self._session = self._open(history_file)

    def read(self, status: str) -> str:
        """One message, below a line of `status`. Raises EOFError (Ctrl-D) and KeyboardInterrupt (Ctrl-C)."""
        from prompt_toolkit.formatted_text import FormattedText

        line = filled(inert_line(status), sys.stderr)
        prompt = FormattedText([("ansibrightblack", f"\n{line}\n"), ("bold", "> ")])
        return self._session.prompt(prompt)

    def _open(self, history_file: Path | None) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.output import create_output

        def names_a_command() -> bool:
            return self._session.default_buffer.document.text.startswith("/")

        return PromptSession(
            history=_history(history_file),
            completer=_completer(self._root, self._commands),
            complete_while_typing=Condition(names_a_command),
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation="  ",
            output=create_output(stdout=sys.stderr),
            enable_open_in_editor=True,
        )


def _history(file: Path | None) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if file is None:
        return InMemoryHistory()
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def _keys() -> KeyBindings:
    """Enter sends; Alt-Enter, and Enter after a backslash, begin a new line. A paste stays one message."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _completer(root: Path, commands: Mapping[str, str]) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class ChatCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            typed = document.text_before_cursor
            if typed.startswith("/") and not typed.strip("/").count("/") and " " not in typed:
                for name in commands_like(typed, commands):
                    yield Completion(name, -len(typed), display_meta=commands[name])
                return
            word = typed.rpartition(" ")[2].rpartition("\n")[2]
            if complete_event.completion_requested and word:
                for path in paths_like(word, root):
                    yield Completion(path, -len(word))

    return ChatCompleter()


def commands_like(typed: str, commands: Iterable[str]) -> list[str]:
    return [name for name in commands if name.startswith(typed)]


def paths_like(word: str, root: Path) -> Sequence[str]:
    """The paths below `root` that begin with `word`, folders with a slash at their end. Never leaves `root`.

    Names that would act on a terminal, or that hold a space, are left out: they could not be told apart in a message.
    """
    folder, _, start = word.rpartition("/")
    if word.startswith("/") or ".." in folder.split("/"):
        return []
    try:
        with os.scandir(root / folder) as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(start)]
    except (OSError, ValueError):
        return []
    prefix = f"{folder}/" if folder else ""
    fitting = [
        f"{prefix}{name}{'/' if is_folder else ''}"
        for name, is_folder in sorted(found)
        if inert_line(name) == name and " " not in name and (start or not name.startswith("."))
    ]
    return fitting[:MOST_ENTRIES]
