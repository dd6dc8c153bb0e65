# SPDX-License-Identifier: Apache-2.0
"""Files that the kernel itself reads and writes for the file system."""

import mmap
import os
from pathlib import Path

import harness
import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]


def test_fil_7_passthrough_keeps_reads_and_writes_in_the_kernel(tmp_path):
    tree = MountTree(tmp_path, "--passthrough")
    (tree.back / "large").write_bytes(b"l" * 200000)
    (tree.back / "small").write_bytes(b"s" * 100)

    def body(back):
        assert len(Path("large").read_bytes()) == 200000
        with open("made", "xb") as f:
            f.write(b"m" * 300000)
        assert (back / "made").read_bytes() == b"m" * 300000
        with open("large", "r+b", buffering=0) as f, open("large", "ab", buffering=0) as appended:
            # one backing file for every kind of open, and the host's page cache
            appended.write(b"end")
            (back / "large").open("ab").write(b"host")
            assert f.seek(0, os.SEEK_END) == 200007 or os.fstat(f.fileno()).st_size == 200007
            os.pwrite(f.fileno(), b"begin", 0)
            shared = mmap.mmap(f.fileno(), 200007)
            assert shared[:6] == b"beginl" and shared[-7:] == b"endhost"
            shared[10:12] = b"mm"
            assert (back / "large").read_bytes()[:12] == b"beginlllllmm"
            os.truncate("large", 5)
            assert os.pread(f.fileno(), 100, 0) == b"begin"
            shared.close()
        direct = os.open("large", os.O_RDWR | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        page[:] = b"d" * 4096
        assert os.pwritev(direct, [page], 0) == 4096
        os.close(direct)
        assert (back / "large").read_bytes() == b"d" * 4096

    def mixed(back):
        # a file that is open in one mode stays in it
        with open("small", "rb", buffering=0) as first, open("small", "r+b", buffering=0) as second:
            second.write(b"S")
            assert first.read(2) == b"Ss"
            assert (back / "small").read_bytes()[:2] == b"Ss"
        with open("small", "r+b", buffering=0) as first, open("small", "rb", buffering=0) as second:
            first.write(b"SS")
            assert second.read(3) == b"SSs"

    tree.run(body, tree.back)
    assert tree.requests("READ", "WRITE") == [0, 0]
    tree.run(mixed, tree.back)
    assert tree.requests("WRITE") == [1]
    assert Path(tree.back / "small").read_bytes()[:3] == b"SSs"
    harness.wait_for(lambda: tree.counts()[1] == 0, "no file is open", show=tree.counts)
    tree.finish()


def test_fil_7_passthrough_needs_a_right_and_falls_back(tmp_path):
    tree = MountTree(tmp_path, "--passthrough", unshare=["-m", "-U", "-r"])

    def body():
        Path("f").write_bytes(b"x" * 200000)
        assert Path("f").read_bytes() == b"x" * 200000

    tree.run(body)
    assert min(tree.requests("READ", "WRITE")) > 0
    tree.finish()
