# SPDX-License-Identifier: Apache-2.0
"""Variables that load code into programs which a policy allows: GCONV_PATH, PYTHONPATH, GIT_SSH_COMMAND and the like."""

import harness
import pytest

HEAD = "version: 1\nname: {name}\ndefault: {{files: allow, network: allow, commands: {default}}}\n"
RULES = 'command_rules:\n  - {name: ok, commands: [sh, dash, bash, env, printenv, "/usr/bin/*"], decision: allow}\n'
POLICIES = {
    "closed": HEAD.format(name="closed", default="deny") + RULES,
    "named": HEAD.format(name="named", default="deny") + RULES + 'environment: {allow: [LANG, "PYTHON*"]}\n',
    "open": HEAD.format(name="open", default="allow"),
}
NAMES = [
    "GCONV_PATH", "LOCPATH", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
    "PYTHONINSPECT", "PYTHONUSERBASE", "PERL5LIB", "PERL5OPT", "PERLLIB", "NODE_OPTIONS", "NODE_PATH", "RUBYOPT", "RUBYLIB",
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_ASKPASS", "LESSOPEN", "GLIBC_TUNABLES",
]  # fmt: skip
ALL = {name: "/nowhere" for name in NAMES}


@pytest.fixture(scope="module")
def made():
    s = harness.Server()
    s.policies = s.dir / "policies"
    s.policies.mkdir(mode=0o755)
    for name, text in POLICIES.items():
        (s.policies / f"{name}.yaml").write_text(text)
    s.merge(s.config, {"policies": {"dir": str(s.policies)}, "sandbox": {"allow_unenforced": ["file_rules"]}})
    try:
        s.start()
        yield s
        s.stop()
        s.check_log()
    finally:
        s.cleanup()


def seen(answer):
    """Those of the names that a command had, and those that its answer says were dropped."""
    has = {line.partition("=")[0] for line in answer["result"]["stdout"].splitlines()}
    return sorted(has & set(NAMES)), sorted(w.split()[0] for w in answer["result"]["warnings"])


def test_sta_4_variables_that_load_code_by_every_way_in(made):
    s = made.session(policy="closed", environment={**ALL, "KEPT": "1"})
    # of the session: told once, with the first command
    assert seen(s.exec("printenv")) == ([], sorted(NAMES))
    assert seen(s.exec("printenv")) == ([], [])
    assert s.exec("printenv", "KEPT")["result"]["stdout"] == "1\n"
    assert not set(s.get()["environment"]) & set(NAMES)
    # of a request
    a = s.exec("printenv", env={**ALL, "OWN": "2"})
    assert seen(a) == ([], sorted(NAMES)) and "OWN=2\n" in a["result"]["stdout"]
    assert "policy 'closed' denies commands by default" in a["result"]["warnings"][0]
    # of a PATCH
    r = made.call("PATCH", s.path, {"environment": {"PYTHONPATH": "/x", "ALSO": "3"}})
    assert r.status == 200 and "PYTHONPATH" not in r.json["environment"] and r.json["environment"]["ALSO"] == "3"
    assert seen(s.exec("printenv")) == ([], ["PYTHONPATH"])
    # what a script exports: inside it is not seen, and it does not stay
    a = s.exec(script="export GIT_SSH_COMMAND=/x OTHER=4; printenv GIT_SSH_COMMAND")
    assert a["result"]["stdout"] == "/x\n" and seen(a)[1] == ["GIT_SSH_COMMAND"]
    assert a["state"]["environment_changed"] == ["OTHER"]
    a = s.exec("printenv")
    assert seen(a) == ([], []) and "OTHER=4\n" in a["result"]["stdout"]
    # the builtin
    assert seen(s.exec("export", "LESSOPEN=|x")) == ([], ["LESSOPEN"])
    assert seen(s.exec("printenv")) == ([], [])
    s.destroy()


def test_sta_4_what_environment_allow_names_passes(made):
    s = made.session(policy="named", environment={"PYTHONPATH": "/x"})
    assert seen(s.exec("printenv", env={"PYTHONHOME": "/y"})) == (["PYTHONHOME", "PYTHONPATH"], [])
    refused = made.post(f"{s.path}/exec", {"command": "printenv", "env": {"GIT_SSH": "/x"}})
    assert refused.status == 403 and refused.json["error"]["policy"]["rule"] == "environment"
    a = s.exec(script="export GIT_SSH=/x PYTHONSTARTUP=/z")
    assert seen(a)[1] == ["GIT_SSH"]
    assert seen(s.exec("printenv")) == (["PYTHONPATH", "PYTHONSTARTUP"], [])
    s.destroy()


def test_sta_4_they_are_untouched_where_commands_are_allowed_by_default(made):
    s = made.session(policy="open", environment={**ALL, "NODE_OPTIONS": ""})
    assert seen(s.exec("printenv")) == (sorted(NAMES), [])
    s.exec(script="export GIT_SSH=/other")
    assert s.exec("printenv", "GIT_SSH")["result"]["stdout"] == "/other\n"
    s.destroy()


def test_sta_4_code_does_not_come_into_an_allowed_program(made):
    s = made.session(policy="closed")
    evil = "import os; os.write(2, b'loaded\\n')\n"
    (s.workspace / "sitecustomize.py").write_text(evil)
    a = s.exec("python3", "-c", "pass", env={"PYTHONPATH": "/workspace"})
    assert a["result"]["stderr"] == "" and seen(a)[1] == ["PYTHONPATH"]
    s.destroy()
    s = made.session(policy="open")  # the same act works where it is not kept out
    (s.workspace / "sitecustomize.py").write_text(evil)
    assert s.exec("python3", "-c", "pass", env={"PYTHONPATH": "/workspace"})["result"]["stderr"] == "loaded\n"
    s.destroy()
