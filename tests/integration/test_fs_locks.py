# SPDX-License-Identifier: Apache-2.0
"""Locks and leases of the file system: what waits holds up no other request."""

import errno
import fcntl
import os
import signal
import struct
import subprocess
from pathlib import Path

import harness
import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]


@pytest.fixture
def tree(tmp_path):
    t = MountTree(tmp_path)
    yield t
    t.finish()


def waiting(child):
    return "request" in Path(f"/proc/{child[0]}/stack").read_text()


def kill(child):
    os.kill(child[0], signal.SIGKILL)
    assert os.waitpid(child[0], 0)[1] == signal.SIGKILL
    os.close(child[1])


def test_fil_7_a_lease_of_the_host_holds_up_only_its_own_file(tree):
    (tree.back / "f").write_text("text")
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks the holder to give the lease back
    host = os.open(tree.back / "f", os.O_RDWR)
    fcntl.fcntl(host, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    readers = [tree.start(Path("f").read_text) for _ in range(6)]
    cutter = tree.start(os.truncate, "f", 2)
    for child in [*readers, cutter]:
        harness.wait_for(lambda child=child: waiting(child), "the lease is waited for")
    tree.sh("echo other > g; cat g; ls")
    kill(readers.pop())
    assert all(waiting(child) for child in readers)
    fcntl.fcntl(host, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    for child in readers:
        assert tree.result(child).rstrip("\0") in ("text", "te")  # it may be cut while it is read
    tree.result(cutter)
    os.close(host)
    assert (tree.back / "f").read_text() == "te"


def test_fil_7_a_slow_disk_holds_up_only_its_own_files(tree, tmp_path):
    slow, below = tree.back / "slow", tmp_path / "below"
    slow.mkdir()
    below.mkdir()
    disk = subprocess.Popen(
        ["nsenter", "-m", "-t", str(tree.server.pid), PROGRAM, below, slow], stdout=subprocess.PIPE, text=True
    )
    assert disk.stdout.readline() == "ready\n"

    def sync(n):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGALRM, lambda *_: None)  # a signal does not end it
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        with open(f"slow/{n}", "w") as f:
            f.write("text")
            f.flush()
            (tree.back / f"{n}-written").touch()
            signal.sigtimedwait([signal.SIGUSR1], 60)
            os.fsync(f.fileno())

    children = [tree.start(sync, n) for n in range(6)]
    for n in range(6):
        harness.wait_for((tree.back / f"{n}-written").exists, "the text is written")
    disk.send_signal(signal.SIGSTOP)
    for child in children:
        os.kill(child[0], signal.SIGUSR1)
        harness.wait_for(lambda child=child: waiting(child), "the disk is waited for")
    tree.sh("echo other > g; cat g; mkdir d; ls d")
    disk.send_signal(signal.SIGCONT)
    for child in children:
        tree.result(child)
    disk.terminate()
    assert disk.wait(60) == 0
    disk.stdout.close()


def test_fil_7_a_signal_ends_what_waits(tree):
    (tree.back / "f").write_text("text")
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    host = os.open(tree.back / "f", os.O_RDWR)

    def wait_for_lock(take):
        def on_alarm(*_):
            raise TimeoutError

        signal.signal(signal.SIGALRM, on_alarm)
        fd = os.open("f", os.O_RDWR)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(TimeoutError):
            take(fd)
        os.close(fd)

    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.flock(host, fcntl.LOCK_EX)
    tree.run(wait_for_lock, lambda fd: fcntl.flock(fd, fcntl.LOCK_SH))
    fcntl.lockf(host, fcntl.LOCK_EX)
    tree.run(wait_for_lock, lambda fd: fcntl.lockf(fd, fcntl.LOCK_SH))
    tree.run(wait_for_lock, lambda fd: fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, whole))
    # nothing of it is left: another process of the mount gets the locks when the host gives them up
    fcntl.flock(host, fcntl.LOCK_UN)
    fcntl.lockf(host, fcntl.LOCK_UN)

    def take_all():
        fd = os.open("f", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    tree.run(take_all)
    os.close(host)


def test_fil_7_a_read_lock_lets_the_host_execute_the_file(tree):
    program = tree.back / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)

    def lock_for_reading():
        fd = os.open("program", os.O_RDONLY)
        fcntl.lockf(fd, fcntl.LOCK_SH)
        subprocess.run([program], check=True)
        # the same process locks another part for writing: both locks hold, seen by the host
        other = os.open("program", os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_UN, 10, 20)
        fcntl.lockf(other, fcntl.LOCK_EX, 10, 100)
        host = os.open(program, os.O_RDWR)

        def holder(start, kind):
            query = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, 1, 0)
            return struct.unpack("hhqqi4x", fcntl.fcntl(host, fcntl.F_OFD_GETLK, query))[0]

        assert [holder(n, fcntl.F_WRLCK) for n in (0, 25, 105)] == [fcntl.F_RDLCK, fcntl.F_UNLCK, fcntl.F_WRLCK]
        assert [holder(n, fcntl.F_RDLCK) for n in (0, 105)] == [fcntl.F_UNLCK, fcntl.F_WRLCK]

    tree.run(lock_for_reading)


def test_fil_7_a_deadlock_is_found_and_a_holder_is_named(tree):
    (tree.back / "a").touch()
    (tree.back / "b").touch()

    def hold(first, second):
        mine, other = os.open(first, os.O_RDWR), os.open(second, os.O_RDWR)
        fcntl.lockf(mine, fcntl.LOCK_EX, 5, 5)
        Path(first + "-held").touch()
        harness.wait_for(Path(second + "-held").exists, "the other has its lock")
        try:
            fcntl.lockf(other, fcntl.LOCK_EX)
        except OSError as e:
            return e.errno
        return 0

    def bystander():
        fd = os.open("a", os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_SH, 1, 50)
        signal.pause()

    def holder():
        fd = os.open("a", os.O_RDWR)
        query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 50, 1, 0)
        return struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, query))[4]

    third = tree.start(bystander)
    harness.wait_for(lambda: tree.run(holder) != 0, "the third has its lock")
    assert tree.run(holder) == third[0]
    one = tree.start(hold, "a", "b")
    harness.wait_for((tree.back / "a-held").exists, "the first has its lock")
    assert tree.run(holder) == third[0]
    two = tree.start(hold, "b", "a")
    # the one that is told ends, so that the other waits for the third alone
    harness.wait_for(lambda: waiting(one) or waiting(two), "one of them waits")
    kill(third)
    assert sorted((tree.result(one), tree.result(two))) == [0, errno.EDEADLK]
