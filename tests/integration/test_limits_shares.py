# SPDX-License-Identifier: Apache-2.0
"""Memory as a share of the machine, and the limits that a request has since all are rows of one table."""

import os
from pathlib import Path

import pytest
from cgroups import CGROUP, control_file, narrow, needs_cgroups, walls
from harness import USER_UID


def machine_mb():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def limits_of(session):
    return session.get()["config"]["resource_limits"]


@needs_cgroups
def test_sbx_4_a_share_is_a_number_in_the_record_and_in_the_kernel(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": "50%"})
    mb = limits_of(s)["max_memory_mb"]
    # the server's own group may have less than the machine
    assert 0 < mb <= machine_mb() // 2 and s.record["capped"] == []
    assert f"{mb} MB" in walls(s)["memory_limit"]["detail"]
    v1, v2 = (control_file(root_server, s, name) for name in ("memory.limit_in_bytes", "memory.max"))
    assert int(v1 or v2) == mb << 20
    # half of a session's memory is that of a smaller one
    assert narrow(root_server, s, max_memory_mb="25%").status == 200
    assert limits_of(s)["max_memory_mb"] in (mb // 2, mb // 2 + 1)
    a = root_server.call("PATCH", s.path, {"resource_limits": {"max_memory_mb": "90%"}})
    assert a.status == 200 and a.json["capped"] == ["resource_limits.max_memory_mb"]
    s.destroy()


@needs_cgroups
def test_sbx_4_a_share_is_of_the_servers_group_where_that_is_smaller(new_server):
    server = new_server(start=False, config={"sandbox": {"cgroup_parent": "/agentsh-share-test"}})
    v1, v2 = Path(CGROUP, "memory/agentsh-share-test"), Path(CGROUP, "agentsh-share-test")
    group = v1 if v1.parent.is_dir() else v2
    group.mkdir(exist_ok=True)
    try:
        Path(group, "memory.limit_in_bytes" if group == v1 else "memory.max").write_text(str(400 << 20))
        server.start()
        s = server.session(resource_limits={"max_memory_mb": "75%"})
        assert limits_of(s)["max_memory_mb"] == 300
        server.stop()
    finally:
        for d in (group / "agentsh", group):
            if d.is_dir():
                d.rmdir()


def test_sbx_4_a_share_is_wished_for_and_a_number_is_required(new_server):
    server = new_server(uid=USER_UID)
    s = server.session(resource_limits={"max_memory_mb": "50%"})
    if walls(s)["memory_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    assert walls(s)["memory_limit"]["state"] == "unavailable"
    assert limits_of(s)["max_memory_mb"] == machine_mb() // 2
    assert s.out("echo runs") == "runs\n"
    a = server.call("PATCH", s.path, {"resource_limits": {"max_memory_mb": "25%"}})
    assert a.status == 200 and limits_of(s)["max_memory_mb"] == machine_mb() // 4
    body = {"workspace": str(server.workspace()), "resource_limits": {"max_memory_mb": 512}}
    assert server.post("/api/v1/sessions", body).code == "E_ENFORCEMENT"


@needs_cgroups
def test_sbx_4_a_share_of_the_configuration(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_memory_mb": "20%"}}})
    s = server.session(resource_limits={"max_memory_mb": machine_mb()})
    assert 0 < limits_of(s)["max_memory_mb"] <= machine_mb() // 5
    assert s.record["capped"] == ["resource_limits.max_memory_mb"]


def test_sbx_4_what_is_not_a_share_is_refused(server):
    for wrong in ("101%", "0%", "half", "512"):
        body = {"workspace": str(server.workspace()), "resource_limits": {"max_memory_mb": wrong}}
        a = server.post("/api/v1/sessions", body)
        assert a.status == 400 and a.json["error"]["details"][0]["field"] == "resource_limits.max_memory_mb"


@needs_cgroups
def test_sbx_4_swap_of_a_request(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"memory_swap_max_mb": 50}}})
    body = {"workspace": str(server.workspace()), "resource_limits": {"max_memory_mb": 200, "memory_swap_max_mb": 9}}
    a = server.post("/api/v1/sessions", body)
    if a.status == 503:  # the kernel does not account swap: then it is not promised
        assert a.json["error"]["subject"] == "memory_limit" and "swap is not limited" in a.json["error"]["message"]
        return
    assert a.json["config"]["resource_limits"]["memory_swap_max_mb"] == 9 and a.json["capped"] == []
    (wall,) = (w for w in a.json["enforcement"] if w["wall"] == "memory_limit")
    assert "200 MB, swap 9 MB" in wall["detail"]
    # without one of its own it has the server's, and more is capped
    s = server.session(resource_limits={"max_memory_mb": 200})
    assert limits_of(s)["memory_swap_max_mb"] == 50
    s = server.session(resource_limits={"max_memory_mb": 200, "memory_swap_max_mb": 51})
    assert limits_of(s)["memory_swap_max_mb"] == 50 and s.record["capped"] == ["resource_limits.memory_swap_max_mb"]
    assert narrow(server, s, memory_swap_max_mb=0).status == 200
    assert "swap 0 MB" in {w["wall"]: w for w in s.get()["enforcement"]}["memory_limit"]["detail"]


@needs_cgroups
def test_sbx_4_cpu_period_of_a_request(root_server):
    s = root_server.session(resource_limits={"max_cpu_percent": 50, "cpu_period_us": 20000})
    v1, v2 = (control_file(root_server, s, name) for name in ("cpu.cfs_period_us", "cpu.max"))
    assert v1 == "20000\n" or v2 == "10000 20000\n"
    assert narrow(root_server, s, cpu_period_us=10000).status == 200
    v1, v2 = (control_file(root_server, s, name) for name in ("cpu.cfs_quota_us", "cpu.max"))
    assert v1 == "5000\n" or v2 == "5000 10000\n"
    assert limits_of(s)["cpu_period_us"] == 10000
    s.destroy()


def test_net_8_bandwidth_is_refused_until_it_is_enforced(server):
    body = {"workspace": str(server.workspace()), "resource_limits": {"net_bandwidth_mbps": 100}}
    a = server.post("/api/v1/sessions", body)
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "network_limit")
    assert "net_bandwidth_mbps: nothing enforces this limit yet; leave it out" in a.json["error"]["message"]
    s = server.session()
    a = server.call("PATCH", s.path, {"resource_limits": {"net_bandwidth_mbps": 100}})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT")
    s.destroy()
