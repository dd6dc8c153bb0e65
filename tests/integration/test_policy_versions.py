# SPDX-License-Identifier: Apache-2.0
"""Policies in a running server: what holds for a session, versions that stay, and reading again."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import harness
import pytest
from policy_server import LIMITS, denied, write


def test_pol_7_the_effective_policy(shared):
    s = shared.session(policy="mine", timeout="2h")
    policy = s.record["policy"]
    assert (
        policy["name"] == "mine" and policy["version"].startswith("sha256:") and policy["summary"][0] == "For tests."
    )
    got = s.get("/policy")
    assert (got["session_id"], got["policy"]["version"]) == (s.id, policy["version"])
    assert [r["name"] for r in got["policy"]["command_rules"]] == ["no-id", "ask-whoami"]
    assert got["config"]["timeout"] == "1h" and got["capped"] == ["timeout"]
    r = shared.cli("policy", "show", "--effective", s.id)
    assert r.returncode == 0, r.stderr
    for part in (s.id, policy["version"], "For tests.", "lowered: timeout"):
        assert part in r.stdout.decode()
    r = shared.cli("policy", "show", "--effective", s.id, "--json")
    assert json.loads(r.stdout) == got
    s.destroy()
    assert shared.cli("policy", "show", "--effective", "none-such").returncode == 125
    assert s.get("/policy")["policy"]["version"] == policy["version"]  # also of an ended one


def test_pol_7_effective_without_a_name_is_the_only_session(policies):
    s = policies(uid=harness.USER_UID)
    assert s.cli("policy", "show", "--effective").returncode == 125
    session = s.session(policy="mine")
    assert session.id in s.cli("policy", "show", "--effective").stdout.decode()
    s.session()
    r = s.cli("policy", "show", "--effective")
    assert r.returncode == 125 and b"2 sessions" in r.stderr


def test_pol_7_run_says_which_rules_are_not_enforced(policies):
    s = policies(start=False, config=harness.NATIVE)
    s.merge(s.config, {"sandbox": {"allow_unenforced": [*LIMITS, "file_rules"]}})
    s.start()
    write(s.policies, "loose", text="version: 1\nname: loose\ndefault: {files: allow}\n"
          "file_rules: [{name: no-env, paths: ['**/.env'], decision: deny}]\n"
          "network_rules: [{name: no-web, ports: [80], decision: deny}]\n")  # fmt: skip
    r = s.cli("run", "--workspace", s.workspace(), "--policy", "loose", "--", "echo", "hello")
    assert (r.returncode, r.stdout) == (0, b"hello\n")
    files, net = r.stderr.decode().splitlines()
    assert files.startswith("agentsh: policy 'loose': file rules are not enforced here: no-env; ")
    assert "filesystem.blocked_paths" in files
    assert net.startswith("agentsh: policy 'loose': network rules are not enforced here: no-web; ")
    record = s.session(policy="loose").record
    assert [f"agentsh: policy 'loose': {x}" for x in record["policy"]["unenforced"]] == [files, net]
    for quiet in (["--quiet", "--policy", "loose"], ["--policy", "observe"]):
        r = s.cli("run", "--workspace", s.workspace(), *quiet, "--", "echo", "hello")
        assert (r.returncode, r.stdout, r.stderr) == (0, b"hello\n", b"")


def test_pol_7_policies_are_listed(policies):
    s = policies()
    listed = {p["name"]: p for p in s.get("/api/v1/policies").json["policies"]}
    assert {"mine", "default", "strict", "ci", "observe"} <= set(listed)
    assert listed["default"]["default"] and not listed["observe"]["default"]
    assert all(p["version"].startswith("sha256:") and p["description"] for p in listed.values()), listed
    assert listed["strict"]["description"].startswith("Only the named programs run")
    version = s.session(policy="mine").record["policy"]["version"]
    assert (listed["mine"]["version"], listed["mine"]["description"]) == (version, "For tests.")
    write(s.policies, "other", text="version: 1\nname: other\nnonsense: true\n")
    again = {p["name"]: p for p in s.get("/api/v1/policies").json["policies"]}
    assert (again["other"]["version"], again["other"]["description"]) == (None, None)
    assert again["mine"] == listed["mine"]


# --- versions, and reading again ---


def reason(server, session):
    return denied(server.post(f"{session.path}/exec", {"command": "id"}), "no-id", "/usr/bin/id")["reason"]


def events(server, kind):
    return server.get(f"/api/v1/events/search?type={kind}&limit=1000").json["events"]


def test_pol_5_a_session_keeps_its_version(policies):
    s = policies()
    old = s.session(policy="mine")
    write(s.policies, message="another text")
    a = s.post("/api/v1/policies/reload")
    assert a.status == 200 and (a.json["loaded"], a.json["failed"]) == (["mine"], [])
    new = s.session(policy="mine")
    assert old.get()["policy"]["version"] != new.record["policy"]["version"]
    assert reason(s, old) == "id is not for you: /usr/bin/id" and reason(s, new) == "another text"
    assert s.post("/api/v1/policies/reload").json["loaded"] == []
    loaded = [e["policy"] for e in events(s, "policy_loaded")]
    assert loaded == [{"name": "mine", "version": x.record["policy"]["version"]} for x in (old, new)]

    # over the end of the API process, and of the whole server
    records = [x.get()["policy"] for x in (old, new)]
    pid = s.api_pid()
    os.kill(pid, signal.SIGKILL)
    harness.wait_for(lambda: s.api_pid() not in (None, pid), "a new API process")
    harness.wait_for(lambda: ready(s), "it serves")
    assert [x.get()["policy"] for x in (old, new)] == records
    write(s.policies, message="a third text")
    s.process.kill()
    s.process.wait()
    s.start()
    assert [x.get()["policy"] for x in (old, new)] == records
    assert reason(s, old) == "id is not for you: /usr/bin/id" and reason(s, new) == "another text"
    denied(s.post(f"{old.path}/exec", {"command": "true", "env": {"COLUMNS": "80"}}), "environment", "COLUMNS")
    assert reason(s, s.session(policy="mine")) == "a third text"
    old.destroy()
    assert old.get()["policy"] == records[0]


def ready(server):
    try:
        return server.get("/ready").status == 200
    except OSError:
        return False


def test_pol_5_a_broken_file_keeps_the_old_policy(policies):
    s = policies()
    first = s.session(policy="mine").record["policy"]
    write(s.policies, text="version: 1\nname: mine\ncommand_rules:\n  - {name: x, decison: deny}\n")
    a = s.post("/api/v1/policies/reload").json
    assert a["loaded"] == [] and [f["name"] for f in a["failed"]] == ["mine"]
    assert "mine.yaml:4" in a["failed"][0]["problem"]
    assert s.session(policy="mine").record["policy"] == first
    failed = events(s, "policy_reload_failed")
    assert failed[0]["policy"]["name"] == "mine" and "mine.yaml:4" in failed[0]["reason"]
    r = s.cli("policy", "reload")
    assert r.returncode == 125 and b"the old 'mine' stays" in r.stderr
    (s.policies / "mine.yaml").unlink()
    s.process.send_signal(signal.SIGHUP)
    harness.wait_for(lambda: len(events(s, "policy_reload_failed")) == 3, "SIGHUP says so, too")
    assert s.session(policy="mine").record["policy"] == first
    write(s.policies, message="well again")
    s.process.send_signal(signal.SIGHUP)
    harness.wait_for(lambda: len(events(s, "policy_loaded")) == 2, "SIGHUP loads it")
    assert reason(s, s.session(policy="mine")) == "well again"
    r = s.cli("policy", "reload")
    assert r.returncode == 0 and b"nothing has changed" in r.stdout
    log = s.log_text()
    assert "a policy is broken; the old one stays" in log and "policy loaded" in log


UNHELD = (
    "version: 1\nname: {name}\ndefault: {{files: allow, network: allow, commands: allow}}\n"
    "file_rules: [{{name: no-env, paths: ['/workspace/.env'], decision: deny}}]\n"
)


def unheld(name):
    return f"rule 'no-env' of policy '{name}' cannot be enforced in /workspace with monitoring.mode native"


def test_fil_8_a_rule_that_the_mode_cannot_enforce_is_not_loaded(policies):
    s = policies(config=harness.NATIVE)
    first = s.session(policy="mine").record["policy"]
    write(s.policies, "other", message="of another")
    s.session(policy="other")
    write(s.policies, text=UNHELD.format(name="mine"))
    write(s.policies, "fresh", text=UNHELD.format(name="fresh"))
    write(s.policies, "other", message="of another file")
    # the old version stays, and the other policies are loaded
    a = s.post("/api/v1/policies/reload").json
    assert a["loaded"] == ["other"] and [f["name"] for f in a["failed"]] == ["mine"], a
    assert unheld("mine") in a["failed"][0]["problem"]
    assert unheld("mine") in events(s, "policy_reload_failed")[0]["reason"]
    assert s.session(policy="mine").record["policy"] == first
    assert reason(s, s.session(policy="other")) == "of another file"
    # a session that names it gets the reason
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": "fresh"})
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "file_rules"), a.body
    assert unheld("fresh") in a.json["error"]["message"]
    listed = {p["name"]: p["version"] for p in s.get("/api/v1/policies").json["policies"]}
    assert listed["fresh"] is None and listed["mine"] == first["version"], listed
    s.process.send_signal(signal.SIGHUP)
    harness.wait_for(lambda: len(events(s, "policy_reload_failed")) == 2, "SIGHUP says so, too")
    write(s.policies, message="well again")
    s.post("/api/v1/policies/reload")
    assert reason(s, s.session(policy="mine")) == "well again"


def test_fil_8_a_policy_in_use_is_loaded_where_rules_may_lack(policies):
    s = policies(start=False, config=harness.NATIVE)
    s.merge(s.config, {"sandbox": {"allow_unenforced": [*LIMITS, "file_rules"]}})
    s.start()
    s.session(policy="mine")
    write(s.policies, text=UNHELD.format(name="mine"))
    assert s.post("/api/v1/policies/reload").json["loaded"] == ["mine"]
    assert s.session(policy="mine").record["policy"]["unenforced"]
    s = policies()
    write(s.policies, text=UNHELD.format(name="mine"))
    s.session(policy="mine")


def test_pol_5_only_an_admin_makes_it_read_again(shared):
    harness.ensure_user()
    r = shared.cli("policy", "reload", uid=harness.USER_UID)
    assert r.returncode == 125 and b"E_FORBIDDEN" in r.stderr


def test_pol_5_many_reloads_under_load(policies):
    """Sessions are made and refuse while the policy changes under them; each has one whole version."""
    s = policies()
    end = time.monotonic() + 3
    n = 0
    while time.monotonic() < end:
        write(s.policies, message=f"text {n}")
        s.post("/api/v1/policies/reload")
        session = s.session(policy="mine")
        assert reason(s, session) == f"text {n}"
        session.destroy()
        n += 1
    assert n > 2


# --- places that rules shut as a whole ---

SHUT = """\
version: 1
name: shut
default: {{files: allow, network: deny, commands: allow}}
file_rules:
  - {{name: keep, paths: ["{keep}/**", "${{WORKSPACE}}/**"], operations: [write, create, delete], decision: deny}}
  - {{name: part, paths: ["{open}/part/**"], operations: ["*"], decision: deny, final: true}}
  - {{name: hide, paths: ["{hide}/**"], operations: ["*"], decision: deny}}
"""


@pytest.fixture
def places():
    """A directory outside of all that a session may write to by itself."""
    data = Path(f"/srv/agentsh-shut-{os.getpid()}")
    for name in ("", "keep", "open", "open/part", "hide"):
        (data / name).mkdir()
        (data / name).chmod(0o777)
        (data / name / "file").write_text(f"{name}\n")
        (data / name / "file").chmod(0o666)
    yield data
    shutil.rmtree(data)


TRY = """\
cat keep/file
(echo x >keep/file) || echo kept
(touch keep/new || rm keep/file) || echo kept
cat hide/file || echo hidden
ls hide
(echo x >hide/file) || echo kept
echo written >open/file && cat open/file open/part/file
(echo x >/workspace/new) || echo kept
echo x >/tmp/x && cat /tmp/x /etc/hostname >/dev/null && echo works
"""


@pytest.mark.skipif(not os.access("/srv", os.W_OK), reason="needs a writable /srv")
@pytest.mark.parametrize("uid", [0, harness.USER_UID], ids=["root", "user"])
def test_sbx_2_a_tree_that_a_rule_shuts_has_no_landlock_right(policies, places, uid):
    s = policies(uid=uid, start=False)
    s.merge(s.config, {"filesystem": {"passthrough_paths": [str(places / n) for n in ("keep", "open", "hide")]}})
    s.config["sandbox"]["allow_unenforced"] = [*LIMITS, "file_rules"]
    write(s.policies, "shut", text=SHUT.format(keep=places / "keep", open=places / "open", hide=places / "hide"))
    s.start()
    session = s.session(policy="shut")
    landlock = next(w for w in session.record["enforcement"] if w["wall"] == "landlock")
    assert "3 places less, by the policy's rules" in landlock["detail"], landlock
    tried = session.script(f"cd {places}; exec 2>/dev/null\n{TRY}")["result"]["stdout"].split()
    # a part of a place is more than Landlock can shut
    assert tried == ["keep", "kept", "kept", "hidden", "file", "kept", "written", "open/part", "kept", "works"]
    assert (places / "keep" / "file").read_text() == "keep\n"
    # the same view without such a policy: nothing is taken away
    assert s.session(policy="mine").script(f"cd {places}\n{TRY}")["result"]["stdout"].split() == [
        "keep", "hide", "file", "written", "open/part", "works",
    ]  # fmt: skip
