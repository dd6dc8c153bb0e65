# SPDX-License-Identifier: Apache-2.0
"""A policy and servers that use it, for the tests of policies in a running server."""

import os

import harness
import pytest

POLICY = """\
version: 1
name: {name}
description: For tests.
default: {{files: {files}, network: deny, commands: allow}}
command_rules:
  - {{name: no-id, commands: [id], decision: deny, final: true, message: "{message}"}}
  - {{name: ask-whoami, commands: [whoami], decision: approve, message: "wants {{path}}"}}
network_rules:
  - {{name: mirror, domains: [mirror.example, "*.mirror.example"], ports: [443, 8000-8010], decision: allow}}
resource_limits:
  max_memory_mb: 512
  max_cpu_percent: 90
  max_disk_mb: 100
  max_network_mb: 50
  pids_max: 200
  io_read_bps_max: 50000000
  io_write_bps_max: 40000000
  command_timeout: 1m
  session_timeout: 1h
  idle_timeout: 10m
  max_commands: 50
  max_file_ops: 1000
  max_net_ops: 100
environment: {{allow: [LANG, "APP_*"], deny: [APP_SECRET]}}
"""
LIMITS = ["memory_limit", "cpu_limit", "pids_limit", "io_limit", "disk_limit", "network_limit"]


def write(directory, name="mine", files="allow", message="id is not for you: {path}", text=None):
    path = directory / f"{name}.yaml"
    path.write_text(text or POLICY.format(name=name, files=files, message=message))
    path.chmod(0o644)
    return path


@pytest.fixture
def policies(new_server):
    """Makes servers whose policies are in a directory of their own."""

    def factory(uid=0, config=None, start=True, **kw):
        s = new_server(uid=uid, config=config, start=False, **kw)
        s.policies = s.dir / "policies"
        s.policies.mkdir()
        s.policies.chmod(0o755)
        s.merge(s.config, {"policies": {"dir": str(s.policies)}, "sandbox": {"allow_unenforced": LIMITS}})
        write(s.policies)
        if uid:
            os.chown(s.policies, uid, uid)
        return s.start() if start else s

    return factory


@pytest.fixture(scope="module")
def shared(request):
    """One server for everything that changes nothing."""
    s = harness.Server(config={"sandbox": {"allow_unenforced": LIMITS}})
    s.policies = s.dir / "policies"
    s.policies.mkdir(mode=0o755)
    s.merge(s.config, {"policies": {"dir": str(s.policies)}})
    write(s.policies)
    try:
        s.start()
        yield s
        s.stop()
        s.check_log()
    finally:
        s.cleanup()


def denied(answer, rule, target):
    assert answer.status == 403, answer.body
    error = answer.json["error"]
    assert error["code"] == "E_POLICY_DENIED"
    policy = error["policy"]
    assert set(policy) - {"alternatives"} == {"rule", "reason", "operation", "target", "final"}
    assert policy.get("alternatives") != []  # real ones, or none at all
    assert (policy["rule"], policy["target"]) == (rule, target), policy
    assert policy["reason"] and policy["operation"]
    return policy
