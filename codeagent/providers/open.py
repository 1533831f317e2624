"""From the settings of a provider to the object that answers requests."""

from __future__ import annotations

from urllib.parse import urlsplit

from codeagent.errors import UsageError
from codeagent.providers.adapter import Adapter
from codeagent.providers.explain import base_url
from codeagent.providers.options import read_options
from codeagent.providers.transport import SdkTransport
from codeagent.providers.windows import context_window
from codeagent.settings import ProviderSettings


def open_provider(settings: ProviderSettings) -> Adapter:
    """A provider for one conversation. Imports no SDK and opens no connection before `warm_up` or the first `infer`.

    Raises UsageError for settings that no request could be made from. The `offline` investigator is no API and is
    opened by its own module.
    """
    url = base_url(settings)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(
            f"base_url of [providers.{settings.name}] is not an http(s) URL: {url!r}.",
            "Give it like https://host/v1.",
        )
    options = read_options(settings.options, settings.name)
    window = settings.context_window or context_window(settings.model, settings.base_url)
    if settings.api == "messages":
        raise NotImplementedError
    if settings.api == "chat":
        raise NotImplementedError
    from codeagent.providers.responses import Responses

    return Adapter(settings, window, Responses(settings, options), SdkTransport(settings, options, url))
