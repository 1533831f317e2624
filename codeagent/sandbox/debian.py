"""Makes the default image's file system from Debian packages on this machine, where no registry answers."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from codeagent.errors import SandboxError
from codeagent.sandbox.private_engine import KEYRING
from codeagent.sandbox.seam import Steps

PUBLIC_MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_STEP = re.compile(r"I: (?P<what>\w+) (?P<package>[^ ]+?)(\.\.\.)?( |$)")
_STAGES = {
    "Retrieving": "fetching packages",
    "Validating": "fetching packages",
    "Unpacking": "unpacking packages",
    "Configuring": "configuring packages",
}
_INSTALL = "As root, run `codeagent sandbox build --install`, or use an image that the engine has with --image."


def missing(engine_architecture: str) -> SandboxError | None:
    """What this machine lacks to build for an engine of that architecture (Docker's words)."""
    if os.geteuid() != 0:
        return SandboxError("building from Debian packages needs root.", _INSTALL)
    if not shutil.which("debootstrap"):
        return SandboxError("debootstrap is not installed.", _INSTALL)
    if not KEYRING.is_file():
        return SandboxError("Debian's keys (debian-archive-keyring) are not installed.", _INSTALL)
    here = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if engine_architecture != here:
        return SandboxError(
            f"the engine's machine is {engine_architecture} and this one is {here}.",
            f"Build the image on a machine of architecture {engine_architecture}, then load it into the engine "
            "(`docker save` and `docker load`).",
        )
    return None


# When nobody reads on, because this process was killed, the build ends with its next line; half a system has no use.
_BUILD = 'sh "$@"; code=$?; rm -rf --one-file-system "$2/root"; exit $code'


@contextlib.contextmanager
def root_archive(script: Path, work: Path, steps: Steps, lock: int) -> Iterator[IO[bytes]]:
    """Runs `sandbox/build` in `work`; yields the tar archive that it writes, to be read to its end.

    Reports progress as packages are fetched, unpacked and configured. SandboxError with the script's last words when
    it fails: before anything is yielded, or on leaving, when the archive is not whole. The build inherits the
    descriptor `lock`, so that it stays locked while anything still works in `work`, even if this process is killed.
    """
    work.mkdir(parents=True, exist_ok=True, mode=0o700)
    source = mirror()
    command = ["sh", "-c", _BUILD, "build", str(script), str(work), source]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0:
        # In a mount namespace of its own, what debootstrap mounts goes away with it, even when it is killed.
        command = ["unshare", "--mount", *command]
    build = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(lock,),
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
    )
    assert isinstance(build.stdout, io.BufferedReader) and build.stderr  # noqa: S101 -- both are pipes
    last: deque[str] = deque(maxlen=4)
    reader = threading.Thread(target=_report, args=(build.stderr, steps, last), daemon=True)
    reader.start()
    try:
        if build.stdout.peek(1):
            yield build.stdout
        code = build.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        build.wait()
        reader.join()
        build.stdout.close()
        build.stderr.close()
        subprocess.run(["rm", "-rf", "--one-file-system", str(work / "root")], check=False)
    if code != 0:
        raise SandboxError(
            f"Building the default image from Debian packages failed: {' / '.join(last) or f'exit code {code}'}",
            f"Check that {source} can be reached and that {work} has 2 GB free, then try again.",
        )


def mirror() -> str:
    """The Debian archive that this machine's apt uses for the suite, else Debian's public one."""
    try:
        targets = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return PUBLIC_MIRROR
    for line in targets.splitlines():
        codename, _, rest = line.partition(" ")
        component, _, address = rest.partition(" ")
        if codename == SUITE and component == "main" and address.startswith(("http://", "https://", "file:")):
            return address.rstrip("/")
    return PUBLIC_MIRROR


def _report(stream: IO[bytes], steps: Steps, last: deque[str]) -> None:
    """Counts debootstrap's `I: Retrieving X`, `I: Unpacking X...`; what is fetched says how much there is."""
    done: dict[str, set[str]] = {stage: set() for stage in _STAGES.values()}
    for raw in stream:
        line = raw.decode(errors="replace").strip()
        if not line:
            continue
        last.append(line)
        if line.startswith("I: Importing"):
            steps("importing the image", 0, 0)
        if (step := _STEP.match(line)) and (stage := _STAGES.get(step["what"])):
            done[stage].add(step["package"])
            fetching = stage == "fetching packages"
            steps(stage, len(done[stage]), 0 if fetching else max(len(done["fetching packages"]), len(done[stage])))
