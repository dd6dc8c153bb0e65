# SPDX-License-Identifier: Apache-2.0
"""Policies by the command line: shipped ones with what each allows and denies, and at work, checks of files, sets."""

import json
import os
import re
import shutil
import subprocess

import harness
import pytest


def agentsh(*args, env=None):
    return subprocess.run(
        [str(harness.AGENTSH), *map(str, args)], capture_output=True, text=True, env={**os.environ, **(env or {})}
    )


@pytest.fixture
def at(tmp_path):
    """A directory of policies; `at(...)` runs `agentsh policy` with it."""
    (tmp_path / "sets").mkdir(mode=0o755)

    def run(*words, env=None):
        verb = 2 if words[0] in ("list", "show", "validate", "test", "sets") else 1
        return agentsh("policy", *words[: verb - 1], "--set", f"policies.dir={tmp_path}", *words[verb - 1 :], env=env)

    run.dir = tmp_path
    return run


def decide(at, policy, *words):
    r = at("test", "--policy", policy, "--json", *words)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


REGISTRY = "registry.set.example"
SECRETS = [
    "/workspace/.env",
    "/workspace/sub/.env",
    "/workspace/.env.production",
    "/home/agent/.ssh/id_ed25519",
    "/workspace/.ssh/config",
    "/home/agent/.aws/credentials",
    "/home/agent/.netrc",
    "/home/agent/.kube/config",
    "/home/agent/.docker/config.json",
    "/home/agent/.config/gh/hosts.yml",
    "/home/agent/.mozilla/firefox/x/logins.json",
    "/home/agent/.config/google-chrome/Default/Cookies",
    "/home/agent/.config/google-chrome-beta/Default/Cookies",
    "/home/agent/snap/chromium/common/x",
    "/workspace/.env.staging",
    "/workspace/.env.bak",
    "/workspace/.env~",
    "/workspace/id_dsa",
    "/workspace/id_ed25519_sk",
    "/workspace/.bash_history",
    "/workspace/.config/rclone/rclone.conf",
    "/workspace/.terraform.d/credentials.tfrc.json",
    "/workspace/.m2/settings.xml",
    "/etc/shadow",
    "/etc/shadow.bak",
    "/etc/krb5.keytab",
]
NO_SECRETS = [
    "/workspace/.env.example",
    "/workspace/.env.sample",
    "/workspace/.env.template",
    "/workspace/env",
    "/workspace/.npmrc",
]
GIT = [
    "/workspace/.git/hooks/pre-commit",
    "/workspace/.git/config",
    "/workspace/sub/.git/hooks/x",
    "/workspace/.git/commondir",
    "/workspace/.git/worktrees/w/config.worktree",
    "/workspace/.git/worktrees/w/commondir",
    "/workspace/.git/worktrees/w/modules/m/hooks/x",
    "/workspace/.git/modules/a/b/commondir",
    "/home/me/main/.git/config",
]
TOOLS = [
    ["gcc", "-c", "a.c"],
    ["git", "status"],
    ["vi", "a.c"],
    ["sh", "-c", "true"],
    ["bash"],
    ["make"],
    ["python3"],
]

# policy, words, effective decision, rule
TABLE = [
    *[(p, ["file", "read", s], "deny", "deny-secrets") for p in ("default", "strict", "ci") for s in SECRETS],
    *[("observe", ["file", "read", s], "allow", "default") for s in SECRETS],
    *[(p, ["file", "read", s], "allow", None) for p in ("default", "strict", "ci") for s in NO_SECRETS],
    # what git runs cannot be changed elsewhere and put back
    *[
        (p, ["file", o, g], "deny", "deny-git-move")
        for p in ("default", "strict", "ci")
        for g in ("/workspace/.git", "/workspace/sub/.git")
        for o in ("rename", "symlink")
    ],
    *[(p, ["file", "create", "/workspace/.git"], "allow", None) for p in ("default", "strict", "ci")],
    *[(p, ["file", "rename", "/workspace/.git/index.lock"], "allow", None) for p in ("default", "strict", "ci")],
    *[
        (p, ["file", o, g], "deny", "deny-git-control-writes")
        for p in ("default", "strict", "ci")
        for g in GIT
        for o in ("write", "create", "delete", "rename")
    ],
    *[(p, ["file", "read", g], "allow", None) for p in ("default", "strict", "ci") for g in GIT],
    # a repository that the session made
    *[
        (p, ["--made", "file", o, g], "allow", None)
        for p in ("default", "strict", "ci")
        for g in GIT
        for o in ("write", "create", "rename")
    ],
    *[
        (p, ["--made", "file", "rename", "/workspace/.git"], "deny", "deny-git-move")
        for p in ("default", "strict", "ci")
    ],
    *[
        (p, ["--made", "file", "write", s], "deny", "deny-secrets")
        for p in ("default", "strict", "ci")
        for s in SECRETS[:3]
    ],
    # a name is no secret: `ls -la` beside it works
    *[(p, ["file", "stat", "/workspace/.env"], "allow", None) for p in ("default", "strict", "ci")],
    *[(p, ["file", "list", "/workspace/.ssh"], "deny", "deny-secrets") for p in ("default", "strict", "ci")],
    *[(p, ["exec", *t], "allow", None) for p in ("default", "strict", "ci", "observe") for t in TOOLS],
    *[
        (p, ["file", o, "/workspace/src/main.c"], "allow", None)
        for p in ("default", "strict", "ci")
        for o in ("read", "write", "create", "open", "stat", "truncate", "rename", "execute")
    ],
    *[(p, ["file", "write", "/usr/bin/ls"], "deny", "default") for p in ("default", "strict", "ci")],
    *[(p, ["file", "read", "/usr/lib/x.so"], "allow", "allow-system-read") for p in ("default", "strict", "ci")],
    *[
        (p, ["file", "read", "/etc/ssl/certs/ca.pem"], "allow", "allow-system-read")
        for p in ("default", "strict", "ci")
    ],
    *[(p, ["file", "read", "/root/x"], "deny", "default") for p in ("default", "strict", "ci")],
    *[(p, ["file", "read", "../root/x"], "deny", "default") for p in ("default", "strict", "ci")],
    *[(p, ["exec", "sudo", "id"], "deny", "no-privilege") for p in ("default", "strict", "ci", "observe")],
    *[(p, ["exec", "/workspace/su"], "deny", "no-privilege") for p in ("default", "strict", "ci", "observe")],
    *[(p, ["exec", "unshare", "true"], "deny", "deny-privilege") for p in ("default", "strict", "ci")],
    ("default", ["file", "delete", "/workspace/a"], "allow", "allow-workspace"),
    ("strict", ["file", "delete", "/workspace/a"], "deny", "approve-workspace-delete"),
    *[
        ("strict", ["file", "delete", f"/workspace/{f}"], "allow", "allow-tool-deletes")
        for f in (".git/index.lock", "sub/.git/refs/heads/x.lock", ".git/objects/ab/tmp_obj_x", ".a.c.swp", "a.c~")
    ],
    *[
        ("strict", ["file", "delete", f"/workspace/{f}"], "deny", "approve-workspace-delete")
        for f in (".git/objects/ab/cd", ".git/index", "yarn.lock")
    ],
    ("default", ["exec", "/workspace/a.out"], "allow", "default"),
    ("strict", ["exec", "/workspace/a.out"], "deny", "default"),
    ("strict", ["exec", "/workspace/ls"], "deny", "default"),
    ("strict", ["exec", "curl", "x"], "deny", "default"),
    ("strict", ["exec", "npm", "install", "x"], "deny", "approve-package-install"),
    ("strict", ["exec", "npm", "test"], "allow", None),
    ("strict", ["exec", "python3", "-m", "pip", "install", "x"], "deny", "approve-python-package-install"),
    ("strict", ["exec", "python3", "-m", "pytest"], "allow", "allow-building"),
    ("strict", ["exec", "/usr/lib/git-core/git-push", "x"], "deny", "approve-git-push-program"),
    ("strict", ["exec", "git", "push"], "deny", "approve-git-push"),
    # words of the caller's own that begin like a command's
    *[
        ("strict", ["exec", *words], "allow", None)
        for words in (
            ["git", "commit", "-m", "push it"],
            ["git", "commit", "-m", "remote control"],
            ["git", "remote", "-v"],
            ["cargo", "test", "add_one"],
            ["npm", "run", "get-data"],
        )
    ],
    ("strict", ["exec", "git", "-C", "x", "push"], "deny", "approve-git-push"),
    ("strict", ["exec", "git", "remote", "add", "x", "y"], "deny", "approve-git-push"),
    ("strict", ["exec", "git", "remote", "set-url", "x", "y"], "deny", "approve-git-push"),
    ("strict", ["exec", "npm", "i", "x"], "deny", "approve-package-install"),
    ("strict", ["exec", "go", "get", "x"], "deny", "approve-package-install"),
    ("default", ["exec", "npm", "install", "x"], "allow", "default"),
    ("default", ["exec", "rm", "-rf", "build"], "allow", "default"),
    ("default", ["exec", "rm", "-rf", "/"], "deny", "deny-remove-root"),
    *[
        ("default", ["exec", "rm", "-r", x], "deny", "deny-remove-root")
        for x in (
            "/usr",
            "/usr/",
            "//usr",
            "/./usr//",
            "/usr/*",
            "//",
            "/.",
            "/..",
            "/*",
            "~",
            "~/",
            "~/*",
            "--no-preserve-root",
        )
    ],
    *[
        ("default", ["exec", "rm", "-r", x], "allow", "default")
        for x in ("/usr/x", ".", "..", "./usr", "a/", "/usrx", "*")
    ],
    ("default", ["exec", "mkfs.ext4", "/dev/sda"], "deny", "deny-system"),
    ("default", ["exec", "git", "push", "--force"], "allow", "log-force-push"),
    ("default", ["exec", "git", "push", "-uf", "origin"], "allow", "log-force-push"),
    ("default", ["exec", "git", "push", "origin", "--force-with-lease=x"], "allow", "log-force-push"),
    ("default", ["exec", "git", "push", "origin", "+x"], "allow", "log-forced-refspec"),
    ("default", ["exec", "git", "push", "origin", "x"], "allow", "default"),
    ("ci", ["exec", "npm", "install", "x"], "allow", "default"),
    ("ci", ["exec", "npm", "publish"], "deny", "deny-publishing"),
    ("ci", ["exec", "git", "push"], "deny", "deny-git-push"),
    ("ci", ["exec", "git", "send-pack", "x"], "deny", "deny-git-push"),
    ("ci", ["exec", "/usr/lib/git-core/git-push", "x"], "deny", "deny-git-push-program"),
    ("ci", ["exec", "git", "status"], "allow", "default"),
    ("ci", ["exec", "git", "-c", "a=b", "push", "x"], "deny", "deny-git-push"),
    ("ci", ["exec", "git", "commit", "-m", "push it"], "allow", "default"),
    ("ci", ["exec", "npm", "pub"], "deny", "deny-publishing"),
    ("ci", ["exec", "cargo", "publish", "--dry-run"], "deny", "deny-publishing"),
    ("ci", ["exec", "cargo", "test", "push_back"], "allow", "default"),
    ("ci", ["exec", "npm", "run", "publish-docs"], "allow", "default"),
    *[(p, ["net", f"{REGISTRY}:443"], "allow", "allow-package-registries") for p in ("default", "ci")],
    *[(p, ["dns", REGISTRY], "allow", "allow-package-registries") for p in ("default", "ci")],
    *[(p, ["net", "169.254.169.254:80"], "deny", "deny-metadata") for p in ("default", "ci")],
    *[(p, ["net", "[::ffff:169.254.169.254]:80"], "deny", "deny-metadata") for p in ("default", "ci")],
    *[(p, ["net", "127.0.0.1:8080"], "allow", "allow-localhost") for p in ("default", "ci")],
    *[("default", ["net", f"{a}:443"], "deny", "deny-private") for a in ("10.0.0.1", "192.168.1.1", "172.16.9.9")],
    ("default", ["net", "other.example:443"], "deny", "approve-https"),
    ("default", ["dns", "other.example"], "deny", "approve-https"),
    ("default", ["net", "other.example:22"], "deny", "default"),
    ("ci", ["net", "other.example:443"], "deny", "default"),
    ("strict", ["net", f"{REGISTRY}:443"], "deny", "default"),
    ("strict", ["dns", "other.example"], "deny", "default"),
    ("observe", ["net", "10.0.0.1:22"], "allow", "default"),
]


def test_pol_1_shipped_policies_decide_as_their_tables_say(at):
    (at.dir / "sets/package-registries.yaml").write_text(
        f"version: 1\nname: package-registries\nkind: domains\nitems: [{REGISTRY}]\n"
    )
    wrong = []
    for policy, words, want, rule in TABLE:
        got = decide(at, policy, *words)
        if got["effective_decision"] != want or (rule is not None and got["rule"] != rule):
            wrong.append((policy, words, want, rule, got["effective_decision"], got["rule"]))
    assert not wrong


WORK = """\
set -e
git init -q . && echo one >a && git add a && git -c user.name=a -c user.email=b commit -qm 'push it'
sed -i s/one/two/ a && git -c user.name=a -c user.email=b commit -qam two && git log --format=%s
printf 'int main(void) { return 0; }' >m.c && gcc m.c -o m && printf 'x: a\\n\\t@echo made\\n' >Makefile && make -s
python3 -c 'import subprocess; subprocess.run(["ls", "m"])'
find . -name a -exec cat {} + | xargs echo
"""


@pytest.mark.parametrize("policy", ["default", "strict", "ci", "observe"])
def test_pol_1_a_coding_agent_works_under_every_shipped_policy(new_server, policy):
    limits = ["memory_limit", "cpu_limit", "pids_limit", "io_limit", "disk_limit", "network_limit"]
    s = new_server(config={"sandbox": {"allow_unenforced": [*limits, "file_rules"]}})
    done = s.session(policy=policy).script(f"exec 2>&1\n{WORK}")
    assert done["result"]["stdout"].split("\n") == ["two", "push it", "made", "m", "two", ""], done["result"]
    assert done["events"]["blocked_operations"] == []


@pytest.mark.parametrize("policy", ["default", "strict", "ci", "observe"])
def test_pol_1_what_the_view_shows_may_be_read_and_run(at, policy):
    """The set `shown` has all that filesystem.read_only_passthrough_paths has."""
    rows = json.loads(agentsh("config", "keys", "--json").stdout)["keys"]
    (row,) = [r for r in rows if r["key"] == "filesystem.read_only_passthrough_paths"]
    assert "/opt" in row["default"]
    for path in row["default"].split(","):
        for operation in ("read", "execute", "list"):
            assert decide(at, policy, "file", operation, f"{path}/x")["decision"] == "allow", (path, operation)


def test_pol_5_shipped_policies_are_valid_without_a_warning(at):
    (at.dir / "sets/package-registries.yaml").write_text(
        f"version: 1\nname: package-registries\nkind: domains\nitems: [{REGISTRY}]\n"
    )
    native = ("--set", "monitoring.mode=native", "--set", "sandbox.allow_unenforced=file_rules")
    r = at("validate", *native, "--strict")
    assert r.returncode == 0
    # nothing is wrong with them; what is not enforced yet is said
    assert re.findall(r"^agentsh: policy '(\w+)': (\w+) rules are not enforced here: (\S+),", r.stderr, re.M) == [
        ("ci", "file", "deny-secrets"),
        ("ci", "network", "deny-metadata"),
        ("default", "file", "deny-secrets"),
        ("default", "network", "deny-metadata"),
        ("strict", "file", "deny-secrets"),
    ]
    assert len(r.stderr.splitlines()) == 5 and r.stderr.count("filesystem.blocked_paths") == 3
    assert r.stdout.splitlines() == [
        f"The policy '{n}' is valid." for n in ("ci", "default", "doctor", "observe", "strict")
    ]


def test_pol_5_shipped_policies_can_be_used_whatever_the_mode_of_their_sources(tmp_path):
    """A tarball, or a umask of 002, leaves sources that their group can write; a server refuses such a policy."""
    tree, build, root = tmp_path / "tree", tmp_path / "build", tmp_path / "root"
    shutil.copytree(harness.TOP / "packaging/policies", tree / "packaging/policies")
    (tree / "meson.build").write_text("project('policies')\nsubdir('packaging/policies')\n")
    for file in tree.rglob("*.yaml"):
        file.chmod(0o664)
    for command in (["meson", "setup", build, tree], ["ninja", "-C", build], ["meson", "install", "-C", build]):
        subprocess.run(
            command, check=True, capture_output=True, umask=0o002, env={**os.environ, "DESTDIR": str(root)}
        )
    for place in (build, root):
        modes = {f.name: oct(f.stat().st_mode & 0o777) for f in place.rglob("policies/**/*.yaml")}
        assert set(modes) == {f.name for f in tree.rglob("*.yaml")} and set(modes.values()) == {"0o644"}, modes


def test_pol_7_test_prints_decision_rule_and_place(at):
    (at.dir / "mine.yaml").write_text(
        "version: 1\nname: mine\nfile_rules:\n  - name: env\n    paths: ['**/.env']\n    decision: deny\n"
        "    message: 'not {path}'\n"
    )
    got = decide(at, "mine", "file", "read", "x/.env")
    assert got["decision"] == "deny" and got["rule"] == "env" and got["line"] == 4 and got["column"] == 5
    assert got["file"] == str(at.dir / "mine.yaml") and got["cached"] is False
    assert got["message"] == "not /workspace/x/.env"
    r = at("test", "--policy", "mine", "file", "read", "x/.env")
    assert r.stdout.splitlines() == [
        "Decision:  deny",
        "Rule:      env",
        f"Place:     {at.dir}/mine.yaml:4:5",
        "Target:    /workspace/x/.env",
        "Reason:    not /workspace/x/.env",
        "Enforced:  by agentsh-fs, the session's file server",
    ]
    r = at("test", "--policy", "mine", "file", "reed", "x")
    assert "no file operation 'reed' (did you mean 'read'?)" in r.stderr
    # what cannot be decided is refused by no place of a file
    r = at("test", "--policy", "observe", "dns", "a b")
    assert r.stdout.splitlines()[:3] == ["Decision:  deny", "Rule:      default", "Place:     built in"]
    # "--" ends our own words, once
    for words in (["exec", "--", "id", "-u"], ["--", "exec", "id", "-u"], ["exec", "id", "-u"]):
        assert decide(at, "observe", *words)["target"] == "/usr/bin/id"
    (at.dir / "dashes.yaml").write_text(
        "version: 1\nname: dashes\ncommand_rules:\n  - {name: d, commands: [echo], args_pattern: ['--'], decision: deny}\n"
    )
    assert decide(at, "dashes", "exec", "--", "echo", "--")["rule"] == "d"
    assert decide(at, "dashes", "exec", "--", "echo")["rule"] == "default"
    # a file anywhere, also without a slash, and the default policy
    r = subprocess.run(
        [harness.AGENTSH, "policy", "validate", "mine.yaml"], cwd=at.dir, capture_output=True, text=True
    )
    assert (r.returncode, r.stdout) == (0, "The policy 'mine.yaml' is valid.\n")
    assert decide(at, at.dir / "mine.yaml", "file", "read", "/a")["rule"] == "default"
    r = at("test", "--json", "file", "read", "/a")
    assert json.loads(r.stdout)["policy"] == "default"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["file"],
        ["file", "reed", "/a"],
        ["exec"],
        ["net", "a"],
        ["net", "a:0"],
        ["net", "a:65536"],
        ["net", "a: 80"],
        ["net", "a:+80"],
        ["net", "[a]:80"],
        ["dns"],
        ["dns", ""],
        ["file", "read", ""],
        ["x"],
    ],
)
def test_pol_7_test_needs_a_whole_operation(at, words):
    r = at("test", "--policy", "observe", *words)
    assert r.returncode == 125 and "E_BAD_REQUEST" in r.stderr and r.stdout == ""


def test_pol_5_validate_reports_everything_with_its_place(at):
    (at.dir / "bad.yaml").write_text(
        "version: 1\nname: bad\nfile_rule: []\nfile_rules:\n  - name: a\n    paths: ['/w/**']\n    decision: alow\n"
    )
    r = at("validate", "bad")
    assert r.returncode == 125
    assert f"{at.dir}/bad.yaml:3:1: error: unknown key 'file_rule' (did you mean 'file_rules'?)" in r.stderr
    assert f"{at.dir}/bad.yaml:7:15: error: unknown decision 'alow' (did you mean 'allow'?)" in r.stderr
    r = at("validate", "--json", "bad")
    got = json.loads(r.stdout)["policies"][0]
    assert got["valid"] is False and len(got["problems"]) == 2 and r.returncode == 125


def test_fil_8_validate_refuses_what_the_mode_cannot_enforce(at):
    (at.dir / "env.yaml").write_text(
        "version: 1\nname: env\ndefault: {files: allow, network: allow, commands: allow}\n"
        "file_rules: [{name: no-env, paths: ['/workspace/.env'], decision: deny}]\n"
    )
    native = ("--set", "monitoring.mode=native")
    for words in ((), (*native, "--set", "sandbox.allow_unenforced=file_rules")):
        r = at("validate", *words, "env")
        assert (r.returncode, r.stdout) == (0, "The policy 'env' is valid.\n"), r.stderr
    r = at("validate", *native, "env", "observe")
    problem = "rule 'no-env' of policy 'env' cannot be enforced in /workspace with monitoring.mode native"
    assert (r.returncode, r.stdout) == (125, "The policy 'observe' is valid.\n")
    assert r.stderr.count(problem) == 1 and "E_ENFORCEMENT" in r.stderr
    got = json.loads(at("validate", *native, "--json", "env").stdout)["policies"][0]
    assert got["valid"] is False and len(got["problems"]) == 1 and problem in got["problems"][0]
    assert got["not_held"][0]["rule"] == "no-env"
    listed = {p["name"]: p for p in json.loads(at("list", *native, "--json").stdout)["policies"]}
    assert problem in listed["env"]["description"] and listed["observe"]["valid"]


def test_pol_5_an_error_is_printed_once_with_the_choices(at):
    (at.dir / "bad.yaml").write_text(
        "version: 1\nname: bad\nfile_rules:\n  - {name: a, paths: [.env], decision: block}\n"
        "  - {name: b, paths: ['@none'], decision: deny}\nresource_limits: {max_memory_mb: 2GB}\n"
    )
    r = at("validate", "bad")
    place = f"{at.dir}/bad.yaml"
    assert (r.returncode, r.stdout) == (125, "")
    assert r.stderr.splitlines() == [
        f"{place}:4:40: error: unknown decision 'block'; choices: allow, deny, approve, log, redirect, soft_delete",
        f"{place}:4:23: error: '.env': a path pattern begins with '/' or '**/' (did you mean '**/.env'?)",
        f"{place}:5:23: error: no set 'none'; choices: git-control, secrets, shown",
        f"{place}:6:34: error: 'max_memory_mb' must be a number of MB, without the unit",
    ]
    (at.dir / "bad.yaml").write_text(
        "version: 1\nname: bad\nfile_rules:\n\t- {name: a, paths: ['/a'], decision: deny}\n"
    )
    r = at("validate", "bad")
    assert r.returncode == 125
    assert r.stderr == f"{place}:4:1: error: a tab stands here: YAML is indented with spaces\n"
    r = at("validate", "none-such")  # what stands in no report is still said
    assert r.returncode == 125 and r.stderr.startswith("agentsh: E_BAD_REQUEST: no policy 'none-such'; there is ")


def test_pol_7_test_says_what_is_not_enforced(at):
    r = at("test", "--policy", "default", "file", "read", "/workspace/.env")
    assert r.stderr.startswith("agentsh: policy 'default': not held everywhere: deny-secrets (in ")
    assert "\nEnforced:  by agentsh-fs, the session's file server\n" in r.stdout
    r = at("test", "--set", "monitoring.mode=native", "--policy", "default", "file", "read", "/workspace/.env")
    assert r.stderr.startswith("agentsh: policy 'default': file rules are not enforced here: deny-secrets, ")
    assert r.stderr.count("\n") == 1 and "filesystem.blocked_paths" in r.stderr
    for words in (["net", "a.example:443"], ["dns", "a.example"]):
        r = at("test", "--policy", "default", "--json", *words)
        assert json.loads(r.stdout)["decision"]
        assert r.stderr.startswith("agentsh: policy 'default': network rules are not enforced here: deny-metadata, ")
    assert at("test", "--policy", "default", "exec", "id").stderr == ""
    assert at("test", "--policy", "observe", "file", "read", "/x").stderr == ""


def test_pol_5_a_set_that_is_nearly_right_is_proposed(at):
    (at.dir / "typo.yaml").write_text(
        "version: 1\nname: typo\nfile_rules:\n  - {name: a, paths: ['@secret'], decision: deny}\n"
    )
    r = at("validate", "typo")
    assert "typo.yaml:4:23: error: no set 'secret' (did you mean 'secrets'?)" in r.stderr


def test_pol_7_test_says_what_the_server_does_with_an_approve(at):
    (at.dir / "ask.yaml").write_text(
        "version: 1\nname: ask\ncommand_rules:\n  - {name: a, commands: [ls], decision: approve}\n"
    )
    config = at.dir / "config"
    for mode, want in (("none", "deny"), ("shadow", "allow")):
        config.write_text(f"policies: {{dir: {at.dir}}}\napprovals: {{mode: {mode}}}\n")
        r = agentsh("policy", "test", "--config", config, "--policy", "ask", "--json", "exec", "ls")
        got = json.loads(r.stdout)
        assert (got["decision"], got["effective_decision"]) == ("approve", want)


def test_pol_7_test_looks_at_a_program_as_a_session_does(at, tmp_path):
    (at.dir / "mine.yaml").write_text(
        "version: 1\nname: mine\ncommand_rules:\n"
        "  - {name: ldd, commands: [ldd], decision: deny}\n"
        "  - {name: ld, kinds: [loader], decision: deny}\n"
        "  - {name: whole, commands: [own], args_pattern: ['a *'], args_whole: true, decision: deny}\n"
    )
    between, own = tmp_path / "between", tmp_path / "own"
    between.write_text("#!/usr/bin/ldd\n")
    own.write_text("#!/bin/sh -e\n")
    for p in (between, own):
        p.chmod(0o755)
    assert decide(at, "mine", "exec", between)["rule"] == "ldd"
    assert decide(at, "mine", "exec", own, "a", "b")["rule"] == "whole"
    assert decide(at, "mine", "exec", own, "b", "a")["rule"] == "default"
    loader = next(
        (p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p)), None
    )
    if loader:
        assert decide(at, "mine", "exec", loader, "/bin/true")["rule"] == "ld"


SPECIFIED = """\
version: 1
name: specified
description: Standard policy for AI agent execution
file_rules:
  - {name: allow-workspace-read, paths: ["/workspace/**"], operations: [read, open, stat, list], decision: allow}
  - {name: allow-workspace-write, paths: ["/workspace/**"], operations: [write, create], decision: allow}
  - {name: approve-workspace-delete, paths: ["/workspace/**"], operations: [delete], decision: approve}
  - {name: allow-tmp, paths: ["/tmp/**", "/var/tmp/**"], operations: ["*"], decision: allow}
  - {name: deny-etc, paths: ["/etc/**"], operations: ["*"], decision: deny}
  - {name: deny-sensitive, paths: ["/home/**/.ssh/**", "**/.env"], operations: ["*"], decision: deny}
  - {name: default-deny-file, paths: ["**"], operations: ["*"], decision: deny}
network_rules:
  - {name: allow-https, ports: [443], decision: allow}
  - {name: allow-http, ports: [80], decision: allow}
  - {name: block-internal, cidrs: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"], decision: deny}
  - {name: default-deny-network, domains: ["*"], decision: deny}
command_rules:
  - {name: allow-safe-commands, commands: [ls, cat, head, tail, grep, find, pwd, echo], decision: allow}
  - {name: approve-package-install, commands: [npm, pip], args_pattern: ["install*", "add*"], decision: approve}
  - {name: deny-dangerous, commands: [rm, dd, mkfs, fdisk], args_pattern: ["-rf*", "-r *"], decision: deny}
"""


def test_pol_5_the_policy_of_the_specification_is_warned_of_where_it_leaks(at):
    (at.dir / "specified.yaml").write_text(SPECIFIED)
    r = at("validate", "specified")
    assert r.returncode == 0
    # its denies of all the rest are as they should be
    assert re.findall(r"deny '([a-z-]+)' comes too late", r.stderr) == ["deny-sensitive", "block-internal"]
    assert re.findall(r"get around the arguments of rule '([a-z-]+)'", r.stderr) == ["approve-package-install"]
    assert r.stderr.count("warning:") == 3


def test_pol_5_strict_makes_warnings_errors(at):
    (at.dir / "late.yaml").write_text(
        "version: 1\nname: late\nfile_rules:\n  - {name: a, paths: ['/w/**'], decision: allow}\n"
        "  - {name: b, paths: ['**/.env'], decision: deny}\n"
    )
    r = at("validate", "late")
    assert r.returncode == 0 and "late.yaml:5:5: warning: deny 'b' comes too late" in r.stderr
    r = at("validate", "--strict", "late")
    assert r.returncode == 125 and "late.yaml:5:5: error: deny 'b' comes too late" in r.stderr


def test_pol_7_list_and_show(at):
    (at.dir / "mine.yaml").write_text("version: 1\nname: mine\ndescription: my own\n")
    rows = at("list").stdout.splitlines()
    assert rows[0].split() == ["NAME", "FILE", "DESCRIPTION"]
    assert [r.split()[0] for r in rows[1:]] == ["ci", "default", "doctor", "mine", "observe", "strict"]
    got = {p["name"]: p for p in json.loads(at("list", "--json").stdout)["policies"]}
    assert got["mine"]["description"] == "my own" and got["mine"]["version"].startswith("sha256:")
    shown = json.loads(at("show", "--json", "strict").stdout)
    assert shown["default"] == {"files": "deny", "network": "deny", "commands": "deny"}
    assert shown["file_rules"][0]["name"] == "deny-secrets" and shown["file_rules"][0]["final"] is True
    text = at("show", "mine").stdout.splitlines()
    assert text[0] == "Name:     mine" and "files: all denied" in text
    r = at("show", "none")
    assert r.returncode == 125 and "no policy 'none'; there is 'ci', 'default', 'doctor', 'mine'" in r.stderr


def test_pol_7_a_policy_that_others_can_write_is_refused(at):
    f = at.dir / "mine.yaml"
    f.write_text("version: 1\nname: mine\n")
    f.chmod(0o666)
    r = at("show", "mine")
    assert r.returncode == 125 and "no other user may be able to write it" in r.stderr


def test_pol_1_sets_are_made_from_the_package_managers_settings(at, tmp_path):
    home = tmp_path / "home"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://pip.set.example/simple\n# https://no.example\n"
    )
    (home / ".npmrc").write_text("registry=https://npm.set.example/\n")
    r = at("sets", "--refresh", env={"HOME": str(home), "PIP_EXTRA_INDEX_URL": "https://env.set.example/x"})
    assert r.returncode == 0, r.stderr
    assert "package-registries" in r.stdout
    made = at("sets", "package-registries").stdout
    assert '"pip.set.example"' in made and '"npm.set.example"' in made and "no.example" not in made
    if subprocess.run(["python3", "-m", "pip", "--version"], capture_output=True).returncode == 0:
        assert '"env.set.example"' in made
    assert (at.dir / "sets/package-registries.yaml").stat().st_mode & 0o777 == 0o644
    assert decide(at, "ci", "net", "pip.set.example:443")["rule"] == "allow-package-registries"
    names = [s["name"] for s in json.loads(at("sets", "--json").stdout)["sets"]]
    assert names == ["git-control", "package-registries", "secrets", "shown"]
    assert at("sets", "none").returncode == 125
    made = json.loads(at("sets", "--json", "package-registries").stdout)
    assert set(made) == {"name", "file", "description", "kind", "items"}
    assert (made["name"], made["kind"]) == ("package-registries", "domains") and "pip.set.example" in made["items"]


def test_pol_1_what_lies_around_does_not_make_the_set(at, tmp_path):
    """Package managers obey settings of the directory that they are asked in: it may be an agent's."""
    bin, here = tmp_path / "bin", tmp_path / "here"
    here.mkdir()
    bin.mkdir()
    (bin / "npm").write_text("#!/bin/sh\necho https://npm.set.example/$PWD\ncat .npmrc\n")
    (bin / "npm").chmod(0o755)
    (here / ".npmrc").write_text("registry=https://agent.example/\n")
    (here / "pip/_internal/models").mkdir(parents=True)
    (here / "pip/_internal/models/index.py").write_text(f"open('{tmp_path}/ran', 'w')\n")
    r = subprocess.run(
        [harness.AGENTSH, "policy", "sets", "--refresh", "--set", f"policies.dir={at.dir}"],
        cwd=here, capture_output=True, text=True, env={"HOME": str(tmp_path), "PATH": f"{bin}:/usr/bin:/bin"},
    )  # fmt: skip
    assert r.returncode == 0, r.stderr
    made = json.loads(at("sets", "--json", "package-registries").stdout)["items"]
    assert "npm.set.example" in made and "agent.example" not in made
    assert not (tmp_path / "ran").exists()


def test_cfg_1_policies_dir(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p/mine.yaml").write_text("version: 1\nname: mine\ndescription: here\n")
    config = tmp_path / "c.yaml"
    config.write_text(f"policies: {{dir: {tmp_path}/p}}\n")
    r = agentsh("policy", "show", "--config", config, "mine")
    assert r.returncode == 0 and "here" in r.stdout
    assert agentsh("policy", "show", "--set", f"policies.dir={tmp_path}", "mine").returncode == 125


def test_pol_5_the_examples_of_the_manual_are_valid(at):
    blocks = re.findall(r"```yaml\n(.*?)```", (harness.TOP / "docs/policy.md").read_text(), re.S)
    assert len(blocks) == 3
    (at.dir / "example.yaml").write_text(blocks[0])
    r = at("validate", "--strict", "example")
    assert r.returncode == 0 and not re.search("error:|warning:|notice:", r.stderr)
    assert decide(at, "example", "exec", "rm", "-fr", "build")["rule"] == "removal"
    (at.dir / "config.yaml").write_text(blocks[1])
    assert decide(at, "config", "file", "read", "config/a.json")["redirect_to"] == "/workspace/.agent/config/a.json"
    (at.dir / "sets/mirrors.yaml").write_text(blocks[2])
    (at.dir / "uses.yaml").write_text(
        "version: 1\nname: uses\nnetwork_rules:\n  - {name: m, domains: ['@mirrors'], decision: allow}\n"
    )
    assert decide(at, "uses", "dns", "mirror.example")["rule"] == "m"
