# SPDX-License-Identifier: Apache-2.0
"""How long 1 of 100 commands of 32 clients takes, by the weight of the group of all sessions; in turns in one run."""

import json
import os
import statistics
from pathlib import Path

from cgroups import CGROUP, tag_of
from table import BENCH, all_walls, lines, note

ROUNDS = 3
WEIGHTS = (1, 2, 4, 8)  # in processes


def weight_file(server):
    """Of the group of all sessions, and what one process weighs there."""
    for path, directories, files in os.walk(CGROUP):
        if any(d.startswith(tag_of(server)) for d in directories):
            for name, one in (("cpu.shares", 1024), ("cpu.weight", 100)):
                if name in files:
                    return Path(path) / name, one
    return None, 0


def weights(server):
    limits = all_walls(server)
    kept = [server.session() for _ in range(4)]  # the server changes the weight with the first four only
    file, one = weight_file(server)
    if file is None:
        note("not measured", "the sessions have no CPU group")
        return
    before = file.read_text()
    got = {}
    for _ in range(ROUNDS):
        for weight in WEIGHTS:
            file.write_text(str(weight * one))
            for name, more in (("32 clients", {}), ("32 clients, with limits", limits)):
                wanted = {"workspace": str(server.workspace()), **more}
                r = lines(BENCH / "bench_exec", "clients", 32, 4, server.socket, json.dumps(wanted))[0]
                rates = r["ours_per_s"] / r["native_per_s"], r["ours_p99_us"] / r["native_p99_us"]
                got.setdefault((name, weight), []).append(rates)
    file.write_text(before)
    for (name, weight), rates in sorted(got.items()):
        rate, p99 = (statistics.median(r) for r in zip(*rates, strict=True))
        note(f"{name}, weight {weight}", f"{rate:.2f} of native, p99 {p99:.2f} x native's")
    for session in kept:
        session.destroy()
