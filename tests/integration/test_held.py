# SPDX-License-Identifier: Apache-2.0
"""Which file rules are held: what `policy test` and the wall report say is what happens in a session."""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import harness
import policy_server
import pytest
from policy_server import LIMITS

policies = policy_server.policies
FUSE = {"monitoring": {"mode": "fuse"}}
NATIVE = {"monitoring": {"mode": "native"}}
OPEN = (
    "version: 1\nname: {name}\ndefault: {{files: {default}, network: allow, commands: allow}}\nfile_rules: {rules}\n"
)
MODES = {"fuse": FUSE, "native": NATIVE}
USERS = {"root": 0, "user": harness.USER_UID}


def write(server, name, *rules, default="allow"):
    text = OPEN.format(name=name, default=default, rules=json.dumps(list(rules)))
    path = policy_server.write(server.policies, name, text=text)
    os.chown(path, server.uid, server.uid)


def rule(name, paths, operations=("*",), decision="deny"):
    return {"name": name, "paths": paths, "operations": list(operations), "decision": decision}


def wall(record):
    return next((w["state"], w["detail"]) for w in record["enforcement"] if w["wall"] == "file_rules")


# Each operation has a file of its own, so that none depends on another. Refused: the number of the error, else 0.
TRY = r"""
import json, os, subprocess, sys

def read(p):
    fd = os.open(p, os.O_RDONLY)
    os.read(fd, 1)

def write(p):
    os.write(os.open(p, os.O_WRONLY | os.O_APPEND), b"x")

def create(p):
    os.close(os.open(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))

def execute(p):
    subprocess.run([p], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

do = {
    "read": read,
    "open": lambda p: os.open(p, os.O_RDONLY),
    "write": write,
    "create": create,
    "delete": os.unlink,
    "rename": lambda p: os.rename(p, p + "-moved"),
    "stat": os.stat,
    "list": os.listdir,
    "chmod": lambda p: os.chmod(p, 0o700),
    "chown": lambda p: os.chown(p, os.getuid(), -1),
    "symlink": lambda p: os.symlink("x", p),
    "link": lambda p: os.link(p, p + "-linked"),
    "truncate": lambda p: os.truncate(p, 0),
    "execute": execute,
}
made = ("create", "symlink")  # these make the file
if sys.argv[1] == "prepare":
    for place in sys.argv[2:]:
        for op in do:
            path = f"{place}/denied-{op}"
            try:
                if op == "list":
                    os.mkdir(path)
                elif op not in made:
                    with open(path, "w") as f:
                        f.write("#!/bin/sh\n")
                    os.chmod(path, 0o755)
            except OSError as e:
                print(path, e, file=sys.stderr)
else:
    result = {}
    for target in json.load(sys.stdin):
        op, path = target
        try:
            do[op](path)
            result[f"{op} {path}"] = 0
        except OSError as e:
            result[f"{op} {path}"] = e.errno
    print(json.dumps(result))
"""
OPERATIONS = "read open write create delete rename stat list chmod chown symlink link truncate execute".split()
FEW = ["read", "write", "create", "delete", "stat", "execute"]
LOOKS = ["read", "stat"]
SINGLE = ["/etc/hostname", "/usr/bin/env", "/dev/full", "/proc/version", "/srv/denied"]
CHANGES = ["write", "create", "delete", "symlink", "truncate", "rename", "link"]


def says(server, workspace, target):
    """(decision, by whom it is enforced) of `policy test` in the workspace."""
    op, path = target
    run = subprocess.run(
        [harness.AGENTSH, "policy", "test", "--policy", "rules", "--json", "file", op, path],
        env={**server.environment(), "AGENTSH_CONFIG": str(server.config_file)},
        cwd=workspace,
        capture_output=True,
        text=True,
        check=False,
        **server.as_user(),
    )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    return answer["effective_decision"], answer["enforced_by"]


@pytest.mark.parametrize(("user", "mode"), [("root", "fuse"), ("user", "fuse"), ("user", "native")])
def test_fil_3_what_is_held_is_refused_in_a_session(policies, user, mode):
    """An operation that a rule denies and that somebody is said to refuse fails; one that nobody refuses succeeds."""
    s = policies(uid=USERS[user], config=MODES[mode], start=False)
    lists = {n: s.dir / n for n in ("watched", "shown", "hidden", "shut")}
    for path in lists.values():
        path.mkdir(mode=0o755)
        os.chown(path, s.uid, s.uid)
    filesystem = {
        "monitored_paths": [str(lists["watched"]), str(lists["shut"])],
        "read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64", "/sbin", str(lists["shown"])],
        "blocked_paths": [str(lists["hidden"]), str(lists["watched"] / "blocked")],
    }
    s.merge(s.config, {"filesystem": filesystem, "sandbox": {"allow_unenforced": [*LIMITS, "file_rules"]}})
    write(
        s,
        "rules",
        rule("files", ["**/denied-*", *SINGLE, f"{lists['hidden']}/**", f"{lists['watched']}/blocked/**"]),
        rule("place", [f"{lists['shut']}/**"], CHANGES),
    )
    write(s, "none")
    s.start()
    workspace = s.workspace()
    native = ["/tmp", "/home/agent", "/dev/shm"]
    shared = [*map(str, lists.values()), str(lists["watched"] / "blocked")]
    (lists["watched"] / "blocked").mkdir()
    os.chown(lists["watched"] / "blocked", s.uid, s.uid)
    thorough = ["/workspace/made", "/tmp", *map(str, [lists["watched"], lists["shown"], lists["shut"]])]
    results = {}
    for policy in ("none", "rules"):
        program = workspace / "try.py"
        shutil.rmtree(workspace / "made", ignore_errors=True)
        made = workspace / "made"
        made.mkdir()
        os.chown(made, s.uid, s.uid)
        program.write_text(TRY)
        for place in [str(made), *shared]:
            subprocess.run(["sh", "-c", f"rm -rf {place}/denied-*"], check=True)
            subprocess.run(["python3", "-I", str(program), "prepare", place], check=True, **s.as_user())
        ses = s.session(workspace=str(workspace), policy=policy)
        targets = [
            (op, f"{place}/denied-{op}")
            for place in ["/workspace/made", str(made), *native, *shared]
            for op in (OPERATIONS if place in thorough else FEW)
            if op in LOOKS or place != str(made)  # by the other path, they would be done twice
        ]
        targets += [(op, path) for path in SINGLE for op in FEW if op != "create"]
        ses.script(f"python3 -I /workspace/try.py prepare {' '.join(native)}")
        done = ses.exec(
            "python3", "-I", "/workspace/try.py", "run", stdin=json.dumps(targets), max_output_bytes=1 << 20
        )
        results[policy] = json.loads(done["result"]["stdout"])
        if policy == "rules":
            state, detail = wall(ses.record)
            assert state == ("partial" if mode == "fuse" else "unavailable"), detail
            assert "/home/agent" in detail, detail
        ses.destroy()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda t: says(s, workspace, t), targets))
    by, wrong = {}, []
    for (op, path), (decision, holder) in zip(targets, answers, strict=True):
        key = f"{op} {path}"
        by.setdefault(holder, []).append(key)
        if decision == "deny" and holder != "nothing" and results["rules"][key] == 0:
            wrong.append((key, holder, "is not refused"))
        # a rule alone does not refuse what nobody enforces
        if holder == "nothing" and results["rules"][key] != results["none"][key]:
            wrong.append((key, holder, results["rules"][key], results["none"][key]))
    assert not wrong, wrong
    # each of these refuses something here, which goes ahead without the rule where only the rule is the reason
    assert set(by) == {"nothing", "view", "mount", "landlock", *(["agentsh-fs"] if mode == "fuse" else [])}
    assert all(results["none"][k] == 0 for k in by.get("agentsh-fs", []) if "made" in k), results["none"]
    assert all(results["none"][k] == 0 for k in by["nothing"] if k.split()[1].startswith(tuple(native)))


WALLS = {
    "fuse": {"default": "partial", "ci": "partial", "strict": "partial", "observe": "absent"},
    "native": {"observe": "absent"},
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_fil_3_walls_of_the_shipped_policies(new_server, user, mode):
    s = new_server(uid=USERS[user], config={**MODES[mode], "sandbox": {"allow_unenforced": LIMITS}})
    for policy in ("default", "ci", "strict", "observe"):
        a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": policy})
        want = WALLS[mode].get(policy)
        if want is None:
            assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "file_rules"), a.body
            message = a.json["error"]["message"]
            for word in (f"'{policy}'", "deny-secrets", "native", "/dev/fuse", "observe", "sandbox.allow_unenforced"):
                assert word in message, message
            continue
        assert a.status == 201, a.body
        state, detail = wall(a.json)
        assert state == want, (policy, detail)
        if want == "partial":
            assert "/home/agent, /tmp" in detail and "/workspace" not in detail, detail


HELD = {
    # name: (rules, default, how it starts with a file server, and without)
    "nothing": ([rule("a", ["**"], decision="allow")], "allow", "absent", "absent"),
    "elsewhere": ([rule("a", ["/srv/**", "/etc/shadow", "/root/**"])], "allow", "up", "up"),
    "shut": ([rule("a", ["/usr/**"], ["write", "delete"])], "allow", "up", "up"),
    "whole-place": ([rule("a", ["/var/tmp/**"], ["create", "delete", "symlink"])], "allow", "up", "up"),
    # without a file server, a symbolic link is a new name
    "part-of-place": ([rule("a", ["/var/tmp/**"], ["create", "delete"])], "allow", "partial", "refused"),
    "workspace": ([rule("a", ["/workspace/a/**"])], "allow", "up", "refused"),
    "both": ([rule("a", ["**/.env"])], "allow", "partial", "refused"),
    "only-native": ([rule("a", ["/tmp/a/**"])], "allow", "refused", "refused"),
    "second": ([rule("b", ["/srv/**"]), rule("a", ["/tmp/a"])], "allow", "refused", "refused"),
    "equal": ([rule("a", ["**"], decision="allow")], "deny", "up", "up"),
    "default": ([rule("a", ["/usr/**"], decision="allow")], "deny", "partial", "refused"),
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_fil_3_a_policy_whose_rules_are_held_starts(policies, user, mode):
    s = policies(uid=USERS[user], config=MODES[mode])
    for name, (rules, default, fuse, native) in HELD.items():
        write(s, name, *rules, default=default)
        a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": name})
        want = fuse if mode == "fuse" else native
        if want != "refused":
            assert a.status == 201, (name, a.body)
            assert wall(a.json)[0] == want, (name, wall(a.json))
            continue
        assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "file_rules"), (name, a.body)
        first = "default" if name == "default" else "a"
        assert f"rule '{first}' of policy '{name}'" in a.json["error"]["message"], a.body
        assert mode in a.json["error"]["message"], a.body


def test_fil_3_a_real_path_is_native_without_a_file_server(policies):
    """A rule that denies counts for the workspace by its real path, too."""
    s = policies(config=NATIVE)
    workspace = s.workspace()
    write(s, "real", rule("a", [f"{workspace}/secret"]))
    a = s.post("/api/v1/sessions", {"workspace": str(workspace), "policy": "real"})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": "real"})
    assert a.status == 503, "it lies in /tmp, which is the session's own"
    write(s, "other", rule("a", ["/srv/project/secret"]))
    assert s.post("/api/v1/sessions", {"workspace": str(workspace), "policy": "other"}).status == 201
