"""From the settings of a provider to the object that answers requests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from codeagent.errors import UsageError
from codeagent.providers.adapter import Adapter, Speak
from codeagent.providers.explain import base_url
from codeagent.providers.options import Options, read_options
from codeagent.providers.transport import PlainTransport, SdkTransport, Transport
from codeagent.providers.windows import context_window
from codeagent.settings import ProviderSettings

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")


def open_provider(settings: ProviderSettings, sleep: Callable[[float], None] = time.sleep) -> Adapter:
    """A provider for one conversation, for the APIs `responses`, `chat` and `messages`.

    Imports no SDK and opens no connection before `warm_up` or the first `infer`. `sleep` is how it waits between
    attempts. Without a model in the settings, the server is asked for its only one before the first request.
    Raises UsageError for settings that no request could be made from.
    """
    options = check(settings)
    url = base_url(settings)
    window = settings.context_window or context_window(settings.model, settings.base_url)
    speak, transport = _spoken(settings, options, url)
    return Adapter(settings, window, speak, transport, sleep)


def check(settings: ProviderSettings) -> Options:
    """What can be known to be wrong before anything is opened. Raises UsageError."""
    table, url = f"[providers.{settings.name}]", base_url(settings)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"base_url of {table} is not an http(s) URL: {url!r}.", "Give it like https://host/v1.")
    options = read_options(settings.options, settings.name)
    for name, value in [*settings.headers.items(), *([(options.key_header, "")] if options.key_header else ())]:
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UsageError(
                f"The header {name!r} of {table} cannot be sent.",
                "Names are letters, digits and `-`; values are ASCII on one line.",
            )
    if not _HEADER_VALUE.fullmatch(settings.api_key or ""):
        # The HTTP client would quote it in its complaint.
        raise UsageError(
            f"The key in {settings.api_key_env or 'the configured variable'} holds characters that no key has.",
            "Set it again, to one line without accents or control characters.",
        )
    return options


def _spoken(settings: ProviderSettings, options: Options, url: str) -> tuple[Speak, Transport]:
    """What makes the dialect, and what carries it; only the module that is needed is imported."""
    match settings.api:
        case "responses":
            from codeagent.providers.responses import Responses

            return partial(Responses, options=options), SdkTransport(settings, options, url)
        case "chat":
            from codeagent.providers.chat import Chat

            return partial(Chat, options=options), SdkTransport(settings, options, url)
        case "messages":
            from codeagent.providers.messages import Messages, headers

            # The API's own SDK adds the version's folder by itself, so its users leave it out of the base URL.
            root = url.rstrip("/")
            root = root if root.endswith("/v1") else f"{root}/v1"
            return partial(Messages, options=options), PlainTransport(settings, root, headers(settings, options))
        case _:
            raise UsageError(f"The api {settings.api!r} is not spoken over a network.", "Use --model offline for it.")
