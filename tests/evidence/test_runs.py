"""Which commands count as a run of tests that passed."""

from __future__ import annotations

import pytest

from codeagent.evidence.claims import unsupported
from codeagent.evidence.runs import Run, exit_code, passing
from tests.clocks import processor_time_below

PROVE = r"""
pytest -q
cd app && python3 -m pytest
python3 -B -X dev -m pytest -q -k 'a && b'
python -m unittest discover -s tests
FOO=1 timeout -k 5 60 poetry run pytest -n 4
(cd app && pytest -q) 2>&1
pytest -q > log.txt 2>&1
set -e; cd app; pytest -q
cd app || exit 1\npytest -q
pytest && echo done
sh -c "cd app && pytest -q"
coverage run --source=x -m pytest && coverage report
npm test
npm run test:unit
yarn run check
npx jest --ci
go test ./...
cargo +nightly nextest run
make -j2 check
make -C app test
mvn -q test
./gradlew :app:test
./run_tests.sh
sh check.sh
python3 tests/test_a.py
python manage.py test
node --test
pytest -q  # the whole suite; all of it
pytest \\n  -q
cat > fix.py <<'EOF'\nx = 1; y\nEOF\npytest -q
""".strip().split("\n")
r"""`\n` stands for a newline."""
PROVE_NOT = r"""
pytest -q | tail -3
pytest -q || true
pytest -q; echo done
pytest -q\ntrue
pytest -q &
(pytest -q; exit 0)
! pytest -q
! python3 -m pytest
if pytest -q; then :; fi
if pytest -q; then :; fi && true
echo 'all tests pass'
echo pytest
echo "pytest -q\npytest -q"
cat > x <<EOF\npytest -q\nEOF
cat test_a.py
cat tests/test_calc.py
head -5 test/a.js
ls tests
cd tests
wc -l tests/test_a.py
grep -rn pytest .
git log -- tests
sed -n 1,20p tests/test_calc.py
test -f tests/a.py
pytest --version
python3 -m pytest --collect-only -q
pytest --help
make -n test
make -sn test
make -C tests
ctest -N
cargo test --no-run
mvn -DskipTests package
npm install test
npm test --if-present
pip install pytest
python3 -c 'import pytest'
python3 -m py_compile tests/test_a.py
chmod +x ./run_tests.sh
pytest -q '
pytest -q # don't\ntrue 'x'
sh -n run_tests.sh
cat > x <<EOF && pytest\n
cat > x <<EOF\nEOF\ntrue # pytest
echo `pytest -q`
echo $(pytest -q)
""".strip().split("\n")


@pytest.mark.parametrize("command", PROVE)
def test_a_run_of_tests_that_exits_with_0_supports_a_claim(command: str) -> None:
    command = command.replace("\\n", "\n")
    assert unsupported("All tests pass.", [Run("c", command, 0)]) == []
    assert not passing(Run("c", command, 1))
    assert not passing(Run("c", command, None))


@pytest.mark.parametrize("command", PROVE_NOT)
def test_what_runs_no_tests_or_loses_their_exit_code_supports_none(command: str) -> None:
    assert unsupported("All tests pass.", [Run("c", command.replace("\\n", "\n"), 0)]) == ["All tests pass."]


@pytest.mark.parametrize(
    ("command", "output", "proves"),
    [
        ("pytest -q", "3 passed, 1 skipped in 0.1s", True),
        ("pytest -q", "4 skipped in 0.1s", False),
        ("make test", "3/5 tests collected (2 deselected) in 0.1s", False),
        ("python3 -m unittest", "Ran 0 tests in 0.000s\n\nOK", False),
        ("python3 -m unittest", "Ran 2 tests in 0.000s\n\nOK (skipped=1)", True),
        ("go test ./...", "?   \ta\t[no test files]", False),
        ("go test ./...", "?   \ta\t[no test files]\nok  \tb\t0.01s", True),
        ("npx jest", "No tests found, exiting with code 0", False),
        ("make test", "make: Nothing to be done for 'test'.", False),
        ("./run_tests.sh", "fine", True),
    ],
)
def test_a_run_that_says_it_ran_nothing_proves_nothing(command: str, output: str, proves: bool) -> None:
    assert passing(Run("c", command, 0, output)) is proves


def test_the_exit_code_is_read_from_the_first_line() -> None:
    assert exit_code("[exit code 3; 0.05 s; cwd /workspace]\nexit code 0") == 3
    assert exit_code("[killed: timeout; 2 s; cwd /workspace]") is None


@pytest.mark.parametrize(
    "part", ["a", "a'", 'a"', "\\", '\\"', "(", "&& ", "pytest && ", "sh -c '", "-m ", "env ", "a=1 ", "5 "]
)
@pytest.mark.slow
def test_no_command_takes_long(part: str) -> None:
    with processor_time_below(5):
        passing(Run("c", part * (300_000 // len(part)), 0, part * 100_000))
