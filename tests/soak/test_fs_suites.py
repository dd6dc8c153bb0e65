# SPDX-License-Identifier: Apache-2.0
"""pjdfstest and fsx over the file system. cargo installs them if they are missing."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]
TOOLS = Path(__file__).resolve().parents[2] / ".dev/cargo"
VERSIONS = {"pjdfstest": "0.2.2", "fsx": "0.3.2"}
# docs/architecture/fs.md says why
DIFFERENT = {"link::link_count_max": "skipped"}
PJDFSTEST = """
[features]
file_flags = []
[features.posix_fallocate]
[features.rename_ctime]
[features.utimensat]
[features.utime_now]
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
"""
FSX = """
flen = 262144
[opsize]
max = 8192
[weights]
close_open = 1
truncate = 2
read = 10
write = 10
mapread = 5
mapwrite = 5
fsync = 0.0005
fdatasync = 0.0005
invalidate = 0.1
posix_fallocate = 1
punch_hole = 1
sendfile = 1
copy_file_range = 1
"""


def tool(name):
    path = TOOLS / "bin" / name
    if not path.exists():
        if shutil.which("cargo") is None:
            pytest.skip("no cargo")
        subprocess.run(
            ["cargo", "install", "--locked", "--root", TOOLS, f"{name}@{VERSIONS[name]}"], check=True, timeout=1200
        )
    return path


@pytest.fixture
def place():
    """pytest's own directory lets only root in, and pjdfstest also acts as other users."""
    with tempfile.TemporaryDirectory(prefix="agentsh-suites-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def tree(place):
    t = MountTree(place, "--as-caller")
    yield t
    t.finish()


def test_fil_7_pjdfstest_finds_no_difference(tree, place):
    program, config = tool("pjdfstest"), place / "pjdfstest.toml"
    config.write_text(PJDFSTEST)

    def results(where):
        out = subprocess.run([program, "-c", config, "-p", where], capture_output=True, text=True).stdout
        return dict(re.findall(r"^(\S+::\S+) +(ok|skipped|FAILED)$", out, re.M))

    (place / "native").mkdir()
    native = results(place / "native")
    (tree.back / "t").mkdir()
    mounted = tree.run(results, tree.place / "t")
    assert list(native.values()).count("ok") > 350
    assert {t: r for t, r in mounted.items() if native[t] != r} == DIFFERENT
    assert set(native) == set(mounted)


@pytest.mark.parametrize("mode", ["--as-caller", "--passthrough"])
def test_fil_7_fsx_finds_no_wrong_byte(place, mode):
    program, config = tool("fsx"), place / "fsx.toml"
    config.write_text(FSX)
    tree = MountTree(place, mode)
    tree.sh(f"{program} -f {config} -P {place} -N 1000000 -S 7 -q file")
    tree.finish()
