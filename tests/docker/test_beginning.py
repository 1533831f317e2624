"""How a command begins, on kernels that differ in what they let a program start with.

Under no_new_privs, older kernels (6.12 for one) start a program of other effective ids than real ones with the real
ones alone, and with no capability in effect; newer ones leave the effective ids as they are.
"""

from __future__ import annotations

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.conftest import TEST_LABEL

# As the guest's supervisor, but with effective ids that are no help in becoming the owner.
START = """
import os, socket, sys
sys.path.insert(0, "/codeagent/lib")
from guest import syscalls
report, end = socket.socketpair()
os.setgroups([])
os.setresgid(0, 23456, 0)
os.setresuid(0, 23456, 0)
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
empty = os.memfd_create("empty")
places = [(os.POSIX_SPAWN_DUP2, end.fileno(), 3), (os.POSIX_SPAWN_DUP2, empty, 6), (os.POSIX_SPAWN_DUP2, empty, 7)]
script = "/usr/bin/grep -E 'Uid|Gid|Groups|CapPrm|CapEff' /proc/self/status"
argv = ["begin", "12345", "12346", "/", "/bin/sh", script]
pid = os.posix_spawn("/codeagent/bin/begin", argv, {}, file_actions=places)
end.close()
print(report.recv(500).decode(), end="", flush=True)
os.waitpid(pid, 0)
"""


def test_a_command_begins_as_the_owner_whatever_ids_the_kernel_lets_it_start_with(
    engine: Engine, toolbox: Toolbox, image: str
) -> None:
    printed: bytes = engine.client.containers.run(
        image,
        [toolbox.python, "-I", "-S", "-c", START],
        remove=True,
        network_mode="none",
        read_only=True,
        user="0:0",
        cap_drop=["ALL"],
        cap_add=["SETUID", "SETGID"],
        security_opt=["no-new-privileges"],
        labels={TEST_LABEL: "1"},
        volumes={toolbox.volume: {"bind": toolbox.target, "mode": "ro"}},
    )
    found = dict(line.split(":", 1) for line in printed.decode().splitlines())
    assert {name: value.split() for name, value in found.items()} == {
        "Uid": ["12345"] * 4,
        "Gid": ["12346"] * 4,
        "Groups": [],
        "CapPrm": ["0000000000000000"],
        "CapEff": ["0000000000000000"],
    }
