# SPDX-License-Identifier: Apache-2.0
"""max_disk_mb below a FUSE tree: what the session adds to the workspace."""

import os
import subprocess

import harness
import pytest

FUSE = {"monitoring": {"mode": "fuse"}}
MB = 1 << 20
LIMIT = 8
SLACK = 256 * 1024  # a request of each worker, and their blocks


@pytest.fixture(scope="module", params=["root", "user"])
def server(request):
    harness.ensure_user()
    s = harness.Server(0 if request.param == "root" else harness.USER_UID, FUSE)
    s.start()
    yield s
    s.finish()


def on_disk(session):
    """Bytes below the workspace, with its directories; a file with two names counts once."""
    tree = [os.path.join(top, name) for top, dirs, files in os.walk(session.workspace) for name in dirs + files]
    inodes = {(st.st_dev, st.st_ino): st.st_blocks * 512 for st in map(os.lstat, [session.workspace, *tree])}
    return sum(inodes.values())


def limited(server, mb=LIMIT, files=()):
    ws = server.workspace()
    for name, size in files:
        (ws / name).write_bytes(os.urandom(size))
        os.chown(ws / name, server.uid, server.uid)
    s = server.session(workspace=str(ws), resource_limits={"max_disk_mb": mb})
    s.before = on_disk(s)
    return s


def write(name, mb, seek=0):
    return (
        f"dd if=/dev/zero of={name} bs=64k count={int(mb * 16)} seek={int(seek * 16)} conv=notrunc,fsync 2>/dev/null"
    )


def python(session, text, **fields):
    (session.workspace / "act.py").write_text(
        "import ctypes, mmap, os\nlibc = ctypes.CDLL(None, use_errno=True)\n" + text
    )
    session.before = on_disk(session)
    return session.exec("python3", "act.py", **fields)["result"]


def test_ses_5_the_limit_is_an_error_an_event_and_the_reason(server):
    s = limited(server)
    assert s.script(write("a", LIMIT / 2))["result"]["exit_code"] == 0
    a = s.script("cat /dev/zero > b")
    error = a["result"]["error"]
    assert a["result"]["exit_code"] != 0 and b"No space left" in a["result"]["stderr"].encode()
    assert error["code"] == "E_RESOURCE_LIMIT" and "max_disk_mb" in error["message"], error
    events = s.history(type="resource_limit")
    assert [(e["resource"]["counter"], e["resource"]["limit"], e["resource"]["value"], e["command_id"]) for e in events
            ] == [("max_disk_mb", "disk_limit", LIMIT, a["command_id"])]  # fmt: skip
    assert (LIMIT - 1) * MB <= on_disk(s) - s.before <= LIMIT * MB + SLACK
    # a command that copes with it has no error
    a = s.script("echo x > c || cat /dev/zero > c || true")
    assert a["result"]["error"] is None
    # the session goes on
    assert s.script("rm a && echo more > d")["result"]["exit_code"] == 0
    wall = next(w for w in s.get()["enforcement"] if w["wall"] == "disk_limit")
    assert f"{LIMIT} MB added to the workspace" in wall["detail"], wall


def test_ses_5_what_the_session_removes_is_given_back(server):
    s = limited(server)
    for _ in range(3):
        for undo in (
            "rm a",
            ": > a",
            "truncate -s 0 a",
            "echo > b; mv b a",
            "fallocate -p -o 0 -l 7M a",
            "mv a b; rm b",
        ):
            r = s.script(f"{write('a', LIMIT - 1)} && {undo}")["result"]
            assert r["exit_code"] == 0, (undo, r)
        r = s.script(f"mkdir -p d/e/f && {write('d/e/f/a', LIMIT - 1)} && mv d g && rm -r g")["result"]
        assert r["exit_code"] == 0, r
    # what is above the limit is still written over
    r = s.script(f"{write('a', LIMIT - 0.5)}; {write('a', LIMIT - 0.5)}")["result"]
    assert r["exit_code"] == 0, r
    r = s.script("yes > b; dd if=/dev/urandom of=a bs=64k count=100 conv=notrunc,fsync")["result"]
    assert r["exit_code"] == 0, r


def test_ses_5_removed_space_is_free_at_once(server):
    s = limited(server)
    for _ in range(5):
        assert s.script("cat /dev/zero > a")["result"]["error"]["code"] == "E_RESOURCE_LIMIT"
        assert s.script(f"rm a; {write('a', LIMIT - 1)}")["result"]["exit_code"] == 0


def test_ses_5_only_what_the_session_adds_counts(server):
    s = limited(server, files=[("theirs", 6 * MB), ("other", 6 * MB)])
    # neither what the person writes, nor credit for what was theirs
    (s.workspace / "later").write_bytes(os.urandom(20 * MB))
    os.chown(s.workspace / "later", server.uid, server.uid)
    s.before = on_disk(s)
    assert s.script(write("mine", LIMIT - 1))["result"]["exit_code"] == 0
    assert s.script("rm theirs; : > other; truncate -s 1M later")["result"]["exit_code"] == 0
    assert s.script(write("more", 2))["result"]["exit_code"] != 0
    # writing over their blocks adds nothing
    assert s.script(write("later", 1))["result"]["exit_code"] == 0


def test_ses_5_patch_sets_and_narrows_it(server):
    ws = server.workspace()
    s = server.session(workspace=str(ws))
    assert s.script(write("a", 20))["result"]["exit_code"] == 0
    if server.uid == 0:  # only root's server can change the scratch space
        for mb in (6, 3):
            assert server.call("PATCH", s.path, {"resource_limits": {"max_disk_mb": mb}}).status == 200
            assert s.script(f"rm -f b; {write('b', mb - 1)}")["result"]["exit_code"] == 0
            assert s.script(f"rm -f b; {write('b', mb + 1)}")["result"]["error"]["code"] == "E_RESOURCE_LIMIT"
            wall = next(w for w in s.get()["enforcement"] if w["wall"] == "disk_limit")
            assert f"{mb} MB added to the workspace" in wall["detail"]
    else:
        s.destroy()
        s = server.session(workspace=str(ws), resource_limits={"max_disk_mb": 6})
        assert s.script(write("b", 7))["result"]["error"]["code"] == "E_RESOURCE_LIMIT"


def test_ses_5_df_shows_what_is_left(server):
    s = limited(server)
    avail = "df --output=avail -B1 /workspace | tail -1"
    first = int(s.out(avail))
    assert (LIMIT - 1) * MB < first <= LIMIT * MB
    s.out(write("a", 4))
    assert first - int(s.out(avail)) in range(4 * MB, 4 * MB + SLACK)


# ---- ways to more ----

MORE = {
    "pwrite": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\nfor i in range(40): os.pwrite(fd, b'x' * MB, i * MB)",
    "sparse": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\nfor i in range(40 * 256): os.pwrite(fd, b'x' * 4096, i << 30)",
    "append": "fd = os.open('f', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\nfor i in range(40): w(fd)",
    "direct": "fd = os.open('f', os.O_RDWR | os.O_CREAT | os.O_DIRECT)\nm = mmap.mmap(-1, MB)\nm.write(b'x' * MB)\n"
    "for i in range(40): os.pwrite(fd, m, i * MB)",
    "fallocate": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\nfor i in range(40): os.posix_fallocate(fd, i * MB, MB)",
    "one fallocate": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.posix_fallocate(fd, 0, 40 * MB)",
    "keep size": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\n"
    "for i in range(40):\n if libc.fallocate(fd, 1, ctypes.c_long(i * MB), ctypes.c_long(MB)): raise OSError(28, os.strerror(ctypes.get_errno()))",
    "copy": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.write(fd, b'x' * MB)\ng = os.open('g', os.O_RDWR | os.O_CREAT)\n"
    "for i in range(40):\n assert os.copy_file_range(fd, g, MB, 0, i * MB) == MB",
    "holes of the person's file": "fd = os.open('holes', os.O_RDWR)\nfor i in range(40): os.pwrite(fd, b'x' * MB, i * MB)",
    "mapping": "fd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.ftruncate(fd, 40 * MB)\nm = mmap.mmap(fd, 40 * MB)\n"
    "for i in range(40): m[i * MB:(i + 1) * MB] = b'x' * MB; m.flush(i * MB, MB)",
    "mapping of the person's file": "fd = os.open('holes', os.O_RDWR)\nm = mmap.mmap(fd, 40 * MB)\n"
    "for i in range(40): m[i * MB:(i + 1) * MB] = b'x' * MB; m.flush(i * MB, MB)",
    "small files": "for i in range(3000):\n with open(f'f{i}', 'w') as f: f.write('x')",
    "directories": "for i in range(3000): os.mkdir(f'd{i}')",
    "empty files": "for i in range(9000): os.close(os.open('%0200d' % i, os.O_CREAT))",
    "links": "open('f', 'w').close()\nfor i in range(20000):\n if i % 60000 == 0: open(f'f{i}', 'w').close(); k = i\n"
    " os.link(f'f{k}', '%0240d' % i)",
    "symbolic links": "for i in range(3000): os.symlink('x' * 1000, f's{i}')",
    "values": "for i in range(3000):\n open(f'f{i}', 'w').close(); os.setxattr(f'f{i}', 'user.x', b'x' * 3000)",
    "tmpfile": "keep = []\nfor i in range(40):\n fd = os.open('.', os.O_RDWR | os.O_TMPFILE); keep.append(fd); w(fd)",
    "removed and open": "keep = []\nfor i in range(40):\n fd = os.open('f', os.O_RDWR | os.O_CREAT); keep.append(fd); w(fd); "
    "os.unlink('f')",
    "replaced and open": "keep = []\nfor i in range(40):\n fd = os.open('f', os.O_RDWR | os.O_CREAT); keep.append(fd); w(fd); "
    "open('g', 'w').close(); os.rename('g', 'f')",
    "removed and mapped": "keep = []\nfor i in range(40):\n fd = os.open('f', os.O_RDWR | os.O_CREAT); w(fd); "
    "keep.append(mmap.mmap(fd, MB)); os.close(fd); os.unlink('f')",
    "removed and known": "keep = []\nfor i in range(40):\n fd = os.open('f', os.O_RDWR | os.O_CREAT); w(fd); os.close(fd); "
    "keep.append(os.open('f', os.O_PATH)); os.unlink('f')",
    "removed, known, and opened again": "keep = []\nfor i in range(40):\n first = os.open('f', os.O_RDWR | os.O_CREAT); "
    "p = os.open('f', os.O_PATH); os.unlink('f'); fd = os.open(f'/proc/self/fd/{p}', os.O_RDWR); os.close(first); w(fd); "
    "keep.append(fd); os.close(p)",
    "grown directories": "for k in range(6):\n os.mkdir(f'd{k}')\n for i in range(2000): os.close(os.open(f'd{k}/%0250d' % i, os.O_CREAT))\n"
    " for i in range(2000): os.unlink(f'd{k}/%0250d' % i)",
    "many at once": "import threading\ndef act(k):\n fd = os.open(f'f{k}', os.O_RDWR | os.O_CREAT)\n"
    " for i in range(40): os.pwrite(fd, b'x' * 131072, i * 131072)\n"
    "t = [threading.Thread(target=act, args=(k,)) for k in range(16)]\nfor one in t: one.start()\nfor one in t: one.join()",
}  # fmt: skip
MANY_OBJECTS = ("small files", "directories", "empty files", "links", "symbolic links", "values", "grown directories")
HELD = "keep"  # the list of what only open files hold


@pytest.mark.parametrize("way", MORE)
def test_ses_5_no_way_adds_more(server, way):
    mb = 2 if way in MANY_OBJECTS else LIMIT
    s = limited(server, mb)
    with open(s.workspace / "holes", "wb") as f:
        f.truncate(40 * MB)
    os.chown(s.workspace / "holes", server.uid, server.uid)
    text = f"MB = {MB}\n{MORE[way]}\n"
    held = HELD in text
    text = f"def w(fd):\n n = 0\n while n < {MB}: n += os.write(fd, b'x' * ({MB} - n))\n{text}"
    text = f"try:\n{''.join(f' {line}' + chr(10) for line in text.splitlines())}finally:\n print(len(keep) if {held} else -1)\n"
    r = python(s, text)
    added = on_disk(s) - s.before
    assert added <= mb * MB + SLACK, (added / MB, r)
    if way in ("many at once", "mapping", "mapping of the person's file"):
        assert added >= (mb - 2) * MB, added / MB
        return
    if way == "removed and known":  # without a name and an open file it is gone when the room is needed
        assert (r["exit_code"], r["stdout"]) == (0, "40\n"), r
    elif held:
        assert "No space left" in r["stderr"] and int(r["stdout"]) in range(mb - 2, mb + 2), r
        # all of it is given back when the program has ended
        assert s.script(write("again", LIMIT - 1))["result"]["exit_code"] == 0
    elif way == "grown directories":
        assert "No space left" in r["stderr"] and added > mb * MB // 3, r
    else:
        assert "No space left" in r["stderr"] and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    # control: without the limit the same program goes through
    free_one = server.session(workspace=str(server.workspace()))
    if way.endswith("person's file"):
        return
    r = python(free_one, text)
    assert r["exit_code"] == 0, (way, r)
    free_one.destroy()


def test_ses_5_programs_that_end_give_back_what_they_hold(server):
    s = limited(server)
    for _ in range(4):
        r = s.script(f"exec 5<>f; rm f; dd if=/dev/zero bs=64k count={(LIMIT - 1) * 16} >&5 2>/dev/null")["result"]
        assert r["exit_code"] == 0, r


def test_ses_5_a_build_of_many_files_leaves_nothing_charged(server):
    s = limited(server)
    r = s.script(
        "for k in 1 2 3; do for i in $(seq 800); do echo $i > f$i; done; mkdir d; mv f* d; ln d/f1 d/g; rm -r d; done"
    )["result"]
    assert r["exit_code"] == 0, r
    assert s.script(write("a", LIMIT - 0.5))["result"]["exit_code"] == 0
    assert subprocess.run(["du", "-s", s.workspace], capture_output=True, check=True)
