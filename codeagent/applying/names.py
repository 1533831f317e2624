"""What a path's names say: that they belong to git, or that other programs execute or obey the file."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

EXECUTED_BY_OTHERS = (
    # shells, editors, debuggers
    *(".envrc", ".env", ".env.*", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", "*.code-workspace"),
    *(".gdbinit", ".lldbinit", ".pythonrc*", ".tool-versions", "mise.toml", ".mise.toml", ".python-version"),
    # git and what hooks into it
    *(".gitattributes", ".gitmodules", ".gitconfig", ".pre-commit-config.y*ml", "lefthook.y*ml", ".lintstagedrc*"),
    # builds
    *("makefile", "gnumakefile", "*.mk", "*.mak", "justfile", "rakefile", "vagrantfile", "cmakelists.txt", "*.cmake"),
    *("configure", "configure.ac", "meson.build", "build.ninja", "build", "build.bazel", "workspace", "*.bzl"),
    *("dockerfile*", "containerfile*", "docker-compose*.y*ml", "compose*.y*ml", "*.nix", ".bazelrc", "taskfile.y*ml"),
    *(
        "package.json",
        ".npmrc",
        ".yarnrc*",
        ".pnp.*",
        ".pnpmfile.*",
        "gruntfile.*",
        "gulpfile.*",
        "*.config.[jt]s",
    ),
    *("*.config.[cm][jt]s", ".*rc.[jt]s", ".*rc.[cm][jt]s", "composer.json", "gemfile", "*.gemspec"),
    *("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "conftest.py", "tasks.py", "fabfile.py"),
    *("*.pth", "sitecustomize.py", "usercustomize.py", "build.rs", "cargo.toml"),
    *("build.gradle*", "settings.gradle*", "*.gradle", "gradlew*", "mvnw*", "pom.xml", "build.xml", "build.sbt"),
    *("*.csproj", "*.targets", "*.props", "*.sln", "mix.exs", "rebar.config", "dub.json", "package.swift"),
    # services
    *("jenkinsfile*", "azure-pipelines*.y*ml", ".travis.yml", ".gitlab-ci.y*ml", "appveyor.yml", "procfile"),
)
FOLDERS_OF_OTHERS = frozenset(
    (
        *(".vscode", ".idea", ".zed", ".fleet", ".cursor", ".claude", ".codex", ".devcontainer", ".cargo", ".mvn"),
        *(".github", ".gitlab", ".gitea", ".forgejo", ".circleci", ".buildkite", ".husky", ".githooks", "hooks"),
    )
)
READ_BY_AGENTS = ("agents.md", "claude.md", "gemini.md", ".cursorrules", ".windsurfrules")


def belongs_to_git(path: str) -> bool:
    """Whether a part of the path is, on some file system, another way to write `.git`.

    As git itself judges it (path.c, is_ntfs_dotgit; utf8.c, is_hfs_dotgit): letter case, blanks and dots at the
    end, an alternate stream after a colon, the short name, and characters that HFS+ leaves out.
    """
    return any(_is_git(part) for part in path.split("/"))


def _is_git(name: str) -> bool:
    plain = _IGNORED_BY_HFS.sub("", name).partition(":")[0].rstrip(" .").lower()
    return plain in (".git", "git~1")


def runs_elsewhere(path: str) -> bool:
    """Whether an editor, a shell, a build, an agent or a host service executes or obeys a file of this name."""
    *folders, name = path.lower().split("/")
    return any(folder in FOLDERS_OF_OTHERS for folder in folders) or any(
        fnmatchcase(name, pattern) for pattern in (*EXECUTED_BY_OTHERS, *READ_BY_AGENTS)
    )
