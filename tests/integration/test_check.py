# SPDX-License-Identifier: Apache-2.0
"""agentsh-check: the child that parses policies has no power, and what becomes of it does not harm the server."""

import os
import signal
import threading
from pathlib import Path

import harness
import pytest

HEAD = "version: 1\nname: {name}\ndefault: {{files: allow, network: allow, commands: allow}}\n"


@pytest.fixture
def server(new_server):
    s = new_server(start=False)
    s.policies = s.dir / "policies"
    s.policies.mkdir(mode=0o755)
    s.policies.chmod(0o755)
    s.merge(s.config, {"policies": {"dir": str(s.policies)}})
    return s.start()


def write(server, name, rest):
    path = server.policies / f"{name}.yaml"
    path.write_text(HEAD.format(name=name) + rest)
    path.chmod(0o644)


class Creation(threading.Thread):
    """A request for a session, in a thread of its own."""

    def __init__(self, server, policy):
        super().__init__(daemon=True)
        self.server, self.body, self.answer = server, {"workspace": str(server.workspace()), "policy": policy}, None
        self.start()

    def run(self):
        self.answer = self.server.post("/api/v1/sessions", self.body)

    def result(self):
        self.join(harness.DEADLINE * 2)
        assert self.answer is not None, "no answer"
        return self.answer


def stopped_check(server, name):
    """Asks for a session whose policy takes a while, and stops agentsh-check in the middle."""
    rules = "".join(f"  - {{name: r{i}, commands: ['a{i}*b'], decision: deny}}\n" for i in range(30000))
    write(server, name, "command_rules:\n" + rules)
    creation = Creation(server, name)

    def find():
        for pid in harness.children_of(server.pid):
            status = Path(f"/proc/{pid}/status")
            try:
                command, text = Path(f"/proc/{pid}/cmdline").read_bytes(), status.read_text()
            except OSError:
                continue
            # it has become agentsh-check, and holds itself
            if command.startswith(b"agentsh-check\0") and "Seccomp:\t2\n" in text:
                os.kill(pid, signal.SIGSTOP)
                return pid, status.read_text()
        return None

    pid, status = harness.wait_for(find, "agentsh-check runs")
    return creation, pid, status


def refused(answer, name):
    assert answer.status == 503, answer.body
    error = answer.json["error"]
    assert error["code"] == "E_UNAVAILABLE"
    assert f"policy '{name}' could not be checked" in error["message"]
    assert "agentsh policy validate" in error["message"]
    return error["message"]


def test_sbx_6_the_check_child_has_no_power(server):
    creation, pid, status = stopped_check(server, "slow")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0, (name, fields[name])
    assert fields["NoNewPrivs"] == "1"
    uids = set(fields["Uid"].split())
    assert len(uids) == 1 and "0" not in uids
    api = [p for p in harness.children_of(server.pid) if b"agentsh-api" in Path(f"/proc/{p}/cmdline").read_bytes()]
    assert os.stat(f"/proc/{api[0]}").st_uid not in map(int, uids)
    opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [o for o in opened if str(server.dir) in o and not o.endswith(".log")], opened
    os.kill(pid, signal.SIGCONT)
    assert creation.result().status == 201


def test_pol_4_a_killed_check_child_is_an_error_with_a_remedy(server):
    creation, pid, _ = stopped_check(server, "slow")
    os.kill(pid, signal.SIGKILL)
    assert "agentsh-check was killed by signal KILL (9)" in refused(creation.result(), "slow")
    # and the next one works
    assert server.session(policy="slow").exec("true")["result"]["exit_code"] == 0


def test_pol_4_a_check_child_that_hangs_holds_up_nobody(server):
    known = server.session(policy="observe")
    creation, pid, _ = stopped_check(server, "slow")
    # the launcher serves those that need no check
    assert server.session(policy="observe").exec("true")["result"]["exit_code"] == 0
    assert known.exec("true")["result"]["exit_code"] == 0
    assert creation.answer is None
    assert "did not answer in time" in refused(creation.result(), "slow")
    assert not Path(f"/proc/{pid}").exists()


BOMBS = {
    "aliases": "x: &x [1, 1]\ny: &y [*x, *x]\nz: [*y, *y]\n",
    "depth": "x: " + "[" * 100000 + "]" * 100000 + "\n",
    "regex": "command_rules:\n  - {name: r, commands: [x], decision: deny, args_regex: ['"
    + "(" * 5
    + "a{1,999}" * 40
    + "){1,999}" * 5
    + "']}\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_pol_4_a_bomb_is_refused(server, bomb):
    launcher = server.pid
    write(server, bomb, BOMBS[bomb])
    answer = server.post("/api/v1/sessions", {"workspace": str(server.workspace()), "policy": bomb})
    assert answer.status in (400, 503), answer.body
    assert bomb in answer.json["error"]["message"]
    assert server.pid == launcher and server.session(policy="observe").exec("true")["result"]["exit_code"] == 0
