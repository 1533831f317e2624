"""The options of a container, as one whole value."""

from __future__ import annotations

from dataclasses import replace

from codeagent.sandbox.hardening import TMP, Dispensable, Mount, Plan, options
from codeagent.settings import SandboxSettings

SETTINGS = SandboxSettings(memory=1 << 30, cpus=1.5, pids=100, tmp_size=1 << 20)
PLAN = Plan(
    image="sha256:1",
    argv=("/codeagent/bin/python3", "-m", "guest", "{}"),
    labels={"codeagent.role": "reader"},
    mounts=(
        Mount("volume", "/codeagent", "toolbox"),
        Mount("bind", "/workspace", "/home/me/project"),
        Mount("tmpfs", "/workspace/.ssh"),
    ),
    image_volumes=("/data", "/workspace/"),
)


def test_the_wall_is_this() -> None:
    assert options(PLAN, SETTINGS) == {
        "Image": "sha256:1",
        "Entrypoint": ["/codeagent/bin/python3", "-m", "guest", "{}"],
        "Cmd": [],
        "WorkingDir": "/",
        "User": "0:0",
        "Hostname": "codeagent",
        "NetworkDisabled": False,
        "Labels": {"codeagent.role": "reader"},
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "AutoRemove": True,
            "Init": False,
            "Privileged": False,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "CapAdd": ["SETUID", "SETGID"],
            "SecurityOpt": ["no-new-privileges"],
            "NetworkMode": "none",
            "ExtraHosts": ["codeagent:127.0.0.1"],
            "Dns": ["127.0.0.1"],
            "DnsSearch": ["."],
            "CgroupnsMode": "private",
            "IpcMode": "private",
            "Memory": 1 << 30,
            "MemorySwap": 1 << 30,
            "NanoCpus": 1_500_000_000,
            "PidsLimit": 100,
            "ShmSize": 64 << 20,
            "LogConfig": {"Type": "none"},
            "Sysctls": {"net.ipv6.conf.all.disable_ipv6": "0", "net.ipv6.conf.lo.disable_ipv6": "0"},
            "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=1048576,nr_inodes=400000,mode=1777"},
            "Mounts": [
                {
                    "Type": "tmpfs",
                    "Target": "/data",
                    "ReadOnly": False,
                    "TmpfsOptions": {"SizeBytes": 16 << 20, "Mode": 0o1777},
                },
                {
                    "Type": "volume",
                    "Target": "/codeagent",
                    "ReadOnly": True,
                    "Source": "toolbox",
                    "VolumeOptions": {"NoCopy": True},
                },
                {
                    "Type": "bind",
                    "Target": "/workspace",
                    "ReadOnly": True,
                    "Source": "/home/me/project",
                    "BindOptions": {"NonRecursive": True, "Propagation": "private"},
                },
                {
                    "Type": "tmpfs",
                    "Target": "/workspace/.ssh",
                    "ReadOnly": True,
                    "TmpfsOptions": {"SizeBytes": 4096, "Mode": 0o555},
                },
            ],
        },
    }


def test_a_kernel_without_ipv6_gets_no_switch_for_it() -> None:
    assert options(replace(PLAN, without=frozenset({Dispensable.IPV6})), SETTINGS)["HostConfig"]["Sysctls"] == {}


def test_an_engine_that_refuses_a_resolver_without_a_network_is_given_none() -> None:
    host = options(replace(PLAN, without=frozenset({Dispensable.RESOLVER})), SETTINGS)["HostConfig"]
    assert (host["Dns"], host["DnsSearch"]) == ([], [])


def test_an_engine_that_knows_no_limit_of_inodes_still_limits_the_size() -> None:
    host = options(replace(PLAN, without=frozenset({Dispensable.INODES})), SETTINGS)["HostConfig"]
    assert host["Tmpfs"] == {TMP: f"rw,exec,nosuid,nodev,size={1 << 20},mode=1777"}


def test_nothing_of_the_hosts_environment_is_passed_on() -> None:
    assert "Env" not in options(PLAN, SETTINGS)
