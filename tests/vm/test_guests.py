# SPDX-License-Identifier: Apache-2.0
"""The spine on other hosts: each guest boots, runs the checks of inside/, and its answers about walls are shown."""

import json
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tools"))
import vm  # noqa: E402

LIMIT = 600  # seconds for the checks of one guest; an emulated one is slow
# AGENTSH_TEST_BPF=off or required: all checks in that way
WAY = f"AGENTSH_TEST_BPF={os.environ['AGENTSH_TEST_BPF']} " if "AGENTSH_TEST_BPF" in os.environ else ""
CHECKS = "python3 -m pytest -q -ra -o python_files='check_*.py' --junitxml=/results/junit.xml tests/vm/inside"
# uid 1000 in a cgroup that was given to it: it makes a child, gives it controllers, and goes there.
DELEGATED = """set -e
test "$(id -u)" = 1000
cd /sys/fs/cgroup/agentsh.service
echo "+memory +pids" > cgroup.subtree_control
mkdir child
echo 10 > child/pids.max
echo $$ > child/cgroup.procs
cat /proc/self/cgroup child/pids.max child/cgroup.controllers
! mkdir /sys/fs/cgroup/outside
"""


def boot(guest, script, **kw):
    why = vm.missing(guest)
    if why:
        pytest.skip(why)
    return vm.run(guest, script, **kw)


def count_results(guest, junit):
    """Leaves the guest's own results where the report of a run finds them, each with the guest's name."""
    path = TOP / f".dev/vm-{guest}.xml"
    path.unlink(missing_ok=True)
    if junit:
        tree = ET.fromstring(junit)
        for case in tree.iter("testcase"):
            case.set("name", f"{case.get('name')}@{guest}")
        path.write_bytes(ET.tostring(tree))


def describe(entries):
    states = {}
    for e in entries:
        states.setdefault(e["state"], []).append(e["wall"])
    return "; ".join(f"{state}: {' '.join(names)}" for state, names in sorted(states.items(), reverse=True))


@pytest.mark.parametrize("guest", vm.GUESTS)
def test_dep_2_guest(guest, guest_report):
    o = boot(guest, WAY + CHECKS, limit=LIMIT)
    count_results(guest, o.files.get("junit.xml"))
    for kind in ("root", "user"):
        who = f"{guest}, server of {kind}:"
        if f"refused-{kind}.json" in o.files:
            error = json.loads(o.files[f"refused-{kind}.json"])
            guest_report(f"{who} refused for {error['subject']}: {error['message']}")
        if f"walls-{kind}.json" in o.files:
            guest_report(f"{who} {describe(json.loads(o.files[f'walls-{kind}.json']))}")
    assert o.status == 0, o.explain()
    for kind in ("root", "user"):
        assert f"walls-{kind}.json" in o.files or f"refused-{kind}.json" in o.files, o.explain()


def test_sbx_4_delegated_cgroup():
    o = boot("debian-6.1", DELEGATED, user=True)
    assert o.status == 0, o.explain()
    assert o.output.splitlines()[:3] == ["0::/agentsh.service/child", "10", "memory pids"], o.explain()


def test_dep_2_time_limit():
    """A command that does not end is ended, and what it said before is there."""
    o = boot("debian-6.1", "echo before; sleep 1000", limit=2)
    assert o.status == 124 and o.output == "before\n", o.explain()
