# SPDX-License-Identifier: Apache-2.0
"""The file system by itself: a test program serves a directory, and plain programs use it beside the host."""

import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import stat
import struct
import subprocess
from pathlib import Path

import harness
import pytest
from mount_tree import PROGRAM, MountTree, enable_io_uring

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
AT_SYMLINK_FOLLOW = 0x400
FALLOC_PUNCH_HOLE = 3  # with KEEP_SIZE


WAYS = {
    "as_caller": ["--as-caller"],
    "own": [],
    "passthrough": ["--passthrough"],
    "io_uring": ["--io-uring", "--passthrough"],
}
# what the host does meanwhile is not seen, by the cache or because the kernel offers nothing
ALONE = {"writeback": ["--also", "FUSE_WRITEBACK_CACHE"], "no_flags": ["--never", "all"]}
also_alone = pytest.mark.parametrize("tree", [*WAYS, *ALONE], indirect=True)


@pytest.fixture(params=WAYS)
def tree(request, tmp_path):
    """Once for every uid with the kernel's permission checks, else with the server's own credentials."""
    if request.param == "io_uring":
        enable_io_uring()
    tmp_path.chmod(0o755)
    t = MountTree(tmp_path, *(WAYS | ALONE)[request.param])
    t.as_caller = request.param == "as_caller"
    yield t
    t.finish()


def fails(code, function, *args, **kwargs):
    with pytest.raises(OSError) as e:
        function(*args, **kwargs)
    assert e.value.errno == code, e.value


def rename2(a, b, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@also_alone
def test_fil_7_names_are_made_moved_and_removed(tree):
    def body():
        os.mkdir("d", 0o750)
        Path("d/a").write_text("a")
        os.link("d/a", "b")
        assert os.stat("b").st_nlink == 2 and os.stat("b").st_ino == os.stat("d/a").st_ino
        os.symlink("d/a", "s")
        assert os.readlink("s") == "d/a" and Path("s").read_text() == "a"
        fails(errno.ENOTEMPTY, os.rmdir, "d")
        fails(errno.EEXIST, os.mkdir, "d")
        fails(errno.ENOENT, os.unlink, "nothing")
        fails(errno.ENAMETOOLONG, os.mkdir, "n" * 256)
        os.mkdir("n" * 255)
        os.mkdir("e")
        fails(errno.EEXIST, rename2, "d", "e", RENAME_NOREPLACE)
        rename2("d", "e", RENAME_EXCHANGE)
        assert os.listdir("d") == [] and os.listdir("e") == ["a"]
        os.rename("e", "d")
        os.rename("b", "d/c")
        fails(errno.EINVAL, os.rename, "d", "d/x")
        assert sorted(os.listdir("d")) == ["a", "c"]
        os.unlink("d/a")
        assert os.stat("d/c").st_nlink == 1 and Path("d/c").read_text() == "a"
        os.mkfifo("fifo")
        assert stat.S_ISFIFO(os.stat("fifo").st_mode)
        os.chmod("d/c", 0o4711)
        os.utime("d/c", ns=(1_000_000_001, 2_000_000_002))

    tree.run(body)
    assert sorted(os.listdir(tree.back)) == ["d", "fifo", "n" * 255, "s"]
    st = os.stat(tree.back / "d/c")
    assert stat.S_IMODE(st.st_mode) == 0o4711 and (st.st_atime_ns, st.st_mtime_ns) == (1_000_000_001, 2_000_000_002)


@also_alone
def test_fil_7_open_files_outlive_their_names(tree):
    def body():
        Path("f").write_text("old")
        Path("g").write_text("new")
        with open("f", "r+") as f:
            os.rename("g", "f")
            assert f.read() == "old"
            f.write(" and more")
            f.flush()
            os.ftruncate(f.fileno(), 5)
            assert os.fstat(f.fileno()).st_size == 5 and os.fstat(f.fileno()).st_nlink == 0
            assert Path(f"/proc/self/fd/{f.fileno()}").read_text() == "old a"
            os.fchmod(f.fileno(), 0o600)
            os.setxattr(f.fileno(), "user.x", b"1")
            assert os.getxattr(f.fileno(), "user.x") == b"1"
        assert Path("f").read_text() == "new"
        # a directory that is gone under a process
        os.mkdir("d")
        d = os.open("d", os.O_RDONLY)
        os.rmdir("d")
        assert os.listdir(d) == []
        fails(errno.ENOENT, os.open, "x", os.O_CREAT, dir_fd=d)

    tree.run(body)


@also_alone
def test_fil_7_shared_mappings_by_two_names_are_one(tree):
    def body():
        Path("a").write_bytes(b"." * 8192)
        os.link("a", "b")
        with open("a", "r+b") as fa, open("b", "r+b") as fb:
            a, b = mmap.mmap(fa.fileno(), 8192), mmap.mmap(fb.fileno(), 8192)
            a[0:3] = b"one"
            b[4096:4099] = b"two"
            assert b[0:3] == b"one" and a[4096:4099] == b"two"
            os.pwrite(fa.fileno(), b"three", 100)
            assert b[100:105] == b"three"
            a.flush()
        # an append through one file does not move what a mapping wrote through the same node
        with open("a", "ab") as end, open("b", "r+b") as fb:
            b = mmap.mmap(fb.fileno(), 8192)
            b[200:204] = b"four"
            end.write(b"end")
            end.flush()
            fb.close()
            b.flush()

    tree.run(body)
    data = (tree.back / "b").read_bytes()
    assert data[0:3] == b"one" and data[4096:4099] == b"two" and data[100:105] == b"three"
    assert data[200:204] == b"four" and data[8192:] == b"end"


def test_fil_7_direct_append_sparse_and_copied_data(tree):
    def body(back):
        buffer = mmap.mmap(-1, 8192)
        buffer[:] = b"d" * 8192
        fd = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        assert os.pwritev(fd, [buffer], 0) == 8192
        buffer[:] = bytes(8192)
        assert os.preadv(fd, [buffer], 4096) == 4096 and buffer[:4096] == b"d" * 4096
        # host and mount append to one file, and nothing is lost
        with open("log", "ab", buffering=0) as mine, open(back / "log", "ab", buffering=0) as host:
            for i in range(50):
                mine.write(b"m%02d\n" % i)
                host.write(b"h%02d\n" % i)
        assert len((back / "log").read_text().split()) == 100
        # sparse files
        fd = os.open("sparse", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"x", 1 << 20)
        assert os.lseek(fd, 0, os.SEEK_DATA) == 1 << 20
        assert os.lseek(fd, 1 << 20, os.SEEK_HOLE) == (1 << 20) + 1
        assert os.stat("sparse").st_blocks < 100
        os.posix_fallocate(fd, 0, 65536)
        assert os.stat("sparse").st_blocks >= 128
        os.pwrite(fd, b"y" * 65536, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.fallocate(fd, FALLOC_PUNCH_HOLE, ctypes.c_long(4096), ctypes.c_long(4096)) == 0
        assert os.pread(fd, 4096, 4096) == bytes(4096) and os.pread(fd, 1, 8192) == b"y"
        other = os.open("copy", os.O_RDWR | os.O_CREAT)
        assert os.copy_file_range(fd, other, 65536, 0, 0) == 65536
        assert os.pread(other, 65536, 0) == os.pread(fd, 65536, 0)
        os.fsync(other)
        os.fdatasync(other)
        assert os.statvfs(".").f_blocks == os.statvfs(back).f_blocks

    tree.run(body, tree.back)


@also_alone
def test_fil_7_extended_attributes_and_unnamed_files(tree):
    def body():
        Path("f").touch()
        os.setxattr("f", "user.a", b"1")
        os.setxattr("f", "user.with/slash", b"x" * 1000)
        assert os.getxattr("f", "user.a") == b"1" and len(os.getxattr("f", "user.with/slash")) == 1000
        assert sorted(os.listxattr("f")) == ["user.a", "user.with/slash"]
        fails(errno.EEXIST, os.setxattr, "f", "user.a", b"2", os.XATTR_CREATE)
        os.removexattr("f", "user.a")
        fails(errno.ENODATA, os.getxattr, "f", "user.a")
        os.symlink("f", "s")
        fails(errno.EPERM, os.setxattr, "s", "user.a", b"1", follow_symlinks=False)
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
        os.write(fd, b"unnamed")
        assert ctypes.CDLL(None).linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"named", AT_SYMLINK_FOLLOW) == 0
        assert Path("named").read_text() == "unnamed"
        assert os.stat("named").st_ino == os.fstat(fd).st_ino

    tree.run(body)
    assert os.listxattr(tree.back / "f") == ["user.with/slash"]


def test_fil_7_locks_are_shared_with_the_host(tree):
    (tree.back / "f").write_bytes(bytes(100))
    host = os.open(tree.back / "f", os.O_RDWR)

    def try_flock(kind):
        fd = os.open("f", os.O_RDWR)
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def try_range(start, length):
        fd = os.open("f", os.O_RDWR)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
            return True
        except BlockingIOError:
            return False

    fcntl.flock(host, fcntl.LOCK_SH)
    assert tree.run(try_flock, fcntl.LOCK_SH) and not tree.run(try_flock, fcntl.LOCK_EX)
    fcntl.flock(host, fcntl.LOCK_UN)
    assert tree.run(try_flock, fcntl.LOCK_EX)
    fcntl.lockf(host, fcntl.LOCK_EX, 10, 20)
    assert tree.run(try_range, 0, 20) and not tree.run(try_range, 25, 1) and tree.run(try_range, 30, 0)

    def holder(pid):
        fd = os.open("f", os.O_RDWR)
        query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, start, length, owner = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, query))
        assert (kind, start, length, owner) == (fcntl.F_WRLCK, 20, 10, pid)

    tree.run(holder, os.getpid())

    def waits(how):
        signal.signal(signal.SIGUSR1, lambda *_: None)
        fd = os.open("f", os.O_RDWR)
        Path(f"waits-{how}").touch()
        if how == "range":
            fcntl.lockf(fd, fcntl.LOCK_EX)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX)

    def waiting(child):
        return "fuse" in Path(f"/proc/{child[0]}/wchan").read_text() or "request" in (
            Path(f"/proc/{child[0]}/stack").read_text()
        )

    fcntl.flock(host, fcntl.LOCK_EX)
    for how in ("range", "flock"):
        # one that is killed, one that gets the lock; meanwhile the mount serves others
        killed, served = tree.start(waits, how), tree.start(waits, how)
        for child in (killed, served):
            harness.wait_for(lambda child=child: waiting(child), "the lock is waited for")
        assert tree.run(os.listdir, ".")
        os.kill(killed[0], signal.SIGKILL)
        assert os.waitpid(killed[0], 0)[1] == signal.SIGKILL
        os.close(killed[1])
        if how == "range":
            fcntl.lockf(host, fcntl.LOCK_UN)
        else:
            fcntl.flock(host, fcntl.LOCK_UN)
        tree.result(served)

    def two_files():
        # a process has the locks of all its descriptors, and closing any of them ends them
        a, b = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
        fcntl.lockf(a, fcntl.LOCK_EX)
        fcntl.lockf(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path("locked").touch()
        while not Path("go").exists():
            signal.pause()
        os.close(b)
        Path("closed").touch()
        signal.pause()

    def patient():
        signal.signal(signal.SIGUSR1, lambda *_: None)
        two_files()

    child = tree.start(patient)
    harness.wait_for((tree.back / "locked").exists, "it is locked")
    with pytest.raises(BlockingIOError):
        fcntl.lockf(host, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (tree.back / "go").touch()

    def closed():
        os.kill(child[0], signal.SIGUSR1)
        return (tree.back / "closed").exists()

    harness.wait_for(closed, "one descriptor is closed")
    fcntl.lockf(host, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(child[0], signal.SIGKILL)
    os.waitpid(child[0], 0)
    os.close(child[1])
    os.close(host)


def test_fil_7_locks_of_an_open_file_end_with_it(tree):
    (tree.back / "f").touch()
    host = os.open(tree.back / "f", os.O_RDWR)
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)

    def free():
        try:
            fcntl.fcntl(host, fcntl.F_OFD_SETLK, whole)
            return True
        except BlockingIOError:
            return False

    def lock():
        a, b = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
        fcntl.fcntl(a, fcntl.F_OFD_SETLK, whole)
        fails(errno.EAGAIN, fcntl.fcntl, b, fcntl.F_OFD_SETLK, whole)
        copy = os.dup(a)
        os.close(a)
        os.close(b)
        return copy, free()

    assert tree.run(lock)[1] is False  # closing another descriptor ends none
    harness.wait_for(free, "the lock ends with the last descriptor")
    os.close(host)


def test_fil_7_new_objects_belong_to_their_makers(tmp_path):
    tmp_path.chmod(0o755)
    tree = MountTree(tmp_path, "--as-caller")
    tree.as_caller = True
    (tree.back / "open").mkdir()
    (tree.back / "open").chmod(0o777)
    (tree.back / "group").mkdir()
    os.chown(tree.back / "group", 0, 50)
    (tree.back / "group").chmod(0o2777)
    (tree.back / "closed").mkdir(0o700)
    (tree.back / "setuid").touch()
    os.chown(tree.back / "setuid", 1000, 1000)
    (tree.back / "setuid").chmod(0o6755)

    def body():
        os.setgroups([])
        os.setgid(1000)
        os.setuid(1000)
        os.umask(0o022)
        Path("open/f").touch()
        os.mkdir("open/d")
        os.symlink("x", "open/s")
        os.mkfifo("open/p")
        Path("group/f").touch()
        os.mkdir("group/d")
        fails(errno.EACCES, os.listdir, "closed")
        fails(errno.EACCES, os.mkdir, "x")
        fails(errno.EPERM, os.chown, "open/f", 0, 0)
        with open("setuid", "w") as f:
            f.write("x")
        assert stat.S_IMODE(os.stat("setuid").st_mode) == 0o755

    tree.run(body)
    for name in ("f", "d", "s", "p"):
        st = os.lstat(tree.back / "open" / name)
        assert (st.st_uid, st.st_gid) == (1000, 1000), name
    assert stat.S_IMODE(os.stat(tree.back / "open/f").st_mode) == 0o644
    for name in ("f", "d"):
        assert os.stat(tree.back / "group" / name).st_gid == 50
    assert os.stat(tree.back / "group/d").st_mode & stat.S_ISGID
    tree.finish()


def test_fil_7_changes_of_the_host_are_seen_after_a_second(tree):
    def body(back):
        Path("f").write_text("one")
        os.mkdir("d")
        Path("d/x").touch()
        assert Path("f").read_text() == "one"
        (back / "f").write_text("host")
        harness.wait_for(lambda: Path("f").read_text() == "host", "the new text")
        os.rename(back / "d", back / "e")
        harness.wait_for(lambda: not os.path.exists("d") and os.path.exists("e/x"), "the new name")
        (back / "f").unlink()
        (back / "f").mkdir()
        harness.wait_for(lambda: os.path.isdir("f"), "the directory")
        os.mkdir("f/new")
        fd = os.open("e", os.O_RDONLY)
        os.rename(back / "e", back / "f/e")
        assert os.listdir(fd) == ["x"]
        os.open("x", os.O_RDONLY, dir_fd=fd)
        shutil.rmtree(back / "f")
        harness.wait_for(lambda: not os.path.exists("f"), "it is gone")

    tree.run(body, tree.back)


def test_fil_7_deep_and_wide_trees(tree):
    def body():
        here = os.open(".", os.O_RDONLY)
        os.chdir(here)
        for _ in range(4000):
            os.mkdir("level")
            os.chdir("level")
        Path("bottom").write_text("x")
        os.fchdir(here)
        os.mkdir("wide")
        for i in range(20000):
            os.close(os.open(f"wide/file_{i:05}", os.O_CREAT | os.O_WRONLY))
        names = os.listdir("wide")
        assert len(names) == len(set(names)) == 20000
        with os.scandir("wide") as entries:  # removed while they are listed
            for e in entries:
                assert e.stat().st_size == 0
                os.unlink(e.path)
        assert os.listdir("wide") == []
        subprocess.run(["rm", "-rf", "level", "wide"], check=True)
        assert os.listdir(".") == []

    tree.run(body)
    assert os.listdir(tree.back) == []
    harness.wait_for(
        lambda: tree.counts()[1] == 0, "no file is open: the kernel tells of a close later", show=tree.counts
    )


@also_alone
def test_fil_7_programs_that_people_use(tree):
    tree.sh("""
        export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
        git init -q repo; cd repo
        for i in $(seq 200); do mkdir -p d$((i % 10)); echo $i > d$((i % 10))/f$i; done
        git add .; git commit -qm one; git mv d1 moved; git commit -qm two
        git checkout -q HEAD~1; git checkout -q -; git gc -q
        [ -z "$(git status --porcelain)" ]; git fsck --strict
        cd ..; git clone -q repo second; diff -r --exclude=.git repo second
        tar cf repo.tar repo; mkdir out; tar xf repo.tar -C out; diff -r repo out/repo
        cp -a repo third; diff -r repo third
        printf '%s\\n' 'int f(void) { return 7; }' > a.c
        printf '%s\\n' 'int f(void); int main(void) { return f() - 7; }' > b.c
        gcc -c a.c b.c; ar rc liba.a a.o; gcc -o prog b.o liba.a; ./prog
        find repo out third -type f | xargs sha1sum > sums; sha1sum --quiet -c sums
        """)

    def database():
        one, two = sqlite3.connect("db"), sqlite3.connect("db", timeout=30)
        assert one.execute("pragma journal_mode=wal").fetchone() == ("wal",)
        one.execute("create table t (x)")
        for i in range(200):
            (one, two)[i % 2].execute("insert into t values (?)", (i,))
            (one, two)[i % 2].commit()
        assert two.execute("select sum(x) from t").fetchone() == (19900,)
        assert one.execute("pragma integrity_check").fetchone() == ("ok",)

    tree.run(database)


def storm(seed):
    rng = random.Random(seed)
    dirs = ["a", "b", "a/c", "b/c"]
    for i in range(3000):
        d, e = rng.choice(dirs), rng.choice(dirs)
        x, y = f"{d}/{rng.randrange(6)}", f"{e}/{rng.randrange(6)}"
        try:
            match rng.randrange(9):
                case 0:
                    Path(x).write_text(x)
                case 1:
                    os.rename(x, y)
                case 2:
                    os.unlink(x)
                case 3:
                    os.link(x, y)
                case 4:
                    rename2(d, e, RENAME_EXCHANGE)
                case 5:
                    os.stat(x)
                    os.chmod(y, 0o600)
                case 6:
                    os.mkdir(d)
                case 7:
                    os.scandir(d).close()
                    os.listdir(e)
                case 8:
                    with open(x, "a") as f:
                        f.write("more")
                        os.fstat(f.fileno())
        except OSError as error:
            # ESTALE: the name went twice between look-up and use, see docs/architecture/fs.md
            expected = (
                errno.ENOENT,
                errno.EEXIST,
                errno.ENOTDIR,
                errno.EISDIR,
                errno.EINVAL,
                errno.ENOTEMPTY,
                errno.ESTALE,
            )
            assert error.errno in expected, (i, error)


@also_alone
def test_fil_7_a_storm_of_changes_leaves_one_tree(tree):
    children = [tree.start(storm, seed) for seed in range(4)]
    for child in children:
        tree.result(child)

    def listing(top):
        return sorted((str(p.relative_to(top)), p.read_text() if p.is_file() else None) for p in Path(top).rglob("*"))

    assert tree.run(listing, tree.place) == listing(tree.back)
    harness.wait_for(
        lambda: tree.counts()[1] == 0, "no file is open: the kernel tells of a close later", show=tree.counts
    )


@also_alone
def test_fil_7_truncating_opens_of_several_processes_leave_one_size(tree):
    names = [f"f{i}" for i in range(1000)]
    for name in names:
        (tree.back / name).touch()

    def writer(seed):
        for name in names:
            Path(name).write_text("x" * (seed * 7 + 1))

    def sizes(top):
        return [(os.stat(top / name).st_size, len((top / name).read_bytes())) for name in names]

    for child in [tree.start(writer, seed) for seed in range(4)]:
        tree.result(child)
    assert tree.run(sizes, tree.place) == sizes(tree.back)


def test_fil_7_a_close_is_told_only_where_a_lock_may_end(tree):
    def body():
        for i in range(10):
            with open(f"new{i}", "xb", buffering=0) as f:
                f.write(b"x")
            assert Path(f"new{i}").read_bytes() == b"x"

    def closes_a_second_descriptor(back):
        with open("f", "r+b", buffering=0) as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            with open(back / "f", "r+b") as host:
                fails(errno.EAGAIN, fcntl.lockf, host, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.close(os.open("f", os.O_RDONLY))
                fcntl.lockf(host, fcntl.LOCK_EX | fcntl.LOCK_NB)

    tree.run(body)
    assert tree.requests("FLUSH", "CREATE", "OPEN") == [0, 10, 10]
    (tree.back / "f").write_bytes(b"x")
    tree.run(closes_a_second_descriptor, tree.back)
    assert tree.requests("FLUSH") == [2]


def test_fil_7_a_program_that_runs_is_busy(tree):
    for name in ("mine", "theirs"):
        shutil.copy("/bin/sleep", tree.back / name)

    def writable(path):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as e:
            assert e.errno == errno.ETXTBSY
            return False
        return True

    def body(back):
        for where, name in ((".", "mine"), (back, "theirs")):
            size = os.stat(name).st_size
            with subprocess.Popen([f"{where}/{name}", "600"]) as program:
                os.rename(name, "moved")
                for flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC, os.O_WRONLY | os.O_TRUNC):
                    fails(errno.ETXTBSY, os.open, "moved", flags)
                fails(errno.ETXTBSY, os.truncate, "moved", 0)
                assert os.stat("moved").st_size == size
                program.kill()
            harness.wait_for(lambda: writable("moved"), "it has ended: the kernel tells of a close later")
            os.close(os.open("moved", os.O_TRUNC))
            assert os.stat("moved").st_size == 0
        # a script is read, not executed
        Path("script").write_text("#!/bin/sh\n: > script\n")
        os.chmod("script", 0o755)
        subprocess.run(["./script"], check=True)
        assert os.stat("script").st_size == 0

    tree.run(body, tree.back)


def test_fil_7_a_closed_file_is_closed_at_the_host(tree):
    def body():
        shutil.copy("/bin/true", "program")
        subprocess.run(["./program"], check=True)

    def runs_at_the_host():
        try:
            return subprocess.run([tree.back / "program"]).returncode == 0
        except OSError as e:
            assert e.errno == errno.ETXTBSY
            return False

    tree.run(body)
    harness.wait_for(runs_at_the_host, "nothing has the program open for writing")


def test_fil_7_a_flock_ends_with_its_own_file(tree):
    (tree.back / "f").write_bytes(b"x")
    host = os.open(tree.back / "f", os.O_RDWR)

    def is_free():
        try:
            fcntl.flock(host, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(host, fcntl.LOCK_UN)
        return True

    def body():
        first, second = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
        fcntl.flock(first, fcntl.LOCK_EX)
        assert not is_free()
        os.close(first)
        harness.wait_for(is_free, "the lock of the closed file is gone")
        os.close(second)

    tree.run(body)
    os.close(host)


def test_fil_7_requests_that_wait_leave_room_for_others(tree):
    """All on one CPU: by io_uring each waiting request keeps an entry of the CPU's queue."""
    (tree.back / "f").write_bytes(b"x")

    def waits_for_lock():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        with open("f", "r+b") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)

    def body(back):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        with open(back / "f", "r+b") as host:
            fcntl.lockf(host, fcntl.LOCK_EX)
            waiting = [multiprocessing.Process(target=waits_for_lock) for _ in range(60)]
            for p in waiting:
                p.start()
            harness.wait_for(
                lambda: all("fuse" in Path(f"/proc/{p.pid}/stack").read_text() for p in waiting), "all of them wait"
            )
            Path("other").write_bytes(b"y")
            assert Path("other").read_bytes() == b"y"
            for p in waiting[::2]:
                p.kill()
            for p in waiting[::2]:
                p.join(10)
                assert p.exitcode == -signal.SIGKILL
            os.unlink("other")
        for p in waiting[1::2]:
            p.join(10)
            assert p.exitcode == 0

    tree.run(body, tree.back)
