# SPDX-License-Identifier: Apache-2.0
"""Programs of the session's own as arguments of ld.so, which opens them by name after the decision: ldd does that."""

import os
import shutil
import subprocess
from pathlib import Path

import harness
import pytest

RESTRICTS = """\
version: 1
name: restricts
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: no-id, commands: [id], decision: deny}
"""


def own_program(session, uid):
    path = session.workspace / "own"
    shutil.copy("/usr/bin/true", path)
    os.chown(path, uid, uid)
    return path


def loader_of(program):
    """The loader and the names of what it loads, as ldd tells outside."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return next(line.split()[0] for line in out.splitlines() if line.split()[0].startswith("/lib")), names(out)


def names(out):
    return [line.split()[0] for line in out.splitlines()]


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_exe_2_a_policy_that_denies_nothing_lets_the_loader_load_anything(new_server, uid):
    s = new_server(uid, harness.OBSERVE)
    session = s.session()
    loader, loaded = loader_of(own_program(session, uid))
    assert names(session.out("ldd ./own")) == loaded
    assert session.script(f"{loader} ./own")["result"]["exit_code"] == 0
    answer = session.exec(loader, "./own")
    assert answer["result"]["exit_code"] == 0 and answer["events"]["totals"]["blocked"] == 0


def test_pol_4_a_policy_that_denies_keeps_the_loader_from_what_can_change(new_server):
    s = new_server(start=False)
    policies = Path(s.dir, "policies")
    policies.mkdir(mode=0o755)
    (policies / "restricts.yaml").write_text(RESTRICTS)
    s.merge(s.config, {"policies": {"dir": str(policies)}})
    s.start()
    session = s.session(policy="restricts")
    loader, loaded = loader_of(own_program(session, 0))
    answer = session.script("ldd ./own")
    assert answer["result"]["exit_code"] != 0
    assert [e["policy"]["rule"] for e in answer["events"]["blocked_operations"]] == ["exec-control"]
    a = s.post(f"{session.path}/exec", {"command": loader, "args": ["./own"]})
    assert a.status == 403 and a.json["error"]["policy"]["rule"] == "exec-control"
    # a look runs nothing
    assert names(session.out(f"{loader} --list ./own")) == loaded
