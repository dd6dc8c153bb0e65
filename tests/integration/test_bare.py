# SPDX-License-Identifier: Apache-2.0
"""A normal user's server where there are no user namespaces: refused, or, where the configuration says so in words,
a session in the machine's own namespaces behind Landlock and seccomp alone."""

import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import harness
import pytest
from test_containers import Contained, engine

HOST = "no_user_namespaces"
NAMESPACES = [
    "user_namespace",
    "mount_namespace",
    "pid_namespace",
    "net_namespace",
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
]
PYTHON = "/usr/bin/python3"
# Prints "ok" or the name of the error of one expression. libc: system calls that Python has no name for.
TRY = """
import ctypes, errno, fcntl, os, resource, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    r = libc.syscall(*args)
    if r < 0: raise OSError(ctypes.get_errno(), '')
    return r
for line in sys.argv[1:]:
    try:
        eval(line)
        print('ok')
    except OSError as e:
        print(errno.errorcode.get(e.errno, e.errno))
"""


# No policy with rules about files: nothing enforces them here.
BARE = {"sandbox": {"allow_unenforced": ["namespaces"]}, **harness.OBSERVE}


@pytest.fixture
def bare():
    """Makes servers of uid 1000 on a machine without user namespaces."""
    made = []

    def factory(words=("namespaces",), uid=harness.USER_UID, host=HOST, config=None, start=True):
        harness.ensure_user()
        s = Contained(host, uid, BARE)
        s.merge(s.config, {"sandbox": {"allow_unenforced": list(words)}})
        s.merge(s.config, config or {})
        made.append(s)
        return s.start() if start else s

    yield factory
    for s in made:
        s.finish()


@pytest.fixture(scope="module")
def shared():
    harness.ensure_user()
    s = Contained(HOST, harness.USER_UID, BARE).start()
    yield s
    s.finish()


@pytest.fixture
def session(shared):
    s = shared.session()
    yield s
    s.destroy()


def tries(session, *lines):
    r = session.exec(PYTHON, "-c", TRY, *lines)["result"]
    assert r["exit_code"] == 0, r
    return r["stdout"].split()


def own_dir(session):
    return session.server.state / "own" / session.id


def refusal(server, **wanted):
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace()), **wanted})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    error = a.json["error"]
    harness.wait_for(lambda: not server.warden_pids(), "the warden is gone")
    return error["subject"], error["message"]


def named(session, program="sleep"):
    """The processes of the server with this program."""
    return [p for p in harness.descendants_of(session.server.pid) if harness.program_of(p) == program]


# --- whether ---
def test_sbx_5_without_words_there_is_no_session(bare):
    for words in ([], NAMESPACES[:-1]):
        subject, message = refusal(bare(words))
        assert subject == "user_namespace"
        assert "user.max_user_namespaces" in message and "allow_unenforced" in message


def test_sbx_5_every_word_or_the_one_for_all(bare):
    for words in (NAMESPACES, ["namespaces"]):
        assert bare(words).session().out("echo runs") == "runs\n"


def test_sbx_5_namespaces_are_used_where_they_work(bare):
    s = bare(host="none").session()
    states = {e["wall"]: e["state"] for e in s.record["enforcement"]}
    assert all(states[n] == "up" for n in NAMESPACES)
    assert s.out("pwd") == "/workspace\n" and not own_dir(s).exists()


def test_sbx_5_root_never_runs_so(bare):
    subject, _ = refusal(bare(uid=0))
    assert subject == "uid"
    s = bare(["namespaces", "uid"], uid=0).session()
    assert {e["wall"]: e["state"] for e in s.record["enforcement"]}["mount_namespace"] == "up"


# Has one system call fail in all that the server starts: NUMBER COMMAND…
WITHOUT = """
import sys
sys.path.insert(0, sys.argv[1])
import test_containers as t
t.CALLS["it"] = (int(sys.argv[2]),) * 2
t.refuse("it")
t.enter("none", int(sys.argv[3]), sys.argv[4:])
"""
SECCOMP = 317 if platform.machine() == "x86_64" else 277


@pytest.mark.parametrize("call,wall", [(444, "landlock"), (445, "landlock"), (446, "landlock"), (SECCOMP, "seccomp")])
def test_sbx_5_both_walls_must_be_up_whatever_is_listed(bare, call, wall):
    server = bare(["namespaces", "landlock", "seccomp", "process_separation", "no_new_privs"], start=False)
    here = str(Path(__file__).parent)
    server.command = [*engine(HOST, 0), sys.executable, "-c", WITHOUT, here, str(call), str(harness.USER_UID)]
    subject, message = refusal(server.start())
    assert subject == wall and "must be up" in message


def test_sbx_5_the_report_is_exact(session):
    walls = {e["wall"]: (e["state"], e["detail"]) for e in session.record["enforcement"]}
    assert [walls[n][0] for n in NAMESPACES] == ["unavailable"] * 7
    assert all(walls[n][1] for n in NAMESPACES)
    assert "/workspace" in walls["mount_namespace"][1]
    assert [walls[n][0] for n in ("seccomp", "landlock", "no_new_privs", "exec_policy")] == ["up"] * 4
    assert walls["env_filter"][0] == "up"
    assert walls["network_rules"][0] == "absent" and "no sockets at all" in walls["network_rules"][1]
    assert walls["process_separation"][0] == "unavailable"
    status = session.out("cat /proc/self/status")
    assert "NoNewPrivs:\t1\n" in status and "CapEff:\t0000000000000000\n" in status and "Seccomp:\t2\n" in status
    assert session.out("readlink /proc/self/ns/mnt /proc/self/ns/pid").split() == [
        os.readlink(f"/proc/{session.server.pid}/ns/mnt"),
        os.readlink(f"/proc/{session.server.pid}/ns/pid"),
    ]


def doctor(server, *args):
    """As the user, in the machine of the server."""
    return subprocess.run(
        [*server.command, harness.AGENTSH, "doctor", *args, "--config", server.config_file],
        capture_output=True, env=server.environment(), timeout=120,
    )  # fmt: skip


def test_sbx_5_doctor_says_what_to_do(bare):
    r = doctor(bare([]), "--json")
    report = json.loads(r.stdout)
    w = {w["wall"]: w for w in report["walls"]}["user_namespace"]
    assert (r.returncode, w["verdict"]) == (1, "missing")
    remedies = " ".join(w["remedies"])
    assert "user.max_user_namespaces" in remedies and "`namespaces`" in remedies, remedies


def test_sbx_5_doctor_tries_it(bare):
    server = bare()
    r = doctor(server, "--json")
    report = json.loads(r.stdout)
    walls = {w["wall"]: w for w in report["walls"]}
    assert [walls[n]["verdict"] for n in NAMESPACES] == ["allowed"] * 7
    assert [walls[n]["verdict"] for n in ("landlock", "seccomp", "no_new_privs")] == ["ok"] * 3, report
    assert (r.returncode, report["ok"]) == (0, True), report
    acts = {a["what"]: a for n in NAMESPACES for a in walls[n]["acts"]}
    for what in ("open a file beside the workspace", "signal a process of the machine", "connect to a port of the machine",
                 "connect to an abstract socket", "find a System V queue", "open a POSIX queue"):  # fmt: skip
        assert acts[what]["inside"] == "refused", acts[what]
        assert acts[what]["outside"] == "done" or "port" in what, acts[what]  # a network of its own, which is down
    assert b"Landlock opens" in doctor(server).stdout


# --- what runs ---
def test_exe_1_commands_and_state(shared, session):
    real = str(session.workspace)
    assert session.record["working_dir"] == real
    assert session.exec("pwd")["result"]["stdout"] == f"{real}\n"
    home = session.out("echo $HOME").strip()
    assert Path(home).parent == shared.state / "homes"
    assert session.out("echo $TMPDIR").strip() == str(own_dir(session) / "tmp")
    assert session.out("(cd; pwd)") == f"{home}\n"
    session.out("export WORD='of mine'; mkdir sub; cd sub")
    assert session.out("echo $WORD; pwd") == f"of mine\n{real}/sub\n"
    assert session.exec("cd", working_dir=real)["result"]["exit_code"] == 0
    assert session.get()["working_dir"] == home
    r = session.script("exit 3")["result"]
    assert r["exit_code"] == 3
    assert session.out("unset HOME; :") == "" and session.out("echo $HOME") == f"{home}\n"
    assert session.exec("sh", "-c", "echo $PWD", working_dir=real)["result"]["stdout"] == f"{real}\n"


def test_exe_6_stream_and_output(shared, session):
    c = shared.connect()
    c.request(
        "POST", f"{session.path}/exec/stream", json.dumps({"script": "echo one; echo two >&2; sleep 0.1; echo three"})
    )
    text = c.getresponse().read().decode()
    assert '"one\\n' in text and '"two\\n' in text and "event: result" in text
    c.close()
    a = session.script("seq 1 5000")
    part = session.output(a["command_id"], offset=100, limit=50)
    assert part["total_bytes"] == len("".join(f"{i}\n" for i in range(1, 5001)))


def test_cli_1_run(shared):
    workspace = shared.workspace()
    r = shared.cli("run", "--workspace", workspace, "--", "sh", "-c", "echo in $PWD; echo made > made; exit 4")
    assert (r.returncode, r.stdout.decode()) == (4, f"in {workspace}\n"), r
    assert (workspace / "made").stat().st_uid == harness.USER_UID


def test_sbx_3_tools_of_every_day(session):
    assert session.out("echo 'int main(void){return 7;}' > a.c && gcc -o a a.c; ./a; echo $?") == "7\n"
    assert (
        session.out(
            "git init -q . && git add a.c && git -c user.name=a -c user.email=b commit -qm m && git log --format=%s"
        )
        == "m\n"
    )
    assert (
        session.out("mkdir t && cp -p a t/ && tar cf t.tar t && rm -r t && tar xf t.tar && ls -l t/a | cut -c1-10")
        == "-rwxr-xr-x\n"
    )
    assert session.out(f"{PYTHON} -c 'import tempfile,os; print(os.path.dirname(tempfile.mktemp()))'").strip() == str(
        own_dir(session) / "tmp"
    )
    assert session.out("echo a | tee b | cat; mkfifo f; cat f & echo through > f; wait") == "a\nthrough\n"


def test_sbx_1_files_belong_to_the_user(session):
    session.out("echo x > made; mkdir dir; ln -s made link")
    for name in ("made", "dir"):
        st = (session.workspace / name).stat()
        assert (st.st_uid, st.st_gid) == (harness.USER_UID, harness.USER_UID)


# --- the filter ---
def test_sbx_5_no_sockets_at_all(shared, session):
    assert tries(
        session,
        "socket.socket()",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_UNIX)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        f"socket.socketpair()[0].connect({str(shared.socket)!r})",
        "socket.socketpair()[0].bind('x')",
        "socket.socketpair()",
    ) == ["EPERM"] * 9 + ["ok"]
    # the control: the same by the user outside
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(shared.socket))


def test_sbx_2_other_processes_and_queues(shared, session):
    sleeper = subprocess.Popen(["sleep", "100"], user=harness.USER_UID, group=harness.USER_UID, extra_groups=[])
    warden = next(p for p in shared.warden_pids() if p in harness.descendants_of(shared.pid))
    try:
        for pid in (sleeper.pid, warden, shared.pid, shared.api_pid()):
            assert (
                tries(
                    session,
                    f"os.kill({pid}, 0)",
                    f"os.kill({pid}, signal.SIGKILL)",
                    f"resource.prlimit({pid}, resource.RLIMIT_CPU, (0, 0))",
                    f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
                    f"os.sched_setaffinity({pid}, [0])",
                    f"open('/proc/{pid}/environ').read()",
                    f"open('/proc/{pid}/mem', 'rb')",
                    f"os.readlink('/proc/{pid}/fd/0')",
                    f"os.readlink('/proc/{pid}/cwd')",
                )
                == ["EPERM"] * 5 + ["EACCES"] * 4
            ), pid
            assert harness.alive(pid)
        assert tries(session, "os.setpriority(os.PRIO_USER, 0, 19)", "os.setpriority(os.PRIO_PROCESS, 0, 19)") == [
            "EPERM",
            "ok",
        ]
        assert (
            tries(session, "call(29, 0, 4096, 0o1600)", "call(64, 0, 1, 0o1600)", "call(68, 0, 0o1600)")
            == ["EPERM"] * 3
        )
        assert tries(session, "call(240, b'x', 0o102, 0o600, None)", "call(254, 0, b'/', 2)") == ["EPERM"] * 2
    finally:
        sleeper.kill()
        sleeper.wait()


def test_sbx_3_signals_stay_in_the_session(shared, session):
    other = shared.session()
    other.exec(script="exec sleep 3333", detach=True, status=202)
    session.exec(script="exec sleep 4444", detach=True, status=202)
    found = {}

    def by_text():
        for p in named(session):
            found[Path(f"/proc/{p}/cmdline").read_text().split("\0")[1]] = p
        return {"3333", "4444"} <= set(found)

    harness.wait_for(by_text, "both run")
    # both sessions run one command at a time: the signal comes from a third
    third = shared.session()
    assert tries(third, f"os.kill({found['3333']}, 9)", f"os.kill({found['4444']}, 9)") == ["EPERM"] * 2
    # everybody at once: only its own are hit, and its own end is all that comes of it
    third.exec(script="kill -9 -1", detach=True, status=202)
    harness.wait_for(lambda: third.get()["state"] == "failed", "the session has ended itself", 5)
    assert all(harness.alive(p) for p in found.values()) and harness.alive(shared.pid)
    assert shared.get("/health").status == 200
    other.destroy()
    harness.wait_for(lambda: not harness.alive(found["3333"]), "the other's is gone", 5)


def test_exe_2_the_policy_decides(bare):
    server = bare(start=False)
    policies = server.dir / "policies"
    policies.mkdir(mode=0o755)
    (policies / "few.yaml").write_text(
        "version: 1\nname: few\ndefault: {files: allow, network: deny, commands: deny}\ncommand_rules:\n"
        "  - {name: own, commands: ['${WORKSPACE}/bin/*', '${HOME}/*'], decision: allow}\n"
        "  - {name: shells, commands: [sh, bash, dash, env, cp, mkdir], decision: allow}\n"
    )
    os.chown(policies, harness.USER_UID, harness.USER_UID)
    server.merge(server.config, {"policies": {"dir": str(policies)}})
    s = server.start().session(policy="few")
    r = s.script(
        "mkdir bin; cp /bin/echo bin/say; bin/say said; id; echo $?; cp bin/say ~/say; ~/say at home; cp bin/say other; ./other"
    )["result"]
    assert r["stdout"] == "said\n126\nat home\n", r
    a = server.post(f"{s.path}/exec", {"command": "id"})
    assert a.code == "E_POLICY_DENIED"
    assert s.exec(str(s.workspace / "bin/say"), "hello")["result"]["stdout"] == "hello\n"
    s.out("export KEPT=1")
    assert s.out("echo $KEPT") == "1\n"


def test_sta_3_forged_state_changes_nothing(session):
    program = next(p for p in harness.BUILD.glob("agentsh-state"))
    session.out("export TRUE=1")
    # by a child of a child, and by the program itself with another environment
    r = session.script(f"(export TRUE=2; sh -c {program}); env TRUE=3 sh -c '{program}; true'; true")
    assert r["result"]["exit_code"] == 0
    assert session.out("echo $TRUE") == "1\n"
    assert session.exec("sh", "-c", f"TRUE=4 {program}")["result"]["exit_code"] in (0, 1)
    assert session.out("echo $TRUE") == "1\n"


def test_sta_3_without_exec_control_state_is_not_kept(bare):
    """Nobody can be asked then: scripts run, what needs the warden is refused."""
    server = bare(["namespaces", "exec_policy"], start=False)
    server.command = [*engine(HOST, 0), *engine("no_ptrace", harness.USER_UID)]
    s = server.start().session()
    assert {e["wall"]: e["state"] for e in s.record["enforcement"]}["exec_policy"] == "unavailable"
    assert s.out("export LOST=1; cd /usr; echo ran") == "ran\n"
    assert s.out("echo [$LOST]; pwd") == f"[]\n{s.workspace}\n"
    assert tries(s, "os.mkdir('d')", "os.chmod('d', 0o700)", "socket.socket()") == ["ok", "EPERM", "EPERM"]


# --- life and death ---
TREE = "setsid sleep 5001 & (setsid sh -c 'trap \"\" TERM; sleep 5002; sleep 5003' &) ; nohup sleep 5004 & "


def test_exe_4_a_timeout_ends_the_tree(session):
    r = session.script(TREE + "sleep 5005", timeout="700ms")["result"]
    assert r["exit_code"] == 124
    assert named(session) == []
    r = session.script(TREE + "sleep 0.2")["result"]
    assert r["exit_code"] == 0 and len(r["background"]) >= 3
    assert named(session) == []
    assert session.out("echo fine") == "fine\n"


@pytest.mark.parametrize("victims", [["agentsh-init"], ["agentsh-warden"], ["agentsh-init", "agentsh-warden"]])
def test_ses_8_nothing_outlives_init_and_warden(shared, victims):
    before = set(shared.warden_pids())
    s = shared.session()
    other = shared.session()
    s.exec(script=TREE + "sleep 5005", detach=True, status=202)
    mine = harness.wait_for(
        lambda: next((w for w in set(shared.warden_pids()) - before if len(sleepers_below(w)) >= 4), None), "it runs"
    )
    family = [mine, *harness.descendants_of(mine)]
    for pid in [next(p for p in family if harness.program_of(p) == name) for name in victims]:
        with contextlib.suppress(ProcessLookupError):  # the end of one is the end of the other
            os.kill(pid, signal.SIGKILL)
    harness.wait_for(lambda: not any(map(harness.alive, family)), "all of it is gone", 3)
    harness.wait_for(lambda: s.get()["state"] == "failed", "the session is failed", 5)
    assert other.out("echo fine") == "fine\n"
    harness.wait_for(lambda: not own_dir(s).exists(), "its directories are gone", 5)
    other.destroy()


# Processes that fork and end, each living a moment only; for a minute at most.
STORM = """
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    const time_t until = time(NULL) + 60;
    for (int i = 0; i < atoi(argv[1]); i++)
        if (fork() == 0) {
            setsid();
            while (time(NULL) < until)
                if (fork() > 0)
                    _exit(0);
            _exit(0);
        }
    usleep(300000);
    if (argc > 2)
        kill(atoi(argv[2]), SIGKILL);
    alarm(60);
    pause();
}
"""


@pytest.mark.parametrize("end", ["init", "destroy"])
def test_ses_8_a_storm_of_forks_ends_with_the_session(shared, end):
    s = shared.session()
    (s.workspace / "storm.c").write_text(STORM)
    s.out("gcc -O2 -o storm storm.c")
    how = "100 $(cut -d' ' -f4 /proc/$PPID/stat)" if end == "init" else "30"
    began = time.monotonic()
    s.exec(script=f"exec ./storm {how}", detach=True, status=202)
    if end == "init":
        harness.wait_for(lambda: s.get()["state"] == "failed", "its own init is ended", 8)
    else:
        harness.wait_for(lambda: named(s, "storm") != [], "it runs")
        s.destroy()
    harness.wait_for(lambda: named(s, "storm") == [], "nothing of it is left", 2)
    assert time.monotonic() - began < 50, "it has ended by itself"


def test_sbx_3_who_ends_the_session_cannot_be_signalled(shared):
    before = set(harness.descendants_of(shared.pid))
    s = shared.session()

    def sweepers():
        return [p for p in set(harness.descendants_of(shared.pid)) - before if comm(p) == "agentsh-sweep"]

    # it takes its name by itself, and the session does not wait for that
    found = harness.wait_for(sweepers, "it is there", 5)
    assert len(found) == 1
    assert tries(s, f"os.kill({found[0]}, 9)", f"os.kill({found[0]}, signal.SIGSTOP)") == ["EPERM"] * 2
    s.exec(script="kill -9 -1", detach=True, status=202)
    harness.wait_for(lambda: s.get()["state"] == "failed", "the session has ended itself", 5)
    harness.wait_for(lambda: not harness.alive(found[0]), "it has done its work", 5)


def comm(pid):
    with contextlib.suppress(OSError):  # gone
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def sleepers_below(pid):
    return [p for p in harness.descendants_of(pid) if harness.program_of(p) == "sleep"]


def test_ses_2_the_end_removes_everything(shared):
    s = shared.session()
    s.out(
        "mkdir -p ~/a/b $TMPDIR/c; echo x > ~/a/b/file; mkfifo ~/pipe; mkdir ~/shut; touch ~/shut/x; chmod 0 ~/shut"
    )
    s.out("d=$(printf 'd%.0s' $(seq 200)); cd $TMPDIR; for i in $(seq 60); do mkdir $d; cd $d; done; cd $HOME")
    s.exec(script=TREE + "sleep 5005", detach=True, status=202)
    harness.wait_for(lambda: len(named(s)) >= 4, "it runs")
    assert own_dir(s).stat().st_mode & 0o777 == 0o700
    s.destroy()
    assert named(s) == []
    harness.wait_for(lambda: list((shared.state / "own").iterdir()) == [], "its directories are gone", 5)


def test_ses_8_a_restart_keeps_the_session(bare):
    server = bare()
    s = server.session()
    s.out("export KEPT=yes; echo mine > ~/file; cd /usr")
    lost = server.session()
    lost.out("echo mine > ~/file")
    warden = next(w for w in server.warden_pids() if str(lost.id) in Path(f"/proc/{w}/cmdline").read_text())
    server.process.kill()
    server.process.wait()
    family = [warden, *harness.descendants_of(warden)]
    for p in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(p, signal.SIGKILL)
    server.process.stdout.close()
    server.start()
    assert s.out("echo $KEPT; cat ~/file; pwd") == "yes\nmine\n/usr\n"
    assert lost.get()["state"] == "failed"
    harness.wait_for(
        lambda: [p.name for p in (server.state / "own").iterdir()] == [s.id], "only the living one's stay", 5
    )
    s.destroy()
    harness.wait_for(lambda: list((server.state / "own").iterdir()) == [], "and these go with it", 5)


def test_ses_8_a_killed_leader_ends_its_command_and_not_the_session(shared):
    s = shared.session()
    s.exec(script="export STAYS=yes")
    for _ in range(20):
        a = s.exec(script="sleep 1000 & kill -9 $PPID")
        assert (a["result"]["exit_code"], a["result"]["error"]["code"]) == (137, "E_COMMAND_KILLED"), a
        assert [e["type"] for e in s.history(command_id=a["command_id"])][-1] == "command_killed"
        assert s.out("echo $STAYS") == "yes\n"
    s.destroy()


def test_ses_8_a_command_that_kills_init_is_killed_and_not_lost(shared):
    """Without a PID namespace kill -9 -1 reaches init: the session fails, and the record says what happened."""
    s = shared.session()
    (s.workspace / "work").touch()
    os.chown(s.workspace / "work", shared.uid, shared.uid)
    a = s.exec("perl", "-e", 'unlink("work"); kill 9, -1')
    assert not (s.workspace / "work").exists()
    assert "ended without a result; it may have run" in a["result"]["error"]["message"], a
    assert s.get(f"/commands/{a['command_id']}")["state"] == "killed"
    types = [e["type"] for e in s.history(command_id=a["command_id"])]
    assert types.index("command_started") < types.index("exec") < types.index("command_killed")
    assert s.get()["state"] == "failed"
