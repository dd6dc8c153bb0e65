# SPDX-License-Identifier: Apache-2.0
"""monitoring.mode: ebpf: the workspace is a mount, and a program in the kernel records what is done in it."""

import contextlib
import os
import shlex
import signal
from pathlib import Path

import harness
import pytest
from test_hung_workspace import Hung

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("AGENTSH_TEST_BPF") == "off", reason="needs root and BPF"
)
OBSERVE = {"policies": {"default": "observe"}}


def start(new_server, **more):
    server = new_server(start=False, config={**OBSERVE, **more})
    server.config["sandbox"].update(bpf="auto")
    server.config["monitoring"] = {"mode": "ebpf"}
    server.start()
    return server


@pytest.fixture
def ebpf(new_server):
    return start(new_server)


def operations(answer, kind="file_operations", **wanted):
    return [e for e in answer["events"][kind] if all(e.get(k) == v for k, v in wanted.items())]


def detail(session, wall="file_rules"):
    return next(w["detail"] for w in session.get()["enforcement"] if w["wall"] == wall)


def test_cfg_1_monitoring_mode_ebpf(ebpf):
    s = ebpf.session()
    assert s.out("stat -f -c %T /workspace").strip() != "fuseblk"
    assert "/workspace fuse" not in s.out("cat /proc/self/mounts")
    a = s.script("echo x > a; touch /tmp/elsewhere; cat /etc/passwd > /dev/null")
    assert {e["path"] for e in operations(a)} == {"/workspace/a"}
    assert "BPF records what is done in the workspace" in detail(s)


def test_fil_8_operations_are_recorded(ebpf):
    s = ebpf.session()
    a = s.script(
        "mkdir -p d/e; printf 12345 > d/a; cat d/a d/a > d/b; mv d/b d/c; ln d/c d/h; ln -s a d/l; chmod 600 d/a\n"
        "truncate -s 3 d/a; mkfifo d/p; rm d/h d/p d/l; rmdir d/e; ls d > /dev/null; touch -d yesterday d/a"
    )
    assert a["result"]["exit_code"] == 0, a["result"]
    found = {(e["type"], e["path"]) for e in operations(a)}
    assert found >= {
        ("dir_create", "/workspace/d/e"),
        ("file_create", "/workspace/d/a"),
        ("file_write", "/workspace/d/a"),
        ("file_read", "/workspace/d/a"),
        ("file_rename", "/workspace/d/b"),
        ("file_link", "/workspace/d/c"),
        ("symlink_create", "/workspace/d/l"),
        ("file_chmod", "/workspace/d/a"),
        ("file_mknod", "/workspace/d/p"),
        ("file_delete", "/workspace/d/h"),
        ("dir_delete", "/workspace/d/e"),
        ("dir_list", "/workspace/d"),
    }
    assert {e["command_id"] for e in operations(a)} == {a["command_id"]}
    assert all(e["real_path"] == f"{s.workspace}{e['path'].removeprefix('/workspace')}" for e in operations(a))
    (moved,) = operations(a, type="file_rename")
    assert moved["operation"]["to"] == "/workspace/d/c" and moved["metadata"] == {"path_source": "argument"}
    (made,) = operations(a, type="file_create", path="/workspace/d/a")
    assert {"O_WRONLY", "O_CREAT"} <= set(made["operation"]["flags"]) and "metadata" not in made
    assert [e["operation"] for e in operations(a, type="file_write", path="/workspace/d/b")] == [{"bytes": 10}]
    assert sum(e["operation"]["bytes"] for e in operations(a, type="file_read", path="/workspace/d/a")) == 10
    record = s.get()
    assert record["total_file_ops"] == a["events"]["totals"]["file"]
    assert (record["total_bytes_read"], record["total_bytes_written"]) == (10, 15)


def test_fil_8_names_are_canonical_by_either_path(ebpf):
    s = ebpf.session()
    a = s.script(f"cd {s.workspace}; echo 1 > one; mkdir sub; cd sub; echo 2 > ../two; rm {s.workspace}/one")
    assert {e["path"] for e in operations(a)} == {f"/workspace/{name}" for name in ("one", "two", "sub")}
    (s.workspace / "link").symlink_to("/usr")
    a = s.script("cd /workspace; touch link/x ./sub/../../usr/y")
    assert {e["path"] for e in operations(a, "blocked_operations")} == {"/usr/x", "/usr/y"}


def test_fil_8_bytes_are_exact_or_absent(ebpf):
    s = ebpf.session()
    (s.workspace / "in").write_bytes(b"r" * 300000)
    a = s.exec(
        "perl",
        "-e",
        "use Fcntl; sysopen(F, 'in', O_RDWR); sysread(F, $x, 1000); sysread(F, $x, 10); close F;"
        "for (1 .. 50) { open(G, '<', 'in'); sysread(G, $x, 7); close G }"
        "open(H, '>', 'out'); syswrite(H, 'x' x 5000); if (!fork) { syswrite(H, 'y' x 100); exit } wait; close H",
    )
    assert a["result"]["exit_code"] == 0, a["result"]
    assert sum(e["operation"]["bytes"] for e in operations(a, type="file_read", path="/workspace/in")) == 1010 + 350
    assert sum(e["operation"]["bytes"] for e in operations(a, type="file_write", path="/workspace/out")) == 5100
    a = s.exec("python3", "-c", "import mmap; f = open('in', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'w'")
    assert [e["operation"] for e in operations(a, type="file_write")] == [{"mapped": True}]


def test_fil_8_a_file_without_a_name_is_made_and_not_listed(ebpf):
    s = ebpf.session()
    a = s.exec("python3", "-c", "import os; os.write(os.open('.', os.O_TMPFILE | os.O_RDWR), b'abc')")
    assert a["result"]["exit_code"] == 0, a["result"]
    made = [(e["type"], e.get("operation", {}).get("bytes")) for e in operations(a) if "/#" in e["path"]]
    assert made == [("file_create", None), ("file_write", 3)]


LINKS = """
import os
os.mkdir('d')
for n in range(4):
    open(f'd/{n}', 'w').close()
at = f"/proc/self/fd/{os.open('d', os.O_PATH)}"
os.unlink('/proc/self/cwd/d/0'); os.rename(f'{at}/1', f'{at}/5'); os.chmod(f"/dev/fd/{os.open('d/2', os.O_PATH)}", 0o600)
os.truncate(f'/proc/thread-self/root{os.getcwd()}/d/3', 7); os.rename(f'{at}/5', 'out'); os.mkdir(f'/proc/{os.getpid()}/cwd/e')
try:
    os.unlink('/proc/self/nothing')
except OSError:
    pass
"""


def test_fil_8_links_of_the_kernel_hide_no_change(ebpf):
    s = ebpf.session()
    a = s.exec("python3", "-c", LINKS)
    assert a["result"]["exit_code"] == 0, a["result"]
    found = [e for e in operations(a) if e["path"].startswith(("/proc/", "/dev/fd/"))]
    kinds = ["file_delete", "file_rename", "file_chmod", "file_truncate", "file_rename", "dir_create"]
    assert [e["type"] for e in found] == kinds, found
    assert {e["metadata"]["path_source"] for e in found} == {"argument"}
    assert found[4]["operation"]["to"] == "/workspace/out"


def test_exe_2_the_failed_operation_is_the_error(ebpf):
    s = ebpf.session()
    (s.workspace / "missing-backup.txt").write_text("x")
    for command in ("cat", "ls"):
        error = s.exec(command, "missing.txt")["result"]["error"]
        assert (error["code"], error["path"]) == ("ENOENT", "/workspace/missing.txt")
        assert error["similar_files"] == ["/workspace/missing-backup.txt"]
    assert s.exec("true")["result"]["error"] is None


def test_fil_8_other_recorded_paths(new_server, tmp_path):
    more, unseen = tmp_path / "more", tmp_path / "unseen"
    for d in (tmp_path, more, unseen):
        d.mkdir(exist_ok=True)
        d.chmod(0o777)
    lists = {"monitored_paths": [str(more)], "passthrough_paths": [str(unseen)]}
    s = start(new_server, filesystem=lists).session()
    a = s.script(f"cd {more} && cat nothing; ls {unseen}/nothing; echo x > {s.workspace}/here")
    # a mount of their own is watched by name, too; what is beside them is not
    assert {e["path"] for e in operations(a)} == {f"{more}/nothing", "/workspace/here"}


DEEP = """
import os, sys
os.chdir("/workspace")
for i in range(int(sys.argv[1])):
    os.mkdir(sys.argv[2]); os.chdir(sys.argv[2])
os.close(os.open("secret", os.O_CREAT)); os.rename("secret", "other"); os.unlink("other")
"""


@pytest.mark.parametrize("levels,name", [(600, "a"), (25, "n" * 200)])
def test_fil_8_what_is_deep_down_is_recorded(ebpf, levels, name):
    """Of a path that is too long the end is known."""
    s = ebpf.session()
    a = s.exec("python3", "-c", DEEP, str(levels), name)
    assert a["result"]["exit_code"] == 0, a["result"]
    for kind, end in (("file_create", "/secret"), ("file_rename", "/secret"), ("file_delete", "/other")):
        (e,) = s.history(type=kind)
        assert e["path"].endswith(f"/{name}{end}") and e["path"].startswith(
            "/workspace/a/" if name == "a" else ".../n"
        )


# The text of the argument lies in the file that the call truncates: it is gone when the call ends.
VANISH = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
f = open("/workspace/f", "r+b")
m = mmap.mmap(f.fileno(), 0)
os.chdir("/tmp")
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
assert m[0:1] == b"/" and libc.truncate(ctypes.c_void_p(at), 0) == 0
"""


def test_fil_8_an_argument_that_cannot_be_read_any_more(ebpf):
    s = ebpf.session()
    (s.workspace / "f").write_bytes(b"/workspace/f".ljust(4096, b"\0"))
    a = s.exec("python3", "-c", VANISH)
    assert a["result"]["exit_code"] == 0, a["result"]
    (e,) = operations(a, type="file_truncate")
    assert (e["path"], e["metadata"]["path_source"]) == ("...", "argument") and "real_path" not in e
    assert (s.workspace / "f").stat().st_size == 0


def test_fil_8_a_rename_at_the_same_time_makes_no_new_name(ebpf):
    s = ebpf.session()
    names = [s.workspace / "x", s.workspace / ("y" * 200)]
    names[0].mkdir(mode=0o777)
    (names[0] / "f").touch()
    opens = "chdir('x') or die; print \"ready\\n\"; for (1 .. 100000) { open(F, '<', 'f') or die }"
    a = s.exec("perl", "-e", f"$| = 1; {opens}", detach=True, status=202)
    path = f"{s.path}/commands/{a['command_id']}"
    harness.wait_for(lambda: ebpf.get(path).json["stdout_total_bytes"] > 0, "it is there")
    renames = 0
    while renames % 20000 or ebpf.get(path).json["state"] == "running":
        os.rename(*names)
        os.rename(*reversed(names))
        renames += 1
    found = {e["path"] for e in s.history(type="file_open")}
    assert found == {f"/workspace/{name.name}/f" for name in names}, found


def running(token):
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [int(line.parent.name)] if line.read_text().startswith(token) else []
    return found


def test_fil_8_the_last_calls_of_what_a_command_leaves_behind(ebpf):
    """They are read when its processes and the command itself are gone."""
    s = ebpf.session(background="keep")
    waits = "$0 = 'left-behind'; $SIG{TERM} = sub { open(F, '>', 'last'); exit }; sleep 1000"
    first = s.script(f"perl -e {shlex.quote(waits)} > /dev/null 2>&1 & echo $!")
    harness.wait_for(lambda: running("left-behind"), "it waits")
    hung = Hung(ebpf)
    hung.stop()
    try:
        (pid,) = running("left-behind")
        os.kill(pid, signal.SIGTERM)
        harness.wait_for(lambda: not harness.alive(pid), "it ends")
        s.exec("true")
    finally:
        hung.go_on()
    (e,) = harness.wait_for(lambda: s.history(type="file_create"), "it is recorded")
    assert (e["path"], e.get("command_id")) == ("/workspace/last", first["command_id"])


def test_ses_5_max_file_ops_ends_command_and_session(ebpf):
    """The operation above the limit has happened."""
    s = ebpf.session(limits={"max_file_ops": 50})
    assert s.script("echo x > a")["result"]["exit_code"] == 0
    a = s.script("i=0; while [ $i -lt 200 ]; do : > f$i; i=$((i+1)); done; sleep 100")
    error = a["result"]["error"]
    assert error["code"] == "E_RESOURCE_LIMIT"
    assert error["message"] == "the session has had its 50 operations (limits.max_file_ops)"
    events = ebpf.get(f"/api/v1/sessions/{s.id}/history?type=resource_limit").json["events"]
    assert [(e["resource"]["counter"], e["command_id"]) for e in events] == [("max_file_ops", a["command_id"])]
    assert ebpf.post(f"{s.path}/exec", {"command": "true"}).status in (410, 429)


def test_fil_8_every_operation_is_an_event_or_counted(ebpf):
    s = ebpf.session()
    a = s.exec("perl", "-e", 'for (1 .. 5000) { open(F, \'>\', "f$_") or die; close F; unlink "f$_" }')
    assert a["result"]["exit_code"] == 0

    def found(kind):
        return s.get(f"/history?type={kind}&limit=1")["total"]

    def lost():
        return sum(e["count"] for e in s.history(type="events_dropped"))

    harness.wait_for(
        lambda: found("file_create") + found("file_delete") + lost() == 10000,
        "all is recorded or counted",
        show=lambda: (found("file_create"), found("file_delete"), lost()),
    )
    assert found("file_create") > 1000  # it is not all lost


def test_fil_8_a_policy_that_needs_a_file_server_is_refused(ebpf):
    a = ebpf.post("/api/v1/sessions", {"workspace": str(ebpf.workspace()), "policy": "default"})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    assert "monitoring.mode ebpf" in a.json["error"]["message"] and "fuse" in a.json["error"]["message"]


@pytest.mark.parametrize("way", ["off", "user"])
def test_fil_8_without_bpf_the_server_does_not_start(new_server, way):
    server = new_server(uid=harness.USER_UID if way == "user" else 0, start=False, config=OBSERVE)
    server.config["sandbox"].update(bpf="off" if way == "off" else "auto")
    server.config["monitoring"] = {"mode": "ebpf"}
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) != 0
    log = server.log_text()
    assert ("sandbox.bpf is off" if way == "off" else "only root's server may load BPF programs") in log
    assert "monitoring.mode" in log
