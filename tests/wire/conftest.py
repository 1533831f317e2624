from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wire.talk import Talk


@pytest.fixture(autouse=True)
def _closed_providers() -> Iterator[None]:
    yield
    while Talk.open_providers:
        Talk.open_providers.pop().close()
