# SPDX-License-Identifier: Apache-2.0
"""Shows that the unit tests reach every place where the HTTP and JSON layers refuse something.

usage: tools/reject_coverage.py BUILD_DIR

BUILD_DIR was made with -Dcoverage=true and has its unit tests built. They are run from zero counters; then each line of
the files below that refuses must have been executed. The exit status is 1 if one was not, or if an exclusion is stale."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
FILES = [
    *sorted(TOP.glob("src/wire/http*.c")),
    *sorted(TOP.glob("src/base/json*.c")),
    TOP / "src/model/request.c",
    *(
        TOP / f"src/api/{name}.c"
        for name in ("auth", "call_http", "dispatch", "command_api", "exec_api", "session_api", "event_api")
    ),
]
FILES = [f for f in FILES if not f.name.endswith("_test.c")]
TESTS = ("unit-wire-", "unit-base-json", "unit-model-request", "unit-api-")
# What a refusal looks like in these files. A reason is a string that a function returns for its caller to refuse with.
REFUSES = re.compile(
    r"\breject\(|\bhttp_refuse\(|\berr_set\(|\berr_errno\(|\berr_detail\(|\brange_error\(|\bdepth_error\("
    r"|\berr_from_details\(|\bcall_fail\(|\brefuse_path\(|\breturn -1;"
)
REASONS = re.compile(r'\breturn "')
REASON_FILES = {"http_parser.c"}
# (file, part of the line or of the one before it) -> why no request reaches it.
EXCLUDED = {
    ("auth.c", "cannot tell who is connected"): "SO_PEERCRED cannot fail on a connected unix socket",
    ("event_api.c", "if (store_query(call->api->store"): "only a broken database refuses this query",
    ("http_server.c", "cannot watch descriptor"): "no request: epoll_ctl fails for want of memory",
}


def refusals(path):
    """Numbers and texts of the lines that refuse, each with the line before it; definitions do not refuse."""
    pattern = re.compile(f"{REFUSES.pattern}|{REASONS.pattern}") if path.name in REASON_FILES else REFUSES
    before = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if pattern.search(line) and re.match(r"\s", line) and not line.strip().startswith(("*", "/*")):
            yield number, line.strip(), f"{before} {line}"
        before = line


def run_tests(build):
    for counters in build.rglob("*.gcda"):
        counters.unlink()
    tests = sorted(t for t in build.glob("unit-*") if t.is_file() and t.name.startswith(TESTS))
    if len(tests) < 20:
        sys.exit(f"reject_coverage.py: only {len(tests)} tests are built in {build}")

    def run(test):
        return test.name, subprocess.run([test], capture_output=True, timeout=300).returncode

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [name for name, status in pool.map(run, tests) if status != 0]
    if failed:
        sys.exit(f"reject_coverage.py: failed: {' '.join(failed)}")


def executed(build):
    """{file: {line: times}}"""
    counts = {}
    data = [p for p in build.glob("libagentsh_*.a.p/*.gcda") if "_static" not in p.parent.name]
    out = subprocess.run(["gcov", "--json-format", "--stdout", *data], capture_output=True, check=True, cwd=build)
    for document in out.stdout.splitlines():
        for source in json.loads(document)["files"]:
            lines = counts.setdefault((build / source["file"]).resolve(), {})
            for line in source["lines"]:
                lines[line["line_number"]] = max(lines.get(line["line_number"], 0), line["count"])
    return counts


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    run_tests(build)
    counts, missed, used, total = executed(build), [], set(), 0
    for path in FILES:
        lines = counts.get(path, {})
        for number, text, both in refusals(path):
            # A statement over several lines may be counted at a later one.
            at = next((n for n in range(number, number + 3) if n in lines), None)
            total += 1
            if at is not None and lines[at] > 0:
                continue
            excluded = [key for key in EXCLUDED if key[0] == path.name and key[1] in both]
            used.update(excluded)
            if not excluded:
                missed.append(f"{path.relative_to(TOP)}:{number}: {text}")
    stale = [f"excluded, but reached or gone: {name}: {text}" for name, text in EXCLUDED.keys() - used]
    print(
        "\n".join(
            missed
            + stale
            + [f"{total - len(missed) - len(used)} of {total} places that refuse are reached, {len(used)} excluded"]
        )
    )
    return 1 if missed or stale else 0


if __name__ == "__main__":
    sys.exit(main())
