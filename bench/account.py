# SPDX-License-Identifier: Apache-2.0
"""What our processes use: CPU time and system calls of one `true` in a warm session, by HTTP and by a script; CPU time of
the API process's threads with 32 clients."""

import collections
import json
import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path

from table import BENCH, all_walls, harness, lines, note, row

EXECS = 400  # for CPU time
TRACED = 100  # for system calls
MOST_CALLS = 12  # shown of each process
RUNS = 100  # of `agentsh run`
SETTLE_S = 0.5  # after an answer our processes may still write
TICK = os.sysconf("SC_CLK_TCK")
LEADERS = "init and leaders"


def run_time(pid):
    """CPU seconds of a process's living threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks) / 1e9


def reaped_time(pid):
    """CPU seconds of the children that a process has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / TICK


def processes(server, session):
    """Our processes, by their part; the warden is the one that maps the session's ring, others wait in the pool."""
    (warden,) = (p for p in server.warden_pids() if session.id in Path(f"/proc/{p}/maps").read_text())
    init = harness.children_of(warden)[0]
    return {
        "launcher": [server.pid],
        "API process": [server.api_pid()],
        "warden": [warden],
        LEADERS: [init, *harness.children_of(init)],
    }


def by_http(server, session, n):
    """Each an exec of its own; and the five that warm up."""
    got = lines(BENCH / "bench_exec", "latency", n, server.socket, session.id, "{}", harness.AGENTSH, "http")[0]
    if n == EXECS:
        note("median of one", f"{got['median_us']:8.0f} us")
    return n + 5


def by_script(server, session, n):
    """All by one shell inside, which is one more."""
    r = session.exec("/bin/sh", "-c", f"i=0; while [ $i -lt {n} ]; do /bin/true || exit; i=$((i + 1)); done")
    assert r["result"]["exit_code"] == 0, r["result"]
    return n + 1


def cpu_times(server, session, run):
    before = {name: sum(map(run_time, pids)) for name, pids in processes(server, session).items()}
    n = run(server, session, EXECS)
    time.sleep(SETTLE_S)
    for name, pids in processes(server, session).items():
        note(f"CPU of the {name}", f"{(sum(map(run_time, pids)) - before[name]) * 1e6 / n:8.1f} us")


def trace(server, session, run, pids):
    """Execs while strace follows the processes; how many, and what it wrote."""
    out = server.dir / "calls"
    strace = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", out, *(a for p in pids for a in ("-p", str(p)))], stderr=subprocess.PIPE
    )
    try:
        harness.wait_for(
            lambda: strace.poll() is not None or all(harness.status_of(p)["TracerPid"] != "0" for p in pids), "strace"
        )
        if strace.poll() is not None:
            raise RuntimeError(strace.stderr.read().decode().strip())
        n = run(server, session, TRACED)
        time.sleep(SETTLE_S)
    finally:
        strace.terminate()
        strace.wait()
        strace.stderr.close()
    return n, out.read_text(errors="replace")


def count_calls(text):
    """What was called, but for programs after their exec."""
    calls, started = collections.Counter(), set()
    for line in text.splitlines():
        m = re.match(r"(\d+) +(\w+)\(", line)  # neither signals nor the second half of a call
        if m and m[1] not in started:
            calls[m[2]] += 1
        if re.match(r"\d+ +(execve(at)?\(.*|<\.\.\. execve(at)? resumed>.*)= 0$", line):
            started.add(line.split()[0])
    return calls


def show_calls(server, session, run, names):
    for name in names:
        n, text = trace(server, session, run, processes(server, session)[name])
        calls = count_calls(text)
        most = ", ".join(f"{k} {v / n:.1f}" for k, v in calls.most_common(MOST_CALLS) if v / n >= 0.1)
        note(f"system calls of the {name}", f"{calls.total() / n:8.1f}: {most}")


def wait_until_idle(used):
    """After an answer our processes may still write."""
    seen = [None]

    def rests():
        seen.append(used())
        return seen[-1] == seen[-2]

    harness.wait_for(rests, "our processes rest")


def show_threads(server, clients=32, seconds=4):
    """CPU time of each thread of the API process for one exec of many clients."""
    tasks = sorted(Path(f"/proc/{server.api_pid()}/task").iterdir())
    used = lambda: [int((t / "schedstat").read_text().split()[0]) / 1e3 for t in tasks]  # noqa: E731
    before, wanted = used(), json.dumps({"workspace": str(server.workspace())})
    r = lines(BENCH / "bench_exec", "clients", clients, seconds, server.socket, wanted)[0]
    wait_until_idle(used)
    note("commands", f"{r['ours_per_s']}/s of {r['native_per_s']}/s")
    for name, a, b in zip(("loop", "checkpoints", "commits"), before, used(), strict=True):
        note(f"CPU of the API process, {name}", f"{(b - a) / (r['ours_per_s'] * seconds):8.1f} us")


def profile_run(server):
    """CPU time of one `agentsh run -- true` by process; the sandbox is warden, init, leader and command together."""

    def used():
        cli = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = run_time(server.pid), run_time(server.api_pid()), reaped_time(server.pid)
        return (cli.ru_utime + cli.ru_stime, *own)

    before, pool = used(), len(server.warden_pids())
    for _ in range(RUNS):
        subprocess.run([harness.AGENTSH, "run", "--", "/bin/true"], check=True)
        harness.wait_for(lambda: len(server.warden_pids()) >= pool, "the pool is full again")
    for name, a, b in zip(
        ("CLI", "launcher", "API process", "sandbox, with its refill"), before, used(), strict=True
    ):
        note(f"CPU of a run: {name}", f"{(b - a) * 1e6 / RUNS:8.0f} us")


def profile(server):
    session = server.session(**all_walls(server))
    session.exec("true")
    for title, run, traced in (
        ("one exec by HTTP", by_http, ("API process", "warden", LEADERS)),
        ("one exec by a script", by_script, ("API process", "warden")),
    ):
        print(f"   {title}")
        cpu_times(server, session, run)
        if shutil.which("strace") is not None:
            show_calls(server, session, run, traced)
        else:
            row("system calls", "not counted", "strace is installed", False)
    session.destroy()
    print("   one exec of 32 clients")
    show_threads(server)
