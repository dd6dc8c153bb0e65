# SPDX-License-Identifier: Apache-2.0
"""Every operation of the file system is decided by policy and recorded: a test program serves a directory as /workspace."""

import contextlib
import ctypes
import errno
import json
import os
import subprocess
import time
from pathlib import Path

import harness
import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]
HEAD = "version: 1\nname: t\n"
OPEN = HEAD + "default: {files: allow, network: allow, commands: allow}\n"


@pytest.fixture
def serve(tmp_path):
    """serve(policy, *options, **files): the mount; files are made in the tree before."""
    trees = []

    def start(policy, *options, files=()):
        back = tmp_path / "back"
        back.mkdir()
        for name in files:
            path = back / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"text of {name}")
        (tmp_path / "policy.yaml").write_text(policy)
        t = MountTree(tmp_path, "--policy", tmp_path / "policy.yaml", "--events", tmp_path / "events", *options)
        t.log = tmp_path / "events"
        trees.append(t)
        return t

    yield start
    for t in trees:
        t.finish()


def events(tree, **wanted):
    """The events that have all of these; path is below /workspace."""
    lines = [json.loads(line) for line in tree.log.read_text().splitlines()]
    if "path" in wanted:
        wanted["path"] = "/workspace" + wanted["path"]
    return [e for e in lines if all(e.get(k) == v for k, v in wanted.items())]


def one(tree, **wanted):
    """Waits for the event, because the kernel tells of a close later; it must be the only one."""
    harness.wait_for(lambda: events(tree, **wanted), f"the event {wanted}")
    found = events(tree, **wanted)
    assert len(found) == 1, found
    return found[0]


def fails(code, function, *args, **kwargs):
    with pytest.raises(OSError) as e:
        function(*args, **kwargs)
    assert e.value.errno == code, e.value


def rule(name, paths, decision, operations=None, **more):
    fields = {"name": name, "paths": paths, "decision": decision, **more}
    if operations:
        fields["operations"] = operations
    return fields


def policy(*rules, default="allow"):
    return json.dumps(
        {
            "version": 1,
            "name": "t",
            "default": {"files": default, "network": "allow", "commands": "allow"},
            "file_rules": list(rules),
        }
    )


def test_fil_2_each_operation_has_one_event_with_its_path_and_actor(serve):
    t = serve(policy(), files=["a"])

    def body():
        os.mkdir("d")
        with open("d/f", "wb") as f:
            f.write(b"x" * 5000)
        with open("d/f", "rb") as f:
            assert len(f.read()) == 5000
        os.chmod("d/f", 0o600)
        os.chown("d/f", os.getuid(), -1)
        os.truncate("d/f", 10)
        os.utime("d/f")
        os.symlink("somewhere", "d/s")
        assert os.readlink("d/s") == "somewhere"
        os.mkfifo("d/p")
        os.setxattr("d/f", "user.a", b"1")
        os.removexattr("d/f", "user.a")
        os.link("d/f", "d/g")
        assert sorted(os.listdir("d")) == ["f", "g", "p", "s"]
        os.rename("d/g", "d/h")
        for name in ("f", "h", "p", "s"):
            os.unlink(f"d/{name}")
        os.rmdir("d")
        fails(errno.ENOENT, os.stat, "gone")
        return os.getpid()

    pid = t.run(body)
    made = one(t, type="file_create", path="/d/f")
    assert (made["pid"], made["command_id"], made["decision"]) == (pid, "cmd-1", "allow")
    assert made["real_path"] == f"{t.back}/d/f"
    assert made["operation"]["flags"][0] == "O_WRONLY" and "O_CREAT" in made["operation"]["flags"]
    one(t, type="dir_create", path="/d")
    written = [e for e in events(t, type="file_write", path="/d/f") if "bytes" in e.get("operation", {})]
    assert [(e["pid"], e["command_id"], e["operation"]["bytes"]) for e in written] == [(pid, "cmd-1", 5000)]
    assert written[0]["metadata"] == {"file_type": "text/plain", "file_size_before": 0, "file_size_after": 5000}
    assert one(t, type="file_read", path="/d/f")["pid"] == pid
    one(t, type="file_open", path="/d/f")
    for kind in ("file_chmod", "file_chown", "file_truncate"):
        one(t, type=kind, path="/d/f")
    assert one(t, type="symlink_create", path="/d/s")["operation"]["to"] == "somewhere"
    one(t, type="symlink_read", path="/d/s")
    assert one(t, type="file_link", path="/d/f")["operation"]["to"] == "/workspace/d/g"
    one(t, type="file_mknod", path="/d/p")
    assert len(events(t, type="file_xattr", path="/d/f")) == 2
    one(t, type="dir_list", path="/d")
    assert one(t, type="file_rename", path="/d/g")["operation"]["to"] == "/workspace/d/h"
    for name in ("f", "h", "p", "s"):
        one(t, type="file_delete", path=f"/d/{name}")
    one(t, type="dir_delete", path="/d")
    assert one(t, type="file_stat", path="/gone")["operation"]["error"] == "ENOENT"
    assert {e["decision"] for e in events(t)} == {"allow"}


OPERATIONS = {
    "read": lambda: open("f").close(),
    "write": lambda: open("f", "r+").close(),
    "open": lambda: open("f").close(),
    "create": lambda: open("new", "x").close(),
    "delete": lambda: os.unlink("f"),
    "rename": lambda: os.rename("f", "new"),
    "stat": lambda: os.stat("f"),
    "list": lambda: os.listdir("d"),
    "chmod": lambda: os.chmod("f", 0o600),
    "chown": lambda: os.chown("f", 0, 0),
    "symlink": lambda: os.symlink("x", "new"),
    "link": lambda: os.link("f", "new"),
    "truncate": lambda: os.truncate("f", 0),
    "execute": lambda: subprocess.run(["./x"], check=True),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_fil_3_each_operation_can_be_denied_by_itself(serve, operation):
    t = serve(policy(rule("no", ["/workspace/**"], "deny", [operation], message="not here")), files=["f", "x", "d/g"])
    (t.back / "x").write_text("#!/bin/sh\n")
    (t.back / "x").chmod(0o755)

    def body():
        fails(errno.EACCES, OPERATIONS[operation])

    t.run(body)
    # positive control: another operation goes on
    t.run(OPERATIONS["list" if operation == "chmod" else "chmod"])
    denied = [e for e in events(t) if e["decision"] == "deny"]
    assert denied and {e["policy"]["rule"] for e in denied} == {"no"}
    assert denied[0]["policy"]["operation"] == f"file_{operation}", denied[0]
    assert (t.back / "f").read_text() == "text of f" and not (t.back / "new").exists()


def test_fil_3_what_is_denied_below_does_not_close_the_way(serve):
    """Only a/b/** is allowed: its parents are passed, and show nothing of themselves."""
    t = serve(policy(rule("yes", ["/workspace/a/b/**"], "allow"), default="deny"), files=["a/b/c/f", "a/g", "h"])

    def body():
        assert Path("a/b/c/f").read_text() == "text of a/b/c/f"
        os.chdir("a/b")
        assert os.listdir(".") == ["c"]
        os.chdir("../..")
        for path in ("a", "a/g", "h"):
            fails(errno.EACCES, os.stat, path)
            fails(errno.EACCES, os.open, path, os.O_RDONLY)
        fails(errno.EACCES, os.listdir, "a")
        fails(errno.ENOENT, os.stat, "nothing")
        fails(errno.EACCES, open, "nothing", "w")

    t.run(body)
    assert one(t, type="file_open", path="/a/g")["policy"]["rule"] == "default"


def test_fil_3_attributes_of_a_denied_file_are_not_in_the_kernels_cache(serve):
    t = serve(policy(rule("no", ["**/secret"], "deny")), files=["secret", "open"])
    t.sh("ls >/dev/null; ls -l open")

    def body():
        buffer = ctypes.create_string_buffer(256)
        sizes = []
        for name in (b"open", b"secret"):
            # AT_STATX_DONT_SYNC: what the kernel has, without a question
            fails(errno.EACCES, os.open, b"secret", os.O_RDONLY)
            r = ctypes.CDLL(None).statx(-100, name, 0x4000, 0x7FF, buffer)
            sizes.append(int.from_bytes(buffer.raw[40:48], "little") if r == 0 else None)
        return sizes

    assert t.run(body) in ([12, 0], [12, None])


def test_fil_3_a_created_file_needs_no_truncate_and_an_existing_one_does(serve):
    t = serve(policy(rule("no", ["/workspace/**"], "deny", ["truncate"])), files=["old"])

    def body():
        Path("new").write_text("new")
        fails(errno.EACCES, open, "old", "w")
        fails(errno.EACCES, open, "new", "w")

    t.run(body)
    assert (t.back / "new").read_text() == "new" and (t.back / "old").read_text() == "text of old"


def test_fil_3_blocked_and_read_only_paths_are_held_by_the_file_system(serve):
    t = serve(
        policy(),
        "--blocked",
        "/workspace/no",
        "--read-only",
        "/workspace/ro",
        files=["no/f", "ro/f", "f"],
    )

    def body():
        for path in ("no", "no/f"):
            fails(errno.EACCES, os.stat, path)
        fails(errno.EACCES, os.listdir, "no")
        fails(errno.EACCES, open, "no/new", "w")
        assert Path("ro/f").read_text() == "text of ro/f"
        for call in (
            lambda: Path("ro/f").write_text(""),
            lambda: Path("ro/new").write_text(""),
            lambda: os.unlink("ro/f"),
            lambda: os.rename("ro/f", "g"),
            lambda: os.rename("f", "ro/g"),
            lambda: os.link("ro/f", "g"),
            lambda: os.mkdir("ro/d"),
            lambda: os.chmod("ro/f", 0),
            lambda: os.rename("ro", "rw"),
        ):
            fails(errno.EROFS, call)
        Path("f").write_text("changed")

    t.run(body)
    assert {e["policy"]["rule"] for e in events(t) if e["decision"] == "deny"} == {
        "filesystem.blocked_paths",
        "filesystem.read_only_passthrough_paths",
    }


def test_fil_3_agentshs_own_processes_are_neither_decided_nor_recorded(serve):
    t = serve(policy(rule("no", ["/workspace/secret"], "deny")), files=["secret", "f"])

    def own():
        Path("/proc/self/comm").write_text("own")
        assert Path("secret").read_text() == "text of secret"
        os.listdir(".")

    def unknown():
        Path("/proc/self/comm").write_text("unknown")
        Path("f").read_text()
        fails(errno.EACCES, open, "secret")

    t.run(own)
    assert events(t) == []
    t.run(unknown)
    assert one(t, type="file_read", path="/f")["command_id"] == "cmd-late"
    assert one(t, type="file_open", path="/secret")["command_id"] == "cmd-late"


def test_fil_3_log_and_approve_decisions_are_kept(serve):
    t = serve(
        policy(
            rule("watch", ["/workspace/l"], "log", ["write"]),
            rule("ask", ["/workspace/a"], "approve", ["read"]),
        ),
        files=["l", "a"],
    )

    def body():
        Path("l").write_text("x")
        fails(errno.EACCES, open, "a")
        open("a", "a").close()

    t.run(body)
    logged = events(t, type="file_open", path="/l")[0]
    assert logged["policy"]["decision"] == "log" and logged["policy"]["rule"] == "watch"
    asked = [e for e in events(t, type="file_open", path="/a") if e["decision"] == "deny"][0]
    assert asked["policy"]["decision"] == "approve" and asked["policy"]["reason"] == "no approver"


def test_fil_3_odd_names_are_decided_and_recorded(serve):
    t = serve(policy(rule("no", ["/workspace/**/*.key"], "deny")))
    names = [b"new\nline", b"\xff\xfe", b"n" * 255, b" ", b'"', b"*", b"[a]", b"\xc3\xa4"]

    def body():
        for name in names:
            with open(name, "wb") as f:
                f.write(name)
            with open(name, "rb") as f:
                assert f.read() == name
            denied = name[:251] + b".key"
            fails(errno.EACCES, open, denied, "wb")
        assert sorted(os.listdir(b".")) == sorted(names)

    t.run(body)
    assert len([e for e in events(t, type="file_create") if e["decision"] == "allow"]) == len(names)
    assert len([e for e in events(t, type="file_create") if e["decision"] == "deny"]) == len(names)


def deep(levels):
    """Goes down so many levels of a 200-byte name, makes them, and writes a file there."""
    for _ in range(levels):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    Path("f").write_text("deep")
    assert Path("f").read_text() == "deep"


def test_fil_3_a_path_beyond_the_limit_is_denied_unless_nothing_is_restricted(serve):
    t = serve(policy())
    t.run(deep, 30)
    assert len(events(t, type="dir_create")) == 30


def test_fil_3_a_path_beyond_the_limit_is_denied_where_rules_are(serve):
    t = serve(policy(rule("no", ["/workspace/secret"], "deny")))

    def body():
        deep(15)
        os.chdir("/")

    t.run(body)
    t.run(lambda: fails(errno.EACCES, deep_below))
    denied = [e for e in events(t) if e["decision"] == "deny"]
    assert denied[0]["policy"]["rule"] == "file-control" and denied[0]["path"].startswith("/workspace/...")


def test_fil_3_a_path_of_the_limits_length_is_decided(serve):
    t = serve(policy(rule("no", ["/workspace/secret", "/workspace/**/*.key"], "deny")))

    def body():
        deep(20)
        left = 4095 - len("/workspace") - 20 * 201 - 1
        Path("n" * left).write_text("text")
        fails(errno.EACCES, open, "n" * (left - 4) + ".key", "w")
        fails(errno.EACCES, open, "n" * (left + 1), "w")
        os.chdir("/")

    t.run(body)
    rules = {e["policy"]["rule"] for e in events(t) if e["decision"] == "deny"}
    assert rules == {"no", "file-control"}


def deep_below():
    for _ in range(15):
        os.chdir("d" * 200)
    deep(15)


# ---- moves, links, hidden names ----


def test_fil_3_a_move_does_not_make_a_denied_operation_possible(serve):
    t = serve(
        policy(
            rule("no-read", ["/workspace/keys/*", "/workspace/*/*/deep"], "deny", ["read"]),
            rule("below", ["/workspace/a/secret/**"], "deny", ["write"]),
        ),
        files=["keys/k", "open/f", "a/secret/s", "a/other", "b/x", "n/m/deep", "t/x"],
    )

    def body():
        for old, new in (("keys/k", "open/k"), ("keys", "k2"), ("a", "c"), ("a/secret", "c"), ("n/m", "deeper")):
            fails(errno.EACCES, os.rename, old, new)
        fails(errno.EACCES, os.link, "keys/k", "k")
        fails(errno.EACCES, exchange, "keys/k", "open/f")
        fails(errno.EACCES, exchange, "open/f", "keys/k")
        fails(errno.EACCES, exchange, "a", "b")
        fails(errno.EACCES, exchange, "b", "a")
        fails(errno.EACCES, open, "keys/k")
        # positive controls: nothing is gained by these
        os.rename("open/f", "keys/f")
        fails(errno.EACCES, open, "keys/f")
        os.rename("a/other", "other")
        os.rename("b", "b2")
        exchange("other", "t")

    t.run(body)
    assert (t.back / "a/secret/s").exists() and (t.back / "keys/k").exists() and (t.back / "other/x").exists()
    denied = events(t, type="file_rename", path="/a")[0]
    assert denied["policy"]["rule"] == "file-control" and "allows more" in denied["policy"]["reason"]
    assert denied["operation"]["to"] == "/workspace/c"


def link_open_file(fd, name):
    follow = 0x400
    if (
        ctypes.CDLL(None, use_errno=True).linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, name.encode(), follow)
        < 0
    ):
        raise OSError(ctypes.get_errno(), name)


def exchange(a, b):
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, a.encode(), -100, b.encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), a)


# what the name that is replaced has: a rule about these operations, and whether a file may come to its place
REPLACED = {
    "delete-denied": ("deny", ["delete"], False),
    "delete-asked": ("approve", ["delete"], True),
    "all-asked": ("approve", ["delete", "write"], False),
    "no-truncation": ("approve", ["delete", "truncate"], False),
}


def test_fil_3_a_file_that_may_be_overwritten_may_be_replaced_unless_its_deletion_is_denied(serve):
    t = serve(
        policy(*(rule(n, [f"/workspace/{n}/**"], decision, ops) for n, (decision, ops, _) in REPLACED.items())),
        files=[f"{n}/old" for n in REPLACED],
    )

    def body():
        for name, (_, _, goes) in REPLACED.items():
            with open("new", "w") as new:
                new.write("new")
            os.mkdir("directory")
            os.mkdir(f"{name}/directory")
            fails(errno.EACCES, os.unlink, f"{name}/old")
            fails(errno.EACCES, os.rmdir, f"{name}/directory")
            fails(errno.EACCES, os.rename, "directory", f"{name}/directory")  # an empty one could be replaced
            os.rmdir("directory")
            if goes:
                os.rename("new", f"{name}/old")
            else:
                fails(errno.EACCES, os.rename, "new", f"{name}/old")
                os.unlink("new")

    t.run(body)
    for name, (_, _, goes) in REPLACED.items():
        assert (t.back / name / "old").read_text() == ("new" if goes else f"text of {name}/old"), name


@pytest.mark.parametrize("options", [[], ["--passthrough"]])
def test_fil_3_hard_links_with_other_decisions_are_nodes_of_their_own(serve, options):
    t = serve(policy(rule("no", ["/workspace/secret"], "deny", ["read"])), *options, files=["open"])
    os.link(t.back / "open", t.back / "secret")
    os.link(t.back / "open", t.back / "third")

    def body():
        for _ in range(3):
            assert Path("open").read_text() == "text of open"
            fails(errno.EACCES, open, "secret")
            assert Path("third").read_text() == "text of open"
        assert os.stat("open").st_ino == os.stat("secret").st_ino
        # what is written by one name is read by the other
        with open("secret", "wb") as f:
            f.write(b"by the other name")
        assert Path("open").read_text() == "by the other name"
        with open("third", "ab") as a, open("secret", "ab") as b:
            a.write(b"+")
            a.flush()
            b.write(b"-")
        assert Path("third").read_text() == "by the other name+-"

    t.run(body)
    assert (t.back / "open").read_text() == "by the other name+-"
    # the names that are decided alike share a node: root, open and third, secret
    assert t.counts()[0] == 3


def test_fil_3_a_hidden_name_is_not_there(serve):
    t = serve(
        policy(
            rule("yes", ["/workspace/d/.env.example"], "allow"),
            rule("hide", ["**/.env*"], "deny", hide=True),
        ),
        files=["d/.env", "d/.env.example", "d/f", ".env.d/x", "plain"],
    )

    def body():
        assert sorted(os.listdir("d")) == [".env.example", "f"]
        assert ".env" not in subprocess.run(["ls", "-la"], capture_output=True, text=True).stdout
        for path in ("d/.env", ".env.d", ".env.d/x"):
            fails(errno.ENOENT, os.stat, path)
            fails(errno.ENOENT, open, path)
        fails(errno.ENOENT, os.unlink, "d/.env")
        fails(errno.ENOENT, os.rename, "d/.env", "d/env")
        fails(errno.ENOENT, os.link, "d/.env", "d/env")
        # a new name cannot be made in its place
        fails(errno.EACCES, open, "d/.env", "w")
        fails(errno.EACCES, os.mkdir, "d/.env")
        fails(errno.EACCES, os.rename, "plain", "d/.env")
        assert Path("d/.env.example").read_text() == "text of d/.env.example"

    t.run(body)
    assert (t.back / "d/.env").read_text() == "text of d/.env"
    assert {e["policy"]["rule"] for e in events(t, path="/d/.env")} == {"hide"}


def test_fil_3_what_agentsh_looked_at_stays_hidden_from_commands(serve):
    t = serve(
        policy(rule("hide", ["**/hidden"], "deny", hide=True), rule("no", ["**/no"], "deny")), files=["hidden", "no"]
    )

    def own():
        Path("/proc/self/comm").write_text("own")
        return [(e.name, e.stat().st_size) for e in sorted(os.scandir("."), key=lambda e: e.name)]

    def body():
        fails(errno.ENOENT, os.stat, "hidden")
        fails(errno.EACCES, os.stat, "no")
        return os.listdir(".")

    for _ in range(3):
        assert t.run(own) == [("hidden", 14), ("no", 10)]
        assert t.run(body) == ["no"]


# ---- what the session itself made ----

EXISTING = policy(
    rule("git", ["**/.git/hooks/**", "**/.git/config"], "deny", ["write", "create", "delete", "rename", "link"],
         existing_only=True),
    rule("move", ["**/.git"], "deny", ["rename", "link", "symlink"]),
    rule("part", ["**/.git/modules/**/hooks/**"], "deny", ["create", "rename"], existing_only=True),
)  # fmt: skip


def hook(path):
    Path(path).write_text("#!/bin/sh")


def test_fil_3_a_rule_for_what_existed_leaves_a_new_repository_alone(serve):
    t = serve(EXISTING, files=["old/.git/config", "old/.git/hooks/sample", "old/f"])

    def body():
        for name in ("config", "hooks/sample", "hooks/new"):
            fails(errno.EACCES, open, f"old/.git/{name}", "w")
        os.makedirs("new/.git/hooks")
        hook("new/.git/hooks/a")
        Path("new/.git/config.lock").write_text("new")
        os.rename("new/.git/config.lock", "new/.git/config")
        os.unlink("new/.git/hooks/a")
        hook("new/.git/hooks/b")
        os.rename("new", "moved")
        hook("moved/.git/hooks/c")
        return sorted(os.listdir("moved/.git/hooks"))

    assert t.run(body) == ["b", "c"]
    assert (t.back / "old/.git/config").read_text() == "text of old/.git/config"
    assert {e["policy"]["rule"] for e in events(t, path="/old/.git/config", decision="deny")} == {"git"}


def test_fil_3_nothing_that_existed_is_taken_for_what_the_session_made(serve):
    t = serve(
        EXISTING,
        files=["old/.git/config", "old/.git/hooks/sample", "old/.git/modules/sub/hooks/x", "bare/.git/HEAD"],
    )

    def body():
        os.makedirs("new/.git/hooks")
        os.mkdir("new/in")
        os.mkdir("made")
        hook("new/.git/hooks/evil")
        hook("new/evil")
        # neither by its own name nor by another one
        fails(errno.EACCES, os.rename, "old/.git", "made/.git")
        fails(errno.EACCES, os.rename, "new/.git/hooks", "bare/.git/hooks")
        fails(errno.EACCES, os.rename, "new/.git/hooks/evil", "old/.git/hooks/evil")
        fails(errno.EACCES, os.rename, "new/evil", "old/.git/config")
        fails(errno.EACCES, os.link, "new/evil", "old/.git/hooks/evil")
        fails(errno.EACCES, os.link, "old/.git/config", "made/config")
        fails(errno.EACCES, os.rename, "old/.git/config", "made/config")
        fails(errno.EACCES, exchange, "new/.git/hooks", "old/.git/hooks")
        fails(errno.EACCES, exchange, "new", "old/.git")
        fails(errno.EACCES, os.mkdir, "bare/.git/hooks")
        # a directory above it is moved: what existed is still protected
        os.rename("old", "made/old")
        fails(errno.EACCES, open, "made/old/.git/hooks/evil", "w")
        fails(errno.EACCES, open, "made/old/.git/config", "w")
        # what may not be made there does not come there with a directory either
        os.makedirs("prepared/hooks")
        hook("prepared/hooks/evil")
        fails(errno.EACCES, os.rename, "prepared", "made/old/.git/modules/other")
        os.rename("prepared", "made/old/.git/other")
        return True

    assert t.run(body)
    assert sorted(p.name for p in (t.back / "made/old/.git/hooks").iterdir()) == ["sample"]


def test_fil_3_a_directory_that_the_host_makes_is_not_the_sessions(serve):
    t = serve(EXISTING)
    rounds = 20

    def body():
        os.mkdir(".git")
        hook(".git/config")
        os.unlink(".git/config")
        os.rmdir(".git")

    def again():
        fails(errno.EACCES, open, ".git/config", "w")
        Path("other").touch()

    # many file systems give the next directory the number of the last one
    for _ in range(rounds):
        t.run(body)
        (t.back / ".git").mkdir()
        t.run(again)
        (t.back / ".git").rmdir()


# ---- a full ring ----


def test_fil_2_a_request_waits_for_room_in_the_ring_and_holds_no_worker(serve, tmp_path):
    room = tmp_path / "room"
    room.touch()
    t = serve(policy(), "--room", room, "--threads", "2", files=["f", "g", "e/x", "m/x", "o"])

    def reader(pipe):
        with open("g", "rb") as f:
            os.read(pipe, 1)
            return len(os.pread(f.fileno(), 100, 0))

    def own():
        Path("/proc/self/comm").write_text("own")
        return Path("o").read_text()

    out, into = os.pipe()
    opened = t.start(reader, out)
    one(t, type="file_open", path="/g")
    room.unlink()
    before = len(events(t))
    # two requests for one name would wait for each other in the kernel
    waiting = [t.start(lambda: open("f").close()), t.start(os.mkdir, "m/d")]
    killed = t.start(os.mkdir, "e/killed")
    harness.wait_for(lambda: all(in_request(pid) for pid, _ in [*waiting, killed]), "all wait")
    # an open file is read, agentsh's own process works, a killed client ends
    os.write(into, b"x")
    assert t.result(opened) == len("text of g")
    assert t.run(own) == "text of o"
    os.kill(killed[0], 9)
    assert os.waitpid(killed[0], 0)[1] == 9
    assert [e for e in events(t)[before:] if e["type"] != "file_read"] == []
    assert not (t.back / "m/d").exists()
    room.touch()
    for child in waiting:
        t.result(child)
    assert len(events(t, type="dir_create")) == 1 and not (t.back / "e/killed").exists()


def in_request(pid):
    """Whether the process waits for the file system."""
    return (
        "request_wait_answer" in Path(f"/proc/{pid}/wchan").read_text()
        or b"fuse" in Path(f"/proc/{pid}/stack").read_bytes()
    )


# ---- attacks; each with what must still work ----


def test_fil_3_other_ways_to_an_open_file_are_decided_by_its_name(serve):
    t = serve(
        policy(
            rule("no-write", ["/workspace/ro"], "deny", ["write"]), rule("no", ["/workspace/no"], "deny", ["read"])
        ),
        files=["ro", "no", "yes"],
    )

    def body():
        for name, allowed in (("ro", os.O_RDONLY), ("yes", os.O_RDWR)):
            path = os.open(name, os.O_PATH)
            fd = os.open(f"/proc/self/fd/{path}", allowed)
            if name == "ro":
                for way in (path, fd):
                    fails(errno.EACCES, os.open, f"/proc/self/fd/{way}", os.O_RDWR)
                os.unlink(name)
                # also without a name
                for way in (path, fd):
                    fails(errno.EACCES, os.open, f"/proc/self/fd/{way}", os.O_RDWR)
                    os.close(os.open(f"/proc/self/fd/{way}", os.O_RDONLY))
        path = os.open("no", os.O_PATH)
        fails(errno.EACCES, os.open, f"/proc/self/fd/{path}", os.O_RDONLY)
        fails(errno.EACCES, link_open_file, path, "copy")
        fails(errno.EACCES, os.rename, "no", "yes2")
        # by a symbolic link it is the name that it leads to
        os.symlink("no", "link")
        fails(errno.EACCES, open, "link")
        os.symlink("yes", "link2")
        assert Path("link2").read_text() == "text of yes"
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
        os.write(fd, b"new")
        link_open_file(fd, "named")
        assert Path("named").read_text() == "new"

    t.run(body)


def test_fil_3_swaps_and_renames_while_it_is_opened_show_no_denied_byte(serve):
    t = serve(
        policy(rule("no", ["/workspace/secret/**"], "deny", ["read"])),
        "--ms",
        "0",
        files=["secret/f", "open/f", "open2/f"],
    )
    (t.back / "secret/f").write_text("SECRET")

    def attacker(end):
        while time.monotonic() < end:
            for call in (
                lambda: os.symlink("secret", "swap"),
                lambda: os.unlink("swap"),
                lambda: os.symlink("open", "swap"),
                lambda: exchange("open", "open2"),
                lambda: os.unlink("swap"),
                lambda: exchange("secret", "open"),
                lambda: exchange("secret/f", "open/f"),
                lambda: os.link("secret/f", "open/g"),
                lambda: os.rename("secret", "moved"),
            ):
                with contextlib.suppress(OSError):
                    call()

    def victim(end):
        seen = set()
        while time.monotonic() < end:
            for path in ("swap/f", "open/f", "open2/f", "open/g", "moved/f"):
                with contextlib.suppress(OSError):
                    seen.add(Path(path).read_text())
        return seen

    end = time.monotonic() + 3
    attackers = [t.start(attacker, end) for _ in range(2)]
    seen = t.run(victim, end)
    for a in attackers:
        t.result(a)
    assert seen == {"text of open/f", "text of open2/f"}
    assert (t.back / "secret/f").read_text() == "SECRET"
