"""Where each value comes from, what wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeagent.config import OFFLINE, Config, load_config, require_key
from codeagent.errors import UsageError
from codeagent.settings import Price, ProviderSettings, Rule


def load(tmp_path: Path, toml: str = "", env: dict[str, str] | None = None, **flags: str) -> Config:
    (tmp_path / "config.toml").write_text(toml)
    named: dict[str, object] = {name.replace("_", "-"): value for name, value in flags.items()}
    return load_config(named, environ={"CODEAGENT_HOME": str(tmp_path), **(env or {})})


def refusal(tmp_path: Path, toml: str, **flags: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, toml, None, **flags)
    return f"{caught.value.message} {caught.value.remedy}".replace(str(tmp_path), "HOME")


def test_the_four_providers_are_built_in(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert {name: (each.api, each.model, each.base_url) for name, each in config.providers.items()} == {
        "openai": ("responses", "gpt-5.6", None),
        "deepseek": ("chat", "deepseek-v4-flash", "https://api.deepseek.com"),
        "local": ("chat", "", "http://127.0.0.1:8080/v1"),
        "anthropic": ("messages", "claude-opus-5-5", None),
    }
    assert (config.provider.name, config.max_rounds, config.time_limit, config.token_limit, config.approve) == (
        "openai",
        40,
        900.0,
        None,
        "ask",
    )


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    toml = "max_rounds = 5\ntime_limit = 60\n[sandbox]\nimage = 'a'\n"
    config = load(tmp_path, toml, {"CODEAGENT_MAX_ROUNDS": "6", "CODEAGENT_IMAGE": "b"}, max_rounds="7")
    assert (config.max_rounds, config.time_limit, config.sandbox.image) == (7, 60.0, "b")
    assert {key: config.origins[key] for key in ("max_rounds", "time_limit", "sandbox.image", "approval.mode")} == {
        "max_rounds": (7, "--max-rounds"),
        "time_limit": (60.0, str(tmp_path / "config.toml")),
        "sandbox.image": ("b", "CODEAGENT_IMAGE"),
        "approval.mode": ("ask", "default"),
    }


def test_a_mistyped_variable_is_told_with_the_nearest_known_one(tmp_path: Path) -> None:
    env = {"CODEAGENT_MAX_ROUND": "3", "CODEAGENT_CONFIG": str(tmp_path / "config.toml"), "CODEAGENT_SHOP_KEY": "k"}
    toml = "[providers.shop]\napi = 'chat'\napi_key_env = 'CODEAGENT_SHOP_KEY'\n"
    config = load(tmp_path, toml, env, provider="shop")
    assert config.notices == ("the variable CODEAGENT_MAX_ROUND means nothing here; is CODEAGENT_MAX_ROUNDS meant?",)


def test_a_model_cannot_be_asked_for_where_none_is_used(tmp_path: Path) -> None:
    assert refusal(tmp_path, "", provider="offline", model="gpt-4") == (
        "The provider `offline` uses no model, so --model gpt-4 cannot be had from it. Leave out one of the two."
    )
    assert load(tmp_path, "model = 'gpt-4'", provider="offline").provider == OFFLINE
    assert load(tmp_path, "", {"CODEAGENT_MODEL": "gpt-4"}, provider="offline", model="offline").provider == OFFLINE


def test_a_verification_has_a_time_limit_of_its_own(tmp_path: Path) -> None:
    config = load(tmp_path, "time_limit = 60\nverify_time_limit = 120\n", {"CODEAGENT_VERIFY_TIME_LIMIT": "90"})
    assert (config.time_limit, config.verify_time_limit) == (60.0, 90.0)
    assert load(tmp_path, "", {}).verify_time_limit == 900.0


def test_the_vendors_variables_act_on_openai_alone_and_below_ours(tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": "http://x/v1", "OPENAI_MODEL": "m", "CODEAGENT_MODEL": "ours", "OPENAI_API_KEY": "k"}
    config = load(tmp_path, "[providers.openai]\nbase_url = 'http://file'\n", env)
    assert (config.provider.base_url, config.provider.model) == ("http://x/v1", "ours")
    assert (config.provider.base_url_env, config.providers["deepseek"].base_url_env) == ("OPENAI_BASE_URL", None)
    assert config.providers["deepseek"].base_url == "https://api.deepseek.com"
    other = load(tmp_path, "", env, provider="anthropic")
    assert (other.provider.name, other.provider.base_url, other.provider.model) == ("anthropic", None, "ours")


def test_the_only_provider_with_a_key_is_used_and_named(tmp_path: Path) -> None:
    config = load(tmp_path, "", {"DEEPSEEK_API_KEY": "k"})
    assert (config.provider.name, config.provider.api_key) == ("deepseek", "k")
    assert config.notices == ("using provider deepseek, the only one whose key is set (DEEPSEEK_API_KEY)",)


def test_two_keys_and_no_choice_leave_openai(tmp_path: Path) -> None:
    config = load(tmp_path, "", {"DEEPSEEK_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    assert (config.provider.name, config.notices) == ("openai", ())


def test_a_named_provider_is_never_replaced_by_one_with_a_key(tmp_path: Path) -> None:
    assert load(tmp_path, "provider = 'anthropic'\n", {"DEEPSEEK_API_KEY": "k"}).provider.name == "anthropic"


@pytest.mark.parametrize("flags", [{"model": "offline"}, {"provider": "offline"}])
def test_offline_needs_no_key(tmp_path: Path, flags: dict[str, str]) -> None:
    config = load(tmp_path, "", {"OPENAI_API_KEY": ""}, **flags)
    assert config.provider == OFFLINE
    require_key(config.provider)


def test_without_a_key_the_variable_and_the_way_out_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        require_key(load(tmp_path).provider)
    assert caught.value.message == "No API key for provider openai: OPENAI_API_KEY is not set."
    assert caught.value.remedy == "Set OPENAI_API_KEY, or use `--model offline`, which works now and needs no key."


def test_a_provider_of_the_users_own_with_a_price(tmp_path: Path) -> None:
    toml = """
        provider = "mine"
        [providers.mine]
        api = "chat"
        model = "m"
        base_url = "http://h/v1"
        price = {input = 1, output = 2.5}
        headers = {X-Team = "a"}
        options = {content_null = false}
    """
    assert load(tmp_path, toml).provider == ProviderSettings(
        name="mine",
        api="chat",
        model="m",
        base_url="http://h/v1",
        price=Price(1.0, 2.5),
        headers={"X-Team": "a"},
        options={"content_null": False},
    )


def test_sizes_and_rules(tmp_path: Path) -> None:
    toml = """
        [sandbox]
        memory = "512MiB"
        copy_limit = 1000
        protect = ["*.secret"]
        [approval]
        mode = "read-only"
        allow = [["make", "test"], {prefix = ["npm", "test"], match = ["npm test"]}]
    """
    config = load(tmp_path, toml)
    assert (config.sandbox.memory, config.sandbox.copy_limit, config.sandbox.protect) == (
        512 << 20,
        1000,
        ("*.secret",),
    )
    assert config.allow == (Rule(("make", "test")), Rule(("npm", "test"), ("npm test",)))
    assert config.approve == "read-only"


def test_a_rule_that_contradicts_its_example_is_refused(tmp_path: Path) -> None:
    toml = '[approval]\nallow = [{prefix = ["npm", "test"], match = ["npm run build"]}]\n'
    assert "npm run build" in refusal(tmp_path, toml)


def test_a_profile_lies_over_the_rest(tmp_path: Path) -> None:
    toml = "max_rounds = 5\n[profiles.long]\nmax_rounds = 500\n[profiles.long.sandbox]\npids = 9\n"
    (tmp_path / "config.toml").write_text(toml)
    config = load_config({}, environ={"CODEAGENT_HOME": str(tmp_path)}, profile="long")
    assert (config.max_rounds, config.sandbox.pids) == (500, 9)
    assert load(tmp_path, toml).max_rounds == 5
    with pytest.raises(UsageError, match="no profile `short`"):
        load_config({}, environ={"CODEAGENT_HOME": str(tmp_path)}, profile="short")


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("max_round = 3\n", "HOME/config.toml: unknown key `max_round`. The nearest known key is `max_rounds`."),
        (
            "[providers.openai]\nmodle = 'x'\n",
            "unknown key `providers.openai.modle`. The nearest known key is `providers.openai.model`.",
        ),
        ("max_rounds = 0\n", "HOME/config.toml: `max_rounds` is not valid. It must be a whole number above 0."),
        ("max_rounds = true\n", "HOME/config.toml: `max_rounds` is not valid. It must be a whole number above 0."),
        ("[sandbox]\nmemory = 'lots'\n", 'It must be a size such as "512MiB" or "2GiB".'),
        ("[approval]\nmode = 'yes'\n", "It must be one of ask, read-only, contained, all."),
        ("[approval]\nallow = 'ls'\n", "It must be a list such as"),
        ("provider = 'nobody'\n", "There is no provider `nobody`. Known providers: "),
        ("[providers.mine]\nmodel = 'm'\n", "The provider `mine` has no `api`."),
        ("a = [\n", "HOME/config.toml is not valid TOML"),
        ("sandbox = 5\n", "unknown key `sandbox`"),
        ("[providers.openai]\nbase_url = 'nonsense'\n", "It must be an address such as https://host/v1."),
        ("[providers.openai]\nbase_url = 'https://:80/v1'\n", "It must be an address such as https://host/v1."),
        (
            "[profiles.work]\nmax_round = 3\n",
            "HOME/config.toml (profile work): unknown key `max_round`. The nearest known key is `max_rounds`.",
        ),
        ("profiles = 3\n", "`profiles` is not valid. It must be tables such as [profiles.work]."),
        ("providers = []\n", "unknown key `providers`"),
    ],
)
def test_what_cannot_be_acted_on_is_named(tmp_path: Path, toml: str, sentence: str) -> None:
    assert sentence in refusal(tmp_path, toml)


def test_flags_are_checked_like_the_file(tmp_path: Path) -> None:
    assert refusal(tmp_path, "", max_rounds="many") == (
        "--max-rounds many is not valid. It must be a whole number above 0."
    )


def test_a_variable_is_named_and_what_stands_in_it_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, "", {"OPENAI_BASE_URL": "user:secret@host"})
    assert (caught.value.message, caught.value.remedy) == (
        "OPENAI_BASE_URL is not valid.",
        "It must be an address such as https://host/v1.",
    )


def test_a_file_written_by_a_windows_editor_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeffmax_rounds = 3\r\n").max_rounds == 3


def test_a_named_file_must_exist_and_a_folder_is_no_file(tmp_path: Path) -> None:
    for path, sentence in ((tmp_path / "none.toml", "There is no configuration file"), (tmp_path, "cannot be read")):
        with pytest.raises(UsageError, match=sentence):
            load_config({}, environ={}, config=path)


def test_nothing_in_the_working_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text("max_rounds = 1\n")
    (tmp_path / ".env").write_text("CODEAGENT_MAX_ROUNDS=1\n")
    (tmp_path / "codeagent.toml").write_text("max_rounds = 1\n")
    monkeypatch.chdir(tmp_path)
    assert load_config({}, environ={"CODEAGENT_HOME": str(tmp_path / "home")}).max_rounds == 40
