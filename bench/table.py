# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: the built programs, the table's rows, sessions with every wall."""

import json
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
os.environ.setdefault("AGENTSH_BUILD_DIR", str(TOP / "build"))
BENCH = Path(os.environ.get("AGENTSH_BENCH_DIR", TOP / "build-bench"))
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tools")]
import harness  # noqa: E402
from programs import PROGRAMS  # noqa: E402, F401

LIMITS = {"resource_limits": {"max_memory_mb": 4096, "pids_max": 2000}}
rows = []


def row(name, value, goal, ok):
    rows.append(ok)
    print(f"{'ok  ' if ok else 'MISS'}  {name:44} {value:34} goal: {goal}", flush=True)


def note(name, value):
    """A row without a goal."""
    print(f"      {name:44} {value}", flush=True)


def lines(*args):
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"{args[0]}: exit code {out.returncode}: {out.stderr}")
    return [json.loads(line) for line in out.stdout.splitlines()]


def all_walls(server):
    """A wanted for limits too; without them where this machine has no cgroups for us, and says so."""
    wanted = {"workspace": str(server.workspace()), **LIMITS}
    a = server.post("/api/v1/sessions", wanted)
    if a.status == 201:
        harness.Session(server, a.json).destroy()
        return LIMITS
    assert a.code == "E_ENFORCEMENT", a.body
    note("no limits: measured without a cgroup", a.json["error"]["message"])
    return {}
