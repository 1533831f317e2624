"""`fix` with the investigator that changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeagent.cli.main import run


@pytest.mark.parametrize("flag", ["--model", "--provider"])
def test_fix_refuses_the_offline_investigator_before_anything_runs(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "repo"
    repo.mkdir()
    nowhere = f"unix://{tmp_path}/no.sock"
    argv = ["fix", "x", "--repo", str(repo), "--verify", "false", "--docker-host", nowhere, flag, "offline"]
    assert run(argv) == 2
    assert capsys.readouterr().err.splitlines() == [
        "codeagent: error: The offline investigator changes nothing, so it cannot fix anything.",
        'Name a model: --model NAME or --provider NAME. To look only: codeagent ask "…" --model offline',
    ]
    assert not (tmp_path / "state").exists()
