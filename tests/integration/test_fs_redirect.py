# SPDX-License-Identifier: Apache-2.0
"""File rules that redirect a name: another file is used, and both names are decided."""

import contextlib
import errno
import fcntl
import json
import mmap
import os
import subprocess
import threading
from pathlib import Path

import harness
import pytest
from test_fs_policy import events, exchange, fails, link_open_file, one, policy, rule, serve  # noqa: F401

CONFIG = {"name": "config", "paths": ["/workspace/config", "/workspace/config/**"], "decision": "redirect"}
CONFIG["redirect_to"] = "/workspace/.agent/config"
FILES = ["config/covered", ".agent/config/f", ".agent/config/sub/g", "plain", "dir/x"]


@pytest.fixture
def tree(serve):  # noqa: F811
    return serve(policy(CONFIG), files=FILES)


def redirect(name, pattern, to):
    return rule(name, [pattern], "redirect", redirect_to=to)


def test_fil_3_a_redirected_name_leads_to_the_other_file(tree):
    back = tree.back / ".agent/config"

    def body():
        assert sorted(os.listdir("config")) == ["f", "sub"]
        assert sorted(os.listdir("config/sub")) == ["g"]
        assert Path("config/f").read_text() == "text of .agent/config/f"
        fails(errno.ENOENT, os.stat, "config/covered")
        Path("config/f").write_text("new text")
        assert Path(".agent/config/f").read_text() == "new text"
        with open("config/made", "x") as f:
            f.write("made")
        os.mkdir("config/d")
        os.symlink("../f", "config/d/s")
        assert Path("config/d/s").read_text() == "new text" and os.readlink("config/d/s") == "../f"
        os.mkfifo("config/d/p")
        os.link("config/f", "config/d/l")
        assert os.stat("config/f").st_ino == os.stat(".agent/config/f").st_ino
        os.truncate("config/f", 3)
        assert os.stat(".agent/config/f").st_size == 3
        os.chmod("config/made", 0o600)
        os.setxattr("config/made", "user.a", b"1")
        assert os.getxattr(".agent/config/made", "user.a") == b"1"
        os.chdir("config/sub")
        assert Path("g").read_text() == "text of .agent/config/sub/g"
        Path("g2").write_text("by the working directory")
        os.chdir("../..")
        os.unlink("config/sub/g")
        fails(errno.ENOENT, os.stat, ".agent/config/sub/g")

    tree.run(body)
    assert (back / "made").read_text() == "made" and (back / "made").stat().st_mode & 0o777 == 0o600
    assert (back / "sub/g2").exists() and (back / "d/l").samefile(back / "f")
    assert [p.name for p in (tree.back / "config").iterdir()] == ["covered"]


@pytest.mark.parametrize(
    "options", [(), ("--keep", "300000"), ("--passthrough",), ("--passthrough", "--keep", "300000")]
)
def test_fil_3_both_names_show_a_change_at_once(serve, options):  # noqa: F811
    """In both directions, by names that the kernel has seen before."""
    t = serve(policy(CONFIG), *options, files=FILES)

    def body():
        for _ in range(3):  # what is looked at again is kept, elsewhere
            for path in (".", "config", ".agent", ".agent/config", "config/sub", ".agent/config/sub"):
                for name in os.listdir(path):
                    os.stat(f"{path}/{name}")
        for a, b in (("config", ".agent/config"), (".agent/config", "config")):
            for path in (f"{a}/f", f"{b}/f"):
                os.stat(path)
            for n in range(3):
                Path(f"{a}/f").write_text("x" * n)
                assert os.stat(f"{b}/f").st_size == n and Path(f"{b}/f").read_text() == "x" * n
                fails(errno.ENOENT, os.stat, f"{b}/new")
                Path(f"{a}/new").write_text("")
                os.stat(f"{b}/new")
                assert "new" in os.listdir(b)
                os.rename(f"{a}/new", f"{a}/newer")
                fails(errno.ENOENT, os.stat, f"{b}/new")
                os.stat(f"{b}/newer")
                os.unlink(f"{a}/newer")
                fails(errno.ENOENT, os.stat, f"{b}/newer")
                assert "newer" not in os.listdir(b)
                os.mkdir(f"{a}/d")
                os.rmdir(f"{b}/d")
                fails(errno.ENOENT, os.stat, f"{a}/d")
        with open("config/f", "r+b") as one_file, open(".agent/config/f", "r+b") as other:
            one_file.write(b"one")
            one_file.flush()
            assert other.read() == b"one"
            other.seek(0)
            other.write(b"two")
            other.flush()
            one_file.seek(0)
            assert one_file.read() == b"two"

    t.run(body)


def test_fil_7_what_was_kept_of_a_directory_is_looked_at_again_where_two_names_lead_to_it(serve):  # noqa: F811
    t = serve(policy(CONFIG), "--keep", "300000", files=[*FILES, *(f"dir/{n}" for n in range(30))])

    def moved():
        for _ in range(3):
            for name in os.listdir("dir"):
                os.stat(f"dir/{name}")
        os.rename("dir", "config/dir")
        os.stat("config/dir/7")

    def changed():
        Path(".agent/config/dir/7").write_text("")
        os.unlink(".agent/config/dir/8")
        Path(".agent/config/dir/new").write_text("")

    def seen():
        return (
            os.stat("config/dir/7").st_size == 0
            and not os.path.exists("config/dir/8")
            and "new" in os.listdir("config/dir")
        )

    t.run(moved)
    t.run(changed)
    harness.wait_for(lambda: t.run(seen), "the change by the other name", seconds=2)


def test_fil_3_a_redirected_name_is_moved_and_removed_at_its_target(tree):
    def body():
        os.rename("plain", "config/plain")  # in
        assert Path(".agent/config/plain").read_text() == "text of plain"
        os.rename("config/f", "f")  # out
        assert Path("f").read_text() == "text of .agent/config/f"
        os.rename("dir", "config/dir")
        assert os.listdir(".agent/config/dir") == os.listdir("config/dir") == ["x"]
        Path("config/dir/y").write_text("y")
        os.rename("config/dir", "dir2")
        assert sorted(os.listdir("dir2")) == ["x", "y"] and Path("dir2/y").read_text() == "y"
        os.rename("config/sub/g", "config/sub/h")
        exchange("f", "config/sub/h")
        assert Path("f").read_text() == "text of .agent/config/sub/g"
        os.rename("config", "moved")  # the name itself
        assert sorted(os.listdir("moved")) == ["plain", "sub"]
        fails(errno.ENOENT, os.stat, "config")
        fails(errno.ENOENT, os.stat, ".agent/config")
        fails(errno.ENOENT, open, "config/new", "w")
        os.mkdir("config")
        assert os.listdir(".agent") == ["config"]
        os.rmdir(".agent/config")
        fails(errno.ENOENT, os.listdir, "config")
        os.rename("moved", "config")
        assert Path(".agent/config/sub/h").exists() and Path("config/sub/h").exists()
        os.unlink("config/sub/h")
        os.rmdir("config/sub")
        os.unlink("config/plain")
        os.rmdir("config")
        os.rmdir(".agent")
        fails(errno.ENOENT, os.mkdir, "config")

    tree.run(body)
    assert (tree.back / "config/covered").exists() and not (tree.back / ".agent").exists()


def test_fil_3_a_pattern_redirects_only_the_names_that_it_matches(serve):  # noqa: F811
    t = serve(
        policy(
            redirect("logs", "/workspace/out/*.log", "/workspace/logs"),
            redirect("one", "/workspace/settings.json", "/workspace/.agent/s.json"),
        ),
        files=["out/a.log", "out/plain", "logs/b.log", "logs/a.log", "settings.json", ".agent/s.json"],
    )

    def body():
        # the listing has the entries of the directory; what they lead to is looked up
        assert sorted(os.listdir("out")) == ["a.log", "plain"]
        assert "a.log" in subprocess.run(["ls", "-l", "out"], capture_output=True, text=True).stdout
        assert Path("out/a.log").read_text() == "text of logs/a.log"
        assert Path("out/b.log").read_text() == "text of logs/b.log"
        assert Path("out/plain").read_text() == "text of out/plain"
        Path("out/new.log").write_text("n")
        assert Path("settings.json").read_text() == "text of .agent/s.json"
        Path("settings.tmp").write_text("replaced")
        os.rename("settings.tmp", "settings.json")
        assert Path(".agent/s.json").read_text() == "replaced"
        os.unlink("settings.json")
        fails(errno.ENOENT, os.stat, "settings.json")
        Path("settings.json").write_text("again")

    t.run(body)
    assert (t.back / "logs/new.log").read_text() == "n" and (t.back / "out/a.log").read_text() == "text of out/a.log"
    assert (t.back / ".agent/s.json").read_text() == "again"
    assert (t.back / "settings.json").read_text() == "text of settings.json"


def test_fil_3_both_names_are_decided(serve):  # noqa: F811
    t = serve(
        policy(
            rule("at-name", ["/workspace/config/no-read"], "deny", ["read"]),
            rule("at-target", ["/workspace/.agent/config/no-write"], "deny", ["write", "delete", "truncate"]),
            rule("hidden", ["/workspace/.agent/config/hidden"], "deny", hide=True),
            CONFIG,
            redirect("again", "/workspace/.agent/config/again", "/workspace/plain"),
            rule("default-of-target", ["/workspace/.agent/closed/**"], "deny"),
        ),
        files=[*FILES, *(f".agent/config/{n}" for n in ("no-read", "no-write", "hidden", "again"))],
    )

    def body():
        fails(errno.EACCES, open, "config/no-read")
        assert Path(".agent/config/no-read").read_text()
        assert Path("config/no-write").read_text() == "text of .agent/config/no-write"
        for path in ("config/no-write", ".agent/config/no-write"):
            fails(errno.EACCES, open, path, "w")
            fails(errno.EACCES, os.unlink, path)
        for path in ("config/hidden", ".agent/config/hidden"):
            fails(errno.ENOENT, os.stat, path)
            fails(errno.EACCES, open, path, "w")
        assert "hidden" not in os.listdir("config") and "hidden" not in os.listdir(".agent/config")
        fails(errno.EACCES, open, "config/again")
        assert Path(".agent/config/again").read_text() == "text of plain"  # by its own name, once
        # neither end of a move or link gains anything
        fails(errno.EACCES, os.rename, "config/no-read", "x")
        fails(errno.EACCES, os.rename, "config/no-write", "x")
        fails(errno.EACCES, os.link, "config/no-write", "x")
        fails(errno.EACCES, os.rename, ".agent/config/no-write", "config/x")
        fails(errno.EACCES, os.rename, "plain", "config/no-write")
        fails(errno.EACCES, exchange, "plain", "config/no-write")
        os.rename("plain", "config/x")

    t.run(body)
    denied = [e for e in events(t, type="file_open", path="/config/no-write") if e["decision"] == "deny"]
    assert denied and denied[0]["policy"]["rule"] == "at-target"
    again = [e for e in events(t, path="/config/again") if e["decision"] == "deny"][0]
    assert again["policy"]["rule"] == "again" and "redirected itself" in again["policy"]["reason"]


def test_fil_3_what_a_redirect_covers_is_not_uncovered_by_a_move(serve):  # noqa: F811
    t = serve(
        policy(redirect("conf", "/workspace/a/conf/**", "/workspace/t")),
        files=["a/conf/covered", "a/f", "t/x", "b/y", "c/conf/z"],
    )

    def body():
        fails(errno.EACCES, os.rename, "a", "new")
        fails(errno.EACCES, exchange, "a", "b")
        fails(errno.EACCES, exchange, "b", "a")
        assert os.listdir("a/conf") == ["x"]
        # positive controls
        os.rename("b", "new")
        os.rename("t", "t2")
        fails(errno.ENOENT, os.listdir, "a/conf")
        os.rename("t2", "t")
        os.rename("a/f", "f")

    t.run(body)
    assert (t.back / "a/conf/covered").exists()


LEFT = (errno.EACCES, errno.ENOENT, errno.ESTALE)


@pytest.mark.parametrize(("held", "moved"), [("config", ".agent/config"), (".agent/config/sub", "config/sub")])
def test_fil_3_a_directory_that_another_path_moved_is_not_entered_by_the_old_one(serve, held, moved):  # noqa: F811
    """A working directory, a descriptor and a listing from before the move, and what then comes into the directory."""
    t = serve(
        policy(
            rule("keys", ["/workspace/keys/*", "/workspace/safe/key"], "deny", ["read", "write", "stat", "list"]),
            CONFIG,
        ),
        files=[*FILES, "keys/key"],
    )

    def gone(function, *args, **kwargs):
        with pytest.raises(OSError) as e:
            function(*args, **kwargs)
        assert e.value.errno in LEFT, e.value

    def attack():
        fd = os.open(held, os.O_RDONLY | os.O_DIRECTORY)
        path = os.open(held, os.O_PATH | os.O_DIRECTORY)
        os.chdir(held)
        assert not os.path.exists("nothing")  # the file server has opened it
        os.rename(f"{t.place}/{moved}", f"{t.place}/safe")
        os.rename(f"{t.place}/keys/key", f"{t.place}/safe/key")  # it is denied at both places
        fails(errno.EACCES, open, f"{t.place}/safe/key")
        for at in (fd, path):
            gone(os.open, "key", os.O_RDONLY, dir_fd=at)
            gone(os.stat, "key", dir_fd=at)
            gone(os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=at)
            gone(os.rename, "key", f"{t.place}/mine", src_dir_fd=at)
            gone(os.link, "key", f"{t.place}/mine", src_dir_fd=at)
            gone(os.unlink, "key", dir_fd=at)
            gone(os.mkdir, "d", dir_fd=at)
        gone(open, "key")
        gone(open, f"/proc/self/fd/{path}/key")
        gone(os.listdir, fd)
        gone(os.listdir, ".")

    t.run(attack)
    assert (t.back / "safe/key").read_text() == "text of keys/key" and not (t.back / "mine").exists()


def test_fil_3_moves_by_another_path_while_it_is_opened_show_no_denied_byte(serve):  # noqa: F811
    t = serve(
        policy(rule("keys", ["/workspace/keys/*", "/workspace/safe/key"], "deny", ["read", "write", "stat"]), CONFIG),
        files=[*FILES, "keys/key"],
    )

    def body():
        held = os.open("config", os.O_RDONLY | os.O_DIRECTORY)
        stop, seen, tried = threading.Event(), set(), 0

        def move():
            steps = [
                (".agent/config", "safe"),
                ("keys/key", "safe/key"),
                ("safe/key", "keys/key"),
                ("safe", ".agent/config"),
            ]
            while not stop.is_set():
                for old, new in steps:
                    with contextlib.suppress(OSError):
                        os.rename(old, new)

        thread = threading.Thread(target=move)
        thread.start()
        while tried < 6000:
            tried += 1
            for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT):
                try:
                    fd = os.open("key", flags, dir_fd=held)
                    seen.add(os.read(fd, 100))
                    os.close(fd)
                    if flags != os.O_RDONLY:
                        os.unlink("key", dir_fd=held)
                except OSError as e:
                    seen.add(e.errno)
        stop.set()
        thread.join()
        return seen

    assert t.run(body) <= {b"", *LEFT}
    assert t.back.joinpath("keys/key").exists() or t.back.joinpath("safe/key").exists()


def test_fil_2_events_have_both_paths(tree):
    def body():
        Path("config/sub/new").write_text("x" * 100)
        os.rename("config/sub/new", "config/sub/newer")
        assert Path("config/sub/newer").read_text()
        os.unlink("config/sub/newer")

    tree.run(body)
    real = f"{tree.back}/.agent/config/sub"
    made = one(tree, type="file_create", path="/config/sub/new")
    assert (made["real_path"], made["policy"]["decision"]) == (f"{real}/new", "redirect")
    assert made["decision"] == made["policy"]["effective_decision"] == "allow"
    written = one(tree, type="file_write", path="/config/sub/new")
    assert written["real_path"] == f"{real}/new" and written["operation"]["bytes"] == 100
    moved = one(tree, type="file_rename", path="/config/sub/new")
    assert moved["operation"]["to"] == "/workspace/config/sub/newer" and moved["real_path"] == f"{real}/new"
    assert one(tree, type="file_read", path="/config/sub/newer")["real_path"] == f"{real}/newer"
    assert one(tree, type="file_delete", path="/config/sub/newer")["real_path"] == f"{real}/newer"


def test_fil_3_a_symbolic_link_in_the_target_leads_nowhere(tree, tmp_path):
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "g").write_text("outside")
    (outside / "f").write_text("outside")

    def swap():
        os.rename(".agent", "kept")
        os.symlink(str(outside), ".agent")

    def body():
        assert Path("config/sub/g").read_text()
        swap()
        for path in ("config", "config/sub/g", "config/f"):
            fails(errno.ENOTDIR, os.stat, path)
            fails(errno.ENOTDIR, open, path, "w")
        os.unlink(".agent")
        os.mkdir(".agent")
        os.symlink(str(outside), ".agent/config")
        # the last component is a link as the session sees it: it is followed there
        assert os.readlink("config") == str(outside)

    tree.run(body)
    assert (outside / "f").read_text() == "outside" and (outside / "sub/g").read_text() == "outside"


def test_fil_3_swaps_of_the_target_show_nothing_from_outside(tree, tmp_path):
    """A component of the target is a directory and a link in turns, while files are opened and made by the name."""
    outside = tmp_path / "outside"
    (outside / "config" / "sub").mkdir(parents=True)
    (outside / "config" / "sub" / "g").write_text("outside")
    os.chmod(outside, 0o777)
    before = sorted(p.name for p in outside.rglob("*"))

    def body():
        os.symlink(str(outside), "link")
        stop, seen, good = threading.Event(), [], 0

        def swap():
            while not stop.is_set():
                exchange(".agent", "link")

        thread = threading.Thread(target=swap)
        thread.start()
        for n in range(4000):
            try:
                text = Path("config/sub/g").read_text()
                good += 1
                if text != "text of .agent/config/sub/g":
                    seen.append(text)
                with open(f"config/sub/made{n % 10}", "w") as f:
                    f.write("mine")
                os.unlink(f"config/sub/made{n % 10}")
            except OSError as e:
                assert e.errno in (errno.ELOOP, errno.ENOENT, errno.ESTALE, errno.ENOTDIR), e
        stop.set()
        thread.join()
        return seen, good

    seen, good = tree.run(body)
    assert not seen and good > 10
    assert sorted(p.name for p in outside.rglob("*")) == before


def test_fil_7_locks_mappings_and_temporary_files_work_by_a_redirected_name(tree):
    def body():
        with open("config/f", "r+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            m = mmap.mmap(f.fileno(), 4)
            m[0:4] = b"MAPS"
            m.flush()
        assert Path(".agent/config/f").read_bytes()[:4] == b"MAPS"
        fd = os.open("config/sub", os.O_TMPFILE | os.O_RDWR, 0o600)
        os.write(fd, b"t")
        link_open_file(fd, "config/sub/t")
        os.close(fd)
        assert Path(".agent/config/sub/t").read_bytes() == b"t"
        assert subprocess.run(["find", "config", "-type", "f"], capture_output=True, text=True).stdout.split()
        subprocess.run(["rm", "-r", "config/sub"], check=True)
        subprocess.run(["cp", "-r", "dir", "config/sub"], check=True)
        assert Path(".agent/config/sub/x").exists()

    tree.run(body)


def test_fil_3_blocked_and_read_only_targets_are_held(serve):  # noqa: F811
    t = serve(
        policy(CONFIG),
        "--read-only",
        "/workspace/.agent/config/sub",
        "--blocked",
        "/workspace/.agent/config/f",
        files=FILES,
    )

    def body():
        fails(errno.EROFS, open, "config/sub/g", "w")
        assert Path("config/sub/g").read_text()
        fails(errno.EACCES, open, "config/f")
        fails(errno.EACCES, os.rename, "config", "x")

    t.run(body)


# ---- in a session ----

FUSE = {"monitoring": {"mode": "fuse"}}
RULES = """
version: 1
name: rules
default: {files: allow, network: allow, commands: allow}
file_rules:
  - {name: secret, paths: ["/workspace/.agent/config/secret"], decision: deny}
  - {name: kept, paths: ["/workspace/.agent/config/kept"], operations: [delete], decision: soft_delete}
  - {name: config, paths: ["/workspace/config", "/workspace/config/**"], decision: redirect, redirect_to: "${WORKSPACE}/.agent/config"}
"""


def start(new_server, uid, config, rules=RULES):
    server = new_server(uid=uid, config=config, start=False)
    directory = server.dir / "policies"
    directory.mkdir(mode=0o755)
    (directory / "rules.yaml").write_text(rules)
    for path in (directory, directory / "rules.yaml"):
        os.chown(path, uid, uid)
    server.merge(server.config, {"policies": {"dir": str(directory), "default": "rules"}})
    server.start()
    return server


@pytest.fixture(params=[0, harness.USER_UID], ids=["root", "user"])
def session(request, new_server):
    server = start(new_server, request.param, FUSE)
    s = server.session()
    s.out("mkdir -p .agent/config; (cd .agent/config; echo data > data; echo k > kept)")
    (s.workspace / ".agent/config/secret").write_text("secret")
    (s.workspace / "config").mkdir()
    (s.workspace / "config" / "covered").write_text("covered")
    for path in (s.workspace / "config", s.workspace / "config/covered"):
        os.chown(path, request.param, request.param)
    return s


def test_fil_3_a_session_works_by_a_redirected_name(session):
    assert session.out("ls config; cat config/data") == "data\nkept\nsecret\ndata\n"
    assert session.out("echo new > config/new; cat .agent/config/new; mv config/new n; cat n") == "new\nnew\n"
    assert session.out("cd config && pwd && mkdir -p a/b && cd a/b && pwd") == (
        "/workspace/config\n/workspace/config/a/b\n"
    )
    assert session.out(
        "pwd; cd /workspace; printf '#!/bin/sh\\necho ran' > config/run; chmod 755 config/run; config/run"
    ) == ("/workspace/config/a/b\nran\n")
    assert session.out("als config | head -c 1; acat config/data | grep -c data") == "{1\n"
    assert (session.workspace / ".agent/config/run").exists()
    assert [p.name for p in (session.workspace / "config").iterdir()] == ["covered"]
    assert {w["wall"]: w["state"] for w in session.script("true")["enforcement"]}["file_rules"] in ("up", "partial")


def test_fil_3_a_session_is_denied_at_the_target(session):
    done = session.script("cat config/secret")
    blocked = {(e["path"], e["policy"]["rule"]) for e in done["events"]["blocked_operations"]}
    assert done["result"]["exit_code"] == 1 and blocked == {("/workspace/config/secret", "secret")}


def test_fil_2_similar_files_of_a_redirected_directory_are_those_of_the_target(session):
    done = session.script("cat config/dat")
    assert done["result"]["error"]["similar_files"] == ["/workspace/config/data"], done["result"]


def test_fil_4_what_is_deleted_by_a_redirected_name_goes_back_to_the_target(session):
    session.script("rm config/kept")
    server = session.server
    listed = server.get(f"/api/v1/sessions/{session.id}/trash").json["entries"]
    assert [(e["path"], e["real_path"]) for e in listed] == [
        ("/workspace/.agent/config/kept", str(session.workspace / ".agent/config/kept"))
    ]
    assert not (session.workspace / ".agent/config/kept").exists()
    assert server.post(f"/api/v1/sessions/{session.id}/trash/{listed[0]['id']}/restore").status == 200
    assert session.out("cat config/kept") == "k\n"


def test_pol_6_a_policy_with_redirects_needs_the_file_server(new_server):
    only = "\n".join(line for line in RULES.splitlines() if "secret" not in line and "kept" not in line)
    server = start(new_server, 0, {"monitoring": {"mode": "native"}}, only)
    answer = server.post("/api/v1/sessions", {"workspace": str(server.workspace())})
    assert (
        answer.code == "E_ENFORCEMENT" and "rule 'config' of policy" in answer.json["error"]["message"]
    ), answer.json


def test_pol_5_policy_test_says_where_a_path_leads(tmp_path):
    def cli(*words):
        return subprocess.run([harness.AGENTSH, *words], capture_output=True, text=True)

    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    path.chmod(0o644)
    done = cli("policy", "test", "--policy", path, "--json", "file", "write", "/workspace/config/a/b")
    said = json.loads(done.stdout)
    assert (said["decision"], said["effective_decision"], said["rule"]) == ("redirect", "allow", "config")
    assert said["redirect_to"] == "/workspace/.agent/config/a/b" and said["target"] == "/workspace/config/a/b"
    done = cli("policy", "test", "--policy", path, "file", "read", "/workspace/config/secret")
    assert "Decision:  deny" in done.stdout and "Leads to:  /workspace/.agent/config/secret" in done.stdout
    path.write_text(RULES.replace("${WORKSPACE}/.agent/config", "/etc"))
    done = cli("policy", "validate", path)
    assert done.returncode != 0 and f"{path}:8:" in done.stderr, done.stderr
