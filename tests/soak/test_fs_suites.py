# SPDX-License-Identifier: Apache-2.0
"""pjdfstest, fsx, stress-ng and programs that people use over the file system. cargo installs the first two."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest
from mount_tree import PROGRAM, MountTree, enable_io_uring

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
min = 1
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


def results_of(out):
    return dict(re.findall(r"^(\S+::\S+) +(ok|skipped|FAILED)$", out, re.M))


def compare(native, mounted, at_least):
    assert list(native.values()).count("ok") > at_least
    assert {t: r for t, r in mounted.items() if native.get(t) != r} == DIFFERENT
    assert set(native) == set(mounted)


def test_fil_7_pjdfstest_finds_no_difference(tree, place):
    program, config = tool("pjdfstest"), place / "pjdfstest.toml"
    config.write_text(PJDFSTEST)

    def results(where):
        return results_of(subprocess.run([program, "-c", config, "-p", where], capture_output=True, text=True).stdout)

    (place / "native").mkdir()
    native = results(place / "native")
    (tree.back / "t").mkdir()
    compare(native, tree.run(results, tree.place / "t"), 350)


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_fil_7_pjdfstest_finds_no_difference_in_a_session(new_server, place, uid):
    """What one user may do, as a normal user natively, and in a session of root's and of a user's server."""
    s = new_server(uid=uid, config={"monitoring": {"mode": "fuse"}}).session()
    for where in (place, s.workspace):
        shutil.copy(tool("pjdfstest"), where / "pjdfstest")
        users = 'entries = [["nobody", "nogroup"], ["root", "root"]]'  # those that a session has
        (where / "config").write_text(re.sub("entries = .*", users, PJDFSTEST))
    (place / "t").mkdir()
    os.chown(place / "t", harness.USER_UID, harness.USER_UID)
    run = "./pjdfstest -c config -p $PWD/t"
    native = subprocess.run(
        run, shell=True, cwd=place, capture_output=True, text=True, user=harness.USER_UID, group=harness.USER_UID
    )
    s.script(f"mkdir t; {run} > log")
    compare(results_of(native.stdout), results_of((s.workspace / "log").read_text()), 240)


MODES = {
    "cached": [],
    "passthrough": ["--passthrough"],
    "writeback": ["--also", "FUSE_WRITEBACK_CACHE"],
    "io_uring": ["--io-uring", "--passthrough"],
}


@pytest.fixture(params=MODES)
def any_mode(request):
    if request.param == "io_uring":
        enable_io_uring()
    # in memory, because fsx waits for the disk at each write to a mapping
    with tempfile.TemporaryDirectory(prefix="agentsh-suites-", dir="/dev/shm") as directory:
        Path(directory).chmod(0o755)
        t = MountTree(Path(directory), "--as-caller", *MODES[request.param])
        yield t
        t.finish()


def test_fil_7_fsx_finds_no_wrong_byte(any_mode, tmp_path):
    program, config = tool("fsx"), tmp_path / "fsx.toml"
    config.write_text(FSX)
    for seed in range(4):  # fsx never unmaps what it reads: 65,530 mappings are the kernel's limit
        any_mode.sh(f"{program} -f {config} -P {tmp_path} -N 250000 -S {seed} -q file")


# what the program must be able to do, as a shell script
JOBS = {
    "git": """
        git init -q repo; cd repo
        for i in $(seq 10000); do mkdir -p d$((i % 100)); echo $i > d$((i % 100))/f$i; done
        git add .; git commit -qm one
        for i in $(seq 1000); do echo more >> d$((i % 100))/f$i; git commit -qam $i; done
        git gc -q; git fsck --strict; [ -z "$(git status --porcelain)" ]; [ $(git log --oneline | wc -l) = 1001 ]
        git clone -q . ../clone; diff -r --exclude=.git . ../clone
        """,
    "rsync": """
        cp -r /usr/include from; rsync -aHAX from/ to/; diff -r --no-dereference from to
        find to -type f | head -50 | xargs -I{} truncate -s 3 {}; rsync -aHAX --delete --checksum from/ to/; diff -r --no-dereference from to
        """,
    "make": """
        for i in $(seq 200); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done; echo 'int main(void) { return 0; }' > m.c
        printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tcc -o $@ $^\n' > Makefile
        make -s -j4; ./prog; touch f7.c; [ $(make -n | grep -c -- -c) = 1 ]
        """,
    "npm": """
        mkdir dep app; cd dep; for i in $(seq 500); do mkdir -p lib/$((i % 20)); echo "module.exports=$i" > lib/$((i % 20))/$i.js; done
        echo '{"name":"dep","version":"1.0.0","main":"lib/1/1.js"}' > package.json; npm pack --silent; cd ../app
        echo '{"name":"app","version":"1.0.0","dependencies":{"dep":"file:../dep/dep-1.0.0.tgz"}}' > package.json
        npm install --offline --silent --no-audit; rm -r node_modules; npm ci --offline --silent --no-audit
        node -e 'process.exit(require("dep") - 1)'
        """,
    "cargo": """
        export HOME=$REAL; cargo init -q --vcs none --name x .
        for i in $(seq 50); do echo "pub fn f() -> u32 { $i }" > src/m$i.rs; echo "pub mod m$i;"; done >> src/main.rs
        cargo build -q --offline; ./target/debug/x; cargo build --offline 2>&1 | grep -q Finished
        """,
    "initdb": """
        mkdir pg; chown nobody pg; export PATH=$(dirname $(readlink -f $(which initdb))):$PATH D=$PWD/pg; cd /
        su nobody -s /bin/bash -c 'set -eu; initdb -D $D/d -U u > $D/log
            trap "pg_ctl -D $D/d -w -m immediate stop > $D/log 2>&1" EXIT
            pg_ctl -D $D/d -o "-k $D -c listen_addresses=" -w -l $D/log start
            psql -h $D -U u postgres -c "create table t as select generate_series(1, 100000) x; create index on t(x)"
            psql -h $D -U u postgres -c "vacuum analyze t"; pg_ctl -D $D/d -w -l $D/log restart
            psql -h $D -U u postgres -tc "select sum(x) from t"; pg_ctl -D $D/d -w stop' | grep 5000050000
        """,
    "stress-ng": """
        for what in access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate fcntl fiemap file-ioctl filename \
            flock fpunch fstat getdent handle hdd inotify io lease link locka lockf lockofd mknod open rename symlink sync-file touch \
            utime xattr; do stress-ng --$what 2 --timeout 2 --verify --oomable --temp-path .; done
        """,
}


@pytest.mark.parametrize("program", JOBS)
def test_fil_7_programs_work(any_mode, program):
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    any_mode.sh(
        "export REAL=$HOME HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a\n"
        + JOBS[program]
    )
