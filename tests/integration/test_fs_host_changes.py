# SPDX-License-Identifier: Apache-2.0
"""The kernel keeps names and attributes of directories that are looked into again, and still sees what the host changes."""

import mmap
import os
import signal
import stat
import time
from pathlib import Path

import harness
import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]
ASKED = ("LOOKUP", "GETATTR", "READDIRPLUS", "READDIR")
# What is kept is kept for five minutes. A change is to be seen after a second; the rest is for a slow machine.
SEEN_S = 20


@pytest.fixture
def serve(tmp_path):
    """serve(*options): names and attributes are kept 20 ms where the host's changes are not told."""
    trees = []

    def start(*options):
        trees.append(MountTree(tmp_path, "--ms", "20", *options))
        return trees[-1]

    yield start
    for t in trees:
        t.finish()


@pytest.fixture
def tree(serve):
    t = serve()
    for name in ("d/e/deep", "d/a", "d/b", "d/c", "d/old", "other/x"):
        (t.back / name).parent.mkdir(parents=True, exist_ok=True)
        (t.back / name).write_text("first")
    (t.back / "d/link").symlink_to("a")
    return t


def look():
    """Everything below the working directory: names, attributes, contents."""
    found = {}
    for path in sorted(Path().rglob("*")):
        st = path.lstat()
        found[str(path)] = (stat.filemode(st.st_mode), st.st_size, st.st_mtime_ns, st.st_nlink)
    return found


def asked(tree, function=look):
    """How many requests it costs."""
    before = tree.requests(*ASKED)
    tree.run(function)
    return sum(tree.requests(*ASKED)) - sum(before)


def keep(tree, most=1):
    """Until the kernel keeps all but the symbolic link."""
    harness.wait_for(lambda: asked(tree) <= most, "nothing is asked again", show=lambda: tree.requests(*ASKED))


def seen(tree, check, what):
    begin = time.monotonic()
    harness.wait_for(lambda: tree.run(check), f"{what} is seen", seconds=SEEN_S)
    return time.monotonic() - begin


def test_fil_7_what_is_looked_at_again_is_kept(tree):
    keep(tree)
    assert asked(tree) <= 1
    # what the session changes by itself costs nothing more
    tree.sh("chmod 600 d/a; echo longer > d/new; mv d/b d/b2; rm d/c; mkdir d/f")
    keep(tree)
    assert tree.run(look)["d/a"][0] == "-rw-------"
    assert set(tree.run(lambda: os.listdir("d"))) == {"a", "b2", "e", "f", "link", "new", "old"}
    tree.sh("chmod 640 d/a")
    assert asked(tree) <= 1


def test_fil_7_nothing_is_kept_where_the_operator_says_0(serve):
    tree = serve("--ms", "0")
    (tree.back / "f").write_text("x")
    for _ in range(5):
        assert asked(tree) > 1


def change_by_link(back):
    os.link(back / "d/a", back / "other/alias")
    (back / "other/alias").write_text("by another name")


def change_dir(back):
    (back / "d/e").rename(back / "other/e")


def swap_dirs(back):
    (back / "d").rename(back / "d2")
    (back / "other").rename(back / "d")


# name: what the host does, what the session sees then
CHANGES = {
    "made": (lambda b: (b / "d/new").write_text(""), lambda: Path("d/new").exists()),
    "listed": (lambda b: (b / "d/new").write_text(""), lambda: "new" in os.listdir("d")),
    "removed": (lambda b: (b / "d/a").unlink(), lambda: not os.path.lexists("d/a")),
    "not listed": (lambda b: (b / "d/a").unlink(), lambda: "a" not in os.listdir("d")),
    "renamed": (lambda b: (b / "d/a").rename(b / "d/z"), lambda: not os.path.lexists("d/a") and Path("d/z").exists()),
    "moved away": (lambda b: (b / "d/a").rename(b / "away"), lambda: not os.path.lexists("d/a")),
    "replaced": (lambda b: (b / "other/x").rename(b / "d/a"), lambda: not os.path.lexists("other/x")),
    "written": (lambda b: (b / "d/a").write_text("second"), lambda: Path("d/a").read_text() == "second"),
    "grown": (lambda b: (b / "d/a").write_text("longer text"), lambda: os.stat("d/a").st_size == 11),
    "cut": (lambda b: os.truncate(b / "d/a", 2), lambda: os.stat("d/a").st_size == 2),
    "mode": (lambda b: (b / "d/a").chmod(0o640), lambda: stat.S_IMODE(os.stat("d/a").st_mode) == 0o640),
    "mode of a directory": (
        lambda b: (b / "d/e").chmod(0o700),
        lambda: stat.S_IMODE(os.stat("d/e").st_mode) == 0o700,
    ),
    "times": (lambda b: os.utime(b / "d/a", (1, 1)), lambda: os.stat("d/a").st_mtime == 1),
    "one more link": (lambda b: os.link(b / "d/a", b / "other/alias"), lambda: os.stat("d/a").st_nlink == 2),
    "by another link": (change_by_link, lambda: Path("d/a").read_text() == "by another name"),
    "directory moved": (change_dir, lambda: not os.path.lexists("d/e") and Path("other/e/deep").exists()),
    "directories changed": (swap_dirs, lambda: Path("d/x").exists() and not os.path.lexists("other")),
    "link": (
        lambda b: ((b / "d/link").unlink(), (b / "d/link").symlink_to("b")),
        lambda: os.readlink("d/link") == "b",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_fil_7_what_the_host_changes_is_seen(tree, name):
    change, check = CHANGES[name]
    keep(tree)
    assert not tree.run(check)
    change(tree.back)
    seen(tree, check, name)
    harness.wait_for(lambda: tree.run(look) == tree.run(look), "nothing changes any more")


@pytest.mark.parametrize("when", ["before", "after"])
def test_fil_7_what_the_host_writes_through_a_mapping_is_seen(tree, when):
    (tree.back / "d/a").write_bytes(bytes(4096))
    if when == "after":
        keep(tree)
    with open(tree.back / "d/a", "r+b") as f:
        mapping = mmap.mmap(f.fileno(), 4096)
    for i in range(1, 4):
        if when == "before":  # its attributes alone are asked for
            keep(tree, most=3)
        mapping[0:1] = bytes([i])
        wanted = (tree.back / "d/a").stat().st_mtime_ns
        seen(tree, lambda wanted=wanted: os.stat("d/a").st_mtime_ns == wanted, f"the time of write {i}")
        seen(tree, lambda i=i: Path("d/a").read_bytes()[0] == i, f"write {i}")
        mapping.flush()  # the next write to the mapping changes the time of the file again
    mapping.close()
    keep(tree)


def test_fil_7_lost_events_are_a_change_of_everything(tree):
    most = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text())
    keep(tree)
    tree.server.send_signal(signal.SIGSTOP)
    for i in range(most // 2 + 16):
        (tree.back / "d/e" / f"n{i}").write_text("")
        (tree.back / "d/e" / f"n{i}").unlink()
    (tree.back / "d/a").write_text("behind the lost events")
    (tree.back / "d/b").unlink()
    (tree.back / "d/new").write_text("")
    tree.server.send_signal(signal.SIGCONT)
    seen(
        tree,
        lambda: "new" in os.listdir("d")
        and not os.path.lexists("d/b")
        and Path("d/a").read_text().startswith("behind"),
        "the last change",
    )
    keep(tree)


def test_fil_7_marks_are_bounded(serve):
    tree = serve("--marks", "8", "--keep", "3000")
    for i in range(4):
        (tree.back / f"d{i}").mkdir()
        for k in range(4):
            (tree.back / f"d{i}" / f"f{k}").write_text("first")
    # they do not suffice for all
    for _ in range(4):
        assert asked(tree) > 0
    for i in range(4):
        (tree.back / f"d{i}/f0").write_text("second")
        (tree.back / f"d{i}/f1").unlink()
    check = [f"d{i}" for i in range(4)]
    seen(
        tree, lambda: all(Path(d, "f0").read_text() == "second" and not Path(d, "f1").exists() for d in check), "all"
    )


def test_fil_7_a_listing_that_is_kept_has_no_hidden_name(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nname: t\ndefault: {files: allow, network: allow, commands: allow}\n"
        "file_rules:\n- {name: secret, paths: [/workspace/d/secret], decision: deny, hide: true}\n"
    )
    tree = MountTree(tmp_path, "--ms", "20", "--policy", policy, "--events", tmp_path / "events")
    (tree.back / "d").mkdir()
    for name in ("a", "b", "secret"):
        (tree.back / "d" / name).write_text("x")

    def own():
        Path("/proc/self/comm").write_text("own")
        return set(os.listdir("d"))

    keep(tree, most=3)
    for _ in range(3):
        assert tree.run(own) == {"a", "b", "secret"}
        assert set(tree.run(lambda: os.listdir("d"))) == {"a", "b"}
    tree.finish()
