"""Failures as sentences for the user: what is wrong, and what to do about it. Never a key, never a trace."""

from __future__ import annotations

from urllib.parse import urlsplit

from codeagent.errors import ContextFull, ModelError
from codeagent.keys import redactor
from codeagent.providers.failures import (
    Failure,
    Kind,
    context_full,
    exhausted,
    key_refused,
    transient,
    untrusted,
)
from codeagent.settings import ProviderSettings

DEFAULT_URLS = {
    "responses": "https://api.openai.com/v1",
    "chat": "https://api.openai.com/v1",
    "messages": "https://api.anthropic.com/v1",
}


def base_url(settings: ProviderSettings) -> str:
    return settings.base_url or DEFAULT_URLS[settings.api]


def host(settings: ProviderSettings) -> str:
    """The server as the user knows it: host, and port when it is not the usual one."""
    url = urlsplit(base_url(settings))
    return f"{url.hostname}:{url.port}" if url.port else str(url.hostname)


def explained(failure: Failure, settings: ProviderSettings, attempts: int) -> ModelError:
    """The error that ends the request for good."""
    server, table = host(settings), f"[providers.{settings.name}]"
    said = without_key(failure.message, settings)
    if key_refused(failure):
        return _key_error(failure, settings, server)
    if context_full(failure):
        return ContextFull(
            f"The conversation is too long for {settings.model} at {server}: {said}",
            f"Set `context_window` in {table} to what the model has, or start a new session.",
        )
    if exhausted(failure):
        return ModelError(
            f"The account at {server} has no credit or quota left: {said}",
            "Add credit or raise the limit at the provider; then `codeagent resume` goes on.",
        )
    if failure.kind is Kind.UNREACHABLE:
        remedy = f"Check the network, a proxy, and {_address(settings)}."
        if untrusted(failure):
            remedy = "If the server has a certificate of your own authority, set SSL_CERT_FILE to its file."
        return ModelError(f"The model's server {server} cannot be reached: {said}", remedy)
    if failure.kind is Kind.FOREIGN:
        return ModelError(
            f"{server} answered with something that is not the {settings.api} API: {said}",
            f"Check {_address(settings, 'api')}.",
        )
    if failure.status is not None and 300 <= failure.status < 400:
        where = urlsplit(base_url(settings)).path or "/"
        return ModelError(
            f"{server} does not answer below {where}: {said}",
            f"Set {_address(settings)} to the address that answers.",
        )
    if failure.status == 404:
        return _not_found(settings, server, said)
    tries = f" ({attempts} attempts)" if attempts > 1 else ""
    if failure.retry_after is not None and failure.retry_after > settings.retry_seconds:
        return ModelError(
            f"{server} asks to wait {failure.retry_after:.0f} s: {said}",
            f"Wait, then `codeagent resume` goes on; `retry_seconds` in {table} is how long codeagent waits itself.",
        )
    if not transient(failure) and failure.status not in (408, 409, 429) and (failure.status or 0) < 500:
        return ModelError(
            f"{server} refused the request: {said}",
            f"Check the model and the options of {table}; docs/providers.md lists what servers differ in.",
        )
    return ModelError(
        f"{server} gave no response{tries}: {said}", "Try again later; `codeagent resume` goes on where this ended."
    )


def _key_error(failure: Failure, settings: ProviderSettings, server: str) -> ModelError:
    # What the server says is left out: some quote the key.
    variable = settings.api_key_env or "the key's variable"
    if settings.api_key is None:
        return ModelError(
            f"{server} wants a key and none was sent.",
            f"Set `api_key_env` in [providers.{settings.name}] to the variable that holds it.",
        )
    if failure.status == 403 and "key" not in failure.words:
        return ModelError(
            f"{server} does not allow this key to use {settings.model}: {without_key(failure.message, settings)}",
            f"Check what the key in {variable} may do, or choose another model with --model (/model in a chat).",
        )
    return ModelError(f"{server} refused the key in {variable}.", f"Set {variable} to a valid key of that provider.")


def _not_found(settings: ProviderSettings, server: str, said: str) -> ModelError:
    if "model" in said.lower() or "deployment" in said.lower():
        return ModelError(
            f"{server} has no model {settings.model!r}: {said}",
            f"Choose another with --model (/model in a chat), or set `model` in [providers.{settings.name}].",
        )
    return ModelError(
        f"{server} has no {settings.api} API at {urlsplit(base_url(settings)).path or '/'}: {said}",
        f"Check {_address(settings, 'api')}; many servers offer only `chat`.",
    )


def _address(settings: ProviderSettings, also: str = "") -> str:
    """What set the server's address, and another field of the provider's table beside it."""
    variable, table = settings.base_url_env, f"[providers.{settings.name}]"
    if also:
        return f"{variable or '`base_url`'} and `{also}` of {table}"
    return variable or f"`base_url` of {table}"


def without_key(text: str, settings: ProviderSettings) -> str:
    """What a server said, without the key in it."""
    return redactor([settings.api_key])(text)
