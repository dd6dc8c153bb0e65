# SPDX-License-Identifier: Apache-2.0
"""als, acat, afind, astat, aps, aenv, adf and adu in sessions of root's server, of a user's, of one without namespaces,
and with a native workspace. What they say is compared with ls, cat, find, stat, ps, env, df and du in the same session."""

import base64
import json
import os
import shutil
import subprocess
import time

import harness
import pytest
from test_containers import Contained

NAMES = ["acat", "adf", "adu", "aenv", "afind", "als", "aps", "astat"]
LARGE = 1 << 22


@pytest.fixture(scope="module", params=["root", "user", "bare", "native"])
def server(request):
    harness.ensure_user()
    uid = harness.USER_UID if request.param in ("user", "bare") else 0
    if request.param == "bare":
        config = {"sandbox": {"allow_unenforced": ["namespaces"]}, **harness.OBSERVE}
        s = Contained("no_user_namespaces", uid, config)
    else:
        s = harness.Server(uid=uid, config=harness.NATIVE if request.param == "native" else {})
    s.start()
    s.bare = request.param == "bare"
    yield s
    s.finish()


def ask(session, *argv, status=0, **wanted):
    """The answer of an a-command."""
    r = session.exec(*argv, max_output_bytes=LARGE, **wanted)["result"]
    assert r["exit_code"] == status and r["stderr"] == "", r
    return json.loads(r["stdout"])


def pages(session, key, *argv):
    """The elements of all pages. Each page fits into an answer of the default size."""
    got, offset = [], 0
    while offset is not None:
        r = session.exec(*argv, "--offset", str(offset))["result"]
        assert r["exit_code"] == 0 and not r["stdout_truncated"], r
        page = json.loads(r["stdout"])
        assert page[key] or offset == 0
        got, offset = got + page[key], page["next"]
    return got


@pytest.fixture
def tree(session):
    """A tree with a file of each kind, links, holes and odd names, made by the session itself."""
    session.out(
        r"""mkdir -p t/d/e t/empty && cd t && echo hello > b && echo x > .hidden && ln -s ../b d/soft && (ln b d/hard || true)
        ln -s . d/loop && ln -s nowhere d/dangling && mkfifo d/pipe && truncate -s 5G sparse && chmod 2750 d/e
        touch -d '2001-01-02 03:04:05.678901' d/e/old && printf x > "$(printf 'new\nline')" && printf y > "$(printf '\377')"
        for i in $(seq 300); do echo $i > d/e/file-$i.txt; done; cd .."""
    )
    return session


def test_exe_7_they_are_on_the_path(server, session):
    where = session.out(f"for n in {' '.join(NAMES)}; do command -v $n; done").split()
    assert [w.rsplit("/", 1)[1] for w in where] == NAMES
    beside = f"{harness.BUILD.resolve()}/bin"
    assert {w.rsplit("/", 1)[0] for w in where} == {beside if server.bare else "/run/agentsh/bin"}
    assert session.out("echo $PATH").strip().split(":")[-1] == where[0].rsplit("/", 1)[0]
    for name in NAMES:
        assert session.out(f"{name} --help").startswith(f"usage: {name} ")
    # whatever stands earlier on PATH wins, and a PATH that a command brings is its own
    session.out("mkdir bin; printf '#!/bin/sh\\necho mine\\n' > bin/als; chmod 755 bin/als")
    assert session.out("(PATH=$PWD/bin:$PATH; als)") == "mine\n"
    assert session.exec("sh", "-c", "command -v als", env={"PATH": "/usr/bin"})["result"]["exit_code"] == 127
    # an event names program and arguments as of any other
    session.exec("als", "-a")
    e = [e for e in session.history(type="exec") if e["exec"]["argv"] == ["als", "-a"]]
    assert len(e) == 1 and e[0]["exec"]["path"].endswith("/agentsh-init" if server.bare else "/run/agentsh/bin/acmd")


def test_exe_7_they_cannot_be_changed(server, session):
    where = session.out("command -v als").strip()
    for attack in (f"echo x > {where}", f"rm -f {where}", f"ln -sf /bin/sh {where}", f"touch {where}x",
                   f"cp /bin/sh $(realpath {where})", f"chmod 777 $(realpath {where})"):  # fmt: skip
        assert session.script(attack)["result"]["exit_code"] != 0, attack
    assert ask(session, "als")["errors"] == []
    # the program by its own name is init, which only the server starts
    r = session.script(f"sh -c 'exec -a agentsh-init {where}' || bash -c 'exec -a agentsh-init {where}'")["result"]
    assert r["exit_code"] == 2 and "started by agentsh-server only" in r["stderr"]


def texts(encoded):
    """Texts that end with a NUL byte each."""
    return base64.b64decode(encoded).decode(errors="surrogateescape").split("\0")[:-1]


def test_exe_7_als_says_what_ls_says(tree):
    a = ask(tree, "als", "-Ra", "t", "--limit", "100000")
    theirs = "find t -mindepth 1 -printf '%P\\0%s\\0%m\\0%u\\0%g\\0%y\\0%l\\0' | base64 -w0"
    fields = texts(tree.out(theirs, max_output_bytes=LARGE))
    rows = {tuple(fields[i : i + 7]) for i in range(0, len(fields), 7)}
    kinds = {"file": "f", "directory": "d", "symlink": "l", "fifo": "p"}
    mine = {(plain(e, "name"), str(e["size"]), e["mode"].lstrip("0"), e["owner"], e["group"], kinds[e["type"]],
             e.get("target", "")) for e in a["entries"]}  # fmt: skip
    assert mine == rows and len(a["entries"]) == len(rows) > 310
    files = [r for r in rows if r[5] == "f"]
    assert a["summary"] == {
        "files": len(files),
        "directories": sum(r[5] == "d" for r in rows),
        "others": sum(r[5] in "lp" for r in rows),
        "total_size": sum(int(r[1]) for r in files),
    }
    assert a["cwd"] == tree.out("pwd").strip() and a["path"] == "t" and a["next"] is None
    # the order is that of ls
    names = tree.out("LC_ALL=C ls -A t/d").splitlines()
    assert [e["name"] for e in ask(tree, "als", "-a", "t/d")["entries"]] == names


def plain(entry, key):
    data = entry[key]
    odd = entry.get(f"{key}_encoding") == "base64"
    return base64.b64decode(data).decode(errors="surrogateescape") if odd else data


def test_exe_7_pages_are_the_whole(tree):
    whole = ask(tree, "als", "-R", "t", "--limit", "100000")["entries"]
    assert pages(tree, "entries", "als", "-R", "t") == whole
    assert pages(tree, "entries", "als", "-R", "t", "--limit", "17") == whole
    found = ask(tree, "afind", "t", "--name", "file-*", "--limit", "100000")["matches"]
    assert len(found) == 300 and pages(tree, "matches", "afind", "t", "--name", "file-*") == found


@pytest.mark.parametrize(
    "mine, theirs",
    [
        (["--name", "file-1*.txt"], "-name 'file-1*.txt'"),
        (["--type", "f"], "-type f"),
        (["--type", "d,l"], "-type d,l"),
        (["--size", "+1M"], "-size +1048576c"),
        (["--size", "-3", "--type", "f"], "-size -3c -type f"),
        (["--size", "6"], "-size 6c"),
        (["--mtime", "+30"], "-mtime +30"),
        (["--mtime", "-1h", "--type", "f"], "-mmin -60 -type f"),
        (["--depth", "2"], "-maxdepth 2"),
        ([], ""),
    ],
)
def test_exe_7_afind_finds_what_find_finds(tree, mine, theirs):
    found = ask(tree, "afind", "t", *mine, "--limit", "100000")["matches"]
    names = texts(tree.out(f"find t -mindepth 1 {theirs} -print0 | base64 -w0", max_output_bytes=LARGE))
    assert sorted(plain(m, "path") for m in found) == sorted(names) and names


def test_exe_7_astat_says_what_stat_says(tree):
    keys = ["inode", "links", "uid", "gid", "size", "mode", "owner", "group"]
    for path in ("t/b", "t/d/soft", "t/d/pipe", "t/sparse", "t/d/e", "/proc/self", "/dev/null", "/"):
        f = ask(tree, "astat", path)["files"][0]
        if path != "/proc/self":  # of each process another
            theirs = tree.out(f"stat -c '%i %h %u %g %s %a %U %G' {path}").split()
            assert [str(f[k]).lstrip("0") for k in keys] == [t.lstrip("0") for t in theirs], path
            assert f["disk"] == int(tree.out(f"stat -c %b {path}")) * 512
    assert ask(tree, "astat", "t/d/e/old")["files"][0]["mtime"] == "2001-01-02T03:04:05.678901Z"
    assert ask(tree, "astat", "t/d/soft")["files"][0]["target"] == "../b"
    followed = ask(tree, "astat", "-L", "t/d/soft")["files"][0]
    assert followed["type"] == "file" and followed["inode"] == ask(tree, "astat", "t/b")["files"][0]["inode"]


def test_exe_7_acat_says_what_cat_says(tree):
    tree.out("seq 100000 > numbers; head -c 30000 /dev/urandom > binary")
    a = ask(tree, "acat", "numbers", "--lines", "10-20")
    assert a["content"] == tree.out("sed -n 10,20p numbers")
    assert a["lines"] == {"first": 10, "last": 20, "total": 100000}
    for name in ("numbers", "binary"):
        data, offset = b"", 0
        while offset is not None:
            limit = ["--limit", "50000"] if name == "numbers" else []
            a = ask(tree, "acat", name, "--offset", str(offset), *limit)
            data += a["content"].encode() if a["encoding"] == "text" else base64.b64decode(a["content"])
            offset = a["next"]
        assert data == (tree.workspace / name).read_bytes()


def test_exe_7_aps_lists_the_session_alone(server, session):
    outside = subprocess.Popen(["sleep", "7331"], user=server.uid or None)
    try:
        session.script("setsid sleep 7332 & (setsid nohup sleep 7333 >/dev/null 2>&1 &); true", timeout="60s")
        other = server.session()
        r = session.script(
            "sleep 7334 & a=$!; sleep 7335 & b=$!; "
            "until [ $(cat /proc/$a/status /proc/$b/status | grep -c -e 'Name:.sleep' -e 'State:.S') = 4 ]; do :; done; "
            "aps --limit 1000; ps -o pid= -o ppid= -C sleep; kill $a $b"
        )["result"]
        answer, *lines = r["stdout"].splitlines()
        processes = json.loads(answer)["processes"]
        sleeps = {p["pid"]: p for p in processes if p["name"] == "sleep"}
        assert sorted(p["args"][1] for p in sleeps.values()) == ["7334", "7335"], processes
        theirs = {int(pid): int(parent) for pid, parent in map(str.split, lines)}
        assert {pid: p["ppid"] for pid, p in sleeps.items()}.items() <= theirs.items()
        for p in sleeps.values():
            assert p["state"] == "sleeping" and p["threads"] == 1 and p["memory_kb"] > 0
            age = time.time() - time.mktime(time.strptime(p["started"][:19], "%Y-%m-%dT%H:%M:%S")) + time.timezone
            assert -1 <= age < 60, p
        assert any(p["name"] == "aps" and p["args"][0] == "aps" for p in processes)
        assert not any(p["name"].startswith("agentsh-") for p in processes), processes
        other.destroy()
    finally:
        outside.kill()
        outside.wait()


def test_exe_7_aenv_says_what_env_says(session):
    env = {"ODD": 'a"b\\c\nx=e', "EMPTY": "", "UTF": "ä€"}
    mine, theirs = session.exec(script="aenv; env -0 | base64 -w0", env=env)["result"]["stdout"].splitlines()
    mine, theirs = json.loads(mine)["environment"], dict(v.split("=", 1) for v in texts(theirs))
    assert mine | {"_": ""} == theirs | {"_": ""}
    assert mine["ODD"] == env["ODD"] and mine["EMPTY"] == ""
    assert ask(session, "aenv", "UTF", env=env)["environment"] == {"UTF": "ä€"}
    assert ask(session, "aenv", "NOT_SET", status=1)["environment"] == {}


def test_exe_7_adf_says_what_df_says(session):
    for path in (".", "/tmp", "/dev/shm"):
        row = ask(session, "adf", path)["filesystems"][0]
        size, inodes, at = session.out(f"df -B1 --output=size,itotal,target {path} | tail -1").split()
        assert (row["size"], row["inodes"], row["mount_point"]) == (int(size), int(inodes), at), row
        used = int(session.out(f"df -B1 --output=used {path} | tail -1"))
        assert abs(row["used"] - used) < 1 << 30
    every = ask(session, "adf")["filesystems"]
    devices = [session.out(f"stat -c %d '{f['path']}'") for f in every]
    assert len(set(devices)) == len(devices) >= 1


def unique_sizes(session, path):
    lines = session.out(f"find {path} -type f -printf '%i %s\\n' | sort -u", max_output_bytes=LARGE).splitlines()
    return sum(int(line.split()[1]) for line in lines)


def test_exe_7_adu_says_what_du_says(tree):
    a = ask(tree, "adu", "t", "--depth", "9")
    for kind, options in (("disk", "-B1"), ("size", "-b")):
        lines = tree.out(f"du {options} t").splitlines()
        theirs = {path: int(n) for n, path in (line.split("\t") for line in lines)}
        if kind == "size":  # du also counts the sizes of directories and links
            theirs = {p: unique_sizes(tree, p) for p in theirs}
        mine = {e["path"]: e[kind] for e in a["entries"]} | {"t": a["total"][kind]}
        # b has a second name in d: whoever comes first counts it
        for path in theirs.keys() - {"t/d"}:
            assert mine[path] == theirs[path], (kind, path)
    assert [e["path"] for e in ask(tree, "adu", "t")["entries"]] == ["t/d", "t/empty"]


def test_exe_7_errors_are_json(session):
    a = ask(session, "als", "--colour", status=2)
    assert a["error"]["code"] == "E_BAD_REQUEST" and "als --help" in a["error"]["message"]
    a = ask(session, "acat", "missing", status=1)
    assert a == {"error": {"code": "ENOENT", "message": "No such file or directory", "path": "missing"}}
    session.out("mkdir -p s/open s/shut; touch s/open/x s/shut/y; chmod 0 s/shut")
    for command, key in (("als -R s", "entries"), ("afind s", "matches"), ("adu s --depth 5", "entries")):
        a = ask(session, *command.split(), status=1)
        assert a["errors"] == [{"code": "EACCES", "message": "Permission denied", "path": "s/shut"}], a
        assert any("open" in (e.get("name") or e["path"]) for e in a[key])
    session.out("chmod 700 s/shut")


def test_exe_7_a_closed_pipe_ends_them(tree):
    assert tree.out("als -R /usr --limit 1000000 | head -c 5") == '{"cwd'
    r = tree.script("trap '' PIPE; (afind /usr --limit 1000000; echo $? >&2) | head -c 5")["result"]
    assert r["stderr"] == "1\n"
    r = tree.script("als >&-")["result"]
    assert r["exit_code"] == 1 and "cannot write" in r["stderr"]
    r = tree.script("als > /dev/full")["result"]
    assert r["exit_code"] == 1 and "No space left" in r["stderr"]


def test_exe_7_a_tree_that_changes(session):
    """Directories come and go while they are walked; every answer is whole."""
    session.out("mkdir -p live")
    r = session.script(
        "(while :; do mkdir -p live/a/b/c live/d; touch live/a/b/f live/d/g; mv live/d live/a/d; rm -rf live/a; done) "
        "2>/dev/null & for i in $(seq 60); do als -R live; afind live; adu live --depth 9; done; kill $!; wait; rm -rf live",
        max_output_bytes=LARGE,
    )["result"]
    answers = [json.loads(line) for line in r["stdout"].splitlines()]
    assert len(answers) == 180
    for a in answers:
        assert {e["code"] for e in a.get("errors", [a.get("error")])} <= {"ENOENT"}, a


def test_exe_7_processes_that_vanish(session):
    r = session.script(
        "(while :; do /bin/true; done) & for i in $(seq 40); do aps --limit 1000; done; kill $!; wait",
        max_output_bytes=LARGE,
    )["result"]
    answers = [json.loads(line) for line in r["stdout"].splitlines()]
    assert len(answers) == 40 and all(a["errors"] == [] for a in answers)


def test_exe_7_memory_is_bounded(session):
    """A directory with 60,000 names, an endless file and a long line in 40 MB of address space."""
    many = session.workspace / "many"
    many.mkdir()
    for i in range(60000):
        (many / f"a-name-of-some-length-{i:06}").touch()
    for command in ("als many --limit 1000000 | tail -c 3", "afind many --limit 1000000 | tail -c 3",
                    "adu many | tail -c 3", "acat /dev/zero | tail -c 3"):  # fmt: skip
        assert session.out(f"ulimit -v 40000; {command}", timeout="120s") == "]}\n", command
    assert ask(session, "als", "many", "--limit", "1")["summary"]["files"] == 60000
    shutil.rmtree(many)


def test_exe_7_mounts_with_odd_names(tmp_path):
    """adf reads the names of mounts as df does, outside of a session, where one can be made."""
    odd = tmp_path / "a b\\040\tc\ne"
    odd.mkdir()
    program = 'mount -t tmpfs -o size=64k "x y" "$1" && "$2/adf" "$1" && "$2/adf" --limit 1000'
    r = subprocess.run(
        ["unshare", "-m", "sh", "-c", program, "sh", odd, harness.BUILD / "bin"],
        capture_output=True,
        text=True,
        check=True,
    )
    one, every = map(json.loads, r.stdout.splitlines())
    row = one["filesystems"][0]
    assert (row["mount_point"], row["source"], row["type"], row["size"]) == (str(odd), "x y", "tmpfs", 65536)
    assert str(odd) in [f["mount_point"] for f in every["filesystems"]]


def test_exe_7_the_strict_policy_allows_them(new_server):
    s = new_server(
        config={
            "sandbox": {
                "allow_unenforced": ["file_rules", "network_rules", "disk_limit", "network_limit", "io_limit"]
            }
        }
    )
    session = s.session(policy="strict")
    for name in NAMES:
        argv = [name, "/etc/hosts"] if name in ("acat", "astat") else [name]
        assert "errors" in ask(session, *argv)
    assert os.path.exists(session.workspace)
