# SPDX-License-Identifier: Apache-2.0
"""What a session sees of the machine, read from inside: namespaces, mounts, /etc, /dev, /proc, identity, tools, and the
file-system lists of the configuration."""

import os
import shutil
from pathlib import Path

import harness
import pytest

NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
SECUREBITS = "import ctypes; print(ctypes.CDLL(None).prctl(27, 0, 0, 0, 0))"  # PR_GET_SECUREBITS
# NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE with their locks, and the lock of KEEP_CAPS
LOCKED = 0b11101111


def walls(session):
    return {w["wall"]: w["state"] for w in session.record["enforcement"]}


def mounts(session):
    """Mount point → options."""
    lines = session.out("cat /proc/self/mounts", max_output_bytes=1 << 20).splitlines()
    return {fields[1]: fields[3].split(",") for fields in map(str.split, lines)}


def test_sbx_1_every_namespace_is_another(session):
    inside = dict(line.split() for line in session.out(
        f"for n in {' '.join(NAMESPACES)}; do echo $n $(readlink /proc/self/ns/$n); done"
    ).splitlines())  # fmt: skip
    for ns in NAMESPACES:
        assert inside[ns] != os.readlink(f"/proc/self/ns/{ns}"), ns
    assert {walls(session)[f"{n}_namespace"] for n in ("mount", "pid", "net", "ipc", "uts", "cgroup")} == {"up"}


def test_sbx_1_identity_has_no_power(server, session):
    status = dict(line.split(":\t") for line in session.out("cat /proc/self/status").splitlines() if ":\t" in line)
    assert {status[c].strip() for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split()
    assert server.uid != 0 or status["Groups"].strip() == ""
    assert session.out("cat /proc/self/limits | grep 'core file' | tr -s ' '").split()[4:6] == ["1", "1"]
    if shutil.which("python3"):
        assert int(session.exec("python3", "-c", SECUREBITS)["result"]["stdout"]) == LOCKED


def test_sbx_1_mounts_are_shut(session):
    m = mounts(session)
    writable = {at for at, options in m.items() if "rw" in options}
    assert writable <= {
        "/workspace",
        str(session.workspace),
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/home/agent",
        "/proc",
        "/dev/pts",
    } | {f"/dev/{d}" for d in ("null", "zero", "full", "random", "urandom", "tty")}, writable
    for at, options in m.items():
        assert "nosuid" in options, at
        assert "nodev" in options or at == "/" or at.startswith("/dev/"), at
    assert {"ro", "nosuid"} <= set(m["/"])


def test_sbx_1_no_device_outside_dev(session):
    found = session.out("find / -xdev -type b -o -xdev -type c 2>/dev/null; true").split()
    assert all(f.startswith("/dev/") for f in found), found
    for place in ("/tmp", "/workspace", "$HOME", "/dev"):
        assert session.script(f"mknod {place}/node c 1 3")["result"]["exit_code"] != 0, place
    assert session.out("ls /dev").split() == [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero",
    ]  # fmt: skip


def test_sbx_1_etc_is_a_list(session):
    there = set(session.out("ls -A /etc").split())
    assert {"passwd", "group", "hosts", "hostname", "nsswitch.conf", "ld.so.cache"} <= there
    secret = {
        "shadow",
        "gshadow",
        "sudoers",
        "crontab",
        "cron.d",
        "pam.d",
        "fstab",
        "machine-id",
        "agentsh",
        "default",
    }
    assert not there & secret
    assert [line.split(":")[0] for line in session.out("cat /etc/passwd").splitlines()] == ["root", "agent", "nobody"]
    assert session.out("whoami; id -gn").split() == ["agent", "agent"]
    assert "localhost" in session.out("getent hosts localhost 2>/dev/null || cat /etc/hosts")
    assert session.out("ls -A /etc/ssl 2>/dev/null | grep -c private || true").strip() == "0"


def test_sbx_1_proc_hides_the_machine(session):
    for name in (
        "kcore",
        "keys",
        "sysrq-trigger",
        "timer_list",
        "latency_stats",
        "sched_debug",
        "scsi/scsi",
        "1/status",
    ):
        assert session.script(f"cat /proc/{name}")["result"]["exit_code"] != 0, name
    assert session.script("echo x > /proc/sys/kernel/hostname")["result"]["exit_code"] != 0
    names = session.out("cat /proc/[0-9]*/comm 2>/dev/null; true").split()
    assert names and not any(n.startswith("agentsh") for n in names), names
    assert session.out("cut -d: -f3 /proc/self/cgroup | sort -u").split() == ["/"]
    assert session.script("ls /sys")["result"]["exit_code"] != 0


def test_sbx_1_only_loopback(session):
    assert session.out("sed 1,2d /proc/net/dev | cut -d: -f1").split() == ["lo"]
    if shutil.which("python3"):
        text = (
            "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname());"
            "c.send(b'x'); print(s.accept()[0].recv(1))\n"
            "try:\n socket.create_connection(('192.0.2.1', 80), 2)\nexcept OSError as e: print(e.strerror)"
        )
        assert session.exec("python3", "-c", text)["result"]["stdout"].splitlines() == [
            "b'x'",
            "Network is unreachable",
        ]


def test_ses_3_home_is_private_and_files_belong_to_the_owner(server, session):
    other = server.session()
    assert session.out("echo mine > ~/note; echo $HOME; stat -c %a ~").split() == ["/home/agent", "700"]
    assert other.script("cat ~/note")["result"]["exit_code"] != 0
    session.out("mkdir d; echo x > d/f; ln -s f d/l")
    for path in ("d", "d/f", "d/l"):
        st = (session.workspace / path).lstat()
        assert (st.st_uid, st.st_gid) == (server.uid, server.uid), path
    other.destroy()


SET_ID = """
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
how = ctypes.create_string_buffer(struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0))
ways = {
    "chmod": lambda p: os.chmod(open(p, "w").name, 0o4755),
    "fchmod": lambda p: os.fchmod(open(p, "w").fileno(), 0o4755),
    "open": lambda p: os.open(p, os.O_CREAT | os.O_WRONLY, 0o4755),
    "open_group": lambda p: os.open(p, os.O_CREAT | os.O_WRONLY, 0o2755),
    "chmod_group": lambda p: os.chmod(open(p, "w").name, 0o2755),
    "fchmod_group": lambda p: os.fchmod(os.open(p, os.O_CREAT | os.O_WRONLY, 0o644), 0o2755),
    "link_group": lambda p: (open(p, "w"), os.symlink(p, p + "-link"), os.chmod("/workspace/" + p + "-link", 0o2755)),
    "fchmodat2_group": lambda p: check(libc.syscall(452, -100, open(p, "w").name.encode(), 0o2755, 0)),
    "tmpfile": lambda p: os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755),
    "mknod": lambda p: os.mknod(p, 0o104755),
    "openat2": lambda p: check(libc.syscall(437, -100, p.encode(), how, 24)),
    "fchmodat2": lambda p: check(libc.syscall(452, -100, open(p, "w").name.encode(), 0o4755, 0)),
}
def check(r):
    if r < 0:
        raise OSError(ctypes.get_errno(), "")
for name, way in ways.items():
    try:
        way("set-" + name)
        print(name, "done")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
"""


def test_sbx_2_no_file_of_a_session_runs_as_its_owner(server, session):
    """Root's sessions leave files of root's: one with a bit would be root, or of its group, for whoever runs it outside."""
    answers = dict(line.split() for line in session.exec("python3", "-c", SET_ID)["result"]["stdout"].splitlines())
    assert len(answers) == 12 and set(answers.values()) <= {"EPERM", "ENOSYS"}, answers
    left = list(session.workspace.iterdir())
    assert not [p for p in left if p.lstat().st_mode & 0o6000]
    # a directory's bit is for groups that share it, and stays
    session.out(
        "mkdir shared && chmod 2775 shared && chmod 755 shared && umask 0 && touch shared/f && chmod 1777 shared"
    )
    assert (session.workspace / "shared").stat().st_mode & 0o7777 == 0o3777
    # by every name that it has inside, and by none that leads to the machine's own directory
    outside = server.workspace()
    session.out(
        f"mkdir a a/b && cd a/b && ln -s /workspace/a away && ln -s {outside} out && chmod 2711 ../b away && "
        f"! chmod 2711 out && ! chmod 2711 /proc/self/root/{outside} && "
        "python3 -c 'import os; d = os.open(\"/workspace/a/b\", os.O_RDONLY); os.fchmod(d, 0o2712)'"
    )
    assert (session.workspace / "a").stat().st_mode & 0o7777 == 0o2711
    assert (session.workspace / "a/b").stat().st_mode & 0o7777 == 0o2712
    assert outside.stat().st_mode & 0o7777 == 0o755


TOOLS = {
    "gcc": "printf '#include <stdio.h>\\nint main(void){puts(\"ok\");}' > m.c && gcc -o m m.c && ./m",
    "make": "printf 'all:\\n\\t@echo ok\\n' > Makefile && make -s",
    "git": "git init -q g && cd g && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=tformat:ok",
    "python3": "python3 -c 'import ssl, pwd, os, subprocess; pwd.getpwuid(os.getuid()); print(subprocess.getoutput(\"echo ok\"))'",
    "node": "node -e 'require(\"os\").userInfo(); console.log(\"ok\")'",
    "perl": "perl -e 'print((getpwuid($<))[0] eq \"agent\" ? \"ok\" : \"no\")'",
    "java": "java -version 2>/dev/null && echo ok",
    "openssl": "openssl version >/dev/null && openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt /dev/null 2>/dev/null; echo ok",
}  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_exe_1_tools_work_in_the_view(session, tool):
    if session.script(f"command -v {tool}")["result"]["exit_code"] != 0:
        pytest.skip(f"no {tool} in the session's view")
    r = session.script(TOOLS[tool])["result"]
    assert r["stdout"].strip().endswith("ok"), r


# --- the lists ---


@pytest.fixture(params=[0, harness.USER_UID], ids=["root", "user"])
def listed(request, new_server, tmp_path_factory):
    """Makes a server with file-system lists; {data} in them is a directory of the host that everyone may write to."""
    data = Path("/srv") if os.access("/srv", os.W_OK) else tmp_path_factory.mktemp("view")
    data = data / f"agentsh-view-{os.getpid()}-{request.param}"
    for d in ("", "a", "a/b"):
        (data / d).mkdir()
        (data / d).chmod(0o777)
    (data / "a/b/file").write_text("text\n")

    def make(section="filesystem", more=None, **lists):
        filled = {key: [p.format(data=data) for p in paths] for key, paths in lists.items()}
        return new_server(uid=request.param, config={section: filled, **(more or {})}), data

    yield make
    shutil.rmtree(data)


def test_cfg_1_filesystem_monitored_paths(listed):
    s, data = listed(monitored_paths=["/workspace", "{data}/a"], more=harness.OBSERVE)
    os.chown(data / "a", s.uid, s.uid)
    session = s.session()
    assert session.out(f"cat {data}/a/b/file; echo new > {data}/a/new; ls {data}").split() == ["text", "a"]
    assert (data / "a/new").read_text() == "new\n"
    # docs/workspace.md: a normal user's server does not let its sessions change what belongs to others
    refused = session.script(f"echo new > {data}/a/b/new")["result"]["exit_code"] != 0
    assert refused == (s.uid != 0)
    assert (data / "a/b/new").exists() == (not refused)


def test_cfg_1_filesystem_read_only_passthrough_paths(listed):
    s, data = listed(read_only_passthrough_paths=["/usr", "/bin", "/lib", "/lib64", "{data}", "/workspace"])
    session = s.session()
    assert session.out(f"cat {data}/a/b/file").strip() == "text"
    for at in (f"{data}/a/x", "/workspace/x"):
        assert "Read-only" in session.script(f"touch {at}")["result"]["stderr"]
    assert session.script("ls /opt /sbin")["result"]["exit_code"] != 0  # they were not listed


def test_cfg_1_filesystem_passthrough_paths(listed):
    s, data = listed(passthrough_paths=["{data}/a", "/usr/share"])
    session = s.session()
    session.out(f"echo new > {data}/a/new")
    assert session.script("touch /usr/share/x")["result"]["exit_code"] != 0
    assert (data / "a/new").exists()


def test_cfg_1_filesystem_blocked_paths(listed):
    s, data = listed(
        passthrough_paths=["{data}"], blocked_paths=["{data}/a/b", "/etc/passwd", "/root", "/workspace/.env"]
    )
    ws = s.workspace()
    (ws / ".env").write_text("KEY=1\n")
    os.chown(ws / ".env", s.uid, s.uid)
    session = s.session(workspace=str(ws))
    for path in (f"{data}/a/b", f"{data}/a/b/file", "/etc/passwd", "/root", "/workspace/.env"):
        r = session.script(f"cat {path} || ls {path}/; echo x >> {path}")["result"]
        assert r["exit_code"] != 0 and r["stdout"] == "", (path, r)
    assert (ws / ".env").read_text() == "KEY=1\n"


def test_fil_6_other_names_of_the_lists(listed):
    s, data = listed("monitoring", passthrough=["{data}/a"], full_monitor=["/workspace"])
    assert s.session().out(f"cat {data}/a/b/file").strip() == "text"


# The examples that the specification prints for selective monitoring.
PRINTED = {
    "filesystem": {
        "monitored_paths": ["/workspace"],
        "passthrough_paths": ["/usr", "/lib", "/etc/ssl"],
        "blocked_paths": ["/etc/passwd", "/etc/shadow", "/root"],
    },
    "monitoring": {
        "full_monitor": ["/workspace"],
        "read_only_passthrough": ["/usr", "/lib", "/opt"],
        "passthrough": ["/dev", "/proc", "/sys"],
    },
}


@pytest.mark.parametrize("section", PRINTED)
@pytest.mark.parametrize("uid", [0, harness.USER_UID], ids=["root", "user"])
def test_fil_6_commands_run_with_the_printed_lists(new_server, section, uid):
    """Programs begin with names in / that are links into /usr; no list has to name them."""
    session = new_server(uid, config={section: PRINTED[section]}).session()
    assert session.exec("/bin/sh", "-c", "exec ls /dev/null")["result"]["stdout"] == "/dev/null\n"
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            assert session.out(f"realpath /{name}").strip() == os.path.realpath(f"/{name}")
    assert session.script("echo x > /usr/x || echo x > /dev/x")["result"]["exit_code"] != 0


def test_fil_6_a_link_to_the_machine_stops_the_session(listed):
    s, data = listed(read_only_passthrough_paths=["/usr", "/bin", "/lib", "/lib64", "{data}/way"])
    s.session()  # nothing is there yet
    (data / "way").symlink_to("/proc/sys")
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace())})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    assert f"{data}/way" in a.json["error"]["message"]


def test_fil_6_the_servers_own_directory_is_in_no_list(new_server):
    s = new_server(start=False)
    s.merge(s.config, {"filesystem": {"passthrough_paths": [str(s.dir)]}})
    s.start()
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace())})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body


@pytest.mark.parametrize(
    "path", ["/proc/sys", "/sys/fs/cgroup", "/dev/shm", "/", "/usr/../proc", "/run/agentsh", "/srv/"]
)
def test_fil_6_the_machine_is_refused_at_start(new_server, path):
    s = new_server(start=False)
    s.merge(s.config, {"filesystem": {"passthrough_paths": [path]}})
    s.start(wait=False)
    assert s.process.wait(harness.DEADLINE) != 0
    assert "filesystem.passthrough_paths" in s.log_text()


@pytest.mark.parametrize("uid", [0, harness.USER_UID], ids=["root", "user"])
def test_cfg_1_sandbox_root_inside(new_server, uid):
    s = new_server(uid=uid, config={"sandbox": {"root_inside": True}})
    session = s.session()
    assert session.out("id -u; id -un; grep CapEff /proc/self/status; touch made; stat -c %u made").split() == [
        "0", "root", "CapEff:", "0" * 16, "0",
    ]  # fmt: skip
    assert (session.workspace / "made").stat().st_uid == uid
    assert (
        session.script("mount -t tmpfs none /tmp || echo 1 > /proc/sys/kernel/hostname")["result"]["exit_code"] != 0
    )
    assert walls(session)["user_namespace"] == "up"
    session.out("export KEPT=1")  # the warden sees into it
    assert session.out("echo $KEPT").strip() == "1"
