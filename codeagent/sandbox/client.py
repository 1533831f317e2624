"""docker-py's client, as engines need it. Importing this imports `docker`."""

from __future__ import annotations

from typing import Any

import docker
import requests


class _Api(docker.APIClient):
    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """The engine's certificate is checked against the authority that was named for the engine.

        requests would take that of REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE instead, which is meant for the web.
        """
        return super().merge_environment_settings(
            url, proxies, stream, self.verify if verify is None else verify, cert
        )

    def has_path(self, container: str, path: str) -> bool:
        """Whether there is something at that path in a container, which need not have been started.

        False also when there is no such container. Raises docker's and requests' errors.
        """
        url = self._url("/containers/{0}/archive", container)  # type: ignore[attr-defined]
        answer = self.head(url, params={"path": path}, timeout=self.timeout)
        if answer.status_code == requests.codes.not_found:
            return False
        self._raise_for_status(answer)  # type: ignore[attr-defined]
        return True


class Client(docker.DockerClient):
    """Takes what `docker.APIClient` takes."""

    api: _Api

    def __init__(self, **options: Any) -> None:
        self.api = _Api(**options)
