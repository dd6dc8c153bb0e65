# SPDX-License-Identifier: Apache-2.0
"""What an agent gets from its operations on files: events, answers, counters, errors, limits."""

import harness
import pytest

FUSE = {"monitoring": {"mode": "fuse"}}


@pytest.fixture(params=["root", "user"])
def fuse_server(request, new_server):
    return new_server(uid=0 if request.param == "root" else harness.USER_UID, config=FUSE)


def operations(answer, kind="file_operations", **wanted):
    return [e for e in answer["events"][kind] if all(e.get(k) == v for k, v in wanted.items())]


def test_fil_2_an_event_has_its_file_and_its_command(fuse_server):
    s = fuse_server.session()
    a = s.script(
        "printf 'print(1)\\n' > a.py; cat a.py; mv a.py b.py; rm b.py; mkdir d; rmdir d; ln -s x l; readlink l"
    )
    assert a["result"]["exit_code"] == 0
    types = {e["type"] for e in a["events"]["file_operations"]}
    assert {
        "file_create",
        "file_write",
        "file_open",
        "file_read",
        "file_rename",
        "file_delete",
        "dir_create",
        "dir_delete",
        "symlink_create",
        "symlink_read",
    } <= types
    assert {e["command_id"] for e in a["events"]["file_operations"]} == {a["command_id"]}
    (write,) = operations(a, type="file_write", path="/workspace/a.py")
    assert write["real_path"] == f"{s.workspace}/a.py" and write["operation"]["bytes"] == 9
    assert write["decision"] == "allow" and write["pid"] > 0
    (made,) = operations(a, type="file_create")
    assert {"O_WRONLY", "O_CREAT", "O_TRUNC"} <= set(made["operation"]["flags"])
    (moved,) = operations(a, type="file_rename")
    assert moved["operation"]["to"] == "/workspace/b.py"
    record = s.get()
    assert record["total_file_ops"] >= len(a["events"]["file_operations"])
    assert record["total_bytes_written"] == 9
    assert write["metadata"] == {"file_type": "text/x-python", "file_size_before": 0, "file_size_after": 9}
    (read,) = operations(a, type="file_read", path="/workspace/a.py")
    assert read["operation"]["bytes"] == 9 and read["metadata"]["file_type"] == "text/x-python"
    a = s.script("head -c 3145728 /dev/zero > big; cat big > /dev/null; printf x >> big; printf xy > big")
    # a few blocks of the disk more: it writes more than the files' bytes
    assert [int(a["resources"][f"disk_{way}_mb"]) for way in ("write", "read")] == [3, 3]
    sizes = [
        tuple(e["metadata"][f"file_size_{w}"] for w in ("before", "after")) for e in operations(a, type="file_write")
    ]
    assert sizes == [(0, 3145728), (3145728, 3145729), (3145729, 2)]


@pytest.mark.parametrize(
    "make", ["echo x > new", "mkdir new", "ln -s x new", "mv old new", "ln old new", "mkfifo new", "cp old new"]
)
def test_exe_2_a_name_that_was_made_is_not_the_error(fuse_server, make):
    """The kernel looks for a name before it makes it."""
    s = fuse_server.session()
    (s.workspace / "old").write_text("x")
    (s.workspace / "old").chmod(0o644)
    harness.os.chown(s.workspace / "old", fuse_server.uid, fuse_server.uid)
    result = s.script(f"{make} && exit 7")["result"]
    assert (result["exit_code"], result["error"]) == (7, None)
    assert (
        s.script(f"cat missing; rm -rf new; touch old; {make}; exit 7")["result"]["error"]["path"]
        == "/workspace/missing"
    )


def test_exe_2_a_missing_file_is_the_error(fuse_server):
    s = fuse_server.session()
    (s.workspace / "missing-backup.txt").write_text("x")
    a = s.exec("cat", "missing.txt")
    error = a["result"]["error"]
    assert a["result"]["exit_code"] == 1
    assert (error["code"], error["path"]) == ("ENOENT", "/workspace/missing.txt")
    assert error["similar_files"] == ["/workspace/missing-backup.txt"]
    assert error["suggestions"][0]["command"] == "ls /workspace"
    assert s.exec("true")["result"]["error"] is None


def test_fil_2_every_operation_is_an_event_or_counted(fuse_server):
    s = fuse_server.session()
    a = s.script("i=0; while [ $i -lt 300 ]; do : > f$i; i=$((i+1)); done; rm f*")
    assert a["result"]["exit_code"] == 0
    found = fuse_server.get(f"/api/v1/sessions/{s.id}/history?type=file_create,file_delete&limit=1000").json["events"]
    for kind in ("file_create", "file_delete"):
        assert sum(e["count"] for e in found if e["type"] == kind) == 300
        assert len({e["path"] for e in found if e["type"] == kind}) == 300
    assert a["events"]["truncated"] and a["events"]["totals"]["file"] == s.get()["total_file_ops"]


def folded(new_server, **keys):
    """Counts of the events of 40 opens of one file."""
    s = new_server(config={**FUSE, "sandbox": {"fuse": keys}}).session()
    (s.workspace / "a").write_text("x")
    a = s.exec("perl", "-e", "for (1..40) { open F, '<', 'a' or die; close F }")
    assert a["result"]["exit_code"] == 0
    counts = [e["count"] for e in operations(a, type="file_open", path="/workspace/a")]
    assert sum(counts) == 40
    return counts


def test_cfg_1_sandbox_fuse_event_batch_size(new_server):
    assert max(folded(new_server, event_batch_size=10, event_batch_delay="1h")) == 10
    assert set(folded(new_server, event_batch_size=1, event_batch_delay="1h")) == {1}


def test_cfg_1_sandbox_fuse_event_batch_delay(new_server):
    assert folded(new_server, event_batch_delay="1h") == [1, 39]
    assert set(folded(new_server, event_batch_delay="0s")) == {1}


def test_ses_5_max_file_ops_ends_command_and_session(fuse_server):
    s = fuse_server.session(limits={"max_file_ops": 50})
    assert s.script("echo x > a")["result"]["exit_code"] == 0
    a = s.script("i=0; while [ $i -lt 200 ]; do : > f$i || echo $?; i=$((i+1)); done; sleep 100")
    error = a["result"]["error"]
    assert error["code"] == "E_RESOURCE_LIMIT"
    assert error["message"] == "the session has had its 50 operations (limits.max_file_ops)"
    refused = operations(a, "blocked_operations")
    assert refused and refused[0]["operation"]["error"] == "EDQUOT"
    assert refused[0]["policy"]["rule"] == "limits.max_file_ops"
    events = fuse_server.get(f"/api/v1/sessions/{s.id}/history?type=resource_limit").json["events"]
    assert [(e["resource"]["counter"], e["command_id"]) for e in events] == [("max_file_ops", a["command_id"])]
    again = fuse_server.post(f"{s.path}/exec", {"command": "true"})
    assert again.status in (410, 429)
    assert len(list(s.workspace.glob("f*"))) < 50


def test_obs_1_metrics_count_file_operations(fuse_server):
    s = fuse_server.session()
    made = 'agentsh_file_operations_total{kind="dir_create",decision="allow"}'
    names = (
        "agentsh_fuse_requests_total",
        "agentsh_fuse_request_microseconds_total",
        "agentsh_fuse_cache_hits_total",
    )
    s.script("mkdir a b c; ls a")
    assert harness.metric(fuse_server, made) == 3
    before = {n: harness.metric(fuse_server, n) for n in names}
    assert all(before.values()), before
    s.script(
        "flock l sh -c 'flock l2 true'; mkdir a/b; ls a/b; perl -e 'for (1..9) { open F, \"<\", \"l\"; close F }'"
    )
    assert all(harness.metric(fuse_server, n) > before[n] for n in names)
    assert harness.metric(fuse_server, "agentsh_events_folded_total") > 0
    assert harness.metric(fuse_server, made) == 4


def test_ses_4_two_commands_at_once_have_their_own(fuse_server):
    """A process that an earlier command left behind, and the next command."""
    s = fuse_server.session(background="keep")
    loop = "i=0; while [ ! -e stop ]; do : > old$i; i=$((i+1)); done; : > stopped"
    first = s.script(f"({loop}) > /dev/null 2>&1 & echo $!")
    harness.wait_for(lambda: (s.workspace / "old5").exists(), "it runs")
    second = s.script("i=0; while [ $i -lt 30 ]; do : > new$i; i=$((i+1)); done; : > stop")
    harness.wait_for(lambda: (s.workspace / "stopped").exists(), "it ends")
    made = sorted(e["path"] for e in operations(second, type="file_create"))
    assert made == sorted([f"/workspace/new{i}" for i in range(30)] + ["/workspace/stop"])

    def commands(name):
        found, cursor = [], ""
        while True:
            path = f"/api/v1/sessions/{s.id}/history?type=file_create&limit=1000{cursor}"
            page = fuse_server.get(path).json
            found += [e.get("command_id") for e in page["events"] if name in e["path"]]
            cursor = f"&cursor={page['next']}" if page["next"] else ""
            if not cursor:
                return found

    harness.wait_for(lambda: commands("stopped"), "late events are recorded")
    assert set(commands("stopped") + commands("old")) == {first["command_id"]}


def test_fil_2_a_late_close_is_in_the_answer(fuse_server):
    """The kernel sends RELEASE after the process has ended; the answer waits for it."""
    s = fuse_server.session()
    for n in range(20):
        a = s.exec("dd", "if=/dev/zero", f"of=f{n}", "bs=1000", "count=3", "status=none")
        (write,) = operations(a, type="file_write")
        assert write["operation"]["bytes"] == 3000
