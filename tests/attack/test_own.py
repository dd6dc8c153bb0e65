# SPDX-License-Identifier: Apache-2.0
"""Attacks that need more than one command, or somebody outside: each shows its own control."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import harness
import manifest
import pytest
import stage as stages

KINDS = ("root", "user")
TRIES = {"root": 2000, "user": 500}
TRIES_OF_FILES = 500  # where files change, and not memory
CAUGHT = 20  # execs that were killed before their first instruction
ROUNDS = 4  # at most, until enough are caught
ROUNDS_OF_DROPS = 10  # at most, until one is caught
SECONDS_OF_DROPS = 20  # of a round: a client waits for a minute
SHORT_OF_MEMORY = {"max_memory_mb": 64}
STRANGER = 12345  # a user who is neither the server's nor a session's


def own(test, kinds=KINDS):
    """Rows of the manifest that this test is for."""
    found = [a for a in manifest.ATTACKS if a.test == test]
    assert found, test
    rows = [(kind, a) for a in found for kind in kinds]
    return pytest.mark.parametrize(
        "kind,attack",
        [pytest.param(k, a, id=f"{k}-{a.id}", marks=pytest.mark.needs_wall(k, a.wall)) for k, a in rows],
    )


def in_session(session, name):
    """The result of one attack as a command of its own."""
    return json.loads(session.exec("/workspace/attacks", name)["result"]["stdout"].splitlines()[-1])["result"]


def fds_of(pid):
    return [f for f in os.listdir(f"/proc/{pid}/fd") if os.path.lexists(f"/proc/{pid}/fd/{f}")]


@own("test_pol_4_race")
def test_pol_4_race(stage, kind, attack):
    race = attack.id.removeprefix("race_")

    def run(policy, tries):
        s = stage.session(policy)
        text = s.exec("/workspace/races", race, str(tries), timeout="3m")["result"]["stdout"]
        return json.loads(text)

    assert any(run("observe", 100)["ran"] > 0 for _ in range(10))
    of_files = race in ("mapped_file", "link", "directory", "script", "interpreter")
    caught = 0
    for _ in range(ROUNDS):
        r = run("attack", TRIES_OF_FILES if of_files else TRIES[kind])
        assert r["ran"] == 0 and r["broken"] == 0 and r["fine"] > 0 and r["refused"] > 0, r
        caught += r["killed"]
        if of_files or caught >= CAUGHT:
            break
    assert of_files or caught >= CAUGHT
    stage.unharmed()


@own("test_pol_4_dropped_pages", kinds=("root",))
def test_pol_4_dropped_pages(stage, kind, attack):
    """The kernel drops the page with the end of the path, because the session has used up its memory."""
    race = attack.id.removeprefix("race_")

    def run(policy, tries):
        text = ""
        for _ in range(ROUNDS_OF_DROPS):  # without an answer: the kernel ended the attacker for want of memory
            s = stage.server.session(workspace=str(stage.workspace), policy=policy, resource_limits=SHORT_OF_MEMORY)
            command = (
                f"./races keep pressure 120 >/dev/null 2>&1 & ./races {race} {tries} {SECONDS_OF_DROPS}; kill $!"
            )
            text = s.script(command, timeout="50s")["result"]["stdout"]
            s.destroy()
            if text:
                break
        return json.loads(text)

    assert any(run("observe", 20)["ran"] > 0 for _ in range(10))
    caught = 0
    for _ in range(ROUNDS_OF_DROPS):
        r = run("attack", 20)
        assert r["ran"] == 0 and r["broken"] == 0, r
        caught += r["killed"]
        if caught > 0:
            break
    assert caught > 0
    stage.unharmed()


@pytest.mark.parametrize("kind", KINDS)
def test_pol_4_execs_are_counted(stage, kind):
    """By the server's metrics: verified, mismatched."""
    for policy in ("observe", "attack"):
        stage.session(policy).exec("/workspace/races", "thread", "200")
        stage.session(policy).script("/bin/true")
    lines = stage.server.get("/metrics").body.decode().splitlines()
    for outcome in ("verified", "mismatched"):
        assert sum(float(line.split()[-1]) for line in lines if f'outcome="{outcome}"' in line) > 0, outcome


@pytest.mark.parametrize("kind", KINDS)
def test_pol_4_a_mismatch_is_a_violation(stage, kind):
    """Its event names the program that was decided on and the one that was loaded, and belongs to its command."""
    s = stage.session("attack")
    for _ in range(10):  # a busy machine may let one side win for long
        answer = s.exec("/workspace/races", "thread", "200")
        found = [e for e in answer["events"]["blocked_operations"] if e["type"] == "policy_violation"]
        if found:
            break
    for e in found:
        assert e["exec"]["verified"] in ("bpf", "stop") and e["decision"] == "deny", e
        assert {e["exec"]["path"], e["exec"]["loaded"]} == {"/usr/bin/true", "/usr/bin/expr"}, e
        assert e["policy"]["reason"] == "another program than was decided on; killed", e
    assert found
    execs = s.history(type="exec")
    assert {e["exec"].get("verified") for e in execs if e["decision"] == "allow"} <= {"initial", "bpf", "stop"}
    assert not any("verified" in e["exec"] for e in execs if e["decision"] == "deny")


@pytest.mark.skipif(os.environ.get("AGENTSH_TEST_BPF") == "off", reason="this run has no exec check")
@own("test_pol_4_the_exec_check_is_out_of_reach", kinds=("root",))
def test_pol_4_the_exec_check_is_out_of_reach(stage, kind, attack):
    s = stage.session("attack")
    assert "verified by bpf" in next(w["detail"] for w in s.record["enforcement"] if w["wall"] == "exec_policy")
    assert stage.control_host(attack) == "done"
    assert in_session(s, attack.id) == attack.refusal
    # no descriptor of it is in the session, and the warden's are out of reach
    assert any("bpf" in os.readlink(f"/proc/{p}/fd/{f}") for p in stage.server.warden_pids() for f in fds_of(p))
    assert "bpf" not in s.out("ls -l /proc/*/fd/ 2>/dev/null; true")
    stage.unharmed()


@own("test_pol_4_first_exec")
def test_pol_4_first_exec(stage, kind, attack):
    argv = ["expr", "40", "+", "2"]
    assert {w: stages.WAYS[w](stage, "observe", argv) for w in stages.WAYS} == dict.fromkeys(stages.WAYS, "42\n")
    s = stage.session("attack")
    wanted = {"command": argv[0], "args": argv[1:]}
    for path in (f"{s.path}/exec", f"{s.path}/exec/stream"):
        a = stage.server.post(path, wanted)
        assert (a.status, a.code) == (403, "E_POLICY_DENIED"), a.body
    stdio = harness.Stdio(s, wanted)
    assert stdio.status == 403, stdio.head
    stdio.close()
    r = stage.server.cli("run", "--workspace", stage.workspace, "--policy", "attack", "--", *argv)
    assert (r.returncode, r.stdout) == (126, b""), r


FIRST = {
    "first_link": "link",
    "first_directory": "d/run",
    "first_script": "script",
    "first_interpreter": "by-link",
}
FIRST_TRIES = 200
FIRST_SECONDS = 60  # the longest that the changes go on


@own("test_pol_4_first_exec_race")
def test_pol_4_first_exec_race(stage, kind, attack):
    """Another command of the session changes what the first program is, between its decision and its exec."""
    wanted = {"command": f"/tmp/agentsh-race/{FIRST[attack.id]}", "args": ["("]}

    def race(policy, tries):
        s = stage.server.session(workspace=str(stage.workspace), policy=policy, background="keep")
        s.script(
            f"./races keep {attack.id.removeprefix('first_')} {FIRST_SECONDS} </dev/null >/dev/null 2>&1 &"
            "while ! [ -e /tmp/agentsh-race/by-link ]; do sleep 0.01; done"
        )
        answers = [stage.server.post(f"{s.path}/exec", wanted) for _ in range(tries)]
        s.destroy()
        return [a.status if a.status != 200 else a.json["result"]["exit_code"] for a in answers]

    assert any(set(race("observe", 50)) >= {0, 2} for _ in range(10))  # both run where both may
    seen = race("attack", FIRST_TRIES)
    assert set(seen) == {0, 403}, seen
    stage.unharmed()


# What one shell exports, what a later one runs, and what shows that it worked.
VARIABLES = {
    "ld_preload": ("export LD_PRELOAD=/nowhere.so", "/bin/true 2>&1", "nowhere.so"),
    "bash_env": ("echo 'echo 42' > rc; export BASH_ENV=$PWD/rc", "bash -c :", "42"),
    "bash_func": ("pwd() { echo 42; }; export -f pwd", "bash -c pwd", "42"),
}


@own("test_sbx_6_variables")
def test_sbx_6_variables(stage, kind, attack):
    export, later, shown = VARIABLES[attack.id]
    with tempfile.TemporaryDirectory() as d:
        assert shown in subprocess.check_output(["bash", "-c", f"{export}; {later}"], cwd=d, text=True)
    s = stage.server.session()
    s.script(export)
    assert shown in s.out(f"{export}; {later}")  # in one command it is the agent's own affair
    for way in (stages.by_exec, stages.by_stream, stages.by_stdio):
        stage.sessions["variables"] = s
        assert shown not in way(stage, "variables", ["bash", "-c", later]), way
    s.destroy()


@own("test_sbx_6_forged_state")
def test_sbx_6_forged_state(stage, kind, attack):
    s = stage.server.session(workspace=str(stage.workspace))
    s.script("export GENUINE=1; cd /tmp")  # the same, by our own program
    assert s.get()["environment"]["GENUINE"] == "1" and s.get()["working_dir"] == "/tmp"
    s.script("cd /workspace")
    assert in_session(s, "forged_state") == "EPERM"
    s.script("./attacks forged_state; :")
    assert "FORGED" not in s.get()["environment"] and s.get()["working_dir"] == "/workspace"
    s.destroy()


@own("test_sbx_6_descriptor_passing")
def test_sbx_6_descriptor_passing(stage, kind, attack):
    def held():
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in stage.server.warden_pids())

    s = stage.server.session(workspace=str(stage.workspace))
    s.exec("true")
    before = held()
    for _ in range(3):
        assert in_session(s, "descriptor_passing") in ("done", "EPIPE")  # EPIPE: it did not wait for them
    harness.wait_for(lambda: held() <= before, "the warden holds nothing that it was sent", show=held)
    s.destroy()


@own("test_sbx_6_kill_all")
def test_sbx_6_kill_all(stage, kind, attack):
    text = 'sleep 60 & "$0" kill_all >/dev/null; wait $!; echo $?'
    own_pids = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", text, stage.away / "attacks"]
    assert subprocess.check_output(own_pids, text=True) == f"{128 + signal.SIGKILL}\n"
    s = stage.server.session(workspace=str(stage.workspace))
    stage.server.post(f"{s.path}/exec", {"command": "/workspace/attacks", "args": ["kill_all"]})
    harness.wait_for(lambda: s.get()["state"] in ("ready", "failed"), "the session says what became of it")
    stage.unharmed()


def sleepers(seconds):
    """Processes `sleep SECONDS` of the whole machine."""
    found = []
    for p in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (p / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                found.append(int(p.name))
    return found


@own("test_sbx_6_daemon")
def test_sbx_6_daemon(stage, kind, attack):
    seconds = f"3600.{os.getpid()}{stage.uid}"
    script = f"(setsid sh -c 'trap \"\" HUP TERM; sleep {seconds} & sleep {seconds}' </dev/null >/dev/null 2>&1 &)"
    subprocess.run(["sh", "-c", f"{script}; while ! pgrep -f '^sleep {seconds}'; do :; done"], timeout=20)
    left = sleepers(seconds)
    assert left  # they outlive the shell that started them
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    harness.wait_for(lambda: not sleepers(seconds), "the control's processes are gone")
    s = stage.server.session()
    s.script(script)
    assert sleepers(seconds) == []
    s.destroy()


FILL = """
import errno, resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
pairs, sent = [], 0
while True:
    pairs.append(socket.socketpair())
    pairs[-1][0].setblocking(False)
    try:
        while True:
            socket.send_fds(pairs[-1][0], [b"x"], [0] * 250)
            sent += 250
    except BlockingIOError:
        continue
    except OSError as e:
        print(errno.errorcode[e.errno], most, sent, flush=True)
        break
sys.stdin.read()
"""


@own("test_sbx_6_in_flight")
def test_sbx_6_in_flight(stage, kind, attack):
    """The kernel counts descriptors that are on their way per user; who may have more open files may send more."""
    s = stage.server.session()
    held = harness.Stdio(s, {"command": "python3", "args": ["-c", FILL]})
    said, most, sent = next(f[1] for f in iter(held.frame, None) if f[0] == held.STDOUT).decode().split()
    assert said == "ETOOMANYREFS" and int(sent) > 0
    one = subprocess.run(
        ["sh", "-c", f'ulimit -n {most} && exec python3 -c "$0"', FILL],
        user=stage.session_uid, group=stage.session_uid, extra_groups=[], cwd="/", stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    assert one.stdout.split() == ["ETOOMANYREFS", most, "0"], one  # it is all used up
    assert stage.other.exec("sleep", "0.05")["result"]["exit_code"] == 0
    new = stage.server.session()
    assert new.out("sleep 0.05; echo runs") == "runs\n"
    new.destroy()
    held.close()
    s.destroy()


@own("test_sbx_6_linked_workspace", kinds=("root",))
def test_sbx_6_linked_workspace(stage, kind, attack):
    secret = Path(tempfile.mkdtemp(prefix="agentsh-secret-", dir="/var/tmp"))
    link = Path(tempfile.mkdtemp(prefix="agentsh-link-", dir="/var/tmp"))
    link.chmod(0o755)
    (link / "to").symlink_to(secret)
    os.chown(link, harness.USER_UID, harness.USER_UID)
    os.lchown(link / "to", harness.USER_UID, harness.USER_UID)
    try:
        for mode in (0o700, 0o755):
            secret.chmod(mode)
            r = stage.server.cli("run", "--workspace", link / "to", "--", "true")
            assert r.returncode == 0, r  # its owner may
            r = stage.server.cli("run", "--workspace", link / "to", "--", "true", uid=harness.USER_UID)
            assert r.returncode == 125, r
    finally:
        secret.rmdir()
        (link / "to").unlink()
        link.rmdir()


@own("test_sbx_6_other_session")
def test_sbx_6_other_session(stage, kind, attack):
    s = stage.server.session()
    command = s.exec("echo", "private words")["command_id"]
    asked = [
        ("session", "info", s.id),
        ("exec", s.id, "--", "echo", "private words"),
        ("output", command),
        ("session", "destroy", s.id),
    ]
    for args in asked:
        r = stage.server.cli(*args, uid=STRANGER)
        assert r.returncode == 125 and b"private words" not in r.stdout, (args, r)
        assert stage.server.cli(*args).returncode == 0, args  # its owner may


# The server's own directories, from the one that holds them all.
OWN_PLACES = {
    "all": "",
    "runtime": "run",
    "sessions": "run/sessions",
    "state": "state",
    "output": "state/output",
    "policies": "policies",
}


@own("test_sbx_6_server_as_workspace")
def test_sbx_6_server_as_workspace(stage, kind, attack):
    """Either there is no such session, or it does not see what is the server's."""
    stage.server.session().destroy()  # of another directory there is one
    seen = []
    for place, below in OWN_PLACES.items():
        directory = stage.server.dir / below
        a = stage.server.post("/api/v1/sessions", {"workspace": str(directory)})
        if a.status != 201:
            assert a.status in (403, 503), (place, a.body)
            continue
        s = harness.Session(stage.server, a.json)
        text = "find . -type f -readable -print -o -type s -print -o -type d ! -readable -prune"
        if found := s.script(text)["result"]["stdout"].split():
            seen.append((place, found[:3]))
        s.destroy()
    assert seen == []
