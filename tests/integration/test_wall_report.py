# SPDX-License-Identifier: Apache-2.0
"""The wall report is true: what cannot be raised is named and stops the session (or is reported as missing where the
configuration lets it), and what is reported is what a process inside finds.

A raising system call is made to fail by a seccomp filter that is put on agentsh-init, or on the whole server, by a
small program in its place that then executes the real one. The programs are those of the release build."""

import contextlib
import errno
import os
import shutil
import subprocess
from pathlib import Path

import harness
import pytest

RELEASE = Path(os.environ.get("AGENTSH_RELEASE_DIR", harness.TOP / "build"))
PROGRAMS = ["agentsh-check", *(p.stem.replace("_", "-") for p in (harness.TOP / "src/prog").glob("*.c"))]

INJECTOR = r"""
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
/* CALL fails with ERRNUM if (argument ARG & MASK) == VALUE. */
int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * ARG),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MASK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VALUE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERRNUM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	/* a user may only filter what cannot gain power; for init this must be left to init */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ||
		(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0))
		execv(REAL, argv);
	perror("injector");
	return 1;
}
"""

ALWAYS = (0, 0, 0)
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 24, 28, 38, 47
SIOCSIFFLAGS = 0x8914
PROC_ATTR = 0x2 | 0x4 | 0x8  # nosuid, nodev, noexec: of the file systems that init makes only /proc's
SECCOMP_FILTER, NEW_LISTENER = 1, 8
CLONE = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}


def argument(number, value, mask=0xFFFFFFFF):
    return number, mask, value


def prctl(option):
    return "prctl", argument(0, option)


# What fails in agentsh-init: name -> call, which of its calls, the wall that is named. A name that ends in "root" is of a
# call that only root's server makes.
INIT = {
    "mount": ("mount", ALWAYS, "mount_namespace"),
    "open_tree": ("open_tree", ALWAYS, "mount_namespace"),
    "fsopen": ("fsopen", ALWAYS, "mount_namespace"),
    "fsconfig": ("fsconfig", ALWAYS, "mount_namespace"),
    "fsmount": ("fsmount", ALWAYS, "mount_namespace"),
    "move_mount": ("move_mount", ALWAYS, "mount_namespace"),
    "mount_setattr": ("mount_setattr", ALWAYS, "mount_namespace"),
    "pivot_root": ("pivot_root", ALWAYS, "mount_namespace"),
    "umount2": ("umount2", ALWAYS, "mount_namespace"),
    "fsmount_proc": ("fsmount", argument(2, PROC_ATTR), "pid_namespace"),
    "loopback": ("ioctl", argument(1, SIOCSIFFLAGS), "net_namespace"),
    "sethostname": ("sethostname", ALWAYS, "uts_namespace"),
    "setrlimit": ("prlimit64", ALWAYS, "capabilities"),
    "securebits_root": (*prctl(PR_SET_SECUREBITS), "capabilities"),
    "setgroups_root": ("setgroups", ALWAYS, "capabilities"),
    "setresgid_root": ("setresgid", ALWAYS, "capabilities"),
    "setresuid_root": ("setresuid", ALWAYS, "capabilities"),
    "capbset_drop": (*prctl(PR_CAPBSET_DROP), "capabilities"),
    "cap_ambient": (*prctl(PR_CAP_AMBIENT), "capabilities"),
    "capset": ("capset", ALWAYS, "capabilities"),
    "no_new_privs": (*prctl(PR_SET_NO_NEW_PRIVS), "no_new_privs"),
    "landlock_create_ruleset": ("landlock_create_ruleset", ALWAYS, "landlock"),
    "landlock_add_rule": ("landlock_add_rule", ALWAYS, "landlock"),
    "seccomp": ("seccomp", argument(0, SECCOMP_FILTER), "seccomp"),
    "seccomp_listener": ("seccomp", argument(1, NEW_LISTENER, NEW_LISTENER), "exec_policy"),
}
# What the kernel answers where EIO would be taken for something else.
ERRNUMS = {"seccomp_listener": errno.EBUSY}
# Those that the configuration may let be missing: name -> sandbox.allow_unenforced.
LACKING = {
    "loopback": ["net_namespace"],
    "sethostname": ["uts_namespace"],
    "landlock_create_ruleset": ["landlock"],
    "landlock_add_rule": ["landlock"],
    "seccomp": ["seccomp", "exec_policy"],
    "seccomp_listener": ["exec_policy"],
}
CAPS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
UIDS = {"root": 0, "user": harness.USER_UID}


def injector(path, call, where, real, errnum=errno.EIO):
    """Compiles a program at path that makes the call fail and becomes the real one."""
    source = path.with_name(f"{path.name}-injector.c")
    source.write_text(INJECTOR)
    values = {
        "CALL": f"SYS_{call}",
        "ARG": where[0],
        "MASK": f"{where[1]}U",
        "VALUE": f"{where[2]}U",
        "ERRNUM": errnum,
    }
    values["REAL"] = f'"{real}"'
    flags = [f"-D{name}={value}" for name, value in values.items()]
    path.unlink(missing_ok=True)
    subprocess.run(["gcc", "-O1", *flags, source, "-o", path], check=True, timeout=60)


@pytest.fixture
def injected(tmp_path, new_server, monkeypatch):
    """Makes servers of which one program (agentsh-server: every process) is refused one system call."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_mode & 0o077 == 0:
            parent.chmod(0o755)
    for name in PROGRAMS:
        shutil.copy(RELEASE / name, tmp_path / name)
    shutil.copytree(RELEASE / "packaging", tmp_path / "packaging")
    monkeypatch.setattr(harness, "AGENTSH", tmp_path / "agentsh")

    def factory(kind, call=None, where=ALWAYS, program="agentsh-init", unenforced=(), errnum=errno.EIO):
        config = {"sandbox": {"allow_unenforced": list(unenforced)}}
        server = new_server(uid=UIDS[kind], config=config, start=False)
        if call is not None:
            path = tmp_path / program
            real = path.with_name(f"{program}.real")
            # beside the others, so that they find each other
            if not real.exists():
                path.rename(real)
            injector(path, call, where, real, errnum)
        return server.start()

    return factory


def walls(record):
    return {w["wall"]: w["state"] for w in record["enforcement"]}


def refused(server):
    """The error of a session that must not be made; nothing of it is left."""
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace())})
    assert a.status == 503, a.body
    harness.wait_for(lambda: not server.warden_pids(), "the warden is gone")
    return a.json["error"]


def fact(session, script):
    return session.script(script)["result"]["stdout"].strip()


def found_inside(session, filters):
    """What a process of the session finds of each wall that can be seen from there: wall -> it stands. filters: how
    many it has from the injector."""
    status = dict(line.split(":", 1) for line in session.out("cat /proc/self/status").splitlines() if ":" in line)
    status = {key: value.strip() for key, value in status.items()}
    namespaces = dict(
        line.split() for line in session.out(
            "for n in user mnt pid net ipc uts cgroup; do echo $n $(readlink /proc/self/ns/$n); done"
        ).splitlines()
    )  # fmt: skip
    own = {name: link != os.readlink(f"/proc/self/ns/{name}") for name, link in namespaces.items()}
    tried = fact(session, "(: > /proc/self/comm) 2>&1; cp /bin/true /dev/shm/t && /dev/shm/t 2>&1; rm -f /dev/shm/t")
    return {
        "user_namespace": own["user"],
        "mount_namespace": own["mnt"],
        "pid_namespace": own["pid"],
        "net_namespace": own["net"] and fact(session, "sed 1,2d /proc/net/dev | cut -d: -f1") == "lo",
        "ipc_namespace": own["ipc"],
        "uts_namespace": own["uts"] and fact(session, "cat /proc/sys/kernel/hostname") == session.id,
        "cgroup_namespace": own["cgroup"],
        "capabilities": all(int(status[c], 16) == 0 for c in CAPS),
        "no_new_privs": status["NoNewPrivs"] == "1",
        "seccomp": int(status["Seccomp_filters"]) > filters,
        "landlock": tried.count("ermission denied") == 2,
    }  # fmt: skip


def assert_true_report(session, filters=1):
    report = walls(session.record)
    found = found_inside(session, filters)
    assert {wall: report[wall] == "up" for wall in found} == found, (report, found)


@pytest.mark.parametrize("kind", UIDS)
def test_sbx_5_report_is_what_is_found_inside(injected, kind):
    server = injected(kind)
    session = server.session()
    assert_true_report(session, filters=0)
    separate = walls(session.record)["process_separation"] == "up"
    warden = harness.status_of(server.warden_pids()[0])["Uid"].split()[0]
    others = {harness.status_of(pid)["Uid"].split()[0] for pid in (server.pid, server.api_pid())}
    assert separate == (warden not in others)


@pytest.mark.parametrize("kind", UIDS)
@pytest.mark.parametrize("name", INIT)
def test_sbx_5_what_init_cannot_raise_is_named(injected, name, kind):
    if name.endswith("_root") and kind != "root":
        return  # a user's init does not make this call
    call, where, wall = INIT[name]
    error = refused(injected(kind, call, where, errnum=ERRNUMS.get(name, errno.EIO)))
    assert (error["code"], error.get("subject")) == ("E_ENFORCEMENT", wall), error
    assert wall in error["message"], error


@pytest.mark.parametrize("program", ["agentsh-init", "agentsh-warden"])
@pytest.mark.parametrize("kind", UIDS)
def test_sbx_5_a_session_that_could_be_dumped_is_not_made(injected, kind, program):
    error = refused(injected(kind, *prctl(PR_SET_DUMPABLE), program=program))
    assert (error["code"], error.get("subject")) == ("E_ENFORCEMENT", "process_separation"), error
    assert "a filter around the server must let prctl(PR_SET_DUMPABLE) through" in error["message"]


@pytest.mark.parametrize("kind", UIDS)
@pytest.mark.parametrize("name", LACKING)
def test_sbx_5_what_may_be_missing_is_reported(injected, name, kind):
    call, where, wall = INIT[name]
    errnum = ERRNUMS.get(name, errno.EIO)
    session = injected(kind, call, where, unenforced=LACKING[name], errnum=errnum).session()
    assert walls(session.record)[wall] == "unavailable", session.record["enforcement"]
    assert session.out("echo works") == "works\n"
    if name != "loopback":  # a namespace without even loopback
        assert_true_report(session)


@pytest.mark.parametrize("kind", UIDS)
def test_sbx_5_nothing_stands_without_no_new_privs(injected, kind):
    """One that may be missing does not let another be missing that stands upon it."""
    call, where, wall = INIT["no_new_privs"]
    error = refused(injected(kind, call, where, unenforced=[wall]))
    assert (error["code"], error["subject"]) == ("E_ENFORCEMENT", "landlock"), error


@pytest.mark.parametrize("kind", UIDS)
@pytest.mark.parametrize("namespace", CLONE)
def test_sbx_5_a_namespace_that_is_refused_is_named(injected, namespace, kind):
    if namespace == "user" and kind == "root":
        return  # root's server makes none
    flag = CLONE[namespace]
    error = refused(injected(kind, "clone", argument(0, flag, flag), program="agentsh-server", errnum=errno.EPERM))
    assert (error["code"], error.get("subject")) == ("E_ENFORCEMENT", f"{namespace}_namespace"), error


@pytest.mark.parametrize("namespace", ["net", "ipc", "uts", "cgroup"])
@pytest.mark.parametrize("kind", UIDS)
def test_sbx_5_a_namespace_may_be_missing(injected, namespace, kind):
    wall, flag = f"{namespace}_namespace", CLONE[namespace]
    where = argument(0, flag, flag)
    session = injected(
        kind, "clone", where, program="agentsh-server", unenforced=[wall], errnum=errno.EPERM
    ).session()
    assert walls(session.record)[wall] == "unavailable"
    assert_true_report(session)


@pytest.mark.parametrize("kind", UIDS)
def test_sbx_5_a_session_without_landlock_is_not_made(injected, kind):
    server = injected(kind, "landlock_restrict_self")
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace())})
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "landlock"), a.body


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server prepares sandboxes")
def test_prf_2_a_prepared_sandbox_has_its_landlock_rules(new_server):
    def rulesets():
        found = 0
        for pid in harness.descendants_of(server.pid):
            with contextlib.suppress(OSError):
                found += sum("landlock" in os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir())
        return found

    server = new_server(config={"sandbox": {"pool_size": 2}})
    harness.wait_for(lambda: rulesets() == 2, "two sandboxes are prepared")
    session = server.session()
    assert session.out("echo x > made && cat made; echo x > /etc/made || echo shut").split() == ["x", "shut"]
    harness.wait_for(lambda: rulesets() == 2, "a third one is prepared, and the session has kept none")
