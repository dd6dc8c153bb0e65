# SPDX-License-Identifier: Apache-2.0
"""Who runs as whom, what a session sees, and what it leaves behind."""

import os
import signal

import harness
import pytest


def walls(session):
    return {w["wall"]: w["state"] for w in session.record["enforcement"]}


def may_have(server, pid):
    """agentsh-fs makes CAP_SYS_ADMIN effective for the two calls of passthrough, where BPF counts the bytes."""
    return 1 << 21 if harness.program_of(pid) == "agentsh-fs" and server.uid == 0 else 0


def test_sbx_1_no_process_of_a_session_has_capabilities_or_uid_0(server, session):
    session.exec(script="sleep 1000", detach=True, status=202)
    harness.wait_for(lambda: session.get()["queue"]["running"], "running")
    wardens = server.warden_pids()
    family = [p for w in wardens for p in [w, *harness.descendants_of(w)]]
    names = {harness.program_of(p) or harness.status_of(p)["Name"] for p in family}
    assert {"agentsh-warden", "agentsh-init"} <= names
    checked = [server.api_pid(), *family]
    for pid in checked:
        st = harness.status_of(pid)
        assert set(st["Uid"].split()) != {"0"} and "0" not in st["Uid"].split(), (pid, st["Name"], st["Uid"])
        assert int(st["CapEff"], 16) == 0, (pid, st["Name"], st["CapEff"])
        assert int(st["CapPrm"], 16) & ~may_have(server, pid) == 0, (pid, st["Name"])
    for pid in family:
        st = harness.status_of(pid)
        assert st["NoNewPrivs"].strip() == "1", (pid, st["Name"])
        assert int(st["CapBnd"], 16) & ~may_have(server, pid) == 0 or server.uid != 0, (pid, st["Name"])


def test_sbx_1_the_test_process_is_only_in_builds_for_it(server, session):
    """See tests/processes."""
    children = [p for w in server.warden_pids() for p in harness.children_of(w)]
    assert {harness.program_of(p) for p in children} == {"agentsh-init", "agentsh-fs"}
    for build in {harness.BUILD, harness.TOP / "build"}:
        assert not (build / "agentsh-test-process").exists()
        assert b"agentsh-test-process" not in (build / "agentsh-server").read_bytes()


def test_sbx_1_own_namespaces(server, session):
    mine = {ns: os.readlink(f"/proc/self/ns/{ns}") for ns in ("mnt", "pid", "uts", "ipc", "user")}
    inside = dict(
        line.split(" ")
        for line in session.out(
            "for n in mnt pid uts ipc user; do echo $n $(readlink /proc/self/ns/$n); done"
        ).splitlines()
    )
    for ns in ("mnt", "pid", "uts", "ipc"):
        assert inside[ns] != mine[ns], ns
    assert (inside["user"] != mine["user"]) == (server.uid != 0)
    w = walls(session)
    assert all(w[f"{n}_namespace"] == "up" for n in ("mount", "pid", "net", "ipc", "uts", "cgroup"))
    assert w["user_namespace"] == ("up" if server.uid else "absent")
    assert w["process_separation"] == ("up" if server.uid == 0 else "unavailable")
    assert w["capabilities"] == "up" and w["no_new_privs"] == "up" and w["env_filter"] == "up"
    assert session.out("ls -d /proc/1 2>/dev/null || echo hidden").strip() == "hidden"


def test_sbx_1_the_view(session):
    assert session.out("ls -d /workspace /proc /dev/null /tmp /run/agentsh/session | wc -l").strip() == "5"
    for script in (
        "touch /usr/x",
        "touch /etc/x",
        "mkdir /new",
        "echo 1 > /proc/sys/kernel/hostname",
        "mknod /tmp/d c 1 1",
    ):
        assert session.exec(script=script)["result"]["exit_code"] != 0, script
    for script in (
        "echo x > /tmp/x && cat /tmp/x",
        "echo x > ~/x",
        "echo x > /dev/shm/x",
        "echo > /dev/null",
        "head -c1 /dev/urandom",
    ):
        assert session.exec(script=script)["result"]["exit_code"] == 0, script
    assert not os.path.exists("/tmp/x")


def test_sbx_1_no_descriptor_leaks(session):
    assert session.exec("ls", "/proc/self/fd")["result"]["stdout"].split() == ["0", "1", "2", "3"]
    assert session.out("ls /proc/self/fd").split() == ["0", "1", "2", "3"]


def test_sbx_1_files_belong_to_the_owner(server, session):
    session.exec(script="echo hi > made; mkdir d; touch d/f")
    for name in ("made", "d", "d/f"):
        st = (session.workspace / name).stat()
        assert (st.st_uid, st.st_gid) == (server.uid, server.uid), name
    (session.workspace / "host").write_text("from the host")
    os.chown(session.workspace / "host", server.uid, server.uid)
    os.chmod(session.workspace / "host", 0o600)
    assert session.out("cat host; echo more >> host; stat -c %a host") == "from the host600\n"


def test_sbx_1_sessions_do_not_see_each_other(server, session):
    other = server.session()
    other.exec(script="sleep 1000", detach=True, status=202)
    assert "sleep" not in session.out("cat /proc/[0-9]*/comm")
    other.destroy()


def test_ses_8_killed_warden_or_init_fails_that_session_only(server):
    for victim in ("agentsh-warden", "agentsh-init"):
        before = set(server.warden_pids())
        s, other = server.session(), server.session()
        new = set(server.warden_pids()) - before
        s.exec(script="sleep 1000", detach=True, status=202)

        def sleeper(new=new):
            return next((w for w in new if "sleep" in map(harness.program_of, harness.descendants_of(w))), None)

        mine = harness.wait_for(sleeper, "the command runs")
        family = [mine, *harness.descendants_of(mine)]
        target = next(p for p in family if harness.program_of(p) == victim)
        os.kill(target, signal.SIGKILL)
        harness.wait_for(lambda s=s: s.get()["state"] == "failed", "the session is failed", 5)
        assert s.get()["failure"]
        harness.wait_for(lambda f=family: not any(map(harness.alive, f)), "all it owned is gone", 5)
        assert other.out("echo fine") == "fine\n"
        assert "session_failed" in [e["type"] for e in s.history()]
        a = server.post(f"{s.path}/exec", {"command": "true"})
        assert a.code == "E_SESSION_STOPPED"
        other.destroy()


def test_ses_8_sigterm_ends_everything_in_order(new_server):
    for uid in (0, harness.USER_UID):
        server = new_server(uid=uid)
        s = server.session()
        s.exec(script="sleep 1000", detach=True, status=202)

        def members(server=server):
            return [p for w in server.warden_pids() for p in [w, *harness.descendants_of(w)]]

        harness.wait_for(lambda members=members: "sleep" in map(harness.program_of, members()), "the command runs")
        family = members()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert not any(map(harness.alive, family))
        assert not list(server.runtime.glob("sessions/*"))
        assert not server.socket.exists()


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_ses_1_a_thousand_sessions_leave_nothing(new_server, uid):
    harness.ensure_user()
    server = new_server(uid=uid, config={"sessions": {"max_sessions": 10}, "logging": {"level": "warn"}})
    ws = str(server.workspace())

    def count():
        api = server.api_pid()
        return (
            len(os.listdir(f"/proc/{api}/fd")),
            len(os.listdir(f"/proc/{server.pid}/fd")),
            len(open("/proc/self/mountinfo").readlines()),
            len(server.warden_pids()),
        )

    def cycle(n):
        c = server.connect()
        for _ in range(n):
            a = server.post("/api/v1/sessions", {"workspace": ws}, connection=c)
            assert a.status == 201, a.body
            a = server.call("DELETE", f"/api/v1/sessions/{a.json['id']}", connection=c)
            assert a.json["state"] == "stopped"
        c.close()

    def memory():
        return [int(harness.status_of(p)["VmRSS"].split()[0]) for p in (server.api_pid(), server.pid)]

    def swept():
        return not server.warden_pids() and not list(server.runtime.glob("sessions/*"))

    cycle(50)
    harness.wait_for(swept, "the last session is swept")
    seen = [None]

    def settled():
        # a sandbox of the pool that is still being prepared has fewer descriptors than one that is ready
        seen.append(count())
        return seen[-1] == seen[-2] and (uid != 0 or len(server.waiting_pids()) == 2)

    harness.wait_for(settled, "the pool is filled")
    before, rss = count(), memory()
    cycle(1000 if uid == 0 else 200)
    # what the API child still held of the 50th session makes `before` larger, never smaller
    harness.wait_for(
        lambda: swept() and all(now <= was for now, was in zip(count(), before, strict=True)),
        f"no more than before: {before}",
        show=count,
    )
    # sanitizers keep freed memory in quarantine; growth beyond that is a leak
    for a, b in zip(rss, memory(), strict=True):
        assert b < a + 300_000
