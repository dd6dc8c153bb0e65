# SPDX-License-Identifier: Apache-2.0
"""Runs inside a guest: the way from a server's start to a command's answer and back after a restart.

What a guest refuses is as much an expectation as what it runs: the table is the statement of today."""

import json
import os
from pathlib import Path

import harness
import pytest

GUEST = os.environ["AGENTSH_GUEST"]
RESULTS = Path("/results")
UIDS = {"root": 0, "user": harness.USER_UID}
# What a guest lacks: (guest, server) -> the subject of the refusal.
REFUSED = {
    ("no-userns", "root"): "uid",  # the workspace's idmapped mount needs a user namespace
    ("no-userns", "user"): "user_namespace",
    ("no-fuse", "root"): "file_rules",  # the policy `default` has rules that only a file server enforces
    ("no-fuse", "user"): "file_rules",
}
# A refusal that the configuration may lift: (guest, server) -> sandbox.allow_unenforced.
LIFTED = {
    ("no-userns", "root"): ["uid"],
    ("no-fuse", "root"): ["file_rules"],
    ("no-fuse", "user"): ["file_rules"],
}
# Walls that are up wherever a session starts.
ALWAYS = {
    "mount_namespace",
    "pid_namespace",
    "ipc_namespace",
    "uts_namespace",
    "capabilities",
    "no_new_privs",
    "env_filter",
}


def walls(record):
    return {w["wall"]: w["state"] for w in record["enforcement"]}


def spine(server, kind):
    """Session, command, answer, shell state; a killed server and its successor; the same session still."""
    s = server.session()
    (RESULTS / f"walls-{kind}.json").write_text(json.dumps(s.record["enforcement"]))
    up = {name for name, state in walls(s.record).items() if state == "up"}
    assert up >= ALWAYS
    assert s.out("echo $((6 * 7)); export KEPT=1; cd /tmp") == "42\n"
    (s.workspace / "given").write_text("from outside\n")
    assert s.exec("cat", "/workspace/given")["result"]["stdout"] == "from outside\n"
    s.out("echo made > /workspace/made")
    assert (s.workspace / "made").stat().st_uid == server.uid
    api = server.api_pid()
    server.process.kill()
    server.process.wait()
    harness.wait_for(lambda: not harness.alive(api), "the API child ends with its launcher")
    server.start()
    assert s.out('echo "$KEPT $PWD"') == "1 /tmp\n"
    assert walls(s.get()) == walls(s.record)
    s.destroy()
    harness.wait_for(lambda: not server.warden_pids(), "the warden ends")


@pytest.mark.parametrize("kind", UIDS)
def test_dep_2_spine(new_server, kind):
    server = new_server(uid=UIDS[kind])
    refusal = REFUSED.get((GUEST, kind))
    if refusal is None:
        spine(server, kind)
        return
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace())})
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", refusal), a.body
    (RESULTS / f"refused-{kind}.json").write_text(json.dumps(a.json["error"]))
    assert not server.warden_pids()
    if (GUEST, kind) in LIFTED:
        unenforced = {"sandbox": {"allow_unenforced": LIFTED[GUEST, kind]}}
        spine(new_server(uid=UIDS[kind], config=unenforced), kind)
