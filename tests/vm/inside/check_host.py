# SPDX-License-Identifier: Apache-2.0
"""Runs inside a guest: the guest is the host that it claims to be, else the other checks say nothing."""

import ctypes
import errno
import os
import platform
import subprocess
from pathlib import Path

import harness

GUEST = os.environ["AGENTSH_GUEST"]
CGROUP = Path("/sys/fs/cgroup")
SERVICE = CGROUP / "agentsh.service"
CONTROLLERS = {"memory", "pids", "io", "cpu"}
SYS_LANDLOCK_CREATE_RULESET = 444
LANDLOCK_CREATE_RULESET_VERSION = 1

libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi():
    return libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)


def kernel_version():
    return tuple(int(n) for n in platform.release().split("-")[0].split("+")[0].split(".")[:2])


def test_dep_2_kernel_and_landlock():
    if GUEST == "debian-backports":
        assert kernel_version() > (6, 1)
        assert landlock_abi() >= 4
    else:
        assert kernel_version() == (6, 1)
        assert landlock_abi() == 2


def test_sbx_4_cgroup_v2_controllers():
    assert set((CGROUP / "cgroup.controllers").read_text().split()) >= CONTROLLERS
    assert set((SERVICE / "cgroup.controllers").read_text().split()) == CONTROLLERS
    assert Path("/proc/self/cgroup").read_text() == "0::/agentsh.service/main\n"
    for controller in ("cpu", "memory", "pids", "blkio"):
        assert not (CGROUP / controller).exists(), "a version 1 hierarchy"


def test_sbx_4_limits_can_be_set():
    """The controllers take each limit, and pids.max holds: what the kernel itself offers here."""
    child = SERVICE / "child"
    (SERVICE / "cgroup.subtree_control").write_text("+memory +pids +io +cpu")
    child.mkdir()
    try:
        disk = os.stat("/").st_dev
        values = {
            "memory.max": str(64 << 20),
            "memory.swap.max": "0",
            "pids.max": "3",
            "cpu.max": "50000 100000",
            "io.max": f"{os.major(disk)}:{os.minor(disk)} rbps=1048576 wbps=1048576 riops=max wiops=max",
        }
        for name, value in values.items():
            (child / name).write_text(value)
            assert (child / name).read_text().strip() == value
        r = subprocess.run(
            ["sh", "-c", f"echo 0 > {child}/cgroup.procs; sleep 1 & sleep 1 & sleep 1 & wait"],
            capture_output=True,
            timeout=60,
        )
        assert b"fork" in r.stderr.lower() or b"Resource temporarily unavailable" in r.stderr, r
        assert "max 0" not in (child / "pids.events").read_text()
    finally:
        (child / "cgroup.kill").write_text("1")
        harness.wait_for(lambda: "populated 0" in (child / "cgroup.events").read_text(), "the group is empty")
        child.rmdir()


def test_dep_2_user_namespaces():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.unshare(0x10000000) == 0 else ctypes.get_errno())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == (errno.ENOSPC if GUEST == "no-userns" else 0)


def test_dep_2_fuse():
    assert os.path.exists("/dev/fuse") == (GUEST != "no-fuse")
    assert ("fuse" in Path("/proc/filesystems").read_text()) == (GUEST != "no-fuse")
