# SPDX-License-Identifier: Apache-2.0
"""A directory that mount_tree serves at another place, in a mount namespace of its own."""

import atexit
import ctypes
import os
import pickle
import signal
import subprocess
import traceback
from pathlib import Path

import pytest

PROGRAM = Path(os.environ.get("AGENTSH_BUILD_DIR", "build-asan")).resolve() / "mount_tree"
CLONE_NEWNS = 0x20000
URING = Path("/sys/module/fuse/parameters/enable_uring")


def enable_io_uring():
    """The operator's choice for this machine: agentsh never makes it."""
    if not URING.exists():
        pytest.skip("this kernel has no FUSE over io_uring")
    if URING.read_text().strip() != "Y":
        atexit.register(URING.write_text, URING.read_text())
        URING.write_text("Y")


class MountTree:
    def __init__(self, directory, *options, unshare=("-m",)):
        """The backing directory `back` may already be there."""
        self.back, self.place = directory / "back", directory / "place"
        self.back.mkdir(exist_ok=True)
        self.place.mkdir()
        self.server = subprocess.Popen(
            ["unshare", *unshare, "--propagation", "private", PROGRAM, *options, self.back, self.place],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.server.stdout.readline() == "ready\n"

    def start(self, function, *args):
        """Runs the function in a child that sees the mount; returns its pid and the pipe of its result."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, reader
        status = 1
        try:
            with open(f"/proc/{self.server.pid}/ns/mnt") as ns:
                if ctypes.CDLL(None, use_errno=True).setns(ns.fileno(), CLONE_NEWNS) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
            os.chdir(self.place)
            result = function(*args)
            status = 0
        except BaseException:
            result = traceback.format_exc()
        finally:
            with open(writer, "wb") as f:
                f.write(pickle.dumps(result))
            os._exit(status)

    def result(self, child):
        pid, reader = child
        with open(reader, "rb") as f:
            data = f.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        value = pickle.loads(data) if data else None
        assert status == 0, value
        return value

    def run(self, function, *args):
        return self.result(self.start(function, *args))

    def sh(self, script):
        """A shell script with the mount as its directory; its output."""

        def body():
            r = subprocess.run(["bash", "-euc", script], capture_output=True, text=True)
            assert r.returncode == 0, r.stdout + r.stderr
            return r.stdout

        return self.run(body)

    def requests(self, *kinds):
        """How many requests of these kinds have come."""
        self.server.send_signal(signal.SIGUSR1)
        got = dict(w.split("=") for w in self.server.stdout.readline().split() if "=" in w)
        return [int(got.get(kind, 0)) for kind in kinds]

    def counts(self):
        """nodes, handles, directories that the server holds"""
        self.server.send_signal(signal.SIGUSR1)
        return [int(w) for w in self.server.stdout.readline().split() if w.isdigit()]

    def finish(self):
        """The server must live until here, and end without a complaint of a sanitizer."""
        assert self.server.poll() is None
        self.server.terminate()
        assert self.server.wait(60) == 0
        self.server.stdout.close()
