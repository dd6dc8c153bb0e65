# SPDX-License-Identifier: Apache-2.0
"""Sums up a test run: passed, failed, skipped with reasons; fails on a skip that is not in tests/allowed_skips.

With --matrix prints requirement -> verdict -> tests -> result for every requirement of docs/requirements.md."""

import argparse
import fnmatch
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
ID = re.compile(r"(?:test_)?([a-z]{3})_(\d+)_")


def unit_results():
    log = TOP / "build-asan/meson-logs/testlog.json"
    if not log.exists():
        return
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        program = entry["name"].split(" ")[-1]
        seen = False
        for t in re.finditer(r"^(ok|not ok) \d+ - (\S+)(?:\s*# (SKIP)\s*(.*))?", entry.get("stdout", ""), re.M):
            seen = True
            state = "skipped" if t[3] else ("passed" if t[1] == "ok" else "failed")
            yield f"{program}::{t[2]}", state, t[4] or ""
        if entry["result"] not in ("OK", "SKIP", "EXPECTEDFAIL") or not seen:
            yield f"{program}::program", "failed" if entry["result"] != "OK" else "passed", entry["result"]


def pytest_results():
    for path in sorted((TOP / ".dev").glob("*.xml")):
        for case in ET.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname').split('.')[-1]}::{case.get('name')}"
            skip = case.find("skipped")
            if skip is not None:
                yield name, "skipped", skip.get("message", "")
            elif case.find("failure") is not None or case.find("error") is not None:
                yield name, "failed", ""
            else:
                yield name, "passed", ""


def requirements():
    """Id -> verdict: "met", "partly: …" or "not yet"."""
    text = (TOP / "docs/requirements.md").read_text()
    return dict(re.findall(r"^\| ([A-Z]{3}-\d+) \| .* \| ([^|]*) \|$", text, re.M))


def requirement_of(test):
    """The id that a test's name begins with, or None."""
    m = ID.match(test)
    return f"{m[1].upper()}-{m[2]}" if m else None


def print_matrix(results):
    by_id = defaultdict(list)
    for name, state, _ in results:
        by_id[requirement_of(name.split("::")[-1])].append((name, state))
    for rid, verdict in requirements().items():
        tests = by_id.get(rid, [])
        counts = {s: sum(1 for _, t in tests if t == s) for s in ("passed", "failed", "skipped")}
        print(
            f"{rid:8} {verdict.split(':')[0]:8} {len(tests):4} tests  "
            + "  ".join(f"{v} {k}" for k, v in counts.items() if v)
        )
        for name, state in tests:
            print(f"           {state:8} {name}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--matrix", action="store_true")
    args = ap.parse_args()
    results = list(unit_results()) + list(pytest_results())
    allowed = [
        line.split("\t")[0]
        for line in (TOP / "tests/allowed_skips").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    if args.matrix:
        print_matrix(results)
    status = 0
    for name, state, why in results:
        if state == "failed":
            print(f"FAILED  {name} {why}")
            status = 1
        elif state == "skipped":
            ok = any(fnmatch.fnmatch(name, a) for a in allowed)
            print(f"skipped {name}: {why}{'' if ok else '  (not an allowed skip)'}")
            status |= 0 if ok else 1
    n = {s: sum(1 for r in results if r[1] == s) for s in ("passed", "failed", "skipped")}
    print(f"{n['passed']} passed, {n['failed']} failed, {n['skipped']} skipped")
    if not results:
        print("no test ran")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
