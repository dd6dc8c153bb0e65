# SPDX-License-Identifier: Apache-2.0
"""`agentsh doctor`: walls are tried in a throwaway session, and what it says of them is so."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest
from test_containers import contained, engine  # noqa: F401
from test_wall_report import INIT, injected  # noqa: F401

SBX_1 = {
    "mount_namespace",
    "pid_namespace",
    "net_namespace",
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
    "capabilities",
    "no_new_privs",
    "env_filter",
}
HOLDS = SBX_1 | {"seccomp", "landlock"}


def doctor(server, *args, word="doctor"):
    r = server.cli(word, "--config", server.config_file, "--json", *args)
    assert r.stdout, r.stderr
    report = json.loads(r.stdout)
    report["by_wall"] = {w["wall"]: w for w in report["walls"]}
    return r.returncode, report


def verdicts(report):
    return {w["wall"]: w["verdict"] for w in report["walls"]}


def left_over():
    """What a run may leave: files, sessions' queues."""
    queues = Path("/proc/sysvipc/msg").read_text().count("\n")
    return sorted(p.name for p in Path(tempfile.gettempdir()).glob("agentsh-doctor-*")), queues


def test_sbx_5_doctor_tries_every_wall(server):
    before, wardens = left_over(), len(server.warden_pids())
    status, report = doctor(server)
    harness.wait_for(lambda: len(server.warden_pids()) == wardens, "the throwaway sessions are gone")
    found = verdicts(report)
    assert status == 0 and report["ok"] is True, report
    assert {wall for wall in HOLDS if found[wall] != "ok"} == set()
    assert found["user_namespace"] == ("absent" if server.uid == 0 else "ok")
    assert found["process_separation"] == ("ok" if server.uid == 0 else "allowed")
    enforcement = {w["wall"]: w["state"] for w in server.session().record["enforcement"]}
    limits = {"memory_limit", "cpu_limit", "pids_limit"}
    for wall, state in enforcement.items():
        assert report["by_wall"][wall]["state"] == state or wall in limits, wall
    # a verdict stands on an act that works outside and was refused inside
    for w in report["walls"]:
        proofs = [a for a in w["acts"] if a["inside"] == "refused" and a["outside"] == "done"]
        assert proofs or w["verdict"] != "ok", w
    assert left_over() == before
    assert [c["workspace"] for c in server.get("/api/v1/caches").json["caches"] if "doctor" in c["workspace"]] == []


def test_sbx_4_doctor_overruns_limits(new_server):
    status, report = doctor(new_server(0))
    cgroup = report["host"]["controllers"].split()
    for wall, controller in {"memory_limit": "memory", "cpu_limit": "cpu", "pids_limit": "pids"}.items():
        w = report["by_wall"][wall]
        if controller in cgroup:
            assert w["state"] == "up" and {a["inside"] for a in w["acts"]} == {"refused"}, w
            # a busy machine gives nobody the CPU time that would prove it
            assert w["verdict"] == "ok" or wall == "cpu_limit", w
        else:
            assert w["state"] == "unavailable" and w["remedies"], w
    assert status == 0


def test_cli_1_detect_is_doctor_as_a_table(server):
    r = server.cli("detect", "--config", server.config_file)
    lines = r.stdout.decode().splitlines()
    assert r.returncode == 0, r
    assert lines[0].startswith("Kernel: ")
    head = next(n for n, line in enumerate(lines) if line.startswith("WALL "))
    assert lines[head].split() == ["WALL", "STATE", "VERDICT", "TRIED", "CAME", "BACK"]
    names = [line.split()[0] for line in lines[head + 1 :] if line and line[0] != " "]
    text = (harness.TOP / "src/model/wall.h").read_text()
    assert names[:5] == ["user_namespace", "mount_namespace", "pid_namespace", "net_namespace", "ipc_namespace"]
    assert all(f"X({name})" in text for name in names[:22])
    assert lines[-1] == "Every wall that was asked for holds."


def test_sbx_5_doctor_facts_of_the_host(root_server):
    host = doctor(root_server)[1]["host"]
    uname = os.uname()
    assert host["kernel"] == f"Linux {uname.release}" and host["machine"] == uname.machine
    assert host["fuse"] == os.path.exists("/dev/fuse")
    assert host["cgroup"] in ("v1", "v2", "hybrid", "none")
    assert (host["cgroup"] == "v2") == os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    assert host["max_user_namespaces"] == int(Path("/proc/sys/user/max_user_namespaces").read_text())
    assert host["server_root"] is True
    files = int(Path("/proc/sys/fs/file-max").read_text())
    assert host["file_max"] == files
    table = root_server.cli("doctor").stdout.decode()
    assert (f"fs.file-max is {files}" in table) == (files < 10_000_000)


@pytest.mark.parametrize("name", ["sethostname", "landlock_create_ruleset", "seccomp_listener"])
def test_sbx_5_doctor_names_what_is_missing(injected, name):  # noqa: F811
    call, where, wall = INIT[name]
    status, report = doctor(injected("root", call, where, errnum=16))
    assert status == 1 and report["ok"] is False
    assert verdicts(report)[wall] == "missing" and report["by_wall"][wall]["remedies"], report["by_wall"][wall]
    assert wall in report["refusal"]
    assert set(verdicts(report).values()) == {"missing", "untried"}


@pytest.mark.parametrize("name", ["sethostname", "landlock_create_ruleset"])
def test_sbx_5_doctor_lets_be_missing_what_may(injected, name):  # noqa: F811
    call, where, wall = INIT[name]
    status, report = doctor(injected("user", call, where, unenforced=[wall]))
    assert (status, verdicts(report)[wall]) == (0, "allowed"), report["by_wall"][wall]


LIAR = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* In agentsh-probe's place: everything succeeded. */
int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "walls") == 0)
		printf("net_namespace\tdone\tconnect to a port of the machine\tit worked\n");
	return 0;
}
"""


def test_sbx_5_doctor_calls_a_lie_a_lie(tmp_path, new_server, monkeypatch):
    """A wall that is reported as up while the act succeeds; here the probe is what lies."""
    for name in (
        "agentsh",
        *(f"agentsh-{p}" for p in ("server", "api", "warden", "init", "fs", "state", "check", "bpf")),
    ):
        shutil.copy(harness.BUILD / name, tmp_path / name)
    shutil.copytree(harness.BUILD / "packaging", tmp_path / "packaging")
    source = tmp_path / "liar.c"
    source.write_text(LIAR)
    subprocess.run(["gcc", source, "-o", tmp_path / "agentsh-probe"], check=True, timeout=60)
    monkeypatch.setattr(harness, "AGENTSH", tmp_path / "agentsh")
    server = new_server(0)
    status, report = doctor(server)
    assert (status, report["ok"], verdicts(report)["net_namespace"]) == (1, False, "lie")
    r = server.cli("doctor", "--config", server.config_file)
    assert r.returncode == 1 and b" LIE " in r.stdout, r


def test_sbx_5_doctor_in_a_container_without_user_namespaces(contained):  # noqa: F811
    server = contained("no_user_namespaces", harness.USER_UID)
    command = [*engine("none", server.uid), harness.AGENTSH, "doctor", "--json"]
    r = subprocess.run(
        ["nsenter", "-t", str(server.pid), "-U", "-n", "-m", "--preserve-credentials", *command],
        capture_output=True, env=server.environment(), timeout=60,
    )  # fmt: skip
    assert r.returncode == 1, r
    w = {w["wall"]: w for w in json.loads(r.stdout)["walls"]}["user_namespace"]
    assert w["verdict"] == "missing"
    assert any("user.max_user_namespaces" in text for text in w["remedies"]), w


@pytest.mark.parametrize(
    ("name", "wall", "capability"),
    [("no_sys_admin", "mount_namespace", "SYS_ADMIN"), ("engine_default", "process_separation", "NET_ADMIN")],
)
def test_sbx_5_doctor_of_root_in_a_container(contained, name, wall, capability):  # noqa: F811
    """No word in allow_unenforced lifts these refusals (docs/containers.md), so none is proposed."""
    status, report = doctor(contained(name, 0))
    assert (status, report["host"]["server_root"], verdicts(report)[wall]) == (1, True, "missing")
    remedies = " ".join(report["by_wall"][wall]["remedies"])
    assert "as a normal user" in remedies and "allow_unenforced" not in remedies, remedies
    assert "as root" not in remedies, remedies
    assert (report["host"]["container"] == "none") != (f"--cap-add {capability}" in remedies), remedies


def test_sbx_5_doctor_without_a_file_server_tries_the_other_walls(contained):  # noqa: F811
    status, report = doctor(contained("no_fuse", 0))
    found = verdicts(report)
    assert (status, found["file_rules"], found["mount_namespace"], found["exec_policy"]) == (1, "missing", "ok", "ok")
    assert report["by_wall"]["file_rules"]["state"] == "unavailable"
    assert any("--policy observe" in text for text in report["by_wall"]["file_rules"]["remedies"])


def test_sbx_4_a_sandbox_that_cannot_be_prepared_is_told_once(contained):  # noqa: F811
    server = contained("no_sys_admin", 0)
    said = "a sandbox could not be prepared"
    harness.wait_for(lambda: said in server.log_text(), "it is told")
    for _ in range(3):
        assert server.post("/api/v1/sessions", {"workspace": str(server.workspace())}).status == 503
    assert server.log_text().count(said) == 1


def test_sbx_5_doctor_without_a_server_says_so(server):
    r = server.cli("--server", "unix:/nonexistent/socket", "doctor", "--json")
    assert r.returncode == 125 and b"/nonexistent/socket" in r.stderr, r
    assert json.loads(r.stdout)["error"]["code"] == "E_UNAVAILABLE"
    assert left_over()[0] == []


def test_sbx_5_probe_is_installed_and_small(server):
    probe = harness.BUILD / "agentsh-probe"
    assert probe.stat().st_mode & stat.S_IXUSR
    r = subprocess.run([probe], capture_output=True, timeout=60)
    assert r.returncode == 2
    r = subprocess.run([probe, "walls", "moat=1"], capture_output=True, timeout=60)
    assert (r.returncode, r.stdout) == (2, b"")


DENYING = {
    "policies": {"default": "default"},
    "sandbox": {"allow_unenforced": ["file_rules", "network_rules", "pids_limit"]},
}


@pytest.mark.parametrize("config", [{}, DENYING], ids=["observe", "default"])
def test_sbx_5_doctor_tries_a_denied_program(new_server, config):
    """Under the session's own policy, or one that denies something where this one does not."""
    server = new_server(harness.USER_UID, config=config)
    status, report = doctor(server)
    w = report["by_wall"]["exec_policy"]
    assert (w["verdict"], [a["answer"] for a in w["acts"]]) == ("ok", ["EACCES"]), w
    assert status == 0, report


def test_sbx_5_doctor_takes_no_shown_directory_for_a_hole(new_server, tmp_path):
    """A file that the configuration shows to sessions is no proof against the mounts."""
    tmp_path.chmod(0o755)
    server = new_server(0, config={"filesystem": {"passthrough_paths": [str(tmp_path)]}})
    r = server.cli("doctor", "--config", server.config_file, "--json", env={"TMPDIR": str(tmp_path)})
    w = {w["wall"]: w for w in json.loads(r.stdout)["walls"]}["mount_namespace"]
    assert (r.returncode, w["verdict"]) == (0, "ok"), w
    assert [a["what"] for a in w["acts"]] == ["share the machine's mounts"]
    assert list(tmp_path.iterdir()) == []


BPF_PROGRAMS = ["exec_check", "net_owner", "net_refuse", "net_refuse", "net_unix", "file_calls", "file_calls"]


def probes():
    """Processes of agentsh-probe-bpf: one that is left would keep its program attached."""
    program = str(harness.BUILD / "agentsh-probe-bpf")
    found = []
    for entry in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if os.readlink(entry) == program:
                found.append(entry.parent.name)
    return found


def test_sbx_5_doctor_tries_each_bpf_program(root_server):
    """The forbidden act against each program: killed, noted, refused, counted, recorded."""
    before = sorted(Path("/tmp").glob("agentsh-probe-*")), Path("/proc/mounts").read_text().count("fuse")
    status, report = doctor(root_server)
    bpf = report["bpf"]
    assert (status, bpf["reason"]) == (0, None), bpf
    assert [(p["program"], p["verdict"]) for p in bpf["programs"]] == [(name, "ok") for name in BPF_PROGRAMS], bpf
    answers = {p["what"]: p["answer"] for p in bpf["programs"]}
    assert answers["run another program than was decided"] == "killed by SIGKILL before it ran"
    assert answers["connect to a refused address"] == "EACCES"
    table = root_server.cli("doctor", "--config", root_server.config_file).stdout.decode().splitlines()
    head = next(n for n, line in enumerate(table) if line.startswith("BPF PROGRAM"))
    assert table[head + 1].split()[:2] == ["exec_check", "ok"]
    after = sorted(Path("/tmp").glob("agentsh-probe-*")), Path("/proc/mounts").read_text().count("fuse")
    assert after == before
    harness.wait_for(lambda: not probes(), "no process of an act is left")


def test_sbx_5_doctor_of_a_normal_user_says_that_bpf_needs_root(new_server):
    user_server = new_server(harness.USER_UID)
    status, report = doctor(user_server)
    assert status == 0 and report["bpf"]["programs"] == []
    assert "needs root" in report["bpf"]["reason"] and "exec stop" in report["bpf"]["reason"]
    table = user_server.cli("doctor", "--config", user_server.config_file).stdout.decode()
    assert "\nBPF programs: BPF needs root" in table


NO_CAPABILITY = ["setpriv", "--bounding-set", "-bpf,-sys_admin,-perfmon"]


@pytest.mark.parametrize(
    ("prepare", "command", "programs", "reason"),
    [
        ("for d in $(awk '$3 == \"cgroup2\" {print $2}' /proc/mounts); do umount -l $d; done", [],
         {"net_owner", "net_refuse", "net_unix"}, "no cgroup2 file system is mounted"),
        ("mount -t tmpfs none /sys/kernel/btf", [], set(BPF_PROGRAMS), "the kernel does not describe its types"),
        ("true", NO_CAPABILITY, {"exec_check", "net_owner", "net_refuse", "net_unix"}, "CAP_BPF"),
        ("true", ["setarch", "--uname-2.6", *NO_CAPABILITY], {"net_owner", "net_refuse", "net_unix"}, "needs Linux "),
        ("mkdir -p /sys/kernel/security && mount -t tmpfs none /sys/kernel/security && "
         "echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown", NO_CAPABILITY,
         {"exec_check"}, "the kernel is locked down"),
    ],
    ids=["no cgroup2", "no BTF", "no capability", "old kernel", "lockdown"],
)  # fmt: skip
def test_sbx_5_the_reason_why_a_bpf_program_cannot_be_had(prepare, command, programs, reason):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script = f'{prepare} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", *command, harness.BUILD / "agentsh-probe-bpf"]
    r = subprocess.run(command, capture_output=True, timeout=60, text=True)
    lines = [line.split("\t") for line in r.stdout.splitlines()]
    assert r.returncode == 0 and [line[0] for line in lines] == BPF_PROGRAMS, r
    for name, outcome, _, answer in lines:
        if name in programs:
            assert outcome == "untried" and reason in answer, (name, answer)
