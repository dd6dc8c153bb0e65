# SPDX-License-Identifier: Apache-2.0
"""The groups of a server's sessions, as the kernel shows them."""

import os
import re
from pathlib import Path

import pytest

CGROUP = Path("/sys/fs/cgroup")


def has_controller(name):
    if (CGROUP / "cgroup.controllers").exists():
        return name in (CGROUP / "cgroup.controllers").read_text().split()
    return (CGROUP / {"io": "blkio"}.get(name, name) / "cgroup.procs").exists()


def peak_can_be_reset():
    """memory.peak of v2 since Linux 6.12; v1 always could."""
    release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    return not (CGROUP / "cgroup.controllers").exists() or release >= (6, 12)


needs_cgroups = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(has_controller, ("memory", "cpu", "pids"))),
    reason="needs root and the cgroup controllers memory, cpu and pids",
)


def walls(session):
    return {w["wall"]: w for w in session.record["enforcement"]}


def tag_of(server):
    h = 0x811C9DC5
    for byte in str(server.runtime).encode():
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"session-{h:08x}-"


def groups_of(server):
    """The numbers of the server's groups in all trees."""
    found = set()
    for path, directories, _ in os.walk(CGROUP):
        if os.path.basename(path) == "agentsh":
            found |= {d for d in directories if d.startswith(tag_of(server))}
            directories[:] = []
    return found


def control_file(server, session, name):
    """Text of a file of the session's group, in whichever tree has it."""
    meta = dict(line.split("=") for line in (server.runtime / f"sessions/{session.id}.meta").read_text().split())
    for path, _, files in os.walk(CGROUP):
        if os.path.basename(path) == tag_of(server) + meta["group"] and name in files:
            return (Path(path) / name).read_text()
    return None


def hits(session, counter):
    return [e for e in session.history(type="resource_limit") if e["resource"]["counter"] == counter]


def narrow(server, session, **limits):
    return server.call("PATCH", session.path, {"resource_limits": limits})


def add_plain_policy(server):
    """Gives a server that has not started yet a policy `plain` without limits; every shipped one has some."""
    directory = server.dir / "policies"
    directory.mkdir(mode=0o755)
    file = directory / "plain.yaml"
    file.write_text("version: 1\nname: plain\ndefault: {files: allow, network: allow, commands: allow}\n")
    file.chmod(0o644)
    for path in (directory, file):
        os.chown(path, server.uid, server.uid)
    server.merge(server.config, {"policies": {"dir": str(directory)}})


def unlimited(new_server, config=None, uid=None):
    """A server whose default policy sets no limit."""
    server = new_server(start=False, config=config or {}, **({"uid": uid} if uid else {}))
    add_plain_policy(server)
    server.merge(server.config, {"policies": {"default": "plain"}})
    server.start()
    return server
