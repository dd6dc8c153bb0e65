# SPDX-License-Identifier: Apache-2.0
"""The file server of a session (agentsh-fs): its mount, its life, its keys."""

import contextlib
import fcntl
import os
import signal
import stat
from pathlib import Path

import cgroups
import harness
import pytest
from harness import wait_for
from mount_tree import enable_io_uring

CAP_SYS_ADMIN = 21
FUSE = {"monitoring": {"mode": "fuse"}}
KINDS = {
    "root": (0, {}),
    "root_inside": (0, {"sandbox": {"root_inside": True}}),
    "no_pool": (0, {"sandbox": {"pool_size": 0}}),
    "user": (harness.USER_UID, {}),
}


@pytest.fixture(params=KINDS)
def fuse_server(request, new_server):
    uid, more = KINDS[request.param]
    config = {**FUSE, **more}
    return new_server(uid=uid, config=config)


def file_server(server, session):
    """The pid of the session's file server."""
    for warden in server.warden_pids():
        for pid in harness.children_of(warden):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if command[0] == b"agentsh-fs" and command[1] == session.id.encode():
                return pid
    raise AssertionError("no file server")


def holds_the_device(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/fuse":
                return True
        except FileNotFoundError:
            pass
    return False


def device_of(session):
    return session.out("grep ' /workspace ' /proc/self/mountinfo").split()[2]


def is_mounted(device):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/mountinfo") as f:
            if any(line.split()[2] == device and " fuse.agentsh " in line for line in f):
                return True
    return False


def test_fil_1_the_workspace_is_served(fuse_server):
    s = fuse_server.session()
    (s.workspace / "given").write_text("from the host\n")
    os.chown(s.workspace / "given", fuse_server.uid, fuse_server.uid)
    assert s.out("cat given") == "from the host\n"
    assert s.out("printf '#!/bin/sh\\necho ran' > x; chmod 755 x; ./x; cp x y; mv y z; mkdir -p a/b; ls") == (
        "ran\na\ngiven\nx\nz\n"
    )
    made = s.workspace / "z"
    assert made.read_text() == "#!/bin/sh\necho ran"
    assert made.stat().st_uid == fuse_server.uid and stat.S_IMODE(made.stat().st_mode) == 0o755
    line = s.out("grep ' /workspace ' /proc/self/mountinfo")
    assert " fuse.agentsh " in line and "nosuid" in line and "nodev" in line, line
    assert s.out("export KEPT=1; cd a/b; pwd") == "/workspace/a/b\n"  # the warden sees into it
    assert s.out("echo $KEPT; pwd") == "1\n/workspace/a/b\n"


WORK = """
set -e
mkdir w; cd w; git init -q .; git config user.email a@example.com; git config user.name a
for i in $(seq 50); do echo $i > f$i; done; git add -A; git commit -qm one; git status --short | wc -l
tar cf t.tar f*; mkdir x; tar xf t.tar -C x; ls x | wc -l; cp --sparse=always t.tar t2.tar; cmp t.tar t2.tar
ln f1 hl; ln -s f1 sl; readlink sl; chmod 600 f1; touch -d 2020-01-01 f2; stat -c %Y f2; flock f1 true
truncate -s 100k big; fallocate -l 200k big; stat -c %s big; mkfifo p; (echo hi > p &) ; cat p; mv f4 f5
perl -e 'open F, "+<f3"; use Fcntl ":flock"; flock(F, LOCK_EX) or die; print "locked\n"'
rm -r x; sync -f f1; df . > /dev/null; ls -d f* | wc -l
python3 -c "
import mmap, os
f = open('big', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 65; m.flush(); print(open('big', 'rb').read(1).decode())
os.setxattr('big', 'user.a', b'1'); print(os.listxattr('big'), os.getxattr('big', 'user.a')); os.removexattr('big', 'user.a')
os.truncate('big', 5); os.posix_fallocate(f.fileno(), 0, 9); print(os.stat('big').st_size)"
"""


def test_fil_7_programs_work_behind_the_file_servers_filter(fuse_server):
    s = fuse_server.session()
    assert s.out(WORK) == "0\n50\nf1\n1577836800\n204800\nhi\nlocked\n49\nA\n['user.a'] b'1'\n9\n"


def test_fil_7_what_waits_holds_up_nothing_in_a_session(fuse_server):
    s = fuse_server.session()
    s.out("echo text > f")
    with open(s.workspace / "f") as host:
        fcntl.flock(host, fcntl.LOCK_EX)
        wait = "for i in 1 2 3 4 5 6; do flock -w 1 f echo got & done"
        assert s.out(f"{wait}; echo other > g; cat g; wait; flock -n f echo got || echo $?") == "other\n1\n"
    assert s.out("flock -w 9 f echo got") == "got\n"
    sync = "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=d$i bs=4k count=20 conv=fsync 2> /dev/null & done; wait"
    assert s.out(f"{sync}; cat d* | wc -c") == f"{6 * 20 * 4096}\n"


MAPPED = """
import mmap, sys
with open("mapped", "w+b") as f:
    f.truncate(400 << 20)
    m = mmap.mmap(f.fileno(), 0)
    for page in range(0, len(m), 4096):
        m[page : page + 8] = page.to_bytes(8, "little")
    m.flush()
    print(sum(m[p : p + 8] != p.to_bytes(8, "little") for p in range(0, len(m), 4096)))
    if len(sys.argv) > 1:
        hog = b"x" * (400 << 20)
"""


@cgroups.needs_cgroups
def test_sbx_4_mapped_writes_end_no_file_server(new_server):
    server = new_server(config=FUSE)
    s = server.session(resource_limits={"max_memory_mb": 160})
    pid = file_server(server, s)
    (s.workspace / "mapped.py").write_text(MAPPED)
    assert s.out("python3 mapped.py") == "0\n"
    result = s.script("python3 mapped.py hog")["result"]
    assert result["error"]["code"] == "E_RESOURCE_LIMIT", result
    assert s.out("echo lives > f; cat f") == "lives\n" and file_server(server, s) == pid


def test_sbx_6_the_file_server_has_no_power(fuse_server):
    s = fuse_server.session()
    pid = file_server(fuse_server, s)
    status = harness.status_of(pid)
    # With passthrough it may do that alone (its filter sees to it), and only while it asks the kernel for it.
    passes = not fuse_server.uid and os.environ.get("AGENTSH_TEST_BPF") != "off"
    assert status["CapPrm"] == f"{(1 << CAP_SYS_ADMIN) * passes:016x}"
    assert status["CapEff"] == status["CapAmb"] == status["CapInh"] == "0" * 16
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    warden_pid = int(status["PPid"])
    warden = harness.status_of(warden_pid)
    assert status["Uid"] == warden["Uid"] and (fuse_server.uid or status["Uid"].split()[0] != "0")
    # If another process held the device, clients would wait for ever after the file server's death.
    ours = [
        fuse_server.pid,
        *harness.descendants_of(fuse_server.pid),
        *harness.descendants_of(warden_pid),
        warden_pid,
    ]
    holders = {harness.program_of(p) for p in ours if holds_the_device(p)}
    assert holders == {"agentsh-fs"}


def test_fil_9_a_dead_file_server_fails_the_session(fuse_server):
    s = fuse_server.session()
    device = device_of(s)
    assert is_mounted(device)
    pid = file_server(fuse_server, s)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session fails")
    assert "the file server was ended by signal 9" in fuse_server.log_text()
    wait_for(lambda: not is_mounted(device), "its mount is gone")
    other = fuse_server.session()
    assert other.out("echo lives") == "lives\n"


def test_ses_1_the_file_server_ends_with_the_session(fuse_server):
    s = fuse_server.session()
    pid = file_server(fuse_server, s)
    s.out("echo x > x; sleep 100 & exec 9< x")
    s.destroy()
    wait_for(lambda: not harness.alive(pid), "the file server ends")
    assert "the process fails" not in fuse_server.log_text()


RULES = """
version: 1
name: rules
default: {files: allow, network: deny, commands: allow}
file_rules:
  - {name: kept, paths: ["${WORKSPACE}/kept", "${WORKSPACE}/kept/**"], operations: [chmod, write, delete], decision: deny}
  - {name: secret, paths: ["${WORKSPACE}/secret/**"], operations: ["*"], decision: deny}
  - {name: hidden, paths: ["${WORKSPACE}/hidden"], operations: ["*"], decision: deny, hide: true}
"""


@pytest.mark.parametrize("uid", [0, harness.USER_UID], ids=["root", "user"])
def test_fil_3_a_session_obeys_the_rules_of_its_policy(new_server, uid):
    server = new_server(uid=uid, config=FUSE, start=False)
    rules = server.dir / "policies"
    rules.mkdir(mode=0o755)
    (rules / "rules.yaml").write_text(RULES)
    os.chown(rules, uid, uid)
    os.chown(rules / "rules.yaml", uid, uid)
    server.merge(server.config, {"policies": {"dir": str(rules), "default": "rules"}})
    server.start()
    s = server.session()
    for name in ("kept", "open", "secret", "hidden"):
        (s.workspace / name).mkdir()
        os.chown(s.workspace / name, uid, uid)
    (s.workspace / "secret" / "key").write_text("x")
    done = s.script("chmod 2755 open && stat -c %a open; chmod 755 kept; cat secret/key; ls; cd hidden")
    assert done["result"]["stdout"] == "2755\nkept\nopen\nsecret\n"
    assert "hidden" not in done["result"]["stdout"] and done["result"]["stderr"].count("Permission denied") == 2
    blocked = {(e["type"], e["path"], e["policy"]["rule"]) for e in done["events"]["blocked_operations"]}
    assert ("file_open", "/workspace/secret/key", "secret") in blocked
    assert any(path == "/workspace/kept" and rule == "kept" for _, path, rule in blocked)
    # The warden makes this call for the command: the rules hold for it, too.
    done = s.script("chmod 2755 kept")
    assert done["result"]["exit_code"] == 1 and "Permission denied" in done["result"]["stderr"]
    assert (s.workspace / "kept").stat().st_mode & 0o7777 == 0o755
    assert {w["wall"]: w["state"] for w in done["enforcement"]}["file_rules"] == "up"
    assert s.record["policy"]["unenforced"] == []


def test_cfg_1_monitoring_mode(new_server):
    for mode, kind in (("native", ""), ("fuse", "fuse.agentsh")):
        s = new_server(config={"monitoring": {"mode": mode}}).session(policy="observe")
        fields = s.out("grep ' /workspace ' /proc/self/mountinfo").split()
        assert (fields[fields.index("-") + 1] == "fuse.agentsh") == bool(kind)


def with_keys(new_server, **keys):
    server = new_server(config={**FUSE, "sandbox": {"fuse": keys}})
    return server, server.session()


def test_cfg_1_sandbox_fuse_entry_timeout(new_server):
    _, s = with_keys(new_server, entry_timeout="1h", attr_timeout="1h")
    (s.workspace / "a").write_text("x")
    s.out("stat a")
    (s.workspace / "a").unlink()
    assert s.out("stat -c %n a") == "a\n"  # still kept
    _, s = with_keys(new_server, entry_timeout="0s")
    (s.workspace / "a").write_text("x")
    s.out("stat a")
    (s.workspace / "a").unlink()
    assert s.script("stat a")["result"]["exit_code"] == 1


def test_cfg_1_sandbox_fuse_attr_timeout(new_server):
    _, s = with_keys(new_server, attr_timeout="1h", entry_timeout="1h")
    (s.workspace / "a").write_text("x")
    assert s.out("stat -c %s a") == "1\n"
    (s.workspace / "a").write_text("xyz")
    assert s.out("stat -c %s a") == "1\n"
    _, s = with_keys(new_server, attr_timeout="0s", entry_timeout="1h")
    (s.workspace / "a").write_text("x")
    assert s.out("stat -c %s a") == "1\n"
    (s.workspace / "a").write_text("xyz")
    assert s.out("stat -c %s a") == "3\n"


def test_cfg_1_sandbox_fuse_negative_timeout(new_server):
    for time, code in (("1h", 1), ("0s", 0)):
        _, s = with_keys(new_server, negative_timeout=time)
        assert s.script("stat a")["result"]["exit_code"] == 1
        (s.workspace / "a").write_text("x")
        assert s.script("stat a")["result"]["exit_code"] == code


def test_cfg_1_sandbox_fuse_max_readahead(new_server):
    for size in (16384, 65536):
        _, s = with_keys(new_server, max_readahead=size)
        with open(f"/sys/class/bdi/{device_of(s)}/read_ahead_kb") as f:
            assert int(f.read()) * 1024 == size


def test_cfg_1_sandbox_fuse_async_read(new_server):
    for value, word in ((True, "yes"), (False, "no")):
        server, s = with_keys(new_server, async_read=value)
        s.out("true")
        assert f"session_id={s.id} async_read={word}" in server.log_text()


def test_cfg_1_sandbox_fuse_writeback_cache(new_server):
    for value, seen in ((True, ""), (False, "x\n")):
        _, s = with_keys(new_server, writeback_cache=value)
        held = "open F, '>a'; syswrite F, qq{x\\n}; open G, '>written'; sleep 300"  # no close, which would flush
        s.exec("perl", "-e", held, detach=True, status=202)
        wait_for((s.workspace / "written").exists, "it is written")
        assert (s.workspace / "a").read_text() == seen


def test_cfg_1_sandbox_fuse_io_uring(new_server):
    enable_io_uring()
    for value, word in (("auto", "yes"), ("off", "no")):
        server, s = with_keys(new_server, io_uring=value)
        assert s.out("echo x > a; mkdir -p b/c; mv a b/c; cat b/c/a; ls -R") == "x\n.:\nb\n\n./b:\nc\n\n./b/c:\na\n"
        s.out("i=0; while [ $i -lt 200 ]; do echo $i > f$i; i=$((i+1)); done; cat f* | sha256sum; sync b; rm f*")
        assert f" io_uring={word}" in next(
            line for line in server.log_text().splitlines() if f"session_id={s.id} async_read" in line
        )


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_fil_7_a_session_keeps_what_it_looks_at_again_and_sees_the_hosts_changes(new_server, uid):
    """40 names: asking for each of them again would be 40 requests."""
    server = new_server(
        uid=uid, config={**FUSE, "sandbox": {"fuse": {"entry_timeout": "1ms", "attr_timeout": "1ms"}}}
    )
    s = server.session()
    (s.workspace / "d").mkdir()
    for i in range(40):
        (s.workspace / "d" / f"f{i}").write_text("first\n")
        os.chown(s.workspace / "d" / f"f{i}", uid, uid)
    os.chown(s.workspace / "d", uid, uid)

    def requests():
        s.script("ls d")
        before = harness.metric(server, "agentsh_fuse_requests_total")
        s.script("cd d; stat $(seq -f f%g 0 39) > /dev/null; cd ..")
        return harness.metric(server, "agentsh_fuse_requests_total") - before

    assert requests() > 40
    wait_for(lambda: requests() < 40, "the names are kept")
    (s.workspace / "d/f1").write_text("second\n")
    (s.workspace / "d/f2").unlink()
    (s.workspace / "d/f3").rename(s.workspace / "d/new")
    wait_for(lambda: s.out("cat d/f1") == "second\n", "the new text")
    wait_for(lambda: {"f2", "f3", "new"} & set(s.out("ls d").split()) == {"new"}, "the new names")
    wait_for(lambda: s.script("stat d/f2")["result"]["exit_code"] == 1, "the removed name is gone")
