# SPDX-License-Identifier: Apache-2.0
"""sandbox.bpf: the kernel verifies execs where it can be had, and nothing of it is left behind."""

import os

import harness
import pytest

import bpf

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_cfg_1_sandbox_bpf(new_server):
    server = new_server(config={"sandbox": {"bpf": "off"}})
    assert bpf.held(server.pid) == set()
    for value in ("auto", "required"):
        server = new_server(config={"sandbox": {"bpf": value}})
        assert sorted(kind for kind, _ in bpf.held(server.pid)) == ["link", "map", "prog"]
    server = new_server(start=False, config={"sandbox": {"bpf": "sometimes"}})
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) != 0
    assert "sandbox.bpf" in server.log_text()


def test_cfg_1_a_normal_users_server_cannot_require_bpf(new_server):
    server = new_server(uid=harness.USER_UID, start=False, config={"sandbox": {"bpf": "required"}})
    server.start(wait=False)
    assert server.process.wait(harness.DEADLINE) == 125
    assert "sandbox.bpf is 'required', and cannot be had: only root's server may load BPF" in server.log_text()
    server = new_server(uid=harness.USER_UID, config={"sandbox": {"bpf": "auto"}})
    assert "execs are verified by stops, not by BPF" in server.log_text()
    assert server.session().out("echo ran") == "ran\n"


def test_sbx_2_nothing_stays_loaded_when_the_server_ends(new_server):
    server = new_server(config={"sandbox": {"bpf": "required"}})
    held = bpf.held(server.pid)
    assert all(bpf.loaded(kind, number) for kind, number in held)
    server.stop()
    harness.wait_for(lambda: not any(bpf.loaded(*one) for one in held), "all is unloaded")
