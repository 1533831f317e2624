"""The SDK is loaded without its types, and has them when somebody asks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.model_server import ModelServer, reply

pytestmark = pytest.mark.slow

ASKS = """
import sys
from codeagent.providers import sdk
OpenAI = sdk.import_openai()
with sdk.without_trio():
    client = OpenAI(api_key="x", base_url="http://127.0.0.1:1/v1")
assert "openai.types.responses.response" not in sys.modules, "the types were loaded"
assert "trio" not in sys.modules
assert client.with_options(timeout=1).responses.create
import openai
from openai.types.responses import Response, ResponseStreamEvent
from openai.types import Model
assert Response.__module__ == "openai.types.responses.response" and Model.__module__ == "openai.types.model"
names = [name for name in openai.types.chat.__dict__ if not name.startswith("_")]
assert "ChatCompletion" in names, names
try:
    openai.types.no_such_name
except AttributeError:
    print("ok")
"""


def test_types_are_loaded_when_a_name_is_asked_for_and_not_before() -> None:
    ran = subprocess.run([sys.executable, "-W", "error", "-c", ASKS], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("ok\n", "")


STARTS = """
import sys
from codeagent.inference import Request
from codeagent.conversation import UserMessage
from codeagent.providers.open import open_provider
from codeagent.settings import ProviderSettings
started = []
sys.addaudithook(lambda name, args: started.append(args) if name in ("subprocess.Popen", "os.fork") else None)
settings = ProviderSettings("scripted", "responses", model="m", base_url=sys.argv[1], api_key="key")
with open_provider(settings) as provider:
    provider.infer(Request("", [UserMessage("Why?")], (), "s"), lambda _: None)
print(started)
"""


def test_a_request_starts_no_process() -> None:
    with ModelServer([reply("Because.")]) as server:
        ran = subprocess.run([sys.executable, "-c", STARTS, server.url], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_an_sdk_that_was_imported_before_is_left_alone() -> None:
    asks = (
        "import openai\nfrom codeagent.providers import sdk\nassert sdk.import_openai() is openai.OpenAI\nprint('ok')"
    )
    ran = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("ok\n", "")
