"""docker-py's client, as engines need it. Importing this imports `docker`."""

from __future__ import annotations

from typing import Any

import docker


class _Api(docker.APIClient):
    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """The engine's certificate is checked against the authority that was named for the engine.

        requests would take that of REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE instead, which is meant for the web.
        """
        return super().merge_environment_settings(
            url, proxies, stream, self.verify if verify is None else verify, cert
        )


class Client(docker.DockerClient):
    """Takes what `docker.APIClient` takes."""

    def __init__(self, **options: Any) -> None:
        self.api = _Api(**options)
