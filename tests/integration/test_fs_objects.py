# SPDX-License-Identifier: Apache-2.0
"""Objects without a name, of several devices, and forgotten ones."""

import errno
import os
import stat
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
    t = MountTree(tmp_path, "--ms", "0")  # the kernel asks for attributes each time
    yield t
    t.finish()


def test_fil_7_what_has_no_name_is_still_found(tree):
    def body():
        for name in ("removed", "replaced", "linked"):
            Path(name).write_text(name)
        os.link("linked", "other")
        os.symlink("target", "link")
        fds = {name: os.open(name, os.O_PATH | os.O_NOFOLLOW) for name in ("removed", "replaced", "linked", "link")}
        os.unlink("removed")
        os.unlink("linked")
        os.unlink("link")
        Path("new").write_text("new")
        os.rename("new", "replaced")
        assert [os.fstat(fds[name]).st_nlink for name in fds] == [0, 0, 1, 0]
        assert os.fstat(fds["removed"]).st_size == 7
        assert Path(f"/proc/self/fd/{fds['removed']}").read_text() == "removed"
        assert os.readlink("", dir_fd=fds["link"]) == "target"
        os.chmod(f"/proc/self/fd/{fds['replaced']}", 0o600)
        assert stat.S_IMODE(os.fstat(fds["replaced"]).st_mode) == 0o600
        # a working directory that is removed, and one that is removed with its parent
        for gone in ("d", "e/f"):
            top = os.getcwd()
            os.makedirs(gone)
            os.chdir(gone)
            subprocess.run(["rm", "-r", f"{top}/{gone.split('/')[0]}"], check=True)
            assert os.stat(".").st_nlink == 0 and os.listdir(".") == []
            with pytest.raises(FileNotFoundError):
                os.mkdir("new")
            os.chdir(top)
        for fd in fds.values():
            os.close(fd)

    tree.run(body)


def test_fil_7_what_the_kernel_forgets_is_closed(tree):
    tree.sh("mkdir -p {1..20}/{1..20}; touch {1..20}/{1..20}/f")
    assert tree.counts()[2] > 400
    tree.sh("rm -r *")
    harness.wait_for(lambda: tree.counts()[2] == 0, "no directory is open", show=tree.counts)
    assert tree.counts()[0] == 1


def test_fil_7_numbers_of_two_devices_differ(tree):
    for name in ("one", "two"):
        (tree.back / name).mkdir()
        subprocess.run(
            ["nsenter", "-m", "-t", str(tree.server.pid), "mount", "-t", "tmpfs", "none", tree.back / name],
            check=True,
        )

    def body(back):
        for name in ("one", "two"):
            Path(name, "f").write_text(name)
            os.link(f"{name}/f", f"{name}/g")
        assert os.stat(back / "one/f").st_ino == os.stat(back / "two/f").st_ino
        files = [os.stat(p) for p in (".", "one", "two", "one/f", "two/f", "one/g", "two/g")]
        assert len({s.st_ino for s in files}) == 5 and len({s.st_dev for s in files}) == 1
        for name in ("one", "two"):
            assert {e.name: e.inode() for e in os.scandir(name)} == {n: os.stat(f"{name}/{n}").st_ino for n in "fg"}
        assert [Path(n, "g").read_text() for n in ("one", "two")] == ["one", "two"]
        with pytest.raises(OSError) as e:
            os.rename("one/f", "two/h")
        assert e.value.errno == errno.EXDEV
        assert subprocess.run(["cp", "-a", "one", "copy"]).returncode == 0 and os.stat("copy/f").st_nlink == 2

    tree.run(body, tree.back)
