"""Where a patch may write: the private copy's own rules, known before anything is written.

The guest decides when it stores (`sandbox/guest/storing.py`); a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.seam import Files
from codeagent.tools.paths import quoted

_MOUNT = re.compile(r"^/+workspace/+")


def placed(path: str) -> str:
    """The one name of a path below the root, without `.`, doubled slashes and the mount's own.

    Raises ToolError for what the copy never takes: outside_repository, or protected_path for what is git's.
    """
    names = [name for name in _MOUNT.sub("", path, count=1).split("/") if name not in ("", ".")]
    if not names or ".." in names or (path.startswith("/") and not _MOUNT.match(path)):
        sentence = f"{quoted(path)} is not a path below the repository's root"
        raise ToolError(ErrorKind.OUTSIDE_REPOSITORY, sentence)
    if ".git" in names:
        raise ToolError(ErrorKind.PROTECTED_PATH, f"{quoted(path)} belongs to git and is not written")
    return "/".join(names)


def check_folders(files: Files, path: str, written: Collection[str]) -> None:
    """Whether each folder above `path` is one, or can be made. Raises ToolError(not_a_directory).

    `written` are the files that the same patch writes.
    """
    folder = path.rpartition("/")[0]
    while folder:
        if folder in written:
            raise _no_folder(folder, path, "a file of the same patch")
        try:
            real = files.list_dir(folder, 1, 0).path
        except ToolError as error:
            if error.kind is not ErrorKind.FILE_NOT_FOUND:
                raise
            folder = folder.rpartition("/")[0]
            continue
        if real != folder:
            raise _no_folder(folder, path, f"a link to {quoted(real)}, and links are not followed to write")
        return


def _no_folder(folder: str, path: str, what: str) -> ToolError:
    return ToolError(ErrorKind.NOT_A_DIRECTORY, f"{quoted(folder)} in {quoted(path)} is {what}")
