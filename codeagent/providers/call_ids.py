"""Call ids and tool names in the form that an API accepts, the same for a call and its output."""

from __future__ import annotations

import re

from codeagent.providers.encoding import digest


class CallIds:
    """Maps the ids of one conversation to what `accepted` matches.

    An acceptable id stays as it is. Any other becomes a readable beginning and a digest, so that the same id gives
    the same result in every process, unless another id already has that one.
    """

    def __init__(self, accepted: str, longest: int, *, plain: bool = False) -> None:
        self._accepted = re.compile(accepted)
        self._longest = longest
        self._plain = plain  # a digest alone, for APIs that want letters and digits of one length
        self._mapped: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, call_id: str) -> str:
        mapped = self._mapped.get(call_id)
        if mapped is None:
            mapped = self._map(call_id)
            self._taken.add(mapped)
            self._mapped[call_id] = mapped
        return mapped

    def _map(self, call_id: str) -> str:
        if self._accepted.fullmatch(call_id) and call_id not in self._taken:
            return call_id
        salt = 0
        while (candidate := self._digested(call_id, salt)) in self._taken:
            salt += 1
        return candidate

    def _digested(self, call_id: str, salt: int) -> str:
        named = f"{call_id}#{salt}" if salt else call_id
        if self._plain:
            return digest(named, self._longest)
        start = re.sub(r"[^a-zA-Z0-9_-]+", "_", call_id)[: self._longest - 13]
        return f"{start}_{digest(named)}"


def any_ids() -> CallIds:
    """For Responses and Chat Completions: at most 64 characters, nothing invisible."""
    return CallIds(r"[!-~]{1,64}", 64)


def messages_ids() -> CallIds:
    """For Messages: `^[a-zA-Z0-9_-]+$`."""
    return CallIds(r"[a-zA-Z0-9_-]{1,64}", 64)


def nine_ids() -> CallIds:
    """For Mistral: exactly nine letters and digits."""
    return CallIds(r"[a-zA-Z0-9]{9}", 9, plain=True)


def tool_name(name: str) -> str:
    """A name that every API accepts. Models invent names; the history must still be accepted."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"
