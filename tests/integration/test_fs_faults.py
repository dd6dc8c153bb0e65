# SPDX-License-Identifier: Apache-2.0
"""The file system when its disk is full, its tree goes, memory ends, or the host works in the same tree."""

import errno
import mmap
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import cgroups
import harness
import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]
WAYS = {"cached": [], "passthrough": ["--passthrough"], "writeback": ["--also", "FUSE_WRITEBACK_CACHE"]}
MIB = 1 << 20


@pytest.fixture(params=WAYS)
def tree(request, tmp_path):
    t = MountTree(tmp_path, *WAYS[request.param])
    yield t
    t.finish()


@pytest.fixture
def cached(tmp_path):
    t = MountTree(tmp_path)
    yield t
    t.finish()


def mount(tree, *arguments):
    subprocess.run(["nsenter", "-m", "-t", str(tree.server.pid), "mount", *arguments], check=True)


def test_fil_7_a_full_disk_is_an_error_and_nothing_more(tree):
    (tree.back / "small").mkdir()
    mount(tree, "-t", "tmpfs", "-o", "size=2m,nr_inodes=20", "none", tree.back / "small")

    def fails(function, *args):
        with pytest.raises(OSError) as e:
            function(*args)
        return e.value.errno

    def fill():
        with open("small/full", "wb", buffering=0) as f:
            while True:
                f.write(bytes(MIB))
                os.fsync(f.fileno())

    def dirty():
        with open("small/mapped", "w+b") as f:
            f.truncate(4 * MIB)
            with mmap.mmap(f.fileno(), 4 * MIB) as m:
                for page in range(0, 4 * MIB, 4096):
                    m[page] = 1
                m.flush()

    def body():
        assert fails(fill) == errno.ENOSPC
        os.unlink("small/full")
        # with passthrough the kernel has no page for the mapping itself: SIGBUS, as natively
        if "--passthrough" not in tree.server.args:
            assert fails(dirty) in (errno.ENOSPC, errno.EIO)
            os.unlink("small/mapped")
        harness.wait_for(lambda: os.statvfs("small").f_bavail > 400, "the space is free again")
        Path("small/text").write_text("text")
        for i in range(30):
            try:
                os.mkdir(f"small/{i}")
            except OSError as e:
                assert e.errno == errno.ENOSPC
        assert len(os.listdir("small")) == 19
        assert Path("small/text").read_text() == "text"

    tree.run(body)


def test_fil_7_a_backing_tree_that_is_removed_leaves_errors(cached):
    def body(back):
        os.makedirs("d/e")
        Path("d/f").write_text("text")
        kept = os.open("d/f", os.O_RDONLY)
        os.chdir("d/e")
        shutil.rmtree(back)
        assert os.read(kept, 9) == b"text"
        for name in ("new", "../new", "../../new"):
            with pytest.raises(OSError) as e:
                harness.wait_for(lambda name=name: os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600)), "it fails")
            assert e.value.errno in (errno.ENOENT, errno.ESTALE), e.value
        os.chdir("/")

    cached.run(body, cached.back)
    assert cached.run(os.listdir, ".") == []
    cached.back.mkdir()  # a new one is another directory
    (cached.back / "other").touch()
    assert cached.run(os.listdir, ".") == []


def test_fil_7_the_callers_limit_is_not_the_servers(cached):
    resource.prlimit(cached.server.pid, resource.RLIMIT_NOFILE, (200, 200))

    def body():
        held = []
        Path("d").mkdir()
        Path("d/f").write_text("text")
        with pytest.raises(OSError) as e:
            while True:
                held.append(os.open("d/f", os.O_RDONLY))
        assert e.value.errno == errno.ENFILE
        assert os.read(held[0], 9) == b"text"
        for fd in held:
            os.close(fd)
        harness.wait_for(lambda: os.path.exists("d/f"), "it works again")
        Path("d/g").write_text("text")

    cached.run(body)


def test_fil_7_two_places_of_one_mount_are_one_tree(tree, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    mount(tree, "--bind", tree.place, other)

    def body():
        os.mkdir("d")
        with open("d/f", "w+b") as mine:
            mine.truncate(4096)
            with open(other / "d/f", "r+b") as theirs:
                a, b = mmap.mmap(mine.fileno(), 4096), mmap.mmap(theirs.fileno(), 4096)
                a[:3] = b"one"
                assert b[:3] == b"one" and os.fstat(mine.fileno()) == os.fstat(theirs.fileno())
                theirs.write(b"two")
                theirs.flush()
                assert a[:3] == b"two"
        os.rename(other / "d", other / "e")
        assert not os.path.exists("d") and os.stat("e/f").st_size == 4096
        os.unlink("e/f")
        assert os.listdir(other / "e") == []
        Path("e/f").touch()
        assert os.path.exists(other / "e/f")
        with pytest.raises(OSError) as e:
            os.rename("e", other / "g")
        assert e.value.errno == errno.EXDEV  # two mounts, as natively

    tree.run(body)


def within_a_second(condition):
    """Stale answers are an error after the second that names and attributes are kept."""
    begin = time.monotonic()
    harness.wait_for(condition, "the host's change is seen", seconds=2.5)
    return time.monotonic() - begin


def test_fil_7_what_the_host_does_is_seen_within_a_second(cached):
    def body(back):
        def stale():
            for name in ("text", "moved", "gone", "mode", "d/x"):
                os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
                Path(name).write_text("old")
                assert Path(name).read_text() == "old" and os.stat(name).st_mode & 0o777 != 0o600
            os.listdir("d")

        stale()
        (back / "text").write_text("new and longer")
        os.rename(back / "moved", back / "here")
        os.unlink(back / "gone")
        os.chmod(back / "mode", 0o600)
        os.rename(back / "d", back / "e")
        (back / "new").touch()
        seen = [
            within_a_second(condition)
            for condition in (
                lambda: Path("text").read_text() == "new and longer",
                lambda: not os.path.exists("moved") and Path("here").read_text() == "old",
                lambda: not os.path.exists("gone"),
                lambda: os.stat("mode").st_mode & 0o777 == 0o600,
                lambda: not os.path.exists("d") and os.listdir("e") == ["x"],
                lambda: os.path.exists("new") and "new" in os.listdir("."),
            )
        ]
        assert sum(seen) < 2.5  # the changes were made at once
        # another file in the place of an open one
        with open("here") as f:
            (back / "other").write_text("other")
            os.rename(back / "other", back / "here")
            within_a_second(lambda: Path("here").read_text() == "other")
            assert f.read() == "old"

    cached.run(body, cached.back)


@cgroups.needs_cgroups
def test_fil_7_memory_ends_and_the_file_system_lives(tree):
    v2 = (cgroups.CGROUP / "cgroup.controllers").exists()
    group = cgroups.CGROUP / ("." if v2 else "memory") / f"agentsh-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.max" if v2 else "memory.limit_in_bytes")).write_text(str(96 * MIB))
        (group / "cgroup.procs").write_text(str(tree.server.pid))

        def dirty():
            (group / "cgroup.procs").write_text(str(os.getpid()))
            with open("mapped", "w+b") as f:
                f.truncate(256 * MIB)
                m = mmap.mmap(f.fileno(), 256 * MIB)
                for page in range(0, 256 * MIB, 4096):
                    m[page : page + 8] = page.to_bytes(8, "little")
                m.flush()

        def hog():
            (group / "cgroup.procs").write_text(str(os.getpid()))
            Path("/proc/self/oom_score_adj").write_text("1000")
            return len(b"x" * 256 * MIB)

        tree.run(dirty)
        data = (tree.back / "mapped").read_bytes()
        assert all(data[p : p + 8] == p.to_bytes(8, "little") for p in range(0, 256 * MIB, 4096))
        child = tree.start(hog)
        assert os.WTERMSIG(os.waitpid(child[0], 0)[1]) == 9
        os.close(child[1])
        tree.run(Path("after").write_text, "lives")
        os.unlink(tree.back / "mapped")
    finally:
        (group.parent / "cgroup.procs").write_text(str(tree.server.pid))
        harness.wait_for(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
        group.rmdir()
