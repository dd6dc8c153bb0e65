# SPDX-License-Identifier: Apache-2.0
"""A session's file server when its disk is full, its tree goes, descriptors end, or it is killed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from harness import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import file_attacks  # noqa: E402

FUSE = {"monitoring": {"mode": "fuse"}}


@pytest.fixture(params=["root", "user"])
def fuse_server(request, new_server):
    return new_server(uid=0 if request.param == "root" else harness.USER_UID, config=FUSE)


@pytest.fixture
def small(fuse_server, tmp_path):
    """A workspace on a small file system of its own."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o055 != 0o055:
            parent.chmod(0o755)
    place = tmp_path / "small"
    place.mkdir()
    owner = f"uid={fuse_server.uid},gid={fuse_server.uid},mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4m,nr_inodes=100,{owner}", "none", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], stderr=subprocess.DEVNULL)


def file_servers(server, session_id=None):
    """The pids of the file servers below the server; those of the pool have no session."""
    found = set()
    for pid in {p for w in (server.warden_pids() + server.waiting_pids()) for p in harness.children_of(w)}:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if command[0] == b"agentsh-fs" and (session_id is None or command[1] == session_id.encode()):
                found.add(pid)
    return found


FILL = """
import errno, mmap, os, sys
def fails(act):
    try:
        act()
    except OSError as e:
        print(errno.errorcode[e.errno])
def fill():
    with open("full", "wb", buffering=0) as f:
        while f.write(bytes(1 << 16)) == 1 << 16:
            pass
        f.write(bytes(1 << 16))
def mapped():
    with open("mapped", "w+b") as f:
        f.truncate(8 << 20)
        m = mmap.mmap(f.fileno(), 0)
        for page in range(0, 8 << 20, 4096):
            m[page] = 1
        m.flush()
def names():
    for i in range(200):
        os.mkdir(f"d{i}")
for act in (fill, mapped, names):
    child = os.fork()
    if child == 0:
        fails(act)
        sys.stdout.flush()
        os._exit(0)
    if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        print("signal", flush=True)
    os.system("rm -rf full mapped d*")
open("after", "w").write("text")
print(open("after").read())
"""


def test_fil_7_a_full_disk_fails_the_operation_alone(fuse_server, small):
    (small / "fill.py").write_text(FILL)
    s = fuse_server.session(workspace=str(small))
    full, mapped, names, after = s.out("python3 fill.py").split()
    # where the kernel passes a mapping through it is SIGBUS, as natively
    assert (full, names, after) == ("ENOSPC", "ENOSPC", "text") and mapped in ("ENOSPC", "signal")
    assert s.get()["state"] == "ready"


LOOP = "i=0; while [ ! -e stop ] && [ $i -lt 100000 ]; do echo $i > f$((i % 9)) || exit 3; i=$((i+1)); done"


def test_fil_7_a_workspace_that_is_unmounted_works_on(fuse_server, small):
    s = fuse_server.session(workspace=str(small))
    command = s.script(LOOP, detach=True, status=202)["command_id"]
    wait_for(lambda: (small / "f8").exists(), "it works")
    subprocess.run(["umount", "-l", small], check=True)
    assert s.server.post(f"{s.path}/kill/{command}", {"signal": "KILL"}).status == 200
    assert s.out("cat f8; echo more > more; cat more").endswith("more\n")


def test_fil_7_a_workspace_that_is_removed_leaves_errors(fuse_server):
    s = fuse_server.session()
    command = s.script(LOOP, detach=True, status=202)["command_id"]
    wait_for(lambda: (s.workspace / "f8").exists(), "it works")
    wait_for(lambda: shutil.rmtree(s.workspace, ignore_errors=True) or not s.workspace.exists(), "it is removed")
    path = f"/api/v1/sessions/{s.id}/commands/{command}"
    wait_for(lambda: fuse_server.get(path).json["state"] == "finished", "it fails and ends")
    s.workspace.mkdir()  # another directory
    (s.workspace / "other").touch()
    assert s.out("ls; pwd; echo x > new || echo failed") == "/workspace\nfailed\n"
    assert s.destroy()["state"] == "stopped"


MAKE_LEVELS = """
import os
for _ in range(4000):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").write("text")
"""


def test_fil_4_four_thousand_levels(fuse_server):
    """Where the policy has rules, a path that is too long to be decided is not entered."""
    for policy, deepest in (("default", [(4095 - len("/workspace")) // 2, "EACCES"]), ("observe", [4000, "done"])):
        s = fuse_server.session(policy=policy)
        shutil.copy(file_attacks.__file__, s.workspace)
        who = {"user": fuse_server.uid, "group": fuse_server.uid}
        subprocess.run(["/usr/bin/python3", "-c", MAKE_LEVELS], cwd=s.workspace, check=True, **who)
        try:
            assert json.loads(s.out("python3 file_attacks.py deep .")) == [deepest]
        finally:
            subprocess.run(["rm", "-rf", s.workspace / "d"], check=True)


@pytest.mark.parametrize("n", range(3))
def test_fil_9_a_file_server_that_is_killed_during_a_command_ends_it(fuse_server, n):
    s = fuse_server.session()
    again = f"cp /bin/true t; while :; do {(': > f', './t', 'cat f* > /dev/null')[n]}; : > begun; done"
    command = s.script(again, detach=True, status=202)["command_id"]
    wait_for(lambda: (s.workspace / "begun").exists(), "it works")
    (pid,) = file_servers(fuse_server, s.id)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session fails")
    assert "the file server was ended by signal 9" in s.get()["failure"]
    assert f"Failure:       {s.get()['failure']}\n" in fuse_server.cli("session", "info", s.id).stdout.decode()
    record = fuse_server.get(f"/api/v1/sessions/{s.id}/commands/{command}").json
    assert record["state"] in ("killed", "lost", "finished"), record
    assert fuse_server.session().out("echo lives") == "lives\n"


def test_ses_3_a_prepared_sandbox_whose_file_server_has_died_is_not_used(new_server):
    server = new_server(config=FUSE)
    wait_for(lambda: len(server.waiting_pids()) == 2, "two are prepared")
    old, servers = set(server.waiting_pids()), file_servers(server)
    assert len(servers) == 2
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(harness.alive(p) for p in old), "they end")
    assert server.session().out("echo x > x; cat x") == "x\n"


FILES, REMOVED, LOOKS = 12000, 5000, 100000


def test_fil_2_many_operations_are_events_or_counts(fuse_server):
    """Exactly: each file that tar makes and writes, each look at a file whose attributes are not cached."""
    s = fuse_server.session()
    s.out(
        f"mkdir t; for i in $(seq {FILES}); do echo $i > t/f$i; done; tar cf ../tmp/t.tar t; rm -r t; echo x > a; ln a b"
    )

    def stored(command):
        counts, cursor = {}, ""
        while True:
            query = f"command_id={command}&limit=1000{cursor}"
            page = fuse_server.get(f"/api/v1/sessions/{s.id}/history?{query}").json
            for e in page["events"]:
                if e["type"].startswith(("file_", "dir_", "symlink_")):
                    key = (e["type"], e["path"].removeprefix("/workspace/").split("/")[0])
                    counts[key] = counts.get(key, 0) + e["count"]
            cursor = f"&cursor={page['next']}"
            if not page["next"]:
                return counts

    def counted(script, closes=0, **at_last):
        """So many files may be closed later than the answer waits; then at_last is in the store."""
        a = s.script(script)
        assert a["result"]["exit_code"] == 0, a["result"]
        wait_for(
            lambda: all(stored(a["command_id"])[k, "t"] == n for k, n in at_last.items()), "late events are stored"
        )
        counts = stored(a["command_id"])
        # the answer, the store and the session agree
        total = sum(counts.values())
        assert total - closes <= a["events"]["totals"]["file"] <= total
        return counts

    before = s.get()["total_file_ops"]
    # what is written, and the times of each
    untar = counted("tar xf ../tmp/t.tar", closes=FILES, file_write=2 * FILES + 1)
    assert (untar["file_create", "t"], untar["dir_create", "t"]) == (FILES, 1)
    looks = counted(f"perl -e 'for (1 .. {LOOKS}) {{ stat \"a\" or die }}'")
    # by either name; and LOOKUPs, when the name is not known any more
    found = looks.get(("file_stat", "a"), 0) + looks.get(("file_stat", "b"), 0)
    assert LOOKS <= found <= LOOKS * 1.01
    removed = counted(f"perl -e 'for (1 .. {REMOVED}) {{ unlink \"t/f$_\" or die }}'")
    assert removed["file_delete", "t"] == REMOVED
    total = s.get()["total_file_ops"] - before
    assert total == sum(sum(c.values()) for c in (untar, looks, removed))
