"""New files that would be loaded in the place of others."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from codeagent.verification.shadowing import FolderKind, shadowing

KINDS: dict[str, FolderKind] = {"app": "package", "src": "plain", "email": "plain", "tools": "plain"}


def installed(names: Collection[str]) -> list[str]:
    return [name for name in names if name in ("requests", "yaml")]


def shadows(path: str, link: bool = False) -> bool:
    return shadowing({path: link}, lambda folder: KINDS.get(folder, "missing"), installed) == {path}


@pytest.mark.parametrize(
    "path",
    [
        *("pytest.py", "unittest/__init__.py", "unittest/case.py", "src/json.py", "tools/attr/__init__.py"),
        *("requests.py", "requests/__init__.py", "requests/models.py", "src/yaml.py", "yaml.cpython-311.so"),
        *("email/__init__.py", "include/assert.h", "include/features.h", "include/gtest/gtest.h", "lib/minitest.rb"),
        "src/main/java/org/junit/jupiter/api/Assertions.java",
    ],
)
def test_a_module_that_exists_elsewhere_is_shadowed(path: str) -> None:
    assert shadows(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "app/json.py",
            "app/requests/__init__.py",
            "helpers.py",
            "src/rates.py",
            "email/template.py.txt",
            "json.md",
        ),
        *("docs/requests.html", "email/nothing_known.py", "src/main/java/com/acme/Assertions.java", "src/table.h"),
    ],
)
def test_a_name_of_the_repositorys_own_shadows_nothing(path: str) -> None:
    assert not shadows(path)


def test_a_folder_that_modules_are_looked_for_in_counts_though_it_is_a_package() -> None:
    created = {"app/json.py": False, "app/core/types.py": False, "other/json/x.txt": False}

    def kinds(folder: str) -> FolderKind:
        return "package" if folder in ("app", "app/core") else "missing"

    assert shadowing(created, kinds, installed) == set()
    assert shadowing(created, kinds, installed, {"app"}) == {"app/json.py"}


def test_a_link_may_lead_to_a_whole_package() -> None:
    assert shadows("requests", link=True) and shadows("pytest", link=True) and shadows("pytest.py", link=True)
    assert not shadows("data", link=True) and not shadows("requests")


def test_the_image_is_asked_only_about_names_that_are_not_known() -> None:
    def refuse(names: Collection[str]) -> list[str]:
        raise AssertionError(names)

    assert shadowing({"pytest.py": False, "docs/a.md": False}, lambda _: "missing", refuse) == {"pytest.py"}


def test_a_helper_of_the_tests_is_shadowed_by_a_new_module_of_its_name() -> None:
    created = {"src/support.py": False, "src/rates.py": False, "app/support.py": False, "support.md": False}
    kinds: dict[str, FolderKind] = {**KINDS, "tests": "plain"}

    def found(checks: list[str], roots: set[str]) -> set[str]:
        return shadowing(created, lambda folder: kinds.get(folder, "missing"), installed, roots, checks)

    assert found(["tests/support.py", "tests/test_a.py"], {"src", "tests"}) == {"src/support.py"}
    assert found(["tests/support.py"], set()) == {"src/support.py"}
    assert found(["app/support.py", "tests/data/support.py.txt"], set()) == set()
