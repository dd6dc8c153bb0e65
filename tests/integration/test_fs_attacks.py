# SPDX-License-Identifier: Apache-2.0
"""Attacks on the file rules of a session with a file server. Each act is also tried where nothing denies it: that is its control."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import pytest

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "file_attacks.py"
sys.path.insert(0, str(PROGRAM.parent))
import file_attacks  # noqa: E402

RULES = """
version: 1
name: rules
default: {files: allow, network: deny, commands: allow}
file_rules:
  - {name: kept, paths: ["${WORKSPACE}/kept/**"], decision: deny,
     operations: [write, create, delete, rename, chmod, chown, symlink, link, truncate]}
  - {name: unread, paths: ["${WORKSPACE}/unread/**"], operations: [read], decision: deny}
  - {name: mode, paths: ["${WORKSPACE}/mode/**"], operations: [chmod], decision: deny}
  - {name: unrun, paths: ["${WORKSPACE}/unrun/**"], operations: [execute], decision: deny}
  - {name: none, paths: ["${WORKSPACE}/none/**"], decision: deny}
  - {name: raced, paths: ["${WORKSPACE}/raced/secret/**"], operations: [read, write], decision: deny}
  - {name: hidden, paths: ["**/hidden*", "**/.hidden/**"], decision: deny, hide: true}
"""
PLACES = ("free", "kept", "mode", "unread", "unrun", "none", "hidden", "read_only", "blocked")
FILESYSTEM = {
    "read_only_passthrough_paths": ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/workspace/read_only"],
    "blocked_paths": ["/workspace/blocked"],
}
# What no file server of a session does, whatever the policy says: these acts are their own proof.
NEVER = {
    "clone_into": ("EOPNOTSUPP", "ENOTSUP"),
    "set_flags": ("ENOTTY",),
    "map_files": ("EPERM",),
    "whiteout": ("EINVAL",),
    "handle": ("EPERM",),
    "mprotect": ("EACCES",),
}


class Stage:
    """A session; each place of its workspace has a file for each act of a table."""

    def __init__(self, server):
        self.server = server
        self.workspace = Path(server.workspace())
        for place in PLACES:
            (self.workspace / place).mkdir()
        shutil.copy(PROGRAM, self.workspace)
        (self.workspace / "source").write_text("source")
        self.give()
        self.session = server.session(workspace=str(self.workspace))

    def give(self):
        for path in (self.workspace, *self.workspace.rglob("*")):
            os.lchown(path, self.server.uid, self.server.uid)

    def fill(self, table, places, program=None, prefix=""):
        for place in places:
            for name in file_attacks.TABLES[table]:
                path = self.workspace / place / (prefix + name)
                shutil.copy(program, path) if program else path.write_text("text")
        self.give()
        return {p: self.look(p) for p in places}

    def look(self, place):
        directory = self.workspace / place
        return {
            p.name: (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns, p.stat().st_nlink, os.listxattr(p))
            for p in directory.iterdir()
            if not p.is_symlink() and p.is_file()
        }

    def attack(self, table, *begins):
        """By act: what became of it with each beginning."""
        return self.run(f"{table} {' '.join(begins)}")

    def run(self, arguments, session=None):
        """What the program prints."""
        command = f"REAL={self.workspace} python3 file_attacks.py {arguments}"
        return json.loads((session or self.session).out(command, max_output_bytes=1 << 20))

    def denied(self):
        return {e["path"] for e in self.session.history(decision="deny", limit=1000) if "path" in e}


@pytest.fixture(scope="module", params=["root", "user"])
def server(request):
    harness.ensure_user()
    uid = 0 if request.param == "root" else harness.USER_UID
    server = harness.Server(uid, {"monitoring": {"mode": "fuse"}, "filesystem": FILESYSTEM})
    rules = server.dir / "policies"
    rules.mkdir(mode=0o755)
    (rules / "rules.yaml").write_text(RULES)
    for path in (rules, rules / "rules.yaml"):
        os.chown(path, uid, uid)
    server.merge(server.config, {"policies": {"dir": str(rules), "default": "rules"}})
    server.start()
    yield server
    server.finish()


@pytest.fixture
def stage(server):
    return Stage(server)


def succeeded(results, place=0):
    """The control: each act is done where nothing denies it, or is one that is never done."""
    wrong = {n: r[place] for n, r in results.items() if r[place] not in NEVER.get(n, ("done",))}
    assert wrong == {}, wrong


def refused(results, *errors):
    """The error of every act, for each place behind the first."""
    for i, error in enumerate(errors, 1):
        wrong = {n: r[i] for n, r in results.items() if r[i] not in (error, *NEVER.get(n, ()))}
        assert wrong == {}, (i, wrong)


def inside(*places):
    return [place + "/" for place in places]


def test_fil_3_no_way_changes_what_may_not_be_changed(stage):
    places = ("free", "kept", "none", "hidden", "read_only", "blocked")
    before = stage.fill("change", places)
    results = stage.attack("change", *inside(*places))
    if stage.server.uid:
        # the kernel takes no ACL from a user namespace
        assert "done" not in results.pop("acl")
    succeeded(results)
    refused(results, "EACCES", "EACCES", "ENOENT", "EROFS", "EACCES")
    for place in places[1:]:
        assert stage.look(place) == before[place], place
    # each refusal is an event: it was decided, and not by chance the kernel's own
    denied = stage.denied()
    for name in results.keys() - NEVER.keys():
        for place in ("kept", "none"):
            assert {f"/workspace/{place}/{name}", f"/workspace/{place}/{name}.new"} & denied, (place, name)


def test_fil_4_no_way_reads_what_may_not_be_read(stage):
    places = ("free", "unread", "none", "hidden", "blocked")
    before = stage.fill("read", places)
    results = stage.attack("read", *inside(*places))
    succeeded(results)
    refused(results, "EACCES", "EACCES", "ENOENT", "EACCES")
    for place in places[1:]:
        assert stage.look(place) == before[place], place


def test_fil_4_names_that_change_while_they_are_used(stage):
    def make(place):
        for name in ("secret", "open", "open2"):
            (stage.workspace / place / name).mkdir(parents=True)
            (stage.workspace / place / name / "f").write_text(f"text {name}".ljust(10))

    make("raced")
    make("unraced")
    stage.give()
    raced, unraced = stage.run("race unraced raced")[::-1]
    assert any(text.startswith("text secret") for text in unraced)
    assert raced and not any(text.startswith("text secret") for text in raced)
    assert (stage.workspace / "raced/secret/f").read_text() == "text secret"
    assert (stage.workspace / "raced/open/f").read_text().endswith("+")  # what is not denied was written


def test_fil_3_odd_names_are_decided_like_others(stage):
    places = {"free/": "done", "kept/": "EACCES", "free/hidden": "ENOENT"}
    for begin in places:
        for name in file_attacks.ODD:
            Path(f"{stage.workspace}/{begin}{name}").write_text("text")
    stage.give()
    for error, results in zip(places.values(), stage.run(f"odd {' '.join(places)}"), strict=True):
        assert results == 2 * len(file_attacks.ODD) * [error] + 2 * ["ENAMETOOLONG"]
    kept = [path for path in stage.denied() if path.startswith("/workspace/kept/")]
    assert len(kept) == len(file_attacks.ODD), kept


def test_fil_3_files_of_two_devices_with_one_number(stage):
    places = [stage.workspace / name for name in ("free", "unread")]
    for place in places:
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    try:
        for place in places:
            (place / "f").write_text(place.name)
        stage.give()
        assert len({(place / "f").stat().st_ino for place in places}) == 1
        for first, second in (("free", "unread"), ("unread", "free")):
            s = stage.server.session(workspace=str(stage.workspace))
            text = f"stat -c %i {first}/f {second}/f | sort -u | wc -l; cat {first}/f; cat {second}/f; ln free/f unread/g"
            result = s.script(text)["result"]
            assert (result["stdout"], result["exit_code"]) == ("2\nfree", 1)
            assert "Permission denied" in result["stderr"] and "cross-device" in result["stderr"].lower()
            s.destroy()
    finally:
        for place in places:
            subprocess.run(["umount", "-l", place], check=True)


LINKED = """
import errno, mmap, os
def attempt(act):
    try:
        return act()
    except OSError as e:
        return errno.errorcode[e.errno]
def write(name, text):
    fd = os.open(name, os.O_WRONLY)
    os.write(fd, text)
    os.close(fd)
def linked(name):
    os.link(name, "free/more")
    os.unlink("free/more")
def mapping(name):
    with open(name, "rb") as f:
        return mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
a, b = (attempt(lambda: mapping(f"{place}/one")) for place in ("free", "kept"))
for place in ("kept", "none", "hidden", "unread"):
    print(place, attempt(lambda: write(f"{place}/one", b"BAD")), attempt(lambda: linked(f"{place}/one")),
          attempt(lambda: os.rename(f"{place}/one", "free/one")))
write("free/one", b"new")
print(a[:6], b[:6], open("kept/one", "rb").read(3), attempt(lambda: open("unread/one").read()))
with open("free/one", "ab") as f:
    f.write(b"+")
print(open("kept/one", "rb").read(), os.stat("kept/one").st_size, os.stat("free/one").st_nlink)
"""


@pytest.mark.parametrize("first", ["free", "unread"])
def test_fil_4_links_from_before_the_session_are_names_of_their_own(stage, first):
    """What a name may not do is not done by it, and what is done by another one is seen, whichever is looked up first."""
    (stage.workspace / "free/one").write_text("text")
    for place in ("kept", "none", "hidden", "unread"):
        os.link(stage.workspace / "free/one", stage.workspace / place / "one")
    stage.give()
    (stage.workspace / "linked.py").write_text(LINKED)
    stage.session.script(f"cat {first}/one; ls -l free kept unread")
    # without passthrough the two could not show the same
    passes = not stage.server.uid and os.environ.get("AGENTSH_TEST_BPF") != "off"
    mapped = "b'newt'" if passes else "ENODEV"
    assert stage.session.out("python3 linked.py").splitlines() == [
        "kept EACCES EACCES EACCES",
        "none EACCES EACCES EACCES",
        "hidden ENOENT ENOENT ENOENT",
        "unread None EACCES EACCES",
        f"{mapped} {mapped} b'new' EACCES",
        "b'newt+' 5 5",
    ]


def test_fil_4_a_descriptor_of_another_session_opens_nothing(stage):
    """Sessions of one workspace share a home, and with it sockets. Within one session the descriptor is good."""
    other = stage.server.session(workspace=str(stage.workspace), background="keep")
    stage.session.script("rm -f ~/passed")
    results = []
    taken = stage.workspace / "taken"
    for giver in (other, stage.session):
        other.script("python3 file_attacks.py take > taken 2>&1 &")
        giver.out("until test -S ~/passed; do sleep 0.01; done; python3 file_attacks.py give")
        harness.wait_for(lambda: taken.read_text().endswith("}\n"), "the taker has ended")
        results.append(json.loads(taken.read_text()))
        (stage.workspace / "made").unlink(missing_ok=True)
    assert results[0] == {"read": "done", "make": "done"}
    assert results[1] == {"read": "EACCES", "make": "EACCES"}


def test_fil_3_a_hidden_name_is_like_one_that_is_not_there(stage):
    before = stage.fill("names", ["free"], prefix="hidden-")["free"]
    results = stage.attack("names", "free/hidden-", "free/hidden-not-", "free/plain-")
    assert {n: r[0] for n, r in results.items()} == {n: r[1] for n, r in results.items()}
    makes = ("mkdir", "symlink", "fifo", "excl", "link", "over", "noreplace")
    for name, (error, *_, plain) in results.items():
        assert (error, plain) == (("EACCES", "done") if name in makes else ("ENOENT", "ENOENT")), name
    assert {n: f for n, f in stage.look("free").items() if n.startswith("hidden-")} == before


def test_fil_3_no_way_runs_what_may_not_be_run(stage):
    places = ("free", "unrun", "none", "hidden")
    stage.fill("run", places, program="/bin/echo")
    results = stage.attack("run", *inside(*places))
    # a copy is another file, and ld.so may run no program of the workspace where rules may deny one
    assert results.pop("copy")[:2] == ["done", "done"]
    for name in ("loader", "loader_argv0"):
        assert "done" not in results.pop(name)
    succeeded(results)
    refused(results, "EACCES", "EACCES", "ENOENT")


def test_fil_3_an_acl_changes_no_mode_that_may_not_be_changed(stage):
    before = stage.fill("change", ["free", "mode"])["mode"]
    results = stage.attack("change", *inside("free", "mode"))
    modes = ("chmod", "fchmod", "fchmodat2", "chmod_proc", "acl")
    for name in (*modes, "wronly", "setxattr", "utime"):
        free, kept = results.get(name, ("", ""))
        if free == "done":  # what the machine has
            assert kept == ("EACCES" if name in modes else "done"), name
    after = stage.look("mode")
    assert {n: after[n][1] for n in modes if n in after} == {n: before[n][1] for n in modes if n in before}


def test_fil_3_the_first_program_of_a_command_is_decided_too(stage):
    """agentsh starts the interpreter of a script itself, and the first exec comes from its own program."""
    stage.fill("run", ("free", "unrun", "none", "hidden"), program="/bin/echo")
    for place in ("free", "unrun", "none", "hidden"):
        script = stage.workspace / place / "script"
        script.write_text("#!/bin/sh\necho RAN\n")
        script.chmod(0o755)
    stage.give()

    def run(*argv):
        a = stage.server.post(f"{stage.session.path}/exec", {"command": argv[0], "args": argv[1:]}).json
        error = a["error"] if "error" in a else a["result"]["error"]
        return a["result"]["stdout"] if error is None else error["code"]

    assert run("./free/execve", "RAN") == run("./free/script") == "RAN\n"
    assert run("./unrun/execve", "RAN") == run("./none/execve", "RAN") == "E_COMMAND_NOT_EXECUTABLE"
    assert run("./unrun/script") == run("./none/script") == "E_POLICY_DENIED"
    harness.wait_for(
        lambda: {"unrun", "none"}
        == {e["policy"]["rule"] for e in stage.session.history(type="exec", decision="deny")},
        "both refusals are recorded",
    )
    # a hidden program is like one that is not there, and its name is not proposed
    assert run("./hidden/execve", "RAN") == run("./hidden/script") == run("./hidden/absent") == "E_COMMAND_NOT_FOUND"
    assert run(file_attacks.LOADER, "./unrun/execve", "RAN") == "E_POLICY_DENIED"


def test_exe_2_similar_programs_are_not_hidden_ones(stage):
    for name in ("hidden-program", "shown-program"):
        shutil.copy("/bin/true", stage.workspace / name)
    stage.give()
    for directory in (".", stage.workspace):
        similar = [
            stage.session.exec(f"{directory}/{name}")["result"]["error"]["similar_files"]
            for name in ("hidden-progran", "shown-progran")
        ]
        assert [len(s) for s in similar] == [0, 1], similar
