"""The environment of a command: the image's own, without a PATH that a repository could fill, and fixed values.

docs/security.md lists the fixed values; a test compares.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from guest.ids import Owner

WORKSPACE = "/workspace"
HOME = "/tmp/home"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

FIXED: Mapping[str, str] = {
    "HOME": HOME,
    "USER": "codeagent",
    "LOGNAME": "codeagent",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "CI": "true",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    # Output reaches the pipe as it is printed: what a killed command said is not lost, and its order is right.
    "PYTHONUNBUFFERED": "1",
    # Reading code by running it leaves no cache files in the private copy.
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_AUTHOR_NAME": "codeagent",
    "GIT_AUTHOR_EMAIL": "codeagent@localhost",
    "GIT_COMMITTER_NAME": "codeagent",
    "GIT_COMMITTER_EMAIL": "codeagent@localhost",
}

GIT_CONFIG: Mapping[str, str] = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "credential.helper": "",
    "log.showSignature": "false",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    # All changes of a submodule's commit are told. What has changed in its files, git would ask a git there.
    "diff.ignoreSubmodules": "dirty",
    "diff.submodule": "short",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "protocol.file.allow": "never",
    "safe.bareRepository": "explicit",
    "safe.directory": "*",
}


def for_commands(image: Mapping[str, str], extra: Mapping[str, str], owner: Owner) -> dict[str, str]:
    """The environment of every command in this container. `extra` comes from the host and wins."""
    environment = {**image, **FIXED}
    # Set by our own interpreter when the image names no locale.
    if environment.get("LC_CTYPE") == FIXED["LANG"]:
        del environment["LC_CTYPE"]
    environment["PATH"] = safe_path(image.get("PATH", ""), _writable)
    if name := _login_name(owner.uid):
        environment["USER"] = environment["LOGNAME"] = name
    environment["GIT_CONFIG_COUNT"] = str(len(GIT_CONFIG))
    for index, (key, value) in enumerate(GIT_CONFIG.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    environment.update(extra)
    return environment


def safe_path(path: str, writable: Callable[[str], bool]) -> str:
    """PATH without entries that are relative, writable, or below /workspace, links followed."""
    kept = []
    for entry in path.split(":"):
        if not entry.startswith("/"):
            continue
        real = os.path.realpath(entry)
        if _below_workspace(entry) or _below_workspace(real) or writable(real):
            continue
        kept.append(entry)
    return ":".join(kept) or DEFAULT_PATH


def _below_workspace(path: str) -> bool:
    return os.path.normpath(path + "/").startswith(WORKSPACE + "/") or os.path.normpath(path) == WORKSPACE


def _writable(path: str) -> bool:
    # What does not exist yet could be made where its nearest existing parent is writable.
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK, effective_ids=True)


def _login_name(uid: int) -> str:
    try:
        with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
            fields = [line.split(":") for line in file]
    except OSError:
        return ""
    return next((field[0] for field in fields if len(field) > 2 and field[2] == str(uid)), "")
