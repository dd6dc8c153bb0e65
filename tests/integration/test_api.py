# SPDX-License-Identifier: Apache-2.0
"""The HTTP surface: strict parsing, errors of one shape, health, methods, limits."""

import json
import socket

import pytest


def raw(server, data, timeout=10):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(str(server.socket))
    s.sendall(data)
    out = b""
    try:
        while more := s.recv(65536):
            out += more
    except TimeoutError:
        pass
    s.close()
    return out


GOOD = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
POST = b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\n"
BAD = {
    "bare LF": (b"GET /health HTTP/1.1\nHost: x\n\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "space before colon": (b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "folded header": (b"GET /health HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
    "NUL": (b"GET /health HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
    "control byte": (b"GET /health HTTP/1.1\r\nHost: x\r\nA: b\x01c\r\n\r\n", 400),
    "bad version": (b"GET /health HTTP/3.0\r\nHost: x\r\n\r\n", 505),
    "no version": (b"GET /health\r\nHost: x\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "list of lengths": (POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    "negative length": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "plus length": (POST + b"Content-Length: +2\r\n\r\n{}", 400),
    "hex length": (POST + b"Content-Length: 0x2\r\n\r\n{}", 400),
    "length and chunked": (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "xchunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "gzip, chunked": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "chunked twice": (
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    "chunked in 1.0": (b"POST /x HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bad chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400),
    "huge chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400),
    "chunk without end": (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n", 400),
    "bad escape": (b"GET /api/v1/sessions/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "slash escape": (b"GET /api%2fv1/sessions HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "NUL escape": (b"GET /api/v1/sessions/%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "bad method": (b"G@T /health HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "target without slash": (b"GET health HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "long target": (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "large header": (b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 200000 + b"\r\n\r\n", 431),
    "many headers": (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 1000 + b"\r\n", 431),
    "body too large": (POST + b"Content-Length: 99999999999\r\n\r\n", 413),
    "strange expectation": (POST + b"Expect: a pony\r\nContent-Length: 2\r\n\r\n{}", 417),
}


def first_status(answer):
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("name", BAD)
def test_api_1_bad_framing_is_refused(root_server, name):
    data, status = BAD[name]
    answer = raw(root_server, data)
    assert first_status(answer) == status, answer[:200]
    head, body = answer.split(b"\r\n\r\n", 1)
    assert json.loads(body)["error"]["code"] in ("E_BAD_REQUEST", "E_TOO_LARGE")
    assert b"connection: close" in head.lower()


@pytest.mark.parametrize("name", BAD)
def test_api_1_bad_framing_behind_a_good_request(root_server, name):
    data, status = BAD[name]
    alone = raw(root_server, LAST).split(b"\r\n\r\n", 1)[1]
    answer = raw(root_server, GOOD + data)
    assert first_status(answer) == 200
    head, rest = answer.split(b"\r\n\r\n", 1)
    assert rest[: len(alone)] == alone  # the first answer does not change
    assert first_status(rest[len(alone) :]) == status
    assert (
        answer.count(b"HTTP/1.1 200") == 1 and answer.count(b"\r\nDate: ") == 2
    )  # and nothing behind the bad one is answered


def test_api_1_pipelining_and_keep_alive(root_server):
    answer = raw(root_server, GOOD + GOOD + LAST)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert raw(
        root_server, POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    ).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"{} {}", b'{"a":1,"a":2}', b"{'a':1}", b'{"workspace":"\xff"}',
        b'{"workspace":"\\u0000"}', b"[" * 100000, b'{"a":' * 200 + b"1" + b"}" * 200, b"NaN", b'{"a":1e999}',
    ],
)  # fmt: skip
def test_api_1_bad_json(root_server, body):
    a = root_server.post("/api/v1/sessions", body, headers={"Content-Type": "application/json"})
    assert (a.status, a.code) == (400, "E_BAD_REQUEST"), a.body


def test_api_1_wrong_content_type(root_server):
    for kind in ("text/plain", "application/jsonx"):
        a = root_server.post("/api/v1/sessions", b"{}", headers={"Content-Type": kind})
        assert (a.status, a.code) == (400, "E_BAD_REQUEST"), kind


def test_api_1_unknown_paths_and_methods(root_server):
    for path in (
        "/",
        "/nope",
        "/api/v1",
        "/api/v2/sessions",
        "/api/v1/sessions/",
        "/api/v1/sessions/x/y",
        "//health",
    ):
        a = root_server.get(path)
        assert (a.status, a.code) == (404, "E_NOT_FOUND") or a.code == "E_SESSION_NOT_FOUND", path
    a = root_server.call("PUT", "/api/v1/sessions", {})
    assert a.status == 405 and set(a.headers["Allow"].split(", ")) == {"POST", "GET"}
    a = root_server.call("HEAD", "/health")
    assert a.status == 200 and a.body == b""


def test_api_1_health_ready_request_id(root_server):
    a = root_server.get("/health")
    assert a.json["status"] == "ok" and a.json["version"]
    assert root_server.get("/ready").json["ready"] is True
    a = root_server.get("/health", headers={"X-Request-Id": "mine-1"})
    assert a.headers["X-Request-Id"] == "mine-1"
    a = root_server.get("/metrics", headers={"X-Request-Id": "mine-2"})
    assert a.headers["X-Request-Id"] == "mine-2"
    a = root_server.get("/api/v1/sessions/none", headers={"X-Request-Id": "mine-2"})
    assert a.json["error"]["request_id"] == "mine-2"


@pytest.mark.parametrize(
    "call, subject",
    [
        (("GET", "/api/v1/sessions/none"), "none"),
        (("GET", "/api/v1/sessions?limit=x"), "limit"),
        (("GET", "/api/v1/sessions/" + "x" * 65), "x" * 61 + "…"),
        (("POST", "/api/v1/sessions", b"[]"), "/api/v1/sessions"),
        (("POST", "/api/v1/sessions", {"timeout": "abc", "colour": 1}), "timeout"),
        (("GET", "/nope"), "/nope"),
    ],
)
def test_api_1_an_error_says_what_it_is_about(root_server, call, subject):
    error = root_server.call(*call).json["error"]
    assert error["subject"] == subject and error["message"] and error["request_id"]


def test_api_1_slow_clients_do_not_hold_others(root_server):
    slow = []
    for _ in range(20):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(root_server.socket))
        s.sendall(b"GET /health HT")
        slow.append(s)
    assert root_server.get("/health").status == 200
    for s in slow:
        s.close()


def test_api_1_expect_continue(root_server):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect(str(root_server.socket))
    s.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
    assert s.recv(100).startswith(b"HTTP/1.1 100")
    s.sendall(b"{}")
    assert s.recv(100).startswith(b"HTTP/1.1 400")
    s.close()
