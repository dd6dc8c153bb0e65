# SPDX-License-Identifier: Apache-2.0
"""What the behaviour tests stand on: a real server in a directory of its own, and a plain HTTP client for it."""

import contextlib
import fcntl
import http.client
import json
import os
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("AGENTSH_BUILD_DIR", TOP / "build"))
AGENTSH = BUILD / "agentsh"
USER_UID = 1000
# Configurations. The policy `default` has rules about files, which need a file server.
OBSERVE = {"policies": {"default": "observe"}}
NATIVE = {"monitoring": {"mode": "native"}, **OBSERVE}
MODES = {"native": NATIVE, "fuse": {}}
DEADLINE = 30  # seconds after which waiting for something is a failure


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Blocking, so that the kernel waits while the queue of the listener is full.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(self.timeout), 0))
        self.sock.connect(self.path)
        self.sock.settimeout(self.timeout)


class Answer:
    def __init__(self, status, body, headers):
        self.status = status
        self.body = body
        self.headers = headers

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]


def wait_for(condition, what, seconds=DEADLINE, show=None):
    """Polls a condition of another process that offers nothing to wait on; fails with a reason."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        select.select([], [], [], 0.02)
    seen = f" (now {show()})" if show else ""
    raise AssertionError(f"not within {seconds} s: {what}{seen}")


def metric(server, name):
    lines = server.get("/metrics").body.decode().splitlines()
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.split(" ")[0] == name)


def children_of(pid):
    out = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            out += [int(p) for p in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    return out


def descendants_of(pid):
    out = []
    for child in children_of(pid):
        out += [child, *descendants_of(child)]
    return out


def program_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def status_of(pid):
    return dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )


def alive(pid):
    try:
        return status_of(pid)["State"][0] not in "ZX"
    except (OSError, KeyError):
        return False


class Server:
    """One server with its own runtime, state and configuration below a temporary directory."""

    def __init__(self, uid=0, config=None, keys=None):
        self.uid = uid
        self.dir = Path(tempfile.mkdtemp(prefix="agentsh-test-"))
        self.dir.chmod(0o755)
        self.runtime = self.dir / "run"
        self.state = self.dir / "state"
        self.socket = self.runtime / "agentsh.sock"
        self.log = self.dir / "server.log"
        self.config_file = self.dir / "config.yaml"
        self.keys_file = self.dir / "keys.yaml"
        self.config = {
            "server": {"unix_socket": str(self.socket)},
            "sessions": {"base_dir": str(self.state)},
            "logging": {"level": "debug"},
            "sandbox": {"toolchains": "none"},  # tests do not depend on what root's home has
        }
        if "AGENTSH_TEST_BPF" in os.environ and not uid:  # off or required: all tests in that way
            self.config["sandbox"]["bpf"] = os.environ["AGENTSH_TEST_BPF"]
        if "AGENTSH_TEST_MODE" in os.environ:  # monitoring.mode of all tests
            self.config["monitoring"] = {"mode": os.environ["AGENTSH_TEST_MODE"]}
        self.merge(self.config, config or {})
        if keys is not None:
            self.keys_file.write_text(json.dumps({"keys": keys}))
            self.merge(self.config, {"server": {"auth": {"api_keys_file": str(self.keys_file)}}})
        self.workspaces = []
        self.process = None
        self.ready_line = ""
        self.command = []  # a program to start the server under
        if uid:
            os.chown(self.dir, uid, uid)

    @staticmethod
    def merge(into, more):
        for key, value in more.items():
            if isinstance(value, dict):
                Server.merge(into.setdefault(key, {}), value)
            else:
                into[key] = value

    def environment(self):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.dir), "LANG": "C.UTF-8"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env["SECRET_OF_THE_SERVER"] = "must never reach a command"
        env["AGENTSH_SERVER"] = f"unix:{self.socket}"
        return env

    def as_user(self):
        return {"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid else {}

    def start(self, *args, wait=True):
        self.config_file.write_text(json.dumps(self.config))
        for path in (self.config_file, self.keys_file):
            if path.exists():
                os.chown(path, self.uid, self.uid)
                path.chmod(0o600)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, AGENTSH, "server", "--config", self.config_file, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment(),
                cwd="/",
                **self.as_user(),
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
        self.ready_line = self.process.stdout.readline().decode() if ready else ""
        if not self.ready_line.startswith("agentsh: ready"):
            raise AssertionError(f"the server did not get ready: {self.ready_line!r}\n{self.log_text()}")

    def refuses_to_reload(self, config, word):
        """Told to read a wrong configuration, it stays as it was and says why."""
        before = self.log_text().count("the old configuration stays")
        wrong = json.loads(json.dumps(self.config))
        self.merge(wrong, config)
        self.config_file.write_text(json.dumps(wrong))
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.log_text().count("the old configuration stays") > before, "it was refused")
        assert word in self.log_text().rsplit("the old configuration stays", 1)[1]

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def pid(self):
        return self.process.pid

    def api_pid(self):
        """The API child, or None while it is being replaced."""
        pids = [p for p in children_of(self.pid) if program_of(p) == "agentsh-api"]
        return pids[0] if pids else None

    def warden_pids(self):
        return [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_our_warden(p)]

    def waiting_pids(self):
        """Prepared sandboxes that are ready to be sessions."""
        out = []
        for pid in children_of(self.pid):
            with contextlib.suppress(OSError):
                if status_of(pid)["Name"] == "agentsh-waiting":
                    out.append(pid)
        return out

    def is_our_warden(self, pid):
        if program_of(pid) != "agentsh-warden":
            return False
        with contextlib.suppress(OSError):
            if "\0agentsh-waiting." in Path(f"/proc/{pid}/cmdline").read_text():
                return False  # one that has no session yet
            return any(str(self.dir) in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
        return False

    def stop(self, seconds=DEADLINE):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(seconds)

    def cleanup(self):
        try:
            self.stop()
        finally:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            for pid in self.warden_pids():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if self.process and self.process.stdout:
                self.process.stdout.close()
            shutil.rmtree(self.dir, ignore_errors=True)
            for w in self.workspaces:
                shutil.rmtree(w, ignore_errors=True)

    def finish(self):
        """Ends the server, and fails if its log has a defect."""
        try:
            self.stop()
            self.check_log()
        finally:
            self.cleanup()

    def check_log(self):
        text = self.log_text()
        for word in ("AddressSanitizer", "runtime error:", "UndefinedBehaviorSanitizer", "broken invariant"):
            assert word not in text, text[max(0, text.index(word) - 200) : text.index(word) + 4000]

    def workspace(self):
        path = Path(tempfile.mkdtemp(prefix="agentsh-ws-"))
        path.chmod(0o755)
        os.chown(path, self.uid, self.uid)
        self.workspaces.append(path)
        return path

    # --- HTTP ---
    def connect(self, timeout=60):
        return UnixConnection(self.socket, timeout)

    def call(self, method, path, body=None, headers=None, connection=None, key=None):
        own = connection is None
        c = connection or self.connect()
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            c.request(method, path, body=body, headers=headers)
            r = c.getresponse()
            return Answer(r.status, r.read(), dict(r.getheaders()))
        finally:
            if own:
                c.close()

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.call("POST", path, body=body, **kw)

    def session(self, key=None, **wanted):
        wanted.setdefault("workspace", str(self.workspace()))
        a = self.post("/api/v1/sessions", wanted, key=key)
        assert a.status == 201, a.body
        return Session(self, a.json, key)

    # --- CLI ---
    def cli(self, *args, input=None, env=None, uid=None, timeout=120):
        uid = self.uid if uid is None else uid
        extra = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
        data = input.encode() if isinstance(input, str) else input
        return subprocess.run(
            [AGENTSH, *map(str, args)],
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            env={**self.environment(), **(env or {})},
            cwd="/",
            timeout=timeout,
            **extra,
        )


class Session:
    def __init__(self, server, record, key=None):
        self.server = server
        self.record = record
        self.id = record["id"]
        self.key = key
        self.path = f"/api/v1/sessions/{self.id}"

    @property
    def workspace(self):
        return Path(self.record["workspace"])

    def exec(self, *argv, status=200, headers=None, **wanted):
        """Runs a command (argv) or script=…; returns the answer."""
        if argv:
            wanted.update(command=argv[0], args=list(argv[1:]))
        a = self.server.post(f"{self.path}/exec", wanted, key=self.key, headers=headers)
        assert a.status == status, (a.status, a.body)
        return a.json

    def script(self, text, **wanted):
        return self.exec(script=text, **wanted)

    def out(self, text, **wanted):
        """stdout of a script that must succeed."""
        r = self.script(text, **wanted)["result"]
        assert r["exit_code"] == 0, r
        return r["stdout"]

    def get(self, suffix=""):
        a = self.server.get(f"{self.path}{suffix}", key=self.key)
        assert a.status == 200, (a.status, a.body)
        return a.json

    def history(self, **filters):
        return self.get("/history?" + urllib.parse.urlencode({"limit": 1000, **filters}))["events"]

    def output(self, command_id, stream="stdout", offset=0, limit=10000):
        return self.get(f"/output/{command_id}?stream={stream}&offset={offset}&limit={limit}")

    def destroy(self):
        a = self.server.call("DELETE", self.path, key=self.key)
        assert a.status == 200, a.body
        return a.json


class Gate:
    """Holds a script of a session at `wait`, until it is opened. A lock of a file, because the session's pipes (FIFOs) in a
    workspace that a file server shows are its own."""

    def __init__(self, session, name="gate"):
        path = session.workspace / name
        path.touch()
        path.chmod(0o666)
        self.file = path.open()
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.wait = f"flock /workspace/{name} true"

    def open(self):
        self.file.close()


class Stdio:
    """A client of agentsh-stdio/1. With a path, the first argument is the server."""

    STDIN, STDOUT, STDERR, CONTROL, RESULT = range(5)

    def __init__(self, session, wanted, auto_credit=True, sock=None, path=None):
        self.sock = sock or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if sock is None:
            self.sock.settimeout(60)
            self.sock.connect(str((session if path else session.server).socket))
        body = json.dumps(wanted).encode()
        head = (
            f"POST {path or session.path + '/exec'} HTTP/1.1\r\nHost: localhost\r\n"
            "Connection: Upgrade\r\nUpgrade: agentsh-stdio/1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.sock.sendall(head.encode() + body)
        self.auto_credit = auto_credit
        self.buf = b""
        while b"\r\n\r\n" not in self.buf:
            more = self.sock.recv(65536)
            assert more, self.buf
            self.buf += more
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        self.head = head
        self.stdin_credit = 65536

    def send(self, kind, data=b""):
        self.sock.sendall(struct.pack(">BxxxI", kind, len(data)) + data)

    def control(self, **what):
        self.send(self.CONTROL, json.dumps(what).encode())

    def frame(self):
        """The next frame, or None at the end."""
        while len(self.buf) < 8 or len(self.buf) < 8 + struct.unpack(">I", self.buf[4:8])[0]:
            more = self.sock.recv(1 << 20)
            if not more:
                return None
            self.buf += more
        kind, size = struct.unpack(">BxxxI", self.buf[:8])
        data, self.buf = self.buf[8 : 8 + size], self.buf[8 + size :]
        if kind in (self.STDOUT, self.STDERR) and self.auto_credit and data:
            self.control(credit={"stream": "stdout" if kind == self.STDOUT else "stderr", "bytes": len(data)})
        if kind == self.CONTROL:
            what = json.loads(data)
            if what.get("credit", {}).get("stream") == "stdin":
                self.stdin_credit += what["credit"]["bytes"]
        return kind, data

    def finish(self):
        """Reads to the result; returns stdout, stderr, answer."""
        out = {self.STDOUT: b"", self.STDERR: b""}
        while (f := self.frame()) is not None:
            if f[0] in out:
                out[f[0]] += f[1]
            elif f[0] == self.RESULT:
                return out[self.STDOUT], out[self.STDERR], json.loads(f[1])
        raise AssertionError("the stream ended without a result")

    def close(self):
        self.sock.close()


def validate_config(text, directory):
    f = directory / "c.yaml"
    f.write_text(text)
    return subprocess.run([AGENTSH, "config", "validate", f], capture_output=True, text=True)


def ensure_user():
    """A normal user with uid 1000 for the tests that run without privilege."""
    try:
        pwd.getpwuid(USER_UID)
    except KeyError:
        subprocess.run(["useradd", "-u", str(USER_UID), "-m", "agentsh-tester"], check=True)
    if os.path.exists("/dev/fuse"):
        os.chmod("/dev/fuse", 0o666)  # as udev makes it; a machine without udev has 0600
