# SPDX-License-Identifier: Apache-2.0
"""Options of commands in rules: `flags: true` for patterns of letters, and lists of options with their long forms."""

import json

import harness
import pytest

POLICY = """\
version: 1
name: flags
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: star, commands: [echo], args_pattern: ["-rf*"], flags: true, decision: deny}
  - {name: spec, commands: [printf], args_pattern: ["-rf*", "-r *"], flags: true, decision: deny}
  - {name: text, commands: [basename], args_pattern: ["-rf*"], decision: deny}
  - {name: list, commands: [seq], flags: [["-r", "-R", "--recursive"], ["-f", "--force"]], decision: deny}
  - {name: both, commands: [dirname], flags: [["-r", "--recursive"]], args_pattern: ["/etc*"], decision: deny}
  - {name: long, commands: [wc], flags: [["-r", "--recursive"], ["-f", "--force"]], args_pattern: ["-rf*"], decision: deny}
  - {name: allow, commands: [env], flags: [["-u", "--unset"]], decision: allow}
  - {name: deny, commands: [env], decision: deny}
"""
# program and arguments, and the rule that refuses them
CASES = [
    # flags: true with a star
    ("echo -rf x", "star"),
    ("echo -fr x", "star"),
    ("echo -r -f x", "star"),
    ("echo -f -r x", "star"),
    ("echo -f x -r", "star"),
    ("echo x -rf", "star"),
    ("echo -vrf", "star"),
    ("echo -vr -if", "star"),
    ("echo -rfv x", "star"),
    ("echo -rr -ff", "star"),
    ("echo -r --verbose -f x", "star"),
    ("echo - -rf", "star"),
    ("echo -r -f -- x", "star"),
    ("echo -r x", None),
    ("echo -f x", None),
    ("echo -RF x", None),
    ("echo -R -f x", None),
    ("echo -- -rf", None),
    ("echo -r -- -f", None),
    ("echo -- -r -f", None),
    ("echo --rf", None),
    ("echo --recursive --force", None),
    ("echo rf -", None),
    ("echo x/-rf", None),
    ("echo", None),
    # the patterns of the specification
    ("printf -fr", "spec"),
    ("printf -r x", "spec"),
    ("printf -vr x", "spec"),
    ("printf -f", None),
    ("printf -- -r x", None),
    # without flags a pattern is text
    ("basename -rf x", "text"),
    ("basename -- -rfx", "text"),
    ("basename -fr x", None),
    ("basename x -r", None),
    # a list of options, alone
    ("seq -rf 1", "list"),
    ("seq -Rf 1", "list"),
    ("seq -f -R 1", "list"),
    ("seq --recursive --force 1", "list"),
    ("seq --force -r 1", "list"),
    ("seq -vR --force 1", "list"),
    ("seq --recurs --forc 1", "list"),
    ("seq --force=x --recursive=y 1", "list"),
    ("seq --recursive 1", None),
    ("seq -w --force 1", None),
    ("seq -w -- --recursive --force", None),
    ("seq -r -- --force", None),
    ("seq --recursively --force 1", None),
    ("seq -s --recursive 1", None),
    # beside patterns: both must match, and a letter may be given by its long form
    ("dirname -r /etc/x", "both"),
    ("dirname --recursive /etc/x", "both"),
    ("dirname -r /tmp/x", None),
    ("dirname /etc/x", None),
    ("wc --recursive --force", "long"),
    ("wc -fr", "long"),
    ("wc --force -r", "long"),
    ("wc --recursive", None),
    # what allows takes whole names only
    ("env -u X true", None),
    ("env --unset=X true", None),
    ("env --uns=X true", "deny"),
    ("env X=1 true", "deny"),
]


@pytest.fixture(scope="module")
def session():
    s = harness.Server()
    s.policies = s.dir / "policies"
    s.policies.mkdir(mode=0o755)
    (s.policies / "flags.yaml").write_text(POLICY)
    s.merge(s.config, {"policies": {"dir": str(s.policies)}})
    try:
        s.start()
        yield s.session(policy="flags")
        s.stop()
        s.check_log()
    finally:
        s.cleanup()


@pytest.mark.parametrize(("line", "rule"), CASES, ids=[c[0] for c in CASES])
def test_pol_1_options_in_any_order_grouped_and_apart(session, line, rule):
    program, *args = line.split()
    a = session.server.post(f"{session.path}/exec", {"command": program, "args": args})
    if rule is None:
        assert a.status == 200, a.body
    else:
        assert a.status == 403 and a.json["error"]["policy"]["rule"] == rule, a.body


def test_pol_1_options_inside_a_script(session):
    r = session.exec(script="echo a; /usr/bin/echo -f -r; /usr/bin/seq --force --recursive; /usr/bin/echo -- -rf")
    assert r["result"]["stdout"] == "a\n-- -rf\n"
    assert [e["policy"]["rule"] for e in r["events"]["blocked_operations"]] == ["star", "list"]


def test_pol_7_test_and_show_know_options(session):
    directory = f"policies.dir={session.server.policies}"
    for line, rule in CASES:
        r = session.server.cli(
            "policy", "test", "--set", directory, "--policy", "flags", "--json", "exec", *line.split()
        )
        assert json.loads(r.stdout)["rule"] == (rule or ("allow" if line.startswith("env") else "default")), line
    shown = session.server.get(f"{session.path}/policy").json["policy"]["command_rules"]
    assert {r["name"]: r.get("flags") for r in shown} == {
        "star": True,
        "spec": True,
        "text": None,
        "list": [["-r", "-R", "--recursive"], ["-f", "--force"]],
        "both": [["-r", "--recursive"]],
        "long": [["-r", "--recursive"], ["-f", "--force"]],
        "allow": [["-u", "--unset"]],
        "deny": None,
    }
