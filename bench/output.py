# SPDX-License-Identifier: Apache-2.0
"""256 MB of a command's output: passed through by the CLI, beside a plain pipe; stored by exec, beside `cat > file`.
All ways run the same command on the same file in turns."""

import os
import resource
import socket
import statistics
import subprocess
import time

from table import harness, note, row

SIZE = 256 << 20
ROUNDS = 7
FRAME = 64 << 10
LINE = b"%07d the quick brown fox jumps over the lazy dog\n"


def write_text(path):
    some = b"".join(LINE % i for i in range(20000))
    with path.open("wb") as f:
        for _ in range(SIZE // len(some) + 1):
            f.write(some)
        f.truncate(SIZE)


def send_parts(path, sock, copied):
    """A server's part: the file goes into the socket in frames, copied or as the file's own pages."""
    at = 0
    with path.open("rb") as f:
        while at < SIZE:
            if copied:
                data = os.pread(f.fileno(), FRAME, at)
                sock.sendall(data)
                at += len(data)
            else:
                at += os.sendfile(sock.fileno(), f.fileno(), at, FRAME)


def pass_on(sock, out, splice):
    """A client's part: from the socket into a pipe."""
    buf, left = memoryview(bytearray(4 * FRAME)), SIZE
    while left > 0:
        n = os.splice(sock.fileno(), out, FRAME) if splice else sock.recv_into(buf)
        for at in range(0, 0 if splice else n, FRAME):
            os.write(out, buf[at : min(at + FRAME, n)])
        left -= n


def in_child(work, *args):
    pid = os.fork()
    if pid == 0:
        work(*args)
        os._exit(0)
    return pid


def run_design(path, copied, splice):
    """Seconds, and CPU seconds of both processes and the reader."""
    a, b = socket.socketpair()
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = time.monotonic()
    children = [in_child(send_parts, path, a, copied), in_child(pass_on, b, reader.stdin.fileno(), splice)]
    reader.stdin.close()
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    assert reader.wait() == 0
    took = time.monotonic() - before
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    a.close()
    b.close()
    return took, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def designs_of_output(path):
    """From a file by a socket into a pipe: the way from the API process to the CLI's reader, alone."""
    designs = {
        "read and sent, received and written": (True, False),
        "the same again": (True, False),
        "sent from the file, received and written": (False, False),
        "sent from the file, spliced": (False, True),
    }
    got = {name: [] for name in designs}
    for _ in range(ROUNDS):
        for name, how in designs.items():
            got[name].append(run_design(path, *how))
    for name, runs in got.items():
        took, cpu = (statistics.median(v) for v in zip(*runs, strict=True))
        note(f"design: {name}", f"{SIZE / 1e6 / took:.0f} MB/s, CPU {cpu * 1000:.0f} ms")


def output(server):
    workspace = server.workspace()
    write_text(workspace / "big")
    session = server.session(workspace=str(workspace))
    cli = f"{harness.AGENTSH} --server unix:{server.socket}"

    def shell(command):
        out = subprocess.run(["sh", "-c", command], cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True)
        assert out.returncode == 0 and not out.stderr, out.stderr

    def store():
        a = session.exec("cat", "big")
        assert a["result"]["stdout_total_bytes"] == SIZE, a

    ways = {
        "pipe": lambda: shell("cat big | cat >/dev/null"),
        "pipe again": lambda: shell("cat big | cat >/dev/null"),
        "exec": lambda: shell(f"{cli} exec --output shell {session.id} -- cat big | cat >/dev/null"),
        "run": lambda: shell(f"{cli} run -- cat big | cat >/dev/null"),
        "file": lambda: shell("cat big | cat >copy"),
        "file again": lambda: shell("cat big | cat >copy"),
        "stored": store,
    }
    took = {name: [] for name in ways}
    for i in range(ROUNDS + 1):  # the first round fills caches
        for name, way in ways.items():
            before = time.monotonic()
            way()
            if i > 0:
                took[name].append(time.monotonic() - before)
            for file in [*workspace.glob("copy"), *(server.state / "output").glob("*/*.out")]:
                if file.stat().st_size > 0:  # so that no way waits for the disk
                    file.unlink()
    speed = {name: SIZE / 1e6 / statistics.median(t) for name, t in took.items()}
    for name, first, least in (
        ("pipe again", "pipe", None),
        ("exec", "pipe", 0.4),
        ("run", "pipe", 0.4),
        ("file again", "file", None),
        ("stored", "file", 0.5),
    ):
        ratio = statistics.median(a / b for a, b in zip(took[first], took[name], strict=True))
        text = f"{speed[name]:.0f} of {speed[first]:.0f} MB/s = {ratio:.2f} x"
        goal = "the noise" if least is None else f"at least {least} x"
        row(f"256 MB, {name} against {first}", text, goal, least is None or ratio >= least)
    session.destroy()
    designs_of_output(workspace / "big")
