# SPDX-License-Identifier: Apache-2.0
"""sandbox.bpf: the kernel verifies execs where it can be had, and nothing of it is left behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import harness
import pytest
from harness import wait_for

import bpf

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NATIVE = harness.NATIVE
REQUIRED = {"sandbox": {"bpf": "required"}, **NATIVE}
FUSE = {"sandbox": {"bpf": "required"}}
ALL_OF_CHECK = ["link", "map", "prog"]
ALL_OF_FILES = ["link", "link", "map", "map", "map", "prog", "prog"]
CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF = 12, 38, 39


def detail_of(session):
    return next(w["detail"] for w in session.get()["enforcement"] if w["wall"] == "exec_policy")


def verified(session, script="/bin/ls / >/dev/null; /bin/true"):
    """How the execs of a script were verified, without the first one."""
    found = session.script(script)
    assert found["result"]["exit_code"] == 0, found["result"]
    execs = session.history(type="exec", command_id=found["command_id"])
    return {e["exec"]["verified"] for e in execs} - {"initial"}


def gone(objects):
    wait_for(lambda: not any(bpf.loaded(*one) for one in objects), "the kernel has unloaded all of it")


def holders(server):
    """The wardens and file servers of sessions."""
    wardens = server.warden_pids()
    return [*wardens, *(c for w in wardens for c in harness.children_of(w) if harness.program_of(c) == "agentsh-fs")]


def kill_all(server):
    """The server and its wardens, without a chance to clean up."""
    victims = [server.pid, *harness.descendants_of(server.pid), *holders(server)]
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.process.wait(harness.DEADLINE)
    wait_for(lambda: not any(map(harness.alive, victims)), "all are dead")


def test_cfg_1_sandbox_bpf(new_server):
    server = new_server(config={"sandbox": {"bpf": "off"}, **NATIVE})
    assert bpf.held(server.pid) == set()
    session = server.session()
    assert verified(session) == {"stop"}
    assert "verified by stop" in detail_of(session)
    for value in ("auto", "required"):
        server = new_server(config={"sandbox": {"bpf": value}, **NATIVE})
        assert sorted(kind for kind, _ in bpf.held(server.pid)) == ALL_OF_CHECK
        session = server.session()
        assert verified(session) == {"bpf"}
        assert "verified by bpf" in detail_of(session)
    server = new_server(start=False, config={"sandbox": {"bpf": "sometimes"}})
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) != 0
    assert "sandbox.bpf" in server.log_text()


def test_cfg_1_a_change_of_bpf_waits_for_a_restart(new_server):
    server = new_server(config={"sandbox": {"bpf": "off"}})
    server.config["sandbox"]["bpf"] = "required"
    server.config_file.write_text(json.dumps(server.config))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "a setting has changed and needs a restart" in server.log_text(), "it is logged")
    assert verified(server.session()) == {"stop"}


def test_cfg_1_a_normal_users_server_cannot_require_bpf(new_server):
    server = new_server(uid=harness.USER_UID, start=False, config=REQUIRED)
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) == 125
    assert "sandbox.bpf is 'required', and BPF cannot be had: only root's server may load BPF" in server.log_text()
    server = new_server(uid=harness.USER_UID, config={"sandbox": {"bpf": "auto"}})
    assert server.log_text().count("the kernel's BPF programs cannot all be had") == 1
    assert verified(server.session()) == {"stop"}


def test_cfg_1_root_without_the_capabilities_says_so(new_server):
    """As in a container that may not load BPF programs."""
    without = ["setpriv", "--bounding-set", "-bpf", "--inh-caps", "-bpf"]
    server = new_server(start=False, config=REQUIRED)
    server.command = without
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) == 125
    assert "cannot be had: this process does not have CAP_BPF" in server.log_text()
    server = new_server(start=False, config={"sandbox": {"bpf": "auto"}})
    server.command = without
    server.start()
    assert verified(server.session()) == {"stop"}
    assert "this process does not have CAP_BPF" in server.log_text()


def another_helper(directory, code):
    """The server's programs, with this C program in the place of agentsh-bpf."""
    for path in harness.BUILD.glob("agentsh*"):
        if path.is_file() and os.access(path, os.X_OK) and path.name not in ("agentsh-bpf", "agentsh-check"):
            shutil.copy(path, directory / path.name)
    (directory / "agentsh-check").symlink_to("agentsh")
    source = (
        f"#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(int n, char **v) {{ {code} }}\n"
    )
    compiler = ["gcc", "-x", "c", "-o", directory / "agentsh-bpf", "-"]
    subprocess.run(compiler, input=source.encode(), check=True)
    for place in (directory, *directory.parents):
        if place.stat().st_mode & 0o005 != 0o005:
            place.chmod(place.stat().st_mode | 0o055)
    return directory / "agentsh"


@pytest.mark.parametrize(
    "code,why",
    [
        ("return 7;", "agentsh-bpf ended with exit status 7"),
        ("kill(getpid(), SIGKILL);", "agentsh-bpf was killed by signal KILL (9)"),
        ('write(4, "rubbish", 7); pause();', "link"),
    ],
)
def test_cfg_1_a_helper_that_fails_is_named(new_server, tmp_path, monkeypatch, code, why):
    monkeypatch.setattr(harness, "AGENTSH", another_helper(tmp_path, code.replace("4", "atoi(v[2])")))
    server = new_server(start=False, config=REQUIRED)
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) == 125
    assert "sandbox.bpf is 'required', and BPF cannot be had: " in server.log_text()
    assert why in server.log_text().split("cannot be had: ")[1]


def test_sbx_2_the_helper_has_three_capabilities(new_server, tmp_path, monkeypatch):
    """A program in the place of agentsh-bpf writes down what it is."""
    seen = tmp_path / "seen"
    seen.touch()
    seen.chmod(0o666)
    (tmp_path / "programs").mkdir()
    helper = another_helper(tmp_path / "programs", f'return system("cat /proc/self/status > {seen}");')
    monkeypatch.setattr(harness, "AGENTSH", helper)
    new_server(config={"sandbox": {"bpf": "auto"}})
    status = dict(line.split(":\t", 1) for line in seen.read_text().splitlines() if ":\t" in line)
    three = f"{1 << CAP_NET_ADMIN | 1 << CAP_PERFMON | 1 << CAP_BPF:016x}"
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert status[name].strip() == three, (name, status[name])
    assert status["NoNewPrivs"].strip() == "1" and status["Groups"].strip() == ""
    uids = set(status["Uid"].split())
    assert len(uids) == 1 and int(uids.pop()) >= 1900000000


def test_pol_4_a_program_is_verified_in_every_session(new_server):
    """One program of a server serves all; each warden holds its own session's map and no other."""
    server = new_server(config=REQUIRED)
    sessions = [server.session() for _ in range(3)]
    assert [verified(s) for s in sessions] == [{"bpf"}] * 3
    wardens = [bpf.held(pid) for pid in server.warden_pids()]
    shared = set.intersection(*wardens)
    assert len(wardens) == 3 and sorted(kind for kind, _ in shared) == ["link", "prog"]
    own = [held - shared for held in wardens]
    assert [sorted(kind for kind, _ in o) for o in own] == [["map"]] * 3 and len(set.union(*own)) == 3
    assert not set.union(*own) & bpf.held(server.pid)
    # no process of a session holds any of it

    def holders_inside():
        found = []
        for pid in harness.descendants_of(server.pid):
            with contextlib.suppress(OSError):  # it may end meanwhile
                names = (harness.program_of(pid), harness.status_of(pid)["Name"])
                if bpf.held(pid) and not {"agentsh-warden", "agentsh-waiting"} & set(names):
                    found.append((pid, *names))
        return found

    # the fork that becomes the pool's next sandbox has it for a moment
    wait_for(lambda: not holders_inside(), "no other process holds it", show=holders_inside)


def test_fil_8_a_sessions_file_server_holds_its_own_maps(new_server):
    """One program of a server counts for all; each file server holds its session's two maps and the link."""
    server = new_server(config=FUSE)
    assert sorted(kind for kind, _ in bpf.held(server.pid)) == ALL_OF_FILES
    sessions = [server.session() for _ in range(3)]
    assert [s.out("echo x > f; cat f") for s in sessions] == ["x\n"] * 3
    wardens = server.warden_pids()
    servers = [bpf.held(pid) for pid in holders(server) if pid not in wardens]
    shared = set.intersection(*servers)
    assert len(servers) == 3 and sorted(kind for kind, _ in shared) == ["link", "prog"]
    own = [held - shared for held in servers]
    assert [sorted(kind for kind, _ in o) for o in own] == [["map", "map"]] * 3 and len(set.union(*own)) == 6
    assert not set.union(*own) & set.union(*map(bpf.held, [server.pid, *wardens]))


@pytest.mark.parametrize("config,count", [(REQUIRED, 4), (FUSE, 10)], ids=["native", "fuse"])
def test_sbx_2_nothing_stays_loaded_when_the_server_ends(new_server, config, count):
    server = new_server(config=config)
    assert verified(server.session()) == {"bpf"}
    held = set.union(*map(bpf.held, [server.pid, *holders(server)]))
    assert all(bpf.loaded(*one) for one in held) and len(held) == count
    server.stop()
    gone(held)


@pytest.mark.parametrize("config", [REQUIRED, FUSE], ids=["native", "fuse"])
def test_sbx_2_nothing_stays_loaded_when_all_are_killed(new_server, config):
    server = new_server(config=config)
    assert verified(server.session()) == {"bpf"}
    held = set.union(*map(bpf.held, [server.pid, *holders(server)]))
    kill_all(server)
    gone(held)


def test_fil_8_bytes_are_counted_on_after_the_launchers_death(new_server):
    """The file server holds the program; the next launcher's program counts for new sessions alone."""
    server = new_server(config=FUSE)
    old = server.session()
    (old.workspace / "f").write_bytes(b"f" * 1000)
    server.process.kill()
    server.process.wait(harness.DEADLINE)
    server.start()
    new = server.session()
    for session in (old, new, old):
        (session.workspace / "f").write_bytes(b"f" * 1000)
        read = session.exec("cat", "f", "f")["events"]["file_operations"]
        assert [e["operation"]["bytes"] for e in read if e["type"] == "file_read"] == [1000, 1000]


@pytest.mark.parametrize("mode", ["native", "fuse"])
@pytest.mark.parametrize("config,most", [({"pool_size": 0}, 12), ({"root_inside": True}, 72)])
def test_sbx_2_an_ended_sessions_map_goes(new_server, config, most, mode):
    """With root_inside no sandbox is prepared, and a client waits for each one."""
    own = NATIVE if mode == "native" else harness.OBSERVE
    server = new_server(config={"sandbox": {"bpf": "required", **config}, **own})
    maps = set()
    for _ in range(most):
        session = server.session()
        session.out("true")
        maps |= {one for pid in holders(server) for one in bpf.held(pid) if one[0] == "map"}
        session.destroy()
    each = 3 if mode == "fuse" else 1
    assert len(maps) == most * each
    # the launcher looks for ended sessions now and then, not at each end
    assert sum(bpf.loaded(*one) for one in maps) < most * each


def test_pol_4_two_servers_do_not_disturb_each_other(new_server):
    one, two = (new_server(config=REQUIRED) for _ in range(2))
    sessions = [one.session(), two.session()]
    held = [bpf.held(s.pid) for s in (one, two)]
    assert not held[0] & held[1]
    assert [verified(s) for s in sessions] == [{"bpf"}] * 2
    one.stop()
    gone(held[0])
    assert verified(sessions[1]) == {"bpf"} and verified(two.session()) == {"bpf"}


def test_pol_4_the_check_outlives_a_killed_launcher(new_server):
    """Its sessions keep the program they have; the next launcher has one of its own for new ones."""
    server = new_server(config=REQUIRED)
    old = server.session()
    started = old.exec(
        script="while ! [ -e go ]; do /bin/sleep 0.05; done; /bin/ls / >/dev/null", detach=True, status=202
    )
    before = {one for one in bpf.held(server.pid) if one[0] != "map"}
    server.process.kill()
    server.process.wait(harness.DEADLINE)
    assert all(bpf.loaded(*one) for one in before)
    server.start()
    (old.workspace / "go").touch()
    wait_for(lambda: old.get(f"/commands/{started['command_id']}")["state"] == "finished", "it goes on")
    execs = old.history(type="exec", command_id=started["command_id"])
    assert {e["exec"]["verified"] for e in execs} == {"initial", "bpf"}
    new = server.session()
    assert verified(new) == {"bpf"} and verified(old) == {"bpf"}
    after = {one for one in bpf.held(server.pid) if one[0] != "map"}
    assert not before & after
    old.destroy()
    gone(before)
    assert verified(new) == {"bpf"}


def test_pol_4_ids_are_those_of_a_container(new_server):
    """A server in a PID namespace of its own, as in a container: the kernel uses the ids that it sees."""
    server = new_server(start=False, config=REQUIRED)
    server.command = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child"]
    server.start()
    inner = harness.children_of(server.pid)[0]
    enter = ["nsenter", "--target", str(inner), "--pid", "--mount"]

    def call(path, **body):  # a client of the same namespace: the server must see who asks
        curl = ["curl", "-sS", "--unix-socket", server.socket, "-H", "Content-Type: application/json"]
        command = [*enter, *curl, "-d", json.dumps(body), f"http://localhost/api/v1{path}"]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    session = call("/sessions", workspace=str(server.workspace()))["id"]
    answer = call(f"/sessions/{session}/exec", script="/bin/echo ran; /bin/true")
    assert answer["result"]["stdout"] == "ran\n"
    assert {e["exec"]["verified"] for e in answer["events"]["exec_operations"]} == {"initial", "bpf"}
    os.kill(inner, signal.SIGTERM)
    server.process.wait(harness.DEADLINE)


def test_pol_4_sessions_take_little_kernel_memory(new_server):
    """500 sessions: at most 2 MB."""
    server = new_server(config=REQUIRED)
    sessions = [server.session() for _ in range(4)]
    for session in sessions:
        session.out("for i in 1 2 3 4 5 6 7 8; do /bin/true & done; wait")
    own = [bpf.memory(pid) for pid in server.warden_pids()]
    assert len(own) == 4 and bpf.memory(server.pid) + 500 * max(own) <= 2_000_000
