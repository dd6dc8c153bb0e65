# SPDX-License-Identifier: Apache-2.0
"""Programs that raise privilege are refused with a reason, whatever the policy says."""

import json
import shutil

import pytest

NAMES = ("sudo", "su", "doas", "pkexec")


@pytest.fixture
def session(server):
    """Under `observe`, with programs of these names, and one with a set-user-ID bit, in its workspace."""
    s = server.session(policy="observe")
    for name in (*NAMES, "plain", "setuid", "setgid"):
        shutil.copy("/usr/bin/true", s.workspace / name)
    (s.workspace / "setuid").chmod(0o4755)
    (s.workspace / "setgid").chmod(0o2755)
    return s


def refused(server, session, name):
    a = server.post(f"{session.path}/exec", {"command": f"./{name}", "args": ["id"]})
    assert (a.status, a.code) == (403, "E_POLICY_DENIED"), a.body
    return a.json["error"]["policy"]


def test_sta_6_a_program_that_raises_privilege_is_refused_first_and_nested(server, session):
    assert session.exec("./plain")["result"]["exit_code"] == 0
    for name in (*NAMES, "setuid", "setgid"):
        policy = refused(server, session, name)
        assert (policy["rule"], policy["final"]) == ("no-privilege", True)
        assert "cannot raise privilege" in policy["reason"] and "state stays as it was" in policy["reason"]
        # the second goes on with the next directory after the refusal
        for word, path in ((f"./{name}", "/usr/bin"), (name, "/usr/bin:/workspace:/nowhere")):
            answer = session.exec("env", word, "id", env={"PATH": path})
            assert answer["result"]["exit_code"] == 126
            error = answer["result"]["error"]
            assert (error["code"], error["policy"]["rule"]) == ("E_POLICY_DENIED", "no-privilege")
            assert [e["policy"]["rule"] for e in answer["events"]["blocked_operations"]] == ["no-privilege"]


def test_sta_6_links_scripts_and_applets_lead_around_it_no_more(session):
    (session.workspace / "other").symlink_to("su")
    (session.workspace / "script").write_text("#!/workspace/doas\n")
    (session.workspace / "script").chmod(0o755)
    (session.workspace / "d").mkdir()
    (session.workspace / "d" / "su").write_text("#!/bin/sh\n")
    (session.workspace / "d" / "su").chmod(0o755)
    for name, refused in (("other", "su"), ("script", "script"), ("d/su", "d/su")):
        answer = session.script(f"./{name}")
        assert answer["result"]["error"]["policy"]["rule"] == "no-privilege", answer
        assert f" /workspace/{refused} was refused" in answer["result"]["warnings"][0], answer
    # argv[0] alone is only a name
    assert session.script("exec -a sudo ./plain")["result"]["exit_code"] == 0


def test_sta_6_the_state_stays_and_the_answer_says_so(session):
    session.script("export KEPT=1; cd /tmp")
    answer = session.script("export KEPT=2 NEW=1; cd /; /workspace/sudo id; true")
    assert answer["result"]["exit_code"] == 0
    assert any("state stays as it was" in w and "/workspace/sudo" in w for w in answer["result"]["warnings"]), answer
    assert answer["state"]["working_dir"] == "/tmp"
    assert session.out("echo $KEPT $NEW; pwd") == "1\n/tmp\n"
    assert session.script("export KEPT=3")["result"]["warnings"] == []
    assert session.out("echo $KEPT") == "3\n"


@pytest.mark.parametrize("policy", ("observe", "default", "strict", "ci"))
@pytest.mark.parametrize("name", NAMES)
def test_sta_6_policy_test_agrees(server, policy, name):
    for words in ((name, "id"), (f"/workspace/{name}",)):
        r = server.cli("policy", "test", "--policy", policy, "--json", "exec", *words)
        got = json.loads(r.stdout)
        assert (got["effective_decision"], got["rule"]) == ("deny", "no-privilege"), r


def test_sta_6_a_shell_user_is_told_that_the_state_stays(server, session):
    args = ("exec", session.id, "--output", "shell", "--script", "cd /; ./workspace/su; true")
    told = server.cli(*args).stderr.decode()
    assert (
        "/workspace/su was refused" in told and "was refused" not in server.cli(*args, "--quiet").stderr.decode()
    ), told
