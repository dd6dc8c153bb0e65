# SPDX-License-Identifier: Apache-2.0
"""256 MB of a command's output: passed through by the CLI, beside a plain pipe; stored by exec, beside `cat > file`.
All ways run the same command on the same file in turns."""

import statistics
import subprocess
import time

from table import harness, row

SIZE = 256 << 20
ROUNDS = 7
LINE = b"%07d the quick brown fox jumps over the lazy dog\n"


def write_text(path):
    some = b"".join(LINE % i for i in range(20000))
    with path.open("wb") as f:
        for _ in range(SIZE // len(some) + 1):
            f.write(some)
        f.truncate(SIZE)


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
