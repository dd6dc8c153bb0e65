# SPDX-License-Identifier: Apache-2.0
"""What the kernel refuses outside of the file server's trees is an event, where the server has BPF."""

import os
import threading

import harness
import pytest

BPF = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("AGENTSH_TEST_BPF") == "off", reason="needs root and BPF"
)
READ_ONLY = "filesystem.read_only_passthrough_paths"
BLOCKED = "filesystem.blocked_paths"
UNSEEN = "refusals elsewhere are not recorded"
MANY = 20000
# sh -c starts a process for each, which is gone before its record is read
WRITES = """
touch /usr/made; mkdir /usr/dir; rm /usr/bin/env; rmdir /usr/bin; mv /usr/bin/env /usr/bin/other
ln -s env /usr/link; ln /usr/bin/env /usr/hard; chmod 700 /usr/bin/env; mkfifo /usr/fifo; truncate -s 0 /usr/bin/env
cat /usr/bin/env > /dev/null
"""


def start(new_server, bpf="required", uid=0, **more):
    server = new_server(uid=uid, start=False, config={"policies": {"default": "observe"}, **more})
    server.config["sandbox"].update(bpf=bpf)
    server.start()
    return server


@pytest.fixture
def by_bpf(new_server):
    return start(new_server)


def blocked(answer, **wanted):
    return [e for e in answer["events"]["blocked_operations"] if all(e.get(k) == v for k, v in wanted.items())]


def detail(session):
    return next(w["detail"] for w in session.get()["enforcement"] if w["wall"] == "file_rules")


def seen(answer):
    return {(e["type"], e["path"], e["operation"]["error"], e["policy"]["rule"]) for e in blocked(answer)}


@BPF
def test_fil_3_a_refusal_elsewhere_is_an_event(by_bpf):
    s = by_bpf.session()
    a = s.script(WRITES)
    want = {
        ("file_open", "/usr/made"),
        ("dir_create", "/usr/dir"),
        ("file_delete", "/usr/bin/env"),
        ("dir_delete", "/usr/bin"),
        ("file_rename", "/usr/bin/env"),
        ("symlink_create", "/usr/link"),
        ("file_link", "/usr/bin/env"),
        ("file_chmod", "/usr/bin/env"),
        ("file_mknod", "/usr/fifo"),
        ("file_open", "/usr/bin/env"),
    }
    assert {(kind, path, READ_ONLY) for kind, path, _, rule in seen(a) if rule} >= {(*w, READ_ONLY) for w in want}
    assert all(e["metadata"] == {"path_source": "argument"} and "real_path" not in e for e in blocked(a))
    assert {e["command_id"] for e in blocked(a)} == {a["command_id"]}
    assert all(e["decision"] == "deny" and e["pid"] > 0 for e in blocked(a))
    (moved,) = blocked(a, type="file_rename")
    assert moved["operation"] == {"to": "/usr/bin/other", "error": "EROFS"}
    (made,) = blocked(a, path="/usr/made")
    assert {"O_WRONLY", "O_CREAT"} <= set(made["operation"]["flags"])
    assert UNSEEN not in detail(s)
    assert s.get()["total_file_ops"] >= len(blocked(a))
    a = s.script("cat /usr/bin/env > /dev/null; touch /tmp/fine; rm /tmp/fine; ls /usr > /dev/null")
    assert blocked(a) == []


@BPF
def test_fil_3_an_open_below_a_blocked_path_elsewhere(new_server, tmp_path):
    secret = tmp_path / "opt" / "secret"
    secret.mkdir(parents=True)
    (secret / "key").write_text("k")
    for part in (tmp_path, secret.parent, secret):
        part.chmod(0o755)
    lists = {"passthrough_paths": [str(secret.parent)], "blocked_paths": [str(secret)]}
    s = start(new_server, filesystem=lists).session()
    a = s.script(f"cd {secret.parent}; cat secret/key; ls {secret}; touch fine && rm fine")
    assert seen(a) == {
        ("file_open", f"{secret}/key", "EACCES", BLOCKED),
        ("dir_list", f"{secret}", "EACCES", BLOCKED),
    }
    a = s.exec("cat", f"{secret}/key")
    error = a["result"]["error"]
    assert (error["code"], error["policy"]["rule"], error["path"]) == ("E_POLICY_DENIED", BLOCKED, f"{secret}/key")


@BPF
def test_fil_3_what_no_list_explains_is_the_kernels(by_bpf):
    a = by_bpf.session().script("cd /tmp; echo x > mine; chmod 0 mine; cat ./mine")
    assert seen(a) == {("file_open", "/tmp/mine", "EACCES", "kernel")}
    error = a["result"]["error"]
    assert (error["code"], error["path"]) == ("EACCES", "/tmp/mine") and error.get("policy") is None


@pytest.mark.parametrize("way", ["root", "user"])
def test_fil_3_without_bpf_the_wall_says_so(new_server, way):
    if way == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    uid = harness.USER_UID if way == "user" else 0
    s = start(new_server, bpf="off" if way == "root" else "auto", uid=uid).session()
    a = s.script("touch /usr/made; touch here")
    assert a["result"]["exit_code"] == 0 and "Read-only" in a["result"]["stderr"]
    assert blocked(a) == [] and UNSEEN in detail(s)
    assert [e["path"] for e in a["events"]["file_operations"] if e["type"] == "file_create"] == ["/workspace/here"]


@BPF
def test_fil_3_two_commands_at_once_have_their_own(by_bpf):
    """A process that an earlier command left behind, and the next command; each touch is a process that is gone soon."""
    s = by_bpf.session(background="keep")
    loop = "i=0; while [ ! -e stop ]; do touch /usr/old; : > turn$i; i=$((i+1)); done; touch /usr/last; : > stopped"
    first = s.script(f"({loop}) > /dev/null 2>&1 & echo $!")
    harness.wait_for(lambda: (s.workspace / "turn2").exists(), "it runs")
    second = s.script("for i in $(seq 20); do touch /usr/new$i; done; : > stop")
    harness.wait_for(lambda: (s.workspace / "stopped").exists(), "it ends")
    assert {e["path"] for e in blocked(second)} == {f"/usr/new{i + 1}" for i in range(20)}
    assert sum(e["count"] for e in blocked(second)) == 20
    harness.wait_for(lambda: any(e["path"] == "/usr/last" for e in s.history(decision="deny")), "it is recorded")
    of = {(e["path"].strip("0123456789"), e["command_id"]) for e in s.history(decision="deny")}
    assert of == {(f"/usr/{name}", first["command_id"]) for name in ("old", "last")} | {
        ("/usr/new", second["command_id"])
    }


@BPF
def test_fil_3_refusals_are_folded_by_process_and_path(by_bpf):
    s = by_bpf.session()
    opens = "for (1..40) { open(F, '>', '/usr/same') and die }"
    a = s.exec("perl", "-e", f"{opens} fork; {opens} wait")
    found = blocked(a, path="/usr/same")
    assert sum(e["count"] for e in found) == 120 and len(found) < 60
    assert len({e["pid"] for e in found}) == 2


@BPF
@pytest.mark.parametrize("at", ["canonical", "real"])
def test_fil_3_what_is_refused_in_the_workspace_is_one_event(new_server, at):
    s = start(new_server, filesystem={"blocked_paths": ["/workspace/shut"]}).session()
    (s.workspace / "shut").mkdir()
    (s.workspace / "shut" / "in").write_text("x")
    where = "/workspace" if at == "canonical" else s.workspace
    a = s.script(f"cd {where}; cat shut/in ./shut/in {where}/shut/in; : > shut/new")
    found = blocked(a)
    assert all(e["path"].startswith("/workspace/shut") for e in found)
    assert sum(e["count"] for e in found) == 4 and not any("path_source" in e.get("metadata", {}) for e in found)


@BPF
def test_fil_3_names_that_lead_out_of_the_workspace(by_bpf):
    s = by_bpf.session()
    a = s.script(
        "ln -s /usr out; ln -s out again; ln -s ../usr/one one; ln -s /workspace/in self; mkdir -p in/deep\n"
        "touch out/a again/b one ./in/deep/../../../usr/c self/x; cd in; touch ../../usr/./d; ln -s x /usr/e\n"
        "ln -s /usr/bin ../bin; ln -s bin/../lib ../lib; touch ../bin/../f ../lib/../bin/../g ../lib/h .././/self/.."
    )
    assert {(e["type"], e["path"]) for e in blocked(a)} == {
        ("file_open", "/usr/a"),
        ("file_open", "/usr/b"),
        ("file_open", "/usr/one"),
        ("file_open", "/usr/c"),
        ("file_open", "/usr/d"),
        ("symlink_create", "/usr/e"),
        ("file_open", "/usr/f"),
        ("file_open", "/usr/g"),
        ("file_open", "/usr/lib/h"),
    }
    assert (s.workspace / "in" / "x").exists()


REPLACED = """
for my $i (1 .. 50) {
    symlink('/usr', 'link'); open(F, '>', "link/x$i") and die; unlink('link'); mkdir('link');
    open(F, '>', "link/x$i") or die; unlink("link/x$i"); rmdir('link') or die;
}
"""


@BPF
def test_fil_3_a_link_that_is_gone_hides_nothing(by_bpf):
    """By the time that the record is read, its name is that of a place in the workspace."""
    a = by_bpf.session().exec("perl", "-e", REPLACED)
    assert a["result"]["exit_code"] == 0, a["result"]
    found = sorted((e["path"].rsplit("/x", 1) for e in blocked(a)), key=lambda e: int(e[1]))
    assert [int(n) for _, n in found] == list(range(1, 51))
    assert {where for where, _ in found} <= {"/usr", "/workspace/link"}


@BPF
def test_fil_3_a_policy_that_landlock_holds_is_the_reason(new_server):
    """The default policy denies what it does not name."""
    s = start(new_server, policies={"default": "default"}).session()
    a = s.script("touch /etc/x")
    assert seen(a) == {("file_open", "/etc/x", "EROFS", "default")}


FLOOD = """
for my $i (1 .. $ARGV[0]) { open(F, '>', sprintf('/usr/%s-%d-%s', $ARGV[1], $i, 'n' x 200)) and die }
"""


@BPF
def test_fil_3_a_flood_of_refusals_is_recorded_or_counted(by_bpf):
    s = by_bpf.session()
    a = s.exec("perl", "-e", FLOOD, str(MANY), "flood")
    assert a["result"]["exit_code"] == 0

    def recorded():
        return s.get(f"/history?decision=deny&command_id={a['command_id']}&limit=1")["total"]

    def lost():
        return sum(e["count"] for e in s.history(type="events_dropped"))

    harness.wait_for(
        lambda: recorded() + lost() == MANY, "all is recorded or counted", show=lambda: (recorded(), lost())
    )
    assert recorded() > 1000  # it is not all lost

    # when it is over, the session goes on, and is seen
    after = s.exec("touch", "/usr/after")["command_id"]
    harness.wait_for(lambda: s.history(decision="deny", command_id=after), "what comes later is recorded")


@BPF
def test_fil_3_another_sessions_refusals_are_never_seen(by_bpf):
    mine, other = by_bpf.session(), by_bpf.session()
    done = threading.Thread(target=other.exec, args=("perl", "-e", FLOOD, str(MANY), "other"))
    done.start()
    a = [mine.script("for i in $(seq 20); do touch /usr/mine$i; done") for _ in range(5)]
    done.join()
    for one in a:
        assert {e["path"] for e in blocked(one)} == {f"/usr/mine{i + 1}" for i in range(20)}
    assert all("/usr/mine" in e["path"] for e in mine.history(decision="deny"))
    assert any("/usr/other" in e["path"] for e in other.history(decision="deny"))  # the control
