# SPDX-License-Identifier: Apache-2.0
"""Runs inside a guest: limits of a living session on a host with the unified hierarchy, by servers of root and of uid 1000."""

import os
import subprocess
from pathlib import Path

import harness
import pytest
from cgroups import add_plain_policy

CGROUP = Path("/sys/fs/cgroup")
MB = 1 << 20
FORKS = """
import os, signal
n = 0
try:
    while n < 40:
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
        n += 1
except BlockingIOError:
    pass
print(n)
"""
EATER = "x = bytearray(250 << 20); print(len(x) >> 20)"
HOLDER = "import time; x = bytearray(200 << 20); open('held', 'w').close(); time.sleep(600)"


SERVICE = CGROUP / "delegated.service"
UIDS = {"root": 0, "user": harness.USER_UID}


def make_group(path, uid):
    path.mkdir()
    for part in (path, path / "cgroup.procs", path / "cgroup.subtree_control"):
        os.chown(part, uid, uid)


def remove_groups(top):
    for path in sorted(top.glob("**/"), reverse=True):
        path.rmdir()


def start_in(server, group):
    """Starts a server as a service manager does: it is in the group before it looks."""
    gate = server.dir / "gate"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate, 0o644)
    server.command = ["sh", "-c", f'read go <{gate}; exec "$@"', "sh"]
    server.start(wait=False)
    (group / "cgroup.procs").write_text(str(server.pid))
    gate.write_text("\n")
    server.wait_ready()


@pytest.fixture(scope="module", params=UIDS)
def server(request):
    """Alone in a group that was given to it, as with Delegate=yes."""
    s = harness.Server(uid=UIDS[request.param], config={"sandbox": {"pool_size": 0}})
    add_plain_policy(s)
    make_group(SERVICE, s.uid)
    try:
        start_in(s, SERVICE)
        yield s
        s.stop()
        s.check_log()
        assert not sessions_groups()
    finally:
        s.cleanup()
        remove_groups(SERVICE)


def sessions_groups():
    return list(SERVICE.glob("agentsh/session-*"))


def group_of(session):
    """The directory of the session's group: by what the kernel says of its init."""
    meta = (session.server.runtime / f"sessions/{session.id}.meta").read_text().split()
    pid = dict(line.split("=") for line in meta)["init_pid"]
    return CGROUP / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")


def limits(session):
    names = ("pids.max", "memory.max", "memory.swap.max", "cpu.max")
    return [(group_of(session) / name).read_text().strip() for name in names]


def narrow(session, **wanted):
    return session.server.call("PATCH", session.path, {"resource_limits": wanted})


def walls(record):
    return {w["wall"]: w for w in record["enforcement"]}


def forks(session):
    return session.exec("python3", "-c", FORKS, timeout="60s")["result"]


def test_ses_5_narrower_limits_hold_at_once(server):
    s = server.session(resource_limits={"pids_max": 60, "max_memory_mb": 400, "max_cpu_percent": 150})
    assert limits(s) == ["60", str(400 * MB), "0", "150000 100000"]
    assert forks(s)["stdout"] == "40\n"
    a = narrow(s, pids_max=20, max_memory_mb=160, max_cpu_percent=90)
    assert a.status == 200, a.body
    assert limits(s) == ["20", str(160 * MB), "0", "90000 100000"]
    for name, text in (("pids_limit", "20 proc"), ("memory_limit", "160 MB"), ("cpu_limit", "90 %")):
        wall = walls(a.json)[name]
        assert wall["state"] == "up" and text in wall["detail"], wall
    assert "max 0" in (group_of(s) / "pids.events").read_text().splitlines()
    r = forks(s)
    assert 3 < int(r["stdout"]) < 20 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    assert "max 0" not in (group_of(s) / "pids.events").read_text().splitlines()
    r = s.exec("python3", "-c", EATER, timeout="60s")["result"]
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r
    counters = {e["resource"]["counter"] for e in s.history(type="resource_limit")}
    assert {"failed_forks", "oom_kills"} <= counters
    # neither the session nor a new server widens them
    a = narrow(s, pids_max=21)
    assert a.status == 200 and "resource_limits.pids_max" in a.json["capped"], a.body
    assert limits(s) == ["20", str(160 * MB), "0", "90000 100000"]
    s.destroy()
    harness.wait_for(lambda: not sessions_groups(), "the group goes with its session")


def test_ses_5_memory_in_use_is_not_taken_away(server):
    s = server.session(resource_limits={"pids_max": 60, "max_memory_mb": 400})
    s.exec("python3", "-c", HOLDER, detach=True, status=202)
    harness.wait_for(lambda: (s.workspace / "held").exists(), "the memory is held")
    a = narrow(s, max_memory_mb=100, pids_max=50)
    assert (a.status, a.code, a.json["error"]["subject"]) == (409, "E_CONFLICT", "memory_limit"), a.body
    assert limits(s)[:2] == ["60", str(400 * MB)]
    s.destroy()


def test_ses_5_disk_bandwidth(server):
    s = server.session(resource_limits={"io_write_bps_max": 9 * MB})
    assert f"wbps={9 * MB}" in (group_of(s) / "io.max").read_text()
    a = narrow(s, io_write_bps_max=5 * MB, io_read_bps_max=6 * MB)
    assert a.status == 200 and walls(a.json)["io_limit"]["state"] == "up", a.body
    assert f"rbps={6 * MB} wbps={5 * MB}" in (group_of(s) / "io.max").read_text()
    s.destroy()


def test_sbx_4_a_shipped_policy_limits_processes_and_memory(server):
    s = server.session()
    pids, memory = limits(s)[:2]
    whole = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert pids == "4096" and 0.74 * whole < int(memory) < 0.76 * whole
    s.destroy()


def test_ses_5_one_without_limits_can_have_them_later(server):
    """Made on the spot, for there is no pool: it was born in a group of its own."""
    s = server.session(policy="plain")
    assert group_of(s).name.startswith("session-")
    assert limits(s) == ["max", "max", "max", "max 100000"]
    assert walls(s.record)["pids_limit"]["state"] == "absent"
    # the warden is in it, as are init and its leaders
    wardens = [p for p in server.warden_pids() if f"{group_of(s).name}\n" in Path(f"/proc/{p}/cgroup").read_text()]
    assert len(wardens) == 1
    assert s.out("cat /proc/self/cgroup") == "0::/\n"
    assert forks(s)["stdout"] == "40\n"
    a = narrow(s, pids_max=25)
    assert a.status == 200 and walls(a.json)["pids_limit"]["state"] == "up", a.body
    assert limits(s)[0] == "25"
    r = forks(s)
    assert int(r["stdout"]) < 25 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    s.destroy()
    harness.wait_for(lambda: not sessions_groups(), "the group goes with its session")


def test_ses_8_narrower_limits_survive_the_server(server):
    s = server.session(resource_limits={"pids_max": 60})
    assert narrow(s, pids_max=30).status == 200
    server.process.kill()
    server.process.wait()
    start_in(server, SERVICE / "agentsh-server")  # where the first one went
    assert "30 proc" in walls(s.get())["pids_limit"]["detail"]
    assert "resource_limits.pids_max" in narrow(s, pids_max=40).json["capped"]
    assert narrow(s, pids_max=29).status == 200
    assert limits(s)[0] == "29"
    s.destroy()


@pytest.mark.parametrize("kind", UIDS)
def test_sbx_4_not_alone_in_its_group(kind):
    """As with DelegateSubgroup=, or in a user's scope: the group above is used, and the own one stays what it is."""
    s = harness.Server(uid=UIDS[kind])
    service = CGROUP / "crowded.service"
    own = service / "main"
    make_group(service, s.uid)
    make_group(own, s.uid)
    other = subprocess.Popen(["sleep", "1000"])
    try:
        (own / "cgroup.procs").write_text(str(other.pid))
        start_in(s, own)
        session = s.session(resource_limits={"pids_max": 60, "max_memory_mb": 400, "max_cpu_percent": 150})
        assert group_of(session).parent == service / "agentsh"
        assert limits(session) == ["60", str(400 * MB), "0", "150000 100000"]
        assert (own / "cgroup.type").read_text() == "domain\n"
        assert (own / "cgroup.subtree_control").read_text() == ""
        s.stop()
        s.check_log()
    finally:
        s.cleanup()
        other.kill()
        other.wait()
        remove_groups(service)
