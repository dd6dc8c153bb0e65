# SPDX-License-Identifier: Apache-2.0
"""Connections are shared out: one client cannot hold all of them."""

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import resource
import select
import socket
import termios

import harness
import pytest

HALF = b"GET /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
OTHER_UID = 1001


@contextlib.contextmanager
def as_uid(uid):
    """The kernel notes who connects."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def connect_as(server, uid):
    c = server.connect()
    with as_uid(uid):
        c.connect()
    return c


def half_sent(server, uid, n):
    out = []
    for _ in range(n):
        c = connect_as(server, uid)
        with contextlib.suppress(BrokenPipeError):  # a refused one may be closed already; its answer can be read
            c.sock.sendall(HALF)
        out.append(c)
    return out


def is_taken(connection):
    """Whether the server has read everything that was sent."""
    return fcntl.ioctl(connection.sock, termios.TIOCOUTQ, b"\0" * 4) == b"\0" * 4


def answer_of(connection):
    """All bytes to the end, which must be an end and not a reset."""
    data = b""
    while more := connection.sock.recv(65536):
        data += more
    return data


def is_refusal(data):
    head, body = data.split(b"\r\n\r\n", 1)
    error = json.loads(body)["error"]
    return head.startswith(b"HTTP/1.1 503 ") and error["code"] == "E_UNAVAILABLE" and error["request_id"]


def readable(connections):
    poll = select.poll()
    by_fd = {c.sock.fileno(): c for c in connections}
    for fd in by_fd:
        poll.register(fd, 1)
    return [by_fd[fd] for fd, _ in poll.poll(0)]


@pytest.fixture(autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def close(connections):
    for c in connections:
        c.close()


def test_api_1_one_user_cannot_hold_all_connections(new_server):
    harness.ensure_user()
    s = new_server()
    held = half_sent(s, harness.USER_UID, 1024)
    for _ in range(200):
        assert s.get("/api/v1/sessions").status == 200
    refused = harness.wait_for(lambda: len(r := readable(held)) >= 768 and r, "those over the share are told")
    assert len(refused) == 768
    assert all(is_refusal(answer_of(c)) for c in refused)
    a = s.get("/api/v1/sessions", connection=connect_as(s, harness.USER_UID))
    assert (a.status, a.code) == (503, "E_UNAVAILABLE")
    assert s.get("/api/v1/sessions", connection=connect_as(s, OTHER_UID)).status == 200
    close(held)
    harness.wait_for(
        lambda: s.get("/api/v1/sessions", connection=connect_as(s, harness.USER_UID)).status == 200, "room again"
    )


def test_api_1_a_full_server_closes_the_oldest_unfinished_request_of_who_has_most(new_server):
    """64 connections: 16 for each user, and 16 that only root gets."""
    s = new_server(config={"server": {"max_connections": 64}})
    (oldest,) = half_sent(s, 2001, 1)
    # A server that is slow reads the bytes of connections that wait for accept before those of this one.
    harness.wait_for(lambda: is_taken(oldest), "the server has the oldest request")
    held = {uid: half_sent(s, uid, 16 - (uid == 2001)) for uid in (2001, 2002, 2003)}
    held[2001][0].sock.sendall(b"\r\n")  # this one is finished and answered
    assert b"200 OK" in held[2001][0].sock.recv(65536)
    held[2002].pop().close()  # so that another user has the most
    assert not readable([oldest])  # nothing has been closed yet
    newcomer = connect_as(s, 2004)
    assert s.get("/api/v1/sessions", connection=newcomer).status == 200
    more = half_sent(s, 2004, 1)
    everyone = [oldest, *(c for uid in held for c in held[uid])]
    closed = harness.wait_for(lambda: readable(everyone), "one is closed for it")
    assert closed == [oldest] and is_refusal(answer_of(oldest))
    # Last, as a half request is answered with 408 after 10 s: the connections that are kept for root.
    for _ in range(50):
        assert s.get("/api/v1/sessions").status == 200
    close([newcomer, *more, *everyone])


def test_api_1_a_tcp_client_with_a_key_gets_through_those_without(new_server):
    key = {"id": "k", "agent_id": "me", "role": "agent", "uid": 1000, "sha256": hashlib.sha256(b"s").hexdigest()}
    s = new_server(keys=[key], config={"server": {"http_addr": "127.0.0.1:0", "max_connections": 64}})
    port = int(s.ready_line.rsplit(":", 1)[1])
    idle = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(40)]
    for c in idle:
        with contextlib.suppress(OSError):
            c.sendall(HALF)
    served = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(20)]
    for c in served:  # these stay open between two requests
        assert s.get("/health", connection=c).status == 200
    for _ in range(20):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        assert s.get("/api/v1/sessions", connection=c, key="s").status == 200
        c.close()
    close(served)
    for c in idle:
        c.close()
    mine = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(17)]
    answers = [s.get("/api/v1/sessions", connection=c, key="s") for c in mine]
    assert [a.status for a in answers] == [200] * 16 + [503]
    assert answers[-1].code == "E_UNAVAILABLE" and answers[-1].headers["Connection"] == "close"
    close(mine)
