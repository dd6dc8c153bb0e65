# SPDX-License-Identifier: Apache-2.0
"""Output of any size: truncation, paging, binary bytes, after a time-out and a restart."""

import base64
import hashlib
import os

import harness


def read_all(session, cid, stream="stdout", limit=10000):
    data, offset, pages = b"", 0, 0
    while True:
        p = session.output(cid, stream, offset, limit)
        part = p["data"].encode() if p["encoding"] == "text" else base64.b64decode(p["data"])
        assert p["next_offset"] == offset + len(part) and p["offset"] == offset
        data += part
        pages += 1
        offset = p["next_offset"]
        if not p["has_more"]:
            return data, pages, p


def test_exe_3_truncation_and_totals(session):
    r = session.exec("seq", "1", "100000")["result"]
    expected = "".join(f"{i}\n" for i in range(1, 100001)).encode()
    assert r["stdout"].encode() == expected[:10000] and r["stdout_truncated"] is True
    assert r["stdout_total_bytes"] == len(expected) and r["stdout_total_lines"] == 100000
    assert r["pagination"]["current_offset"] == 0 and r["pagination"]["current_limit"] == 10000
    assert r["pagination"]["has_more"] is True
    cid = session.get("/commands")["commands"][-1]["command_id"]
    assert r["pagination"]["next_command"] == f"agentsh output {cid} --offset=10000 --limit=10000"
    data, _, last = read_all(session, cid)
    assert data == expected and last["complete"] is True and last["total_lines"] == 100000


def test_exe_3_exactly_at_the_limit(session):
    for n, cut in ((9999, False), (10000, False), (10001, True)):
        r = session.exec("head", "-c", str(n), "/dev/zero", max_output_bytes=10000)["result"]
        assert r["stdout_truncated"] is cut and r["stdout_total_bytes"] == n, n
        assert r["pagination"]["has_more"] is cut
    r = session.exec("echo", "hi", max_output_bytes=0)["result"]
    assert r["stdout"] == "" and r["stdout_truncated"] is True and r["stdout_total_bytes"] == 3


def test_exe_3_text_is_cut_at_a_character(session):
    r = session.exec(script="for i in 1 2 3 4 5; do printf 'äöü'; done", max_output_bytes=7)["result"]
    assert r["stdout"] == "äöü" and r["stdout_encoding"] == "text" and r["stdout_truncated"]
    cid = session.get("/commands")["commands"][-1]["command_id"]
    data, pages, _ = read_all(session, cid, limit=3)
    assert data.decode() == "äöü" * 5
    data, _, _ = read_all(session, cid, limit=1)  # even smaller than a character: paging ends
    assert data.decode() == "äöü" * 5


def test_exe_3_binary_is_safe(session):
    r = session.exec(script="head -c 30000 /dev/urandom | tee copy")
    expected = (session.workspace / "copy").read_bytes()
    assert r["result"]["stdout_encoding"] == "base64"
    assert base64.b64decode(r["result"]["stdout"]) == expected[:10000]
    assert read_all(session, r["command_id"])[0] == expected


def test_exe_3_beyond_the_end(session):
    r = session.exec("echo", "hi")
    p = session.output(r["command_id"], offset=1000)
    assert p["data"] == "" and p["has_more"] is False and p["complete"] is True and p["total_bytes"] == 3


def test_exe_3_last_line_without_newline_counts(session):
    assert session.exec("printf", "a\\nb")["result"]["stdout_total_lines"] == 2
    assert session.exec("printf", "a\\n")["result"]["stdout_total_lines"] == 1
    assert session.exec("printf", "")["result"]["stdout_total_lines"] == 0


def test_exe_3_bad_parameters(server, session):
    cid = session.exec("true")["command_id"]
    for query in ("stream=both", "offset=-1", "offset=x", "limit=0", "limit=99999999999", "surprise=1"):
        a = server.get(f"{session.path}/output/{cid}?{query}")
        assert (a.status, a.code) == (400, "E_BAD_REQUEST"), query
    assert server.get(f"{session.path}/output/cmd-none").status == 404


def test_exe_3_partial_output_after_a_timeout(session):
    r = session.exec(script="seq 1 50000; sleep 100", timeout="1s")
    assert r["result"]["exit_code"] == 124
    data, _, last = read_all(session, r["command_id"], limit=100000)
    assert data == "".join(f"{i}\n" for i in range(1, 50001)).encode() and last["complete"]


def test_exe_3_while_it_runs(session):
    c = session.exec(script="echo first; sleep 1000", detach=True, status=202)
    harness.wait_for(lambda: session.output(c["command_id"])["data"], "the first line")
    p = session.output(c["command_id"])
    assert p["data"] == "first\n" and p["complete"] is False


def test_exe_3_not_readable_through_another_session(server, session):
    r = session.exec("echo", "secret")
    other = server.session()
    a = server.get(f"{other.path}/output/{r['command_id']}")
    assert (a.status, a.code) == (404, "E_NOT_FOUND")
    other.destroy()


def test_exe_3_100_mb_in_bounded_memory(root_server):
    session = root_server.session()
    r = session.exec(script="head -c 100000000 /dev/zero | tr '\\0' 'x'")
    assert r["result"]["stdout_total_bytes"] == 100_000_000 and len(r["result"]["stdout"]) == 10000
    api = root_server.api_pid()
    wardens = root_server.warden_pids()
    for pid in [api, *wardens]:
        peak = int(harness.status_of(pid)["VmHWM"].split()[0])
        assert peak < 300_000, (pid, peak)  # kB; sanitizers included
    p = session.output(r["command_id"], offset=99_999_990)
    assert p["data"] == "x" * 10 and p["has_more"] is False
    session.destroy()


def test_exe_3_quota(new_server):
    s = new_server(config={"output": {"command_quota": 1000000}})
    session = s.session()
    r = session.exec(script="head -c 3000000 /dev/zero")
    assert r["result"]["stdout_total_bytes"] == 3000000
    data, _, last = read_all(session, r["command_id"], limit=100000)
    assert len(data) == 1000000 and last["complete"] is True and last["has_more"] is False


def test_exe_3_output_outlives_the_session(server):
    s = server.session()
    r = s.exec(script="seq 1 3000")
    s.destroy()
    data, _, _ = read_all(s, r["command_id"])
    assert (
        hashlib.sha256(data).digest() == hashlib.sha256("".join(f"{i}\n" for i in range(1, 3001)).encode()).digest()
    )


def test_exe_3_a_damaged_output_file_is_an_error(server):
    """Output that cannot be read is never told as an empty output."""
    session = server.session()
    wanted = {"script": "seq 1 3000", "headers": {"Idempotency-Key": session.id}}
    cid = session.exec(**wanted)["command_id"]
    url = f"{session.path}/output/{cid}"
    (file,) = (f for f in (server.state / "output" / session.id).glob("*.out") if f.stat().st_size == 13893)

    def check(status, code, message):
        a = server.get(url)
        assert (a.status, a.code) == (status, code) and message in a.json["error"]["message"], a.body
        r = session.exec(**wanted)["result"]
        assert r["exit_code"] == 0 and r["stdout"] == "" and r["stdout_total_bytes"] == 13893
        return r["error"]

    os.truncate(file, 100)
    told = "the output's file is damaged: it ends at byte 100, and 13893 bytes were written to it"
    error = check(500, "E_INTERNAL", told)
    assert error["code"] == "E_INTERNAL" and told in error["message"]
    file.rename(file.with_suffix(".away"))
    assert check(404, "E_NOT_FOUND", "kept no longer") is None
    file.mkdir(0o755)  # can be opened, and every read fails
    error = check(500, "E_INTERNAL", "cannot read the output: Is a directory")
    assert error["code"] == "E_INTERNAL" and "cannot read the output" in error["message"]
    file.rmdir()
    file.symlink_to("/dev/null")  # cannot be opened
    assert check(500, "E_INTERNAL", "cannot open the output")["code"] == "E_INTERNAL"
    session.destroy()
