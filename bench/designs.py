# SPDX-License-Identifier: Apache-2.0
"""Designs for one purpose, run in turns in one program each; the rows say what each costs and the noise (A/A)."""

import os
import tempfile
from pathlib import Path

from table import BENCH, lines, note, row

NEEDS_ROOT = ("bench_etc",)
WITH_DIRECTORY = ("bench_journal", "bench_files")
# program, its arguments behind the directory, what is shown: title, key, and the key it is compared with
PAIRS = [
    (
        "bench_journal",
        (25, 160),
        "journalling one command, CPU",
        [
            ("two commits", "two_commits_us", None),
            ("two commits again (A/A)", "two_commits_again_us", "two_commits_us"),
            ("one commit", "one_commit_us", "two_commits_us"),
            ("an intent record and one commit", "intent_and_one_commit_us", "two_commits_us"),
            ("an intent record, one commit for 16", "intent_and_commit_of_many_us", "two_commits_us"),
            ("the store: a redo file, one commit for 16", "store_and_commit_of_many_us", "two_commits_us"),
            ("the same, its thread commits", "store_and_writer_us", "two_commits_us"),
            ("the same, one commit for 80", "store_and_late_writer_us", "two_commits_us"),
            ("of the loop alone: it commits for 16", "store_and_commit_of_many_loop_us", None),
            ("its thread commits", "store_and_writer_loop_us", "store_and_commit_of_many_loop_us"),
            ("one commit for 80", "store_and_late_writer_loop_us", "store_and_commit_of_many_loop_us"),
        ],
    ),
    (
        "bench_files",
        (31, 25),
        "output files of one command, CPU",
        [
            ("created", "created_us", None),
            ("created again (A/A)", "created_again_us", "created_us"),
            ("empty ones renamed", "renamed_us", "created_us"),
            ("empty ones kept open for the next", "kept_us", "created_us"),
            ("with a line of output: created", "line_created_us", None),
            ("with a line of output: renamed", "line_renamed_us", "line_created_us"),
            ("with a line of output: kept", "line_kept_us", "line_created_us"),
        ],
    ),
    (
        "bench_notify",
        (81, 5),
        "start and exec of true from a small process, CPU",
        [
            ("vfork", "plain_cpu_us", None),
            ("vfork again (A/A)", "plain_again_cpu_us", "plain_cpu_us"),
            ("fork", "fork_cpu_us", "plain_cpu_us"),
            ("posix_spawn", "posix_spawn_cpu_us", "plain_cpu_us"),
            ("vfork, a notification of the exec, let go at once", "notified_cpu_us", "plain_cpu_us"),
            ("vfork, read, resolved and verified at the exec stop", "verified_cpu_us", "plain_cpu_us"),
        ],
    ),
    (
        "bench_hops",
        (1500, 32, 6),
        "the way of true through processes that only pass it on, wall",
        [
            ("vfork", "native_us", None),
            ("vfork again (A/A)", "native_again_us", "native_us"),
            ("by a server and a warden", "direct_us", "native_us"),
            ("and a leader that starts it", "led_us", "native_us"),
            ("and a notification of its exec", "notified_us", "native_us"),
            ("32 clients, time for one: vfork", "native_many_us", None),
            ("32 clients: vfork again (A/A)", "native_again_many_us", "native_many_us"),
            ("32 clients: a server, a warden each", "direct_many_us", "native_many_us"),
            ("32 clients: and a leader each", "led_many_us", "native_many_us"),
            ("32 clients: and notifications", "notified_many_us", "native_many_us"),
        ],
    ),
    (
        "bench_etc",
        (100,),
        "/etc of a mount namespace, made and ended with it, wall",
        [
            ("one bind for each entry", "binds_both_us", None),
            ("one bind for each entry again (A/A)", "binds_again_both_us", "binds_both_us"),
            ("files copied, directories bound", "copies_both_us", "binds_both_us"),
            ("a copy of a prepared tree of binds", "tree_both_us", "binds_both_us"),
            ("one bind of a prepared directory", "directory_both_us", "binds_both_us"),
            ("no /etc", "nothing_both_us", "binds_both_us"),
        ],
    ),
]


def values(found):
    """One dictionary, also where a program prints a line for each way."""
    got = {}
    for line in found:
        way = f"{line['way']}_" if "way" in line else ""
        got.update({way + key: value for key, value in line.items()})
        if "make_us" in line:
            got[way + "both_us"] = line["make_us"] + line["end_us"]
    return got


def show(got, key, against):
    if against is None:
        return f"{got[key]:8.1f} us"
    # some programs tell the median of the differences in each round
    parts = key.removesuffix("_cpu_us" if key.endswith("_cpu_us") else "_us")
    more = got.get(f"{parts}_more{key.removeprefix(parts)}", got[key] - got[against])
    return f"{got[key]:8.1f} us   {more:+8.1f} us   {got[key] / got[against]:.2f} x"


def designs(server):
    for program, args, title, shown in PAIRS:
        if program in NEEDS_ROOT and os.geteuid() != 0:
            row(title, "not measured", "run by root", False)
            continue
        with tempfile.TemporaryDirectory(dir=server.dir) as d:
            where = [Path(d)] if program in WITH_DIRECTORY else []
            got = values(lines(BENCH / program, *where, *args))
        print(f"   {title}")
        for name, key, against in shown:
            note(name, show(got, key, against))
