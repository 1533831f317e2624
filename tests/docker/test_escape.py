"""Ways out of the container and ways to harm from inside, tried: each fails, and the session goes on.

On a repository of root's (commands run as uid 0, without capabilities) and on one of a user's.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

import pytest

from codeagent.sandbox.seam import Ending
from tests.docker.conftest import Opened


@pytest.fixture(autouse=True)
def survives(opened: Opened) -> Iterator[None]:
    """After each attack, the same container still reads files and runs commands."""
    opened.run("true")
    before = opened.containers()
    yield
    assert opened.sandbox.fetch("hello.txt") == b"hello\n"
    result = opened.run("echo alive")
    assert (result.ending, result.exit_code, result.segments) == (Ending.EXITED, 0, (("stdout", "alive\n"),))
    assert opened.containers() == before


def python(opened: Opened, code: str, **options: bool) -> str:
    return opened.output(f"python3 - <<'EOF'\n{textwrap.dedent(code)}\nEOF", **options)


# The network


@pytest.mark.parametrize(
    "address", ["('1.1.1.1', 443)", "('169.254.169.254', 80)", "('172.17.0.1', 2375)", "('10.0.0.1', 22)"]
)
def test_no_address_outside_is_reached(opened: Opened, address: str) -> None:
    said = python(
        opened,
        f"""
        import socket
        try:
            socket.create_connection({address}, timeout=3)
            print('connected')
        except OSError as error:
            print(error.strerror)
        """,
    )
    assert said == "Network is unreachable\n"


def test_no_name_is_resolved(opened: Opened) -> None:
    said = python(
        opened,
        """
        import socket, time
        began = time.monotonic()
        try:
            print(socket.getaddrinfo('example.com', 443))
        except socket.gaierror:
            print('unknown', time.monotonic() - began < 10)
        """,
    )
    assert said == "unknown True\n"


def test_loopback_works_in_both_versions(opened: Opened) -> None:
    said = python(
        opened,
        """
        import socket
        for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
            server = socket.create_server((address, 0), family=family)
            with socket.create_connection(server.getsockname()[:2]) as client:
                server.accept()[0].sendall(b'x')
                print(client.recv(1))
        """,
    )
    assert said == "b'x'\nb'x'\n"


def test_the_only_interface_is_loopback(opened: Opened) -> None:
    assert opened.output("ls /sys/class/net") == "lo\n"


# Kernel interfaces


REFUSED_CALLS = {
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
    "hypervisor socket": "socket.socket(40, socket.SOCK_STREAM)",
    "kernel crypto socket": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "io_uring": "call(425, 8, ctypes.create_string_buffer(120))",
    "user namespace": "call(272, 0x10000000)",
    "mount namespace": "call(272, 0x00020000)",
    "pid namespace": "call(272, 0x20000000)",
    "mount": "call(165, b'none', b'/mnt', b'tmpfs', 0, None)",
    "bind mount": "call(165, b'/', b'/mnt', None, 4096, None)",
    "remount writable": "call(165, None, b'/workspace', None, 32 | 4096, None)",
    "umount": "call(166, b'/workspace', 2)",
    "move_mount": "call(429, -1, b'/proc', -100, b'/mnt', 0)",
    "open_tree": "call(428, -100, b'/', 1)",
    "fsopen": "call(430, b'tmpfs', 0)",
    "pivot_root": "call(155, b'/', b'/tmp')",
    "chroot": "os.chroot('/tmp')",
    "setns": "call(308, os.open('/proc/self/ns/mnt', os.O_RDONLY), 0)",
    "keyring": "call(248, b'user', b'x', b'y', 1, -3)",
    "keyctl": "call(250, 0, -3, 0, 0, 0)",
    "bpf": "call(321, 0, None, 0)",
    "perf": "call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "userfaultfd": "call(323, 0)",
    "kernel module": "call(175, b'x', 1, b'')",
    "kexec": "call(246, 0, 0, None, 0)",
    "reboot": "call(169, 0xfee1dead, 672274793, 0, None)",
    "device node": "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))",
    "character device": "os.mknod('/tmp/mem', 0o20600, os.makedev(1, 1))",
    "root's id": "os.setresuid(0, 0, 0) if os.getuid() else os.setresuid(1, 1, 1)",
    "the guest's id": "os.setresuid(65533, 65533, 65533)",
    "groups": "os.setgroups([0, 1])",
    "kernel log": "call(103, 3, None, 0)",
    "swap": "call(167, b'/tmp/x', 0)",
    "clock": "call(227, 0, ctypes.create_string_buffer(16))",
    "host name": "socket.sethostname('x')",
    "handle": "call(304, -1, None, 0)",
}


@pytest.mark.parametrize("attack", REFUSED_CALLS)
def test_the_kernel_refuses(opened: Opened, attack: str) -> None:
    said = python(
        opened,
        f"""
        import ctypes, os, socket
        libc = ctypes.CDLL(None, use_errno=True)
        def call(number, *args):
            wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
            if libc.syscall(ctypes.c_long(number), *wide) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            {REFUSED_CALLS[attack]}
            print('allowed')
        except OSError as error:
            print('refused')
        """,
    )
    assert said == "refused\n"


def test_a_command_has_no_capability_and_cannot_gain_one(opened: Opened) -> None:
    status = dict(line.split(":\t") for line in opened.output("cat /proc/self/status").splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_no_set_user_id_program_changes_the_id(opened: Opened) -> None:
    assert opened.output("find / -xdev -perm -4000 -type f -exec {} --version \\; 2>/dev/null; id -u").endswith(
        opened.output("id -u")
    )


# The host's files


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/usr/bin", "/workspace", "/workspace/src", "/codeagent", "/codeagent/lib", "/sys", "/proc/sys"],
)
def test_nothing_outside_of_tmp_is_writable(opened: Opened, path: str) -> None:
    result = opened.run(f"echo x > {path}/planted")
    assert result.exit_code != 0
    assert opened.run(f"test -e {path}/planted").exit_code == 1
    assert not (opened.repo / "planted").exists()


def test_there_is_no_engine_socket(opened: Opened) -> None:
    assert opened.output("find / -xdev -name '*docker*.sock' 2>/dev/null") == ""
    assert "docker.sock" not in opened.output("cat /proc/net/unix; ls -R /run /var/run 2>/dev/null")


def test_no_variable_of_the_hosts_is_seen(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEAGENT_CANARY", "from-the-host")
    said = opened.output("env; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "from-the-host" not in said
    for leak in ("PYTHONHOME", "LD_LIBRARY_PATH", "DOCKER_HOST", "HTTP_PROXY", "/root", "GIT_EXEC_PATH=/codeagent/"):
        assert leak not in said


@pytest.mark.parametrize("link", ["/etc/shadow", "/proc/1/root/etc/hostname", "/proc/1/cwd", "../../../etc/passwd"])
def test_links_lead_to_the_containers_own_files_at_most(opened: Opened, link: str) -> None:
    host = opened.repo.parent / "outside.txt"
    host.write_text("the host's\n")
    said = opened.output(f"ln -sf {link} /tmp/link; cat /tmp/link; ls {host}; cat {host}")
    assert "the host's" not in said
    assert "root:x:0:0" not in said or link == "../../../etc/passwd"


def test_the_guests_root_and_memory_are_closed(opened: Opened) -> None:
    result = opened.run(
        "for p in /proc/[0-9]*; do case $p in /proc/$$) continue;; esac; "
        "cat $p/environ $p/mem $p/maps $p/root/etc/hostname $p/cwd/hello.txt $p/fd/0 2>/dev/null; done; true"
    )
    assert result.segments == ()


def test_devices_of_the_host_are_absent(opened: Opened) -> None:
    assert opened.output("ls /dev/mem /dev/kmem /dev/kvm /dev/sda /dev/vda /dev/fuse /dev/net/tun 2>/dev/null") == ""


# The guest


def test_the_guest_can_neither_be_killed_stopped_limited_nor_traced(opened: Opened) -> None:
    said = python(
        opened,
        """
        import ctypes, json, os, resource, signal
        libc = ctypes.CDLL(None, use_errno=True)
        me, refused = os.getpid(), {}
        own = {me}
        parent = int(open(f'/proc/{me}/stat').read().rsplit(')', 1)[1].split()[1])
        own.add(parent)  # the shell that started us
        for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
            if pid in own:
                continue
            for name, attack in {
                'kill': lambda: os.kill(pid, signal.SIGKILL),
                'stop': lambda: os.kill(pid, signal.SIGSTOP),
                'term': lambda: os.kill(pid, signal.SIGTERM),
                'files': lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)),
                'cpu': lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)),
                'nice': lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
                'affinity': lambda: os.sched_setaffinity(pid, {0}),
                'scheduler': lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
                'oom': lambda: open(f'/proc/{pid}/oom_score_adj', 'wb', buffering=0).write(b'1000'),
                'read fds': lambda: [os.stat(f'/proc/{pid}/fd/{fd}') for fd in range(30)],
                'stdout': lambda: open(f'/proc/{pid}/fd/1', 'wb', buffering=0).write(b'forged'),
                'memory': lambda: open(f'/proc/{pid}/mem', 'r+b'),
                'clear refs': lambda: open(f'/proc/{pid}/clear_refs', 'wb', buffering=0).write(b'1'),
            }.items():
                try:
                    attack()
                    refused.setdefault(name, []).append('DONE')
                except OSError:
                    refused.setdefault(name, []).append('refused')
            for name, request in (('attach', 16), ('seize', 16902)):
                result = libc.ptrace(request, pid, None, None)
                refused.setdefault(name, []).append('refused' if result < 0 else 'DONE')
            pidfd = libc.syscall(434, pid, 0)
            taken = [libc.syscall(438, pidfd, fd, 0) for fd in range(30)] if pidfd >= 0 else []
            refused.setdefault('take fd', []).append('refused' if max(taken, default=-1) < 0 else 'DONE')
        print(json.dumps(refused))
        """,
    )
    attacks = json.loads(said)
    assert len(attacks) == 16
    # The guest, its spawner, this command's supervisor, and those that wait for commands.
    (count,) = {len(outcomes) for outcomes in attacks.values()}
    assert count >= 3
    assert {attack for attack, outcomes in attacks.items() if "DONE" in outcomes} == set()


def test_a_command_holds_no_descriptor_but_its_own_three(opened: Opened) -> None:
    assert opened.output("ls /proc/$$/fd").split() == ["0", "1", "2"]
    assert opened.output("readlink /proc/$$/fd/0") == "/dev/null\n"


def test_killing_everything_kills_the_command_alone(opened: Opened) -> None:
    assert opened.run("kill -9 -1; sleep 0.1").ending in (Ending.EXITED, Ending.SIGNALLED)


def test_a_stopped_command_is_ended_by_its_deadline(opened: Opened) -> None:
    assert opened.run("kill -STOP $$", timeout=1).ending is Ending.TIMEOUT
    assert opened.run("kill -STOP 0", timeout=1).ending is Ending.TIMEOUT


def test_output_that_looks_like_frames_is_only_output(opened: Opened) -> None:
    forged = '\\000\\000\\000\\012\\000\\000\\000\\001\\003{"ok": {}}'
    assert '{"ok": {}}' in opened.output(f"printf '{forged}'; printf '{forged}' >&2")


# Exhaustion


def test_a_fork_bomb_ends_with_its_command(opened: Opened) -> None:
    result = opened.run("bomb() { bomb | bomb & }; bomb; sleep 1; echo survived", timeout=3)
    assert any("limit of 100 was reached" in note for note in result.notes)


def test_detached_processes_end_with_their_command(opened: Opened) -> None:
    opened.run("for i in $(seq 60); do setsid sh -c 'setsid sleep 300 &' & done; sleep 0.3", timeout=20)
    assert opened.output("cat /proc/[0-9]*/comm 2>/dev/null | grep -c sleep") == "0\n"


def test_a_memory_bomb_is_told_apart(opened: Opened) -> None:
    result = opened.run("python3 -c \"x = b'x' * 10**9\"")
    assert (result.ending, result.exit_code) == (Ending.MEMORY, 137)


def test_a_full_tmp_is_an_error_of_the_command(opened: Opened) -> None:
    result = opened.run("dd if=/dev/zero of=/tmp/big bs=1M; echo code $?; rm /tmp/big")
    assert "No space left on device" in str(result.segments)
    assert "code 1\n" in str(result.segments) or "code 1\\n" in str(result.segments)


def test_a_full_tmp_and_full_memory_leave_the_guest_alone(opened: Opened) -> None:
    opened.run("dd if=/dev/zero of=/tmp/big bs=1M 2>/dev/null; dd if=/dev/zero of=/dev/shm/big bs=1M 2>/dev/null")
    assert opened.run("python3 -c \"x = b'x' * 10**9\"").ending is Ending.MEMORY
    assert opened.run("rm -f /tmp/big /dev/shm/big").exit_code == 0


def test_inodes_of_tmp_are_limited(opened: Opened) -> None:
    assert int(opened.output("df --output=itotal /tmp | tail -1")) <= 400_000


def test_endless_output_is_ended_by_the_deadline(opened: Opened) -> None:
    result = opened.run("yes", timeout=1)
    assert result.ending is Ending.TIMEOUT
    assert result.duration_ms < 15_000
    assert result.total_bytes > 1_000_000
    assert sum(len(piece) for _, piece in result.segments) <= 32 * 1024
