# SPDX-License-Identifier: Apache-2.0
"""Files of a session without namespaces: Landlock and seccomp hold what its mounts would."""

import os
from pathlib import Path

import harness
import pytest
from test_bare import PYTHON, bare, own_dir, refusal, session, shared, tries  # noqa: F401


def test_sbx_3_the_users_own_files_are_refused(shared, session):  # noqa: F811
    secret = shared.dir / "home" / ".ssh"
    secret.mkdir(parents=True, exist_ok=True)
    (secret / "id").write_text("secret")
    for path in (secret, secret / "id", secret.parent):
        os.chown(path, harness.USER_UID, harness.USER_UID)
    inside = session.out(f"{PYTHON} -c 'print(1)'")  # the tool itself works
    assert inside == "1\n"
    there = str(secret / "id")
    database = str(shared.state / "agentsh.db")
    moves = tries(session, f"os.rename({there!r}, 'x')", f"os.link({there!r}, 'x')")
    assert set(moves) <= {"EACCES", "EXDEV", "EPERM"} and not (session.workspace / "x").exists()
    assert (
        tries(
            session,
            f"open({there!r})",
            f"open({there!r}, 'w')",
            f"os.listdir({str(secret)!r})",
            f"os.unlink({there!r})",
            f"open({str(secret)!r} + '/new', 'w')",
            f"open({database!r})",
            f"open({str(shared.config_file)!r})",
            f"os.listdir({str(shared.runtime)!r})",
            f"os.listdir({str(shared.state)!r})",
            f"os.listdir({str(shared.state / 'own')!r})",
        )
        == ["EACCES"] * 10
    )


def test_sbx_3_nothing_is_written_outside(session):  # noqa: F811
    assert (
        tries(
            session,
            "open('/tmp/agentsh-outside', 'w')",
            "open('/var/tmp/agentsh-outside', 'w')",
            "open('/dev/shm/agentsh-outside', 'w')",
            "os.listdir('/tmp')",
            "os.listdir('/')",
            "open('/etc/shadow')",
            "open('/proc/self/mem', 'r+b')",
            "open('/proc/self/oom_score_adj', 'w')",
            "open('/dev/null', 'w')",
            "open('/proc/self/stat')",
            "open('/etc/os-release')",
            "open('/etc/passwd')",
        )
        == ["EACCES"] * 8 + ["ok"] * 4
    )


def test_sbx_3_attributes_only_of_own_files(shared, session):  # noqa: F811
    """Landlock does not hold chmod and its like by path: the warden makes them."""
    outside = shared.dir / "outside"
    outside.write_text("x")
    os.chown(outside, harness.USER_UID, harness.USER_UID)
    outside.chmod(0o600)
    os.utime(outside, (1, 1))
    session.out(f"echo x > own; mkdir d; ln -s {outside} way; ln -s own near")
    there = str(outside)
    assert tries(
        session,
        f"os.chmod({there!r}, 0o644)",
        "os.chmod('way', 0o644)",
        f"os.utime({there!r}, (2, 2))",
        "os.utime('way', (2, 2))",
        f"os.utime({there!r})",
        f"os.chmod('/proc/self/cwd/../' + {outside.parent.name!r} + '/outside', 0o644)",
        f"call(90, {there.encode()!r}, 0o644)",
        f"call(132, {there.encode()!r}, None)",
        f"call(235, {there.encode()!r}, None)",
        f"call(268, -100, {there.encode()!r}, 0o644)",
        f"call(452, os.open({there!r}, os.O_PATH), b'', 0o644, 0x1000)",
        f"call(90, b'/proc/self/fd/%d' % os.open({there!r}, os.O_PATH), 0o644)",
        f"call(280, os.open({there!r}, os.O_PATH), b'', None, 0x1000)",
        f"os.chown({there!r}, -1, {harness.USER_UID})",
        f"os.truncate({there!r}, 0)",
        f"os.setxattr({there!r}, 'user.x', b'y')",
    ) == ["EPERM"] * 15 + ["ENOTSUP"]
    st = outside.stat()
    assert (st.st_mode & 0o777, st.st_mtime, st.st_size) == (0o600, 1, 1)
    with pytest.raises(OSError):
        os.getxattr(outside, "user.x")
    assert tries(
        session,
        "os.chmod('own', 0o751)",
        "os.chmod('near', 0o711)",
        "os.utime('own', (5, 6))",
        "os.chmod('d', 0o700, dir_fd=os.open('.', os.O_RDONLY))",
        "os.utime('near', (7, 8), follow_symlinks=False)",
        "os.fchmod(os.open('own', os.O_RDONLY), 0o640)",
        "os.utime(os.open('own', os.O_RDONLY), (9, 9))",
        "os.chmod('d', 0o2750)",
        "os.chmod('own', 0o4755)",
        "os.chmod('own', 0o2755)",
        "os.fchmod(os.open('own', os.O_RDONLY), 0o4755)",
        "os.fchmod(77, 0o700)",
        "os.fchmod(os.pipe()[0], 0o700)",
        "os.chmod('gone', 0o700)",
        "os.chmod(b'x' * 5000, 0o700)",
        "call(90, ctypes.c_void_p(0), 0o700)",
        "os.chmod('own/below', 0o700)",
    ) == ["ok"] * 8 + ["EPERM"] * 3 + ["EBADF", "EPERM", "ENOENT", "ENAMETOOLONG", "EFAULT", "ENOTDIR"]
    own = session.workspace / "own"
    assert (own.stat().st_mode & 0o777, own.stat().st_mtime) == (0o640, 9)
    assert os.lstat(session.workspace / "near").st_mtime == 8


def test_sbx_3_extended_attributes_are_not_read_by_path(shared, session):  # noqa: F811
    """Landlock does not hold them; a file that was opened may be asked."""
    outside = shared.workspace() / "outside"
    outside.write_text("x")
    os.chown(outside, harness.USER_UID, harness.USER_UID)
    session.out("echo x > own; ln -s own near")
    own = session.workspace / "own"
    for path in (outside, own):
        os.setxattr(path, "user.secret", b"value")
    there = str(outside)
    assert (
        tries(
            session,
            f"os.getxattr({there!r}, 'user.secret')",
            f"os.getxattr({there!r}, 'user.secret', follow_symlinks=False)",
            f"os.listxattr({there!r})",
            f"os.listxattr({there!r}, follow_symlinks=False)",
            f"os.listxattr('/proc/self/fd/%d' % os.open({there!r}, os.O_PATH))",
            f"call(464, -100, {there.encode()!r}, 0, b'user.secret', b'\\0' * 16, 16)",
            f"call(465, -100, {there.encode()!r}, 0, None, 0)",
            f"os.getxattr(os.open({there!r}, os.O_PATH), 'user.secret')",
            "os.getxattr(os.open('own', os.O_RDONLY), 'user.secret')",
            "os.listxattr(os.open('own', os.O_RDONLY))",
        )
        == ["ENOTSUP"] * 7 + ["EBADF"] + ["ok"] * 2
    )


def test_sbx_3_tools_that_copy_attributes(session):  # noqa: F811
    """They take it for a file system without extended attributes, and say nothing."""
    session.out("mkdir d && echo x > d/own && chmod 640 d/own && touch -d @5 d/own && ln -s own d/near")
    os.setxattr(session.workspace / "d/own", "user.x", b"y")
    copy = "import shutil; shutil.copy2('d/own', 'py'); shutil.copytree('d', 'tree', symlinks=True); shutil.move('py', 'py2')"
    for script in (
        "ls -lR . && ls -lZ d/own",
        "cp -a d a && cp -p d/own p",
        "tar cf t.tar d && tar tvf t.tar && mkdir x && tar xpf t.tar -C x",
        "install -m 640 d/own i && mv d/own d/moved && mv d/moved d/own",
        "git init -q g && cp -a d g/ && (cd g && git add . && git -c user.name=a -c user.email=b commit -qm m)",
        f'{PYTHON} -c "{copy}"',
    ):
        r = session.script(script)["result"]
        assert (r["exit_code"], r["stderr"]) == (0, ""), (script, r)
    for name in ("a/own", "p", "x/d/own", "py2", "tree/own"):
        st = (session.workspace / name).stat()
        assert (st.st_mode & 0o777, st.st_mtime) == (0o640, 5), name


def test_sbx_3_one_session_is_not_anothers(shared, session):  # noqa: F811
    other = shared.session()
    other.out("echo mine > ~/secret; echo mine > secret")
    paths = [Path(other.out("echo ~/secret").strip()), other.workspace / "secret"]
    assert [p.read_text() for p in paths] == ["mine\n"] * 2
    assert (
        tries(session, *[f"open({str(p)!r})" for p in paths], *[f"open({str(p)!r}, 'w')" for p in paths])
        == ["EACCES"] * 4
    )
    assert tries(session, *[f"os.chmod({str(p)!r}, 0o777)" for p in paths]) == ["EPERM"] * 2
    other.destroy()


def test_sbx_3_what_landlock_cannot_take_away_is_refused(bare):  # noqa: F811
    server = bare(config={"filesystem": {"blocked_paths": ["/workspace/hidden"]}})
    assert server.session().out("echo fine") == "fine\n"  # there is nothing to block
    workspace = server.workspace()
    (workspace / "hidden").mkdir()
    subject, message = refusal_of(server, workspace)
    assert subject == "landlock" and "blocked_paths" in message
    server = bare(config={"filesystem": {"blocked_paths": ["/usr/share"]}})
    assert "blocked_paths" in refusal(server)[1]
    server = bare(
        config={"filesystem": {"read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64", "/workspace/x"]}}
    )
    assert "read_only" in refusal(server)[1]


def refusal_of(server, workspace):
    a = server.post("/api/v1/sessions", {"workspace": str(workspace)})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    return a.json["error"]["subject"], a.json["error"]["message"]


def test_sbx_3_lists_give_and_never_the_servers_own(bare):  # noqa: F811
    server = bare(start=False)
    more = server.dir / "more"
    for name in ("read", "write"):
        (more / name).mkdir(parents=True)
        (more / name / "file").write_text("text")
        for path in (more / name, more / name / "file"):
            os.chown(path, harness.USER_UID, harness.USER_UID)
    lists = {
        "read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64", str(more / "read")],
        "passthrough_paths": [str(more / "write")],
    }
    server.merge(server.config, {"filesystem": lists})
    s = server.start().session()
    assert tries(
        s,
        f"open({str(more / 'read/file')!r})",
        f"open({str(more / 'write/file')!r}, 'w')",
        f"os.chmod({str(more / 'write/file')!r}, 0o600)",
        f"open({str(more / 'read/file')!r}, 'w')",
        f"os.chmod({str(more / 'read/file')!r}, 0o600)",
        f"os.fchmod(os.open({str(more / 'read/file')!r}, os.O_RDONLY), 0o600)",
        f"os.utime(os.open({str(more / 'read/file')!r}, os.O_RDONLY))",
        f"os.fchown(os.open({str(more / 'read/file')!r}, os.O_RDONLY), -1, -1)",
        f"fcntl.ioctl(os.open({str(more / 'read/file')!r}, os.O_RDONLY), 0x40086602, b'\\x40' + bytes(7))",
        f"os.setxattr(os.open({str(more / 'read/file')!r}, os.O_RDONLY), 'user.x', b'y')",
    ) == ["ok"] * 3 + ["EACCES"] + ["EPERM"] * 5 + ["ENOTSUP"]
    s.destroy()
    server.stop()
    server.config["filesystem"]["passthrough_paths"] = [str(server.dir)]
    server.start()
    assert "server's own" in refusal(server)[1]


def test_sbx_3_a_program_outside_does_not_run(shared, session):  # noqa: F811
    there = shared.dir / "program"
    there.write_bytes(Path("/bin/true").read_bytes())
    script = shared.dir / "script"
    script.write_text("#!/bin/sh\necho ran\n")
    for path in (there, script):
        path.chmod(0o755)
        r = session.exec(str(path))["result"]
        assert r["exit_code"] in (2, 126) and r["stdout"] == "", r
        assert session.script(str(path))["result"]["exit_code"] in (2, 126)
    assert session.out(f"cp {'/bin/true'} here; ./here; echo $?") == "0\n"
