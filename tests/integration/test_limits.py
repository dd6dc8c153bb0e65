# SPDX-License-Identifier: Apache-2.0
"""Limits of a session: memory, CPU, processes, disk bandwidth, space; and the cgroups that hold them."""

import contextlib
import json
import os
import re
import signal
from pathlib import Path

import pytest
from harness import USER_UID, Session, alive, wait_for

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


@needs_cgroups
def test_sbx_4_a_memory_bomb_is_ended_and_named(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160})
    assert walls(s)["memory_limit"]["state"] in ("up", "partial"), walls(s)["memory_limit"]
    assert "160 MB" in walls(s)["memory_limit"]["detail"]
    a = s.exec("python3", "-c", "x = bytearray(600 << 20); print(len(x))", timeout="30s")
    r = a["result"]
    assert (r["exit_code"], r["signal"]) == (137, "KILL"), r
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r["error"]
    (event,) = hits(s, "oom_kills")
    assert event["command_id"] == a["command_id"] and event["resource"] == {
        "limit": "memory_limit",
        "counter": "oom_kills",
        "value": 1,
    }
    # the session lives on, and the next command has no part in it
    r = s.exec("echo", "alive")["result"]
    assert r["stdout"] == "alive\n" and r["error"] is None
    s.destroy()


@needs_cgroups
def test_sbx_4_a_child_that_runs_out_of_memory_is_told_of(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160})
    r = s.script("python3 -c 'x = bytearray(600 << 20)'; echo $?", timeout="30s")["result"]
    assert r["exit_code"] == 0 and r["stdout"].strip().endswith("137"), r
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and r["signal"] is None
    s.destroy()


@needs_cgroups
def test_sbx_4_scratch_files_cannot_take_all_memory(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160})
    assert "/tmp and home count" in walls(s)["memory_limit"]["detail"], walls(s)["memory_limit"]
    assert walls(s)["disk_limit"]["detail"].startswith("80 MB for /tmp"), walls(s)["disk_limit"]
    for place in ("/tmp", "/dev/shm", "~"):
        r = s.script(f"dd if=/dev/zero of={place}/x bs=1M count=200", timeout="30s")["result"]
        assert r["exit_code"] == 1 and "No space left" in r["stderr"] and r["error"] is None, r
        assert s.out(f"rm {place}/x; echo alive") == "alive\n"
    # with all of it in use, what needs too much is ended, and only that
    s.script("dd if=/dev/zero of=/tmp/x bs=1M count=200", timeout="30s")
    r = s.exec("python3", "-c", "x = bytearray(600 << 20)", timeout="30s")["result"]
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r
    assert s.out("echo alive") == "alive\n" and s.get()["state"] == "ready"
    s.destroy()


@needs_cgroups
def test_sbx_4_space_that_was_asked_for_stays_if_it_is_smaller(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160, "max_disk_mb": 8})
    assert walls(s)["disk_limit"]["detail"].startswith("8 MB for /tmp"), walls(s)["disk_limit"]
    s.destroy()


def score_of(pid):
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def processes_with(argument):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def above(pid):
    """Its parent and so on."""
    parents = []
    while pid > 1:
        pid = int(re.search(r"PPid:\t(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
        parents.append(pid)
    return parents


def test_sbx_4_out_of_memory_a_command_goes_first(server):
    s = server.session()
    r = s.script("echo 0 >/proc/self/oom_score_adj")["result"]
    assert r["exit_code"] != 0, r
    s.exec("sh", "-c", f"python3 -c 'import time; time.sleep(60)' of-{s.id}; true", detach=True, status=202)
    (command,) = wait_for(lambda: processes_with(f"of-{s.id}"), "the command runs")
    shell, leader, init, warden = above(command)[:4]
    assert [score_of(pid) for pid in (command, shell, leader)] == [1000] * 3
    own = score_of(server.process.pid)
    assert warden in server.warden_pids() and score_of(init) == score_of(warden) == own < 1000
    s.destroy()


@needs_cgroups
def test_sbx_4_a_warden_that_runs_out_of_memory_is_named(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session(resource_limits={"max_memory_mb": 160})
    s.exec("python3", "-c", "x = bytearray(600 << 20)", timeout="30s")
    eater = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nx = bytearray(600 << 20)"
    a = s.exec("python3", "-c", eater, f"of-{s.id}", detach=True, status=202)
    (pid,) = wait_for(lambda: processes_with(f"of-{s.id}"), "the command runs")
    # the other way round than it is: the warden goes first
    (warden,) = server.warden_pids()
    for one, score in ((pid, "0"), (above(pid)[0], "0"), (warden, "1000")):
        Path(f"/proc/{one}/oom_score_adj").write_text(score)
    (s.workspace / "go").touch()
    wait_for(lambda: s.get()["state"] == "failed", "the session has failed")
    assert s.get()["failure"] == "out of memory (memory_limit): the kernel killed the session's warden", s.get()
    first, last = hits(s, "oom_kills")
    assert first["resource"]["value"] == 1 and last["command_id"] == a["command_id"]
    assert last["resource"]["value"] > 1 and last["resource"]["limit"] == "memory_limit", last


@needs_cgroups
def test_sbx_4_a_warden_that_is_killed_otherwise_is_not_out_of_memory(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session(resource_limits={"max_memory_mb": 160})
    s.exec("python3", "-c", "x = bytearray(600 << 20)", timeout="30s")
    os.kill(server.warden_pids()[0], signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session has failed")
    assert s.get()["failure"] == "the warden was killed by signal KILL (9)", s.get()
    assert len(hits(s, "oom_kills")) == 1


@needs_cgroups
def test_sbx_4_a_fork_bomb_is_bounded(root_server):
    s = root_server.session(resource_limits={"pids_max": 30})
    assert walls(s)["pids_limit"]["state"] == "up"
    bomb = (
        "import os, signal\n"
        "n = 0\n"
        "try:\n"
        "    while n < 200:\n"
        "        if os.fork() == 0:\n"
        "            signal.pause()\n"
        "            os._exit(0)\n"
        "        n += 1\n"
        "except BlockingIOError:\n"
        "    pass\n"
        "print(n)\n"
    )
    a = s.exec("python3", "-c", bomb, timeout="20s")
    r = a["result"]
    assert 5 < int(r["stdout"]) < 30, r
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "1 fork failed" in r["error"]["message"], r["error"]
    (event,) = hits(s, "failed_forks")
    assert event["resource"]["limit"] == "pids_limit" and event["command_id"] == a["command_id"]
    # what it left is gone
    assert s.out("echo again", timeout="20s") == "again\n"
    s.destroy()


@needs_cgroups
def test_sbx_4_a_shell_bomb_ends_with_its_time(root_server):
    s = root_server.session(resource_limits={"pids_max": 40, "max_cpu_percent": 50})
    r = s.script("b() { b | b & }; b; sleep 30", timeout="2s")["result"]
    assert r["error"]["code"] in ("E_COMMAND_TIMEOUT", "E_RESOURCE_LIMIT"), r["error"]
    assert hits(s, "failed_forks")
    assert s.out("echo alive", timeout="20s") == "alive\n"
    s.destroy()


@needs_cgroups
def test_sbx_4_a_cpu_quota_holds_and_is_told(root_server):
    s = root_server.session(resource_limits={"max_cpu_percent": 20})
    assert walls(s)["cpu_limit"]["state"] == "up" and "20 %" in walls(s)["cpu_limit"]["detail"]
    a = s.exec("timeout", "2", "sh", "-c", "while :; do :; done", timeout="30s")
    assert a["resources"]["cpu_time_ms"] < 1200, a["resources"]
    # the session's own start may have been throttled, too
    event = hits(s, "throttled_periods")[-1]
    assert (
        event["command_id"] == a["command_id"]
        and event["resource"]["limit"] == "cpu_limit"
        and event["resource"]["value"] >= 5
    )
    assert a["result"]["error"] is None  # slower is no failure
    s.destroy()


@needs_cgroups
def test_sbx_4_disk_bandwidth_is_named_for_what_it_is(root_server):
    a = root_server.post(
        "/api/v1/sessions",
        {
            "workspace": str(root_server.workspace()),
            "resource_limits": {"io_write_bps_max": 1 << 20, "io_read_bps_max": 1 << 20},
        },
    )
    if a.status == 503:  # the workspace lies on no disk of its own
        assert a.json["error"]["subject"] == "io_limit"
        return
    wall = next(w for w in a.json["enforcement"] if w["wall"] == "io_limit")
    if (CGROUP / "cgroup.controllers").exists():
        assert wall["state"] == "up", wall
    else:
        assert wall["state"] == "partial" and "direct I/O only" in wall["detail"]
    root_server.call("DELETE", f"/api/v1/sessions/{a.json['id']}")


def test_sbx_4_scratch_space_is_bounded(server):
    s = server.session(resource_limits={"max_disk_mb": 8})
    wall = walls(s)["disk_limit"]
    assert wall["state"] == "partial" and "8 MB" in wall["detail"] and "workspace" in wall["detail"]
    r = s.script("head -c 6000000 /dev/zero >/tmp/a && head -c 6000000 /dev/zero >~/b")["result"]
    assert r["exit_code"] != 0 and "No space left" in r["stderr"], r
    assert s.out("rm -f /tmp/a ~/b; head -c 6000000 /dev/zero >/tmp/a; wc -c </tmp/a").strip() == "6000000"
    s.destroy()


def test_sbx_4_no_traffic_leaves_a_session(server):
    s = server.session(resource_limits={"max_network_mb": 5})
    assert walls(s)["network_limit"]["state"] == "up" and "loopback" in walls(s)["network_limit"]["detail"]
    s.destroy()


@needs_cgroups
def test_sbx_4_a_wish_is_capped_by_the_servers_limits(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_memory_mb": 256, "pids_max": 50}}})
    s = server.session(resource_limits={"max_memory_mb": 4096, "pids_max": 40})
    limits = s.record["config"]["resource_limits"]
    assert (limits["max_memory_mb"], limits["pids_max"]) == (256, 40)
    assert "256 MB" in walls(s)["memory_limit"]["detail"] and "40 " in walls(s)["pids_limit"]["detail"]
    assert control_file(server, s, "pids.max") == "40\n"
    plain = server.session()
    assert "256 MB" in walls(plain)["memory_limit"]["detail"] and "50 " in walls(plain)["pids_limit"]["detail"]


def test_sbx_4_a_limit_that_cannot_be_had_is_refused_by_name(new_server):
    server = new_server(uid=USER_UID)
    body = {"workspace": str(server.workspace()), "resource_limits": {"max_memory_mb": 64}}
    a = server.post("/api/v1/sessions", body)
    if a.status == 201:
        pytest.skip("a cgroup is delegated to the user")
    assert a.status == 503 and a.code == "E_ENFORCEMENT", a.body
    assert a.json["error"]["subject"] == "memory_limit" and "allow_unenforced" in a.json["error"]["message"]
    # nothing is left of it
    assert server.get("/api/v1/sessions").json["sessions"] == []


def test_sbx_4_a_limit_may_be_missing_where_the_configuration_says_so(new_server):
    server = new_server(uid=USER_UID, config={"sandbox": {"allow_unenforced": ["memory_limit"]}})
    s = server.session(resource_limits={"max_memory_mb": 512})
    if walls(s)["memory_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    assert walls(s)["memory_limit"]["state"] == "unavailable"
    assert walls(s)["pids_limit"]["state"] == "absent"


def test_sbx_4_the_servers_own_limit_may_be_missing(new_server):
    server = new_server(uid=USER_UID, config={"sandbox": {"resource_limits": {"pids_max": 60}}})
    s = server.session()
    if walls(s)["pids_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    assert walls(s)["pids_limit"]["state"] == "unavailable" and walls(s)["pids_limit"]["detail"]


# --- narrower while it lives ---


def capped(a, field, value):
    """What would be wider stays, and is shown."""
    assert a.status == 200, a.body
    assert a.json["config"]["resource_limits"][field] == value
    assert f"resource_limits.{field}" in a.json["capped"]


def narrow(server, session, **limits):
    return server.call("PATCH", session.path, {"resource_limits": limits})


def entries(answer):
    return {w["wall"]: w for w in answer.json["enforcement"]}


FORKS = """
import os, signal
n = 0
try:
    while n < 60:
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
        n += 1
except BlockingIOError:
    pass
print(n)
"""


@needs_cgroups
def test_ses_5_a_narrower_pids_limit_holds_at_once(root_server):
    s = root_server.session(resource_limits={"pids_max": 100})
    assert s.exec("python3", "-c", FORKS, timeout="20s")["result"]["stdout"] == "60\n"
    a = narrow(root_server, s, pids_max=20)
    assert a.status == 200, a.body
    assert a.json["config"]["resource_limits"]["pids_max"] == 20
    assert "20 processes" in entries(a)["pids_limit"]["detail"]
    assert control_file(root_server, s, "pids.max") == "20\n"
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert 3 < int(r["stdout"]) < 20 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    # the record and the group are the same afterwards, and neither widens
    assert "20 processes" in {w["wall"]: w for w in s.get()["enforcement"]}["pids_limit"]["detail"]
    capped(narrow(root_server, s, pids_max=21), "pids_max", 20)
    assert control_file(root_server, s, "pids.max") == "20\n"
    s.destroy()


@needs_cgroups
def test_ses_5_a_limit_that_was_not_there_is_told_when_it_is_hit(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 400})
    assert walls(s)["pids_limit"]["state"] == "absent"
    a = narrow(root_server, s, pids_max=25)
    assert a.status == 200 and entries(a)["pids_limit"]["state"] == "up", a.body
    assert "400 MB" in entries(a)["memory_limit"]["detail"]
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert int(r["stdout"]) < 25 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    assert hits(s, "failed_forks")
    s.destroy()


@needs_cgroups
def test_ses_5_one_from_the_pool_has_a_group_for_later(new_server):
    server = new_server()
    wait_for(lambda: len(server.waiting_pids()) == 2, "two sandboxes are prepared")
    s = server.session()
    assert walls(s)["pids_limit"]["state"] == "absent"
    a = narrow(server, s, pids_max=25)
    assert a.status == 200 and entries(a)["pids_limit"]["state"] == "up", a.body
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert int(r["stdout"]) < 25 and r["error"]["code"] == "E_RESOURCE_LIMIT", r


@needs_cgroups
def test_ses_5_narrower_memory_ends_what_needs_more(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 600})
    eater = "x = bytearray(250 << 20); print(len(x) >> 20)"
    assert s.exec("python3", "-c", eater, timeout="30s")["result"]["stdout"] == "250\n"
    a = narrow(root_server, s, max_memory_mb=160)
    assert a.status == 200 and "160 MB" in entries(a)["memory_limit"]["detail"], a.body
    r = s.exec("python3", "-c", eater, timeout="30s")["result"]
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r
    s.destroy()


@needs_cgroups
def test_ses_5_narrower_memory_leaves_less_for_scratch_files(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 400})
    assert s.out("df -m --output=size /tmp").split()[-1] == "200"
    a = narrow(root_server, s, max_memory_mb=300)
    assert entries(a)["disk_limit"]["detail"].startswith("150 MB"), a.body
    assert "/tmp and home count" in entries(a)["memory_limit"]["detail"], a.body
    assert s.out("df -m --output=size /tmp").split()[-1] == "150"
    # not below what is there
    s.script("head -c 100500000 /dev/zero >/tmp/a")
    a = narrow(root_server, s, max_memory_mb=180)
    assert a.status == 200 and entries(a)["disk_limit"]["detail"].startswith("96 MB"), a.body
    assert s.out("wc -c </tmp/a; df -m --output=size /tmp").split() == ["100500000", "1M-blocks", "96"]
    r = s.script("dd if=/dev/zero of=/tmp/b bs=1M count=200")["result"]
    assert r["exit_code"] == 1 and "No space left" in r["stderr"], r
    # nor is anything widened
    a = narrow(root_server, s, max_memory_mb=179, max_disk_mb=97)
    assert a.status == 400 and "is 96" in a.json["error"]["message"], a.body
    s.destroy()


@needs_cgroups
def test_ses_5_memory_that_is_in_use_is_not_taken_away(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 600, "pids_max": 100})
    holder = "import time; x = bytearray(200 << 20); open('held', 'w').close(); time.sleep(60)"
    s.exec("python3", "-c", holder, detach=True, status=202)
    wait_for(lambda: (s.workspace / "held").exists(), "the memory is held")
    before = {f: control_file(root_server, s, f) for f in ("memory.limit_in_bytes", "memory.max", "pids.max")}
    a = narrow(root_server, s, max_memory_mb=50, pids_max=50)
    assert (a.status, a.code) == (409, "E_CONFLICT"), a.body
    assert a.json["error"]["subject"] == "memory_limit" and "MB are in use" in a.json["error"]["message"]
    assert {f: control_file(root_server, s, f) for f in before} == before
    assert s.get()["config"]["resource_limits"]["pids_max"] == 100
    assert s.get()["config"]["resource_limits"]["max_memory_mb"] == 600
    s.destroy()


@needs_cgroups
def test_ses_5_a_narrower_cpu_limit_is_in_the_group(root_server):
    s = root_server.session(resource_limits={"max_cpu_percent": 80})
    a = narrow(root_server, s, max_cpu_percent=30)
    assert a.status == 200 and "30 %" in entries(a)["cpu_limit"]["detail"], a.body
    v1, v2 = (control_file(root_server, s, name) for name in ("cpu.cfs_quota_us", "cpu.max"))
    assert v1 == "30000\n" or v2 == "30000 100000\n"
    s.destroy()


@needs_cgroups
def test_ses_5_narrower_disk_bandwidth_is_in_the_group(root_server):
    wish = {
        "workspace": str(root_server.workspace()),
        "resource_limits": {"io_write_bps_max": 9 << 20, "pids_max": 90},
    }
    made = root_server.post("/api/v1/sessions", wish)
    if made.status == 503:  # the workspace lies on no disk of its own
        assert made.json["error"]["subject"] == "io_limit"
        return
    s = Session(root_server, made.json)
    a = narrow(root_server, s, io_write_bps_max=5 << 20, io_read_bps_max=6 << 20)
    assert a.status == 200 and entries(a)["io_limit"]["state"] in ("up", "partial"), a.body
    v1, v2 = (control_file(root_server, s, name) for name in ("blkio.throttle.write_bps_device", "io.max"))
    assert (v1 and v1.split()[1] == str(5 << 20)) or (v2 and f"rbps={6 << 20} wbps={5 << 20}" in v2), (v1, v2)
    capped(narrow(root_server, s, io_write_bps_max=6 << 20), "io_write_bps_max", 5 << 20)
    s.destroy()


@needs_cgroups
def test_ses_5_narrower_limits_survive_the_server(new_server):
    server = new_server()
    s = server.session(resource_limits={"pids_max": 60})
    assert narrow(server, s, pids_max=30).status == 200
    server.process.kill()
    server.process.wait()
    server.start()
    assert "30 processes" in {w["wall"]: w for w in s.get()["enforcement"]}["pids_limit"]["detail"]
    capped(narrow(server, s, pids_max=40), "pids_max", 30)
    assert narrow(server, s, pids_max=29).status == 200
    assert control_file(server, s, "pids.max") == "29\n"


@needs_cgroups
def test_ses_5_a_refused_limit_leaves_the_directory(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 300, "max_disk_mb": 20})
    assert s.out("head -c 10000000 /dev/zero >/tmp/a; wc -c </tmp/a").strip() == "10000000"
    a = root_server.call(
        "PATCH", s.path, {"working_dir": "/tmp", "resource_limits": {"max_disk_mb": 5, "max_memory_mb": 200}}
    )
    assert (a.status, a.code) == (409, "E_CONFLICT"), a.body
    assert a.json["error"]["subject"] == "disk_limit" and "10 MB are in use" in a.json["error"]["message"], a.body
    assert s.get()["working_dir"] == "/workspace" and s.out("pwd") == "/workspace\n"
    assert "300 MB" in {w["wall"]: w for w in s.get()["enforcement"]}["memory_limit"]["detail"]
    s.destroy()


def test_ses_5_narrower_scratch_space(root_server):
    s = root_server.session(resource_limits={"max_disk_mb": 30})
    a = narrow(root_server, s, max_disk_mb=8)
    assert a.status == 200 and "8 MB" in entries(a)["disk_limit"]["detail"], a.body
    r = s.script("head -c 12000000 /dev/zero >/tmp/a")["result"]
    assert r["exit_code"] != 0 and "No space left" in r["stderr"], r
    capped(narrow(root_server, s, max_disk_mb=9), "max_disk_mb", 8)
    s.destroy()


def test_ses_5_what_cannot_be_held_is_not_promised(new_server):
    server = new_server(uid=USER_UID)
    s = server.session()
    if walls(s)["pids_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    a = narrow(server, s, pids_max=20)
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    assert a.json["error"]["subject"] == "pids_limit", a.body
    assert s.get()["config"]["resource_limits"]["pids_max"] is None
    a = narrow(server, s, max_disk_mb=5)
    assert (a.status, a.code) == (503, "E_ENFORCEMENT") and a.json["error"]["subject"] == "disk_limit", a.body
    # what is no wall of the kernel is taken
    assert server.call("PATCH", s.path, {"resource_limits": {"command_timeout": "9s"}}).status == 200


# --- what a command used ---

BURN = """
import os, signal, time
def burn(seconds):
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass
    os._exit(0)
"""


def test_exe_1_a_daemon_is_counted_to_its_command(server):
    s = server.session()
    twice = (
        BURN
        + "if os.fork() == 0:\n    os.setsid()\n    os.fork() or burn(20)\n    os._exit(0)\nos.wait()\ntime.sleep(0.5)"
    )
    a = s.exec("python3", "-c", twice, timeout="30s")
    assert a["result"]["background"], a["result"]
    assert a["resources"]["cpu_time_ms"] > 100, a["resources"]
    s.destroy()


@needs_cgroups
def test_exe_1_nobody_needs_to_wait_for_a_process_to_be_counted(root_server):
    s = root_server.session(resource_limits={"pids_max": 100})
    alone = (
        BURN
        + "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.fork() or burn(0.3)\ntry:\n    os.wait()\nexcept OSError:\n    pass"
    )
    a = s.exec("python3", "-c", alone, timeout="30s")
    assert 280 < a["resources"]["cpu_time_ms"] < 2000, a["resources"]
    # the next one has only its own
    assert s.exec("sleep", "0.1")["resources"]["cpu_time_ms"] < 150
    s.destroy()


@needs_cgroups
def test_exe_1_memory_of_several_processes_is_added(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 600})
    four = (
        "import os, time\n"
        "for i in range(4):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(50 << 20)\n"
        "        time.sleep(1)\n"
        "        os._exit(0)\n"
        "for i in range(4):\n"
        "    os.wait()\n"
    )
    a = s.exec("python3", "-c", four, timeout="30s")
    low = 190 if peak_can_be_reset() else 50  # else it is that of the largest process
    assert low < a["resources"]["memory_peak_mb"] < 400, a["resources"]
    # pages of files that stay in the cache are nobody's
    a = s.script("head -c 100000000 /dev/zero >big; sleep 0.05", timeout="30s")
    assert a["resources"]["memory_peak_mb"] < 60, a["resources"]
    assert s.exec("sleep", "0.1")["resources"]["memory_peak_mb"] < 30
    s.destroy()


# --- the cgroups themselves ---


@needs_cgroups
def test_sbx_4_a_session_without_limits_has_a_group_where_it_can_be_born_there(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session()
    born = 1 if (CGROUP / "cgroup.controllers").exists() else 0  # with v1 it would have to move
    assert len(groups_of(server)) == born
    assert walls(s)["memory_limit"]["state"] == "absent"
    a = narrow(server, s, pids_max=25)
    assert (a.status, a.json.get("error", {}).get("subject")) == (
        (200, None) if born else (503, "pids_limit")
    ), a.body
    t = server.session(resource_limits={"pids_max": 50})
    assert len(groups_of(server)) == born + 1
    t.destroy()
    s.destroy()
    wait_for(lambda: not groups_of(server), "the groups go with their sessions")


@needs_cgroups
def test_sbx_4_nothing_is_left_when_the_server_ends(new_server):
    server = new_server()
    wait_for(lambda: len(groups_of(server)) == 2, "two sandboxes are prepared")
    server.session(resource_limits={"pids_max": 50})
    wait_for(lambda: len(groups_of(server)) == 3, "a new one is prepared")
    stubs = wait_for(lambda: len(server.waiting_pids()) == 2 and server.waiting_pids(), "both are ready")
    server.stop()
    assert groups_of(server) == set()
    assert not any(map(alive, stubs))


@needs_cgroups
def test_sbx_4_a_killed_warden_leaves_no_group(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session(resource_limits={"pids_max": 50})
    s.exec("sleep", "60", detach=True, status=202)
    assert len(groups_of(server)) == 1
    for pid in server.warden_pids():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session has failed")
    wait_for(lambda: not groups_of(server), "its group is gone")


@needs_cgroups
def test_ses_8_a_new_launcher_takes_the_groups_over(new_server):
    server = new_server()
    wait_for(lambda: len(groups_of(server)) == 2, "two sandboxes are prepared")
    s = server.session(resource_limits={"pids_max": 50})
    wait_for(lambda: len(groups_of(server)) == 3, "a new one is prepared")
    stubs = wait_for(lambda: len(server.waiting_pids()) == 2 and server.waiting_pids(), "both are ready")
    server.process.kill()
    server.process.wait()
    wait_for(lambda: not any(map(alive, stubs)), "prepared sandboxes die with their launcher")
    server.start()
    assert s.out("echo same") == "same\n"
    assert control_file(server, s, "pids.max") == "50\n"
    wait_for(lambda: len(groups_of(server)) == 3, "old ones are swept, new ones are prepared")
    s.destroy()
    wait_for(lambda: len(groups_of(server)) == 2, "the session's group goes with it")
    server.stop()
    assert groups_of(server) == set()


@needs_cgroups
def test_ses_8_groups_that_other_servers_left_are_removed(new_server):
    name = f"agentsh-left-{os.getpid()}"
    other = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
    try:
        living = other.session(resource_limits={"pids_max": 50})
        kept = groups_of(other)
        assert len(kept) == 1
        # what a server left that was killed with its sessions: nobody is in it
        trees = [Path(p) for p, _, _ in os.walk(CGROUP) if p.endswith(f"/{name}/agentsh")]
        for tree in trees:
            (tree / "session-0badcafe-12").mkdir()
        server = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
        assert all((tree / "session-0badcafe-12").exists() for tree in trees)
        wait_for(lambda: not any((t / "session-0badcafe-12").exists() for t in trees), "the empty groups are gone")
        assert groups_of(other) == kept and living.out("echo here") == "here\n"
        server.stop()
        living.destroy()
        other.stop()
    finally:
        for path, _, _ in list(os.walk(CGROUP, topdown=False)):
            if f"/{name}" in path:
                with contextlib.suppress(OSError):
                    os.rmdir(path)


@needs_cgroups
def test_sbx_4_sessions_without_end_use_the_pool_in_turn(new_server):
    server = new_server(config={"sandbox": {"pool_size": 3}})
    wait_for(lambda: len(groups_of(server)) == 3, "three sandboxes are prepared")
    sessions = [server.session(resource_limits={"pids_max": 30 + i}) for i in range(8)]
    for i, s in enumerate(sessions):
        assert control_file(server, s, "pids.max") == f"{30 + i}\n"
        assert s.out("echo $((6 * 7))") == "42\n"
    for s in sessions:
        s.destroy()
    wait_for(lambda: len(groups_of(server)) == 3, "only the pool is left")


# --- configuration ---


@needs_cgroups
def test_cfg_1_sandbox_pool_size(new_server):
    server = new_server(config={"sandbox": {"pool_size": 4}})
    wait_for(lambda: len(groups_of(server)) == 4, "four sandboxes are prepared")
    server.config["sandbox"]["pool_size"] = 1
    server.config_file.write_text(json.dumps(server.config))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(groups_of(server)) == 1, "one after a reload")


@needs_cgroups
def test_cfg_1_sandbox_cgroup_parent(new_server):
    name = f"agentsh-test-{os.getpid()}"
    server = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
    try:
        s = server.session(resource_limits={"pids_max": 50})
        found = [p for p, _, files in os.walk(CGROUP) if "pids.max" in files and f"/{name}/agentsh/session-" in p]
        assert len(found) == 1 and Path(found[0], "pids.max").read_text() == "50\n"
        s.destroy()
        server.stop()
    finally:
        for path, _, _ in list(os.walk(CGROUP, topdown=False)):
            if f"/{name}" in path:
                with contextlib.suppress(OSError):
                    os.rmdir(path)


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_memory_swap_max_mb(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_memory_mb": 200, "memory_swap_max_mb": 7}}})
    detail = walls(server.session())["memory_limit"]["detail"]
    assert "swap 7 MB" in detail or "swap is not limited" in detail


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_cpu_period_us(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_cpu_percent": 50, "cpu_period_us": 20000}}})
    s = server.session()
    v1, v2 = (control_file(server, s, name) for name in ("cpu.cfs_period_us", "cpu.max"))
    assert v1 == "20000\n" or v2 == "10000 20000\n"


def io_is_limited(new_server, key):
    server = new_server(config={"sandbox": {"resource_limits": {key: 1 << 20}}})
    entry = walls(server.session())["io_limit"]
    assert entry["state"] in ("up", "partial") or "disk" in entry["detail"], entry
    assert walls(new_server().session())["io_limit"]["state"] == "absent"


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_io_read_bps_max(new_server):
    io_is_limited(new_server, "io_read_bps_max")


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_io_write_bps_max(new_server):
    io_is_limited(new_server, "io_write_bps_max")
