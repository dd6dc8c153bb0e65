# SPDX-License-Identifier: Apache-2.0
"""Where attacks take place: what stands on the host, a server, and the ways to run a command in a session of it."""

import contextlib
import ctypes
import functools
import json
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import harness
import manifest

HERE = Path(__file__).resolve().parent
SESSION_UID = 64999  # one that the host has as well: the hardest case
CFLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]
PROGRAMS = {
    "attacks": [p.name for p in (HERE / "programs").glob("*.c") if p.stem not in ("races", "privileged")],
    "races": ["races.c"],
    "privileged": ["privileged.c"],
}
LIMITS = {"pids_max": 200, "max_memory_mb": 512}
IPC_CREAT, IPC_RMID = 0o1000, 0
UNTOUCHED = b"untouched"
CAP_NET_RAW = 1 << 13

libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@functools.cache
def programs():
    """The directory with the compiled programs."""
    out = Path(tempfile.mkdtemp(prefix="agentsh-attacks-"))
    for name, sources in PROGRAMS.items():
        files = [HERE / "programs" / s for s in sources]
        subprocess.run(["gcc", *CFLAGS, "-o", out / name, *files, "-lutil"], check=True)
    return out


class Host:
    """Things that belong to the host and that the session's user could reach if nothing stood between."""

    def __init__(self, uid, name):
        self.undo = contextlib.ExitStack()
        try:
            self.make(uid, name)
        except BaseException:
            self.close()
            raise

    def make(self, uid, name):
        self.dir = Path(tempfile.mkdtemp(prefix=f"agentsh-host-{name}-"))
        self.undo.callback(shutil.rmtree, self.dir)
        self.dir.chmod(0o755)
        self.name = self.dir.name
        self.key = 0x61000000 + zlib.crc32(self.name.encode()) % 0x1000000
        self.file = self.dir / "file"
        self.file.write_bytes(UNTOUCHED)
        self.file.chmod(0o666)
        self.process = subprocess.Popen(
            ["sleep", "1800"], user=uid, group=uid, extra_groups=[], start_new_session=True, stdin=subprocess.DEVNULL,
            env={"SECRET": "of the host"},
        )  # fmt: skip
        self.undo.callback(self.process.wait)
        self.undo.callback(self.process.kill)
        self.hostname = os.uname().nodename
        self.listeners = [
            self.listen(socket.AF_UNIX, str(self.dir / "socket")),
            self.listen(socket.AF_UNIX, f"\0{self.name}"),
            self.listen(socket.AF_INET, ("127.0.0.1", 0)),
        ]
        (self.dir / "socket").chmod(0o777)
        self.make_ipc()
        self.make_privileged()

    def make_ipc(self):
        old = os.umask(0)
        self.queue = checked(libc.msgget(self.key, IPC_CREAT | 0o666))
        self.undo.callback(libc.msgctl, self.queue, IPC_RMID, None)
        memory = checked(libc.shmget(self.key, 4096, IPC_CREAT | 0o666))
        self.undo.callback(libc.shmctl, memory, IPC_RMID, None)
        semaphores = checked(libc.semget(self.key, 1, IPC_CREAT | 0o666))
        self.undo.callback(libc.semctl, semaphores, 0, IPC_RMID)
        name = f"/{self.name}".encode()
        attributes = (ctypes.c_long * 8)(0, 1, 64)  # one message of 64 bytes
        os.close(checked(libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o666, attributes)))
        self.undo.callback(libc.mq_unlink, name)
        os.close(os.open(f"/dev/shm/{self.name}", os.O_CREAT | os.O_RDWR, 0o666))
        self.undo.callback(os.unlink, f"/dev/shm/{self.name}")
        os.umask(old)

    def listen(self, family, address):
        s = self.undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        s.bind(address)
        s.listen(64)
        s.setblocking(False)
        return s

    def make_privileged(self):
        """Programs that give rights; the directory is shown to sessions."""
        self.shown = self.dir / "shown"
        self.shown.mkdir()
        for name in ("setuid", "setgid", "capable"):
            shutil.copy(programs() / "privileged", self.shown / name)
            (self.shown / name).chmod(0o755)
        os.chown(self.shown / "setgid", 0, 6)
        (self.shown / "setuid").chmod(0o4755)
        (self.shown / "setgid").chmod(0o2755)
        # revision 2, effective
        caps = struct.pack("<5I", 0x02000001, CAP_NET_RAW, 0, 0, 0)
        os.setxattr(self.shown / "capable", "security.capability", caps)

    def places(self):
        return {
            "HOST_FILE": self.file,
            "HOST_PID": self.process.pid,
            "HOST_SOCKET": self.dir / "socket",
            "HOST_ABSTRACT": self.name,
            "HOST_PORT": self.listeners[2].getsockname()[1],
            "SYSV_KEY": self.key,
            "POSIX_QUEUE": f"/{self.name}",
            "POSIX_MEMORY": f"/{self.name}",
            "SETUID_PROGRAM": self.shown / "setuid",
            "SETGID_PROGRAM": self.shown / "setgid",
            "CAPABLE_PROGRAM": self.shown / "capable",
        }

    def check(self):
        """Nothing of it was touched."""
        assert self.file.read_bytes() == UNTOUCHED
        assert self.process.poll() is None
        assert os.getpriority(os.PRIO_PROCESS, self.process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        assert os.uname().nodename == self.hostname
        assert str(self.dir) not in Path("/proc/self/mountinfo").read_text()
        for s in self.listeners:
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"somebody connected: {s.accept()}")
        assert checked(libc.msgget(self.key, 0)) == self.queue
        assert not Path("/usr/bin/agentsh-attack-made").exists()

    def close(self):
        self.undo.close()


def first_that_opens(*paths):
    """A disk that can be opened: some are held by the kernel."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            return path
    return paths[0]


MACHINE = {
    "CGROUP_V1": "pids",
    "KMSG": manifest.NEEDS["kmsg"],
    "FUSE": manifest.NEEDS["dev_fuse"],
    "TUN": manifest.NEEDS["dev_tun"],
    "KVM": manifest.NEEDS["dev_kvm"],
    "CONSOLE": manifest.NEEDS["dev_console"],
    "KCORE": "/proc/kcore",
    "SYSRQ": "/proc/sysrq-trigger",
    "CORE_PATTERN": "/proc/sys/kernel/core_pattern",
    "PROC_HOSTNAME": "/proc/sys/kernel/hostname",
    "IRQ": manifest.NEEDS["proc_irq"],
    "KEYS": "/proc/keys",
    "SYSFS": manifest.NEEDS["sysfs"],
    "CGROUP_PROCS": manifest.NEEDS["cgroup_procs"],
}


def by_exec(stage, policy, argv):
    return stage.session(policy).exec(*argv, max_output_bytes=1 << 20)["result"]["stdout"]


def by_stream(stage, policy, argv):
    wanted = {"command": argv[0], "args": argv[1:], "max_output_bytes": 1 << 20}
    a = stage.server.post(f"{stage.session(policy).path}/exec/stream", wanted)
    assert a.status == 200, a.body
    last = re.findall(rb"^event: result\ndata: (.*)$", a.body, re.M)[-1]
    return json.loads(last)["result"]["stdout"]


def by_stdio(stage, policy, argv):
    s = harness.Stdio(stage.session(policy), {"command": argv[0], "args": argv[1:]})
    assert s.status == 101, s.head
    try:
        return s.finish()[0].decode()
    finally:
        s.close()


def by_run(stage, policy, argv):
    r = stage.server.cli("run", "--workspace", stage.workspace, "--policy", policy, "--", *argv)
    assert r.returncode == 0, r
    return r.stdout.decode()


WAYS = {"exec": by_exec, "stream": by_stream, "stdio": by_stdio, "run": by_run}


class Stage:
    """A server with a session under attack, another session beside it, and a host around them."""

    def __init__(self, kind, uid):
        self.kind, self.uid = kind, uid
        self.session_uid = uid or SESSION_UID
        self.sessions, self.results, self.controls = {}, {}, {}
        self.undo = contextlib.ExitStack()
        try:
            self.make()
        except BaseException:
            self.close()
            raise

    def make(self):
        self.host, self.outside = Host(self.session_uid, "session"), Host(self.session_uid, "control")
        self.undo.callback(self.host.close)
        self.undo.callback(self.outside.close)
        self.server = self.make_server()
        self.undo.callback(self.server.cleanup)
        self.server.start()
        self.other = self.server.session()
        self.other_command = self.other.exec("echo", "private")["command_id"]
        self.workspace = self.server.workspace()
        self.away = Path(tempfile.mkdtemp(prefix="agentsh-control-"))
        self.undo.callback(shutil.rmtree, self.away)
        self.fill(self.workspace, self.host, "/workspace")
        self.fill(self.away, self.outside, str(self.away))

    def make_server(self):
        key = {"id": "k", "agent_id": "a", "role": "agent", "uid": self.uid or 1, "sha256": "0" * 64}
        server = harness.Server(
            uid=self.uid,
            keys=[key],
            config={
                "filesystem": {"passthrough_paths": [str(self.host.shown)]},
                "sandbox": {"resource_limits": LIMITS, "session_uids": f"{SESSION_UID}-{SESSION_UID}"},
            },
        )
        policies = server.dir / "policies"
        policies.mkdir()
        shutil.copy(HERE / "policy.yaml", policies / "attack.yaml")
        for path in (policies, policies / "attack.yaml"):
            os.chown(path, self.uid, self.uid)
        server.merge(server.config, {"policies": {"dir": str(policies)}})
        return server

    def session(self, policy="observe"):
        if policy not in self.sessions:
            self.sessions[policy] = self.server.session(workspace=str(self.workspace), policy=policy)
        return self.sessions[policy]

    def walls(self, policy="observe"):
        return {w["wall"] for w in self.session(policy).record["enforcement"] if w["state"] == "up"} | manifest.ALWAYS

    def find(self, *patterns):
        """A file of the server that has to be there."""
        for pattern in patterns:
            for path in sorted(self.server.dir.glob(pattern)):
                return path
        raise AssertionError(f"no {patterns} in {sorted(self.server.dir.rglob('*'))}")

    def server_places(self):
        return {
            "SERVER_SOCKET": self.server.socket,
            "SERVER_CONFIG": self.server.config_file,
            "SERVER_KEYS": self.server.keys_file,
            "SERVER_DATABASE": self.find("state/*.db"),
            "SERVER_EVENTS": self.find("state/*.jsonl"),
            "SERVER_POLICIES": self.server.dir / "policies",
            "WARDEN_SOCKET": self.find(f"run/sessions/{self.other.id}*.sock"),
            "OTHER_RING": self.find(f"run/sessions/{self.other.id}*ring*"),
            "OTHER_OUTPUT": self.find(f"state/**/{self.other_command}*", "state/output/**/*"),
            "OTHER_WORKSPACE": self.other.workspace / "file",
            "WARDEN_PID": self.server.warden_pids()[0],
            "STATE_PROGRAM": harness.BUILD / "agentsh-state",
            "DISK": first_that_opens("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"),
        }

    def fill(self, directory, host, seen_as):
        """The programs, the scripts and the places, as the session's user can use them."""
        (self.other.workspace / "file").touch()
        os.chown(self.other.workspace / "file", self.uid, self.uid)
        for name in PROGRAMS:
            shutil.copy(programs() / name, directory / name)
        shutil.copytree(HERE / "scripts", directory / "scripts")
        (directory / "own").touch()
        (directory / "link").symlink_to(host.file)
        os.mknod(directory / "node", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
        (directory / "node").chmod(0o666)
        places = {**MACHINE, **host.places(), **self.server_places()}
        places |= {
            "LINK_IN_WORKSPACE": f"{seen_as}/link",
            "NODE_IN_WORKSPACE": f"{seen_as}/node",
            "OWN_FILE": f"{seen_as}/own",
        }
        (directory / "places").write_text("".join(f"{k}={v}\n" for k, v in places.items()))
        directory.chmod(0o755)
        for path in [directory, *directory.rglob("*")]:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    # --- inside ---
    def attack(self, way, policy, ids):
        """Runs attacks in one command; id → result."""
        text = WAYS[way](self, policy, ["/workspace/attacks", *ids])
        found = [json.loads(line) for line in text.splitlines()]
        return {f["attack"]: f["result"] for f in found}

    def result(self, way, attack):
        """The result of one attack; all of its kind are tried at once."""
        batch = (way, attack.policy)
        if batch not in self.results:
            ids = [a.id for a in manifest.ATTACKS if not a.test and a.policy == attack.policy]
            self.results[batch] = self.attack(way, attack.policy, ids)
            self.unharmed()
        return self.results[batch].get(attack.id, "no answer")

    def unharmed(self):
        self.host.check()
        assert self.server.get("/health").status == 200
        assert self.other.out("echo well") == "well\n"

    # --- outside ---
    def control(self, attack):
        if attack.id not in self.controls:
            self.controls[attack.id] = getattr(self, f"control_{attack.control}")(attack)
        return self.controls[attack.id]

    def run(self, argv, uid=0):
        """Runs one attack outside, in a directory of its own; its starter has the same user."""
        with tempfile.TemporaryDirectory(prefix="agentsh-control-") as d:
            os.chown(d, uid, uid)
            who = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
            spare = os.open("/dev/null", os.O_RDONLY)
            r = subprocess.run(
                ["sh", "-c", '"$@"; exit $?', "sh", *map(str, argv)],
                cwd=d, capture_output=True, timeout=60, pass_fds=[spare], env={"PATH": os.environ["PATH"]}, **who,
            )  # fmt: skip
            os.close(spare)
        lines = r.stdout.decode().splitlines()
        return json.loads(lines[-1])["result"] if lines else f"nothing: {r}"

    def control_user(self, attack):
        return self.run([self.away / "attacks", attack.id], self.session_uid)

    def control_owner(self, attack):
        return self.run([self.away / "attacks", attack.id], self.uid)

    def control_host(self, attack):
        return self.run([self.away / "attacks", attack.id])

    def control_root(self, attack):
        own = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return self.run([*own, self.away / "attacks", attack.id])

    def control_policy(self, attack):
        ids = [a.id for a in manifest.ATTACKS if a.control == "policy" and not a.test]
        self.controls |= self.attack("exec", "observe", ids)
        return self.controls[attack.id]

    def close(self):
        self.undo.close()
