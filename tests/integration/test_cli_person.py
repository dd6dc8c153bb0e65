# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a command on a terminal: output, a summary, and what policy refused."""

import json
import os
import pty
import re
import subprocess

import harness
import pytest

POLICY = """\
version: 1
name: person
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: no-sort, commands: [sort, "odd*"], decision: deny, message: "{args} stays as it is"}
  - {name: watched, commands: [id], decision: log}
"""


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    policies = tmp_path_factory.mktemp("policies")
    (policies / "person.yaml").write_text(POLICY)
    (policies / "person.yaml").chmod(0o644)
    server = harness.Server(config={"policies": {"dir": str(policies), "default": "person"}})
    try:
        yield server.start()
        server.stop()
        server.check_log()
    finally:
        server.cleanup()


def at_a_terminal(server, *args):
    """Exit status and what a terminal shows, where stdin, stdout and stderr are one."""
    master, terminal = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as shown:
        client = subprocess.Popen(
            [harness.AGENTSH, *args], stdin=terminal, stdout=terminal, stderr=terminal, env=server.environment()
        )
        os.close(terminal)
        text = b""
        while True:
            try:
                more = shown.read(65536)
            except OSError:  # the last one who had it open has closed it
                break
            text += more
        return client.wait(harness.DEADLINE), text.decode(errors="replace").replace("\r\n", "\n")


def test_cli_1_a_terminal_shows_output_and_a_summary(person):
    session = person.session()
    script = "printf 'out, no newline'; sort x 2>/dev/null; sort y 2>/dev/null; export COLOUR=red; cd /tmp"
    code, text = at_a_terminal(person, "exec", session.id, "--script", script)
    output, refused, summary = text.split("\n", 2)
    assert (code, output) == (0, "out, no newline") and refused.startswith("agentsh: refused: exec /usr/bin/sort (")
    rows = dict(line.split(":", 1) for line in summary.splitlines())
    assert list(rows) == ["exit", "programs", "walls up", "not up", "kept"]
    words = rows["exit"].split()
    assert words[0] == "0," and "CPU" in words and "memory" in words and words[-1] == "MB"
    assert rows["programs"].strip() == "1 run, 2 refused"
    walls = {w["wall"]: w for w in session.get()["enforcement"]}
    up = rows["walls up"].strip().split(", ")
    assert up == [name for name, w in walls.items() if w["state"] == "up"] and len(up) > 8
    for name, w in walls.items():
        assert w["state"] == "up" or (name in rows["not up"] and w["detail"] in rows["not up"]), name
    command = session.get("/commands")["commands"][-1]["command_id"]
    assert rows["kept"].strip() == f"directory /tmp; variables COLOUR; output: agentsh output {command}"


def test_cli_1_a_terminal_shows_errors_and_commands_that_run_on(person):
    session = person.session()
    code, text = at_a_terminal(person, "exec", session.id, "--", "no-such-program")
    assert code == 127 and "error:       no-such-program: command not found" in text
    code, text = at_a_terminal(person, "exec", session.id, "--timeout", "100ms", "--", "sleep", "60")
    assert code == 124 and "exit:        124 (signal KILL)" in text
    code, text = at_a_terminal(person, "exec", session.id, "--command-id", "bg", "--detach", "--", "true")
    assert (code, text) == (0, "Command started: bg\n")
    executed = "while ! grep -q ^sleep /proc/$!/cmdline; do :; done"  # until then it has the shell's command line
    code, text = at_a_terminal(person, "exec", session.id, "--script", f"sleep 60 & {executed}")
    assert code == 0 and re.search(r"^background:  process \d+ ended: sleep 60$", text, re.M), text
    code, text = at_a_terminal(person, "exec", session.id, "--json", '{"command": "echo", "args": ["asked"]}')
    assert code == 0 and text.startswith("asked\n\nexit:        0, ")
    request = json.dumps({"script": "head -c 20000 /dev/zero | tr '\\0' x; printf '\\377' >&2"})
    code, text = at_a_terminal(person, "exec", session.id, "--json", request)
    assert code == 0 and text.startswith("x" * 10000) and "agentsh: stdout goes on; 'agentsh output'" in text
    code, text = at_a_terminal(person, "exec", session.id, "--quiet", "--", "echo", "alone")
    assert (code, text) == (0, "alone\n")
    code, text = at_a_terminal(person, "exec", session.id, "--output", "json", "--", "echo", "asked")
    assert code == 0 and json.loads(text)["result"]["stdout"] == "asked\n"
    r = person.cli("exec", session.id, "--output", "text", "--", "echo", "to a pipe")
    assert r.stdout.decode().startswith("to a pipe\n\nexit:        0, ")


def test_pol_2_what_was_refused_inside_is_told_though_the_command_succeeds(person):
    session = person.session()
    script = "sort a; sort a; /usr/bin/sort b; true"
    line = "agentsh: refused: exec /usr/bin/sort (rule no-sort, 3 times): a stays as it is\n"
    commands = [
        ("exec", session.id, "--output", "shell"),
        ("exec", session.id, "--output", "text"),
        ("exec", session.id, "--stream"),
        ("run", "--workspace", str(session.workspace)),
    ]
    for command in commands:
        r = person.cli(*command, "--script", f"({script}) 2>/dev/null")
        assert (r.returncode, r.stderr.decode()) == (0, line), command
        r = person.cli(*command, "--quiet", "--script", f"({script}) 2>/dev/null")
        assert (r.returncode, r.stderr) == (0, b""), command
    r = person.cli("exec", session.id, "--script", script)  # who reads JSON finds them there
    assert len(json.loads(r.stdout)["events"]["blocked_operations"]) == 3 and r.stderr == b""


def test_pol_2_a_long_list_of_refusals_says_how_many_are_left_out(person):
    session = person.session()
    script = "cp /bin/true odd; i=0; while [ $i -lt 300 ]; do cp odd odd$i; ./odd$i; i=$((i + 1)); done 2>/dev/null"
    r = person.cli("exec", session.id, "--output", "shell", "--script", f"{script}; true")
    lines = r.stderr.decode().splitlines()
    assert r.returncode == 0 and lines[0].startswith("agentsh: refused: exec /workspace/odd0 (rule no-sort): ")
    left = int(lines[-1].split()[2])
    assert len(lines) - 1 + left == 300 and "/history?command_id=" in lines[-1]


def test_pol_2_a_name_cannot_steer_the_terminal(person):
    session = person.session()
    r = person.cli(
        "exec", session.id, "--output", "shell", "--script",
        r"""n=$(printf 'odd\033[2J\302\233'); cp /bin/true "$n"; "./$n" 2>/dev/null; true""",
    )  # fmt: skip
    assert rb"/workspace/odd\x1b[2J\x9b (rule no-sort)" in r.stderr and b"\x1b" not in r.stderr


def test_pol_2_log_runs_the_program_and_marks_it(person):
    session = person.session()
    events = session.script("id; true")["events"]["exec_operations"]
    marked = {e["exec"]["argv"][0]: e["policy"] for e in events}
    assert marked["id"]["attention"] is True and marked["id"]["rule"] == "watched"
    assert (marked["id"]["decision"], marked["id"]["effective_decision"]) == ("log", "allow")
    assert "attention" not in marked["bash"]
    seen = {tuple(e["exec"]["argv"]): e["policy"] for e in session.history(type="exec")}
    assert seen[("id",)]["attention"] is True
