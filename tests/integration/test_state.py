# SPDX-License-Identifier: Apache-2.0
"""Shell state: what comes back after a script, what does not, and what cannot be forged."""

import os
import shutil

import harness
import pytest


@pytest.fixture(params=["bash", "sh"])
def shell_session(request, new_server):
    s = new_server(config={"sandbox": {"shell": f"/bin/{request.param}"}})
    return s.session()


ENDINGS = {
    "plain": "export A=1; cd /tmp",
    "comment": "export A=1; cd /tmp # the end",
    "here-document": "export A=1; cd /tmp; cat <<EOT\nhello\nEOT",
    "here-document without newline at the end": "export A=1; cd /tmp\ncat <<EOT\nhello\nEOT\n",
    "backslash": "export A=1; cd /tmp; echo x \\",
    "exit": "export A=1; cd /tmp; exit 0",
    "own trap": "trap 'echo bye' EXIT; export A=1; cd /tmp",
    "own trap and exit": "trap 'echo bye' EXIT; export A=1; cd /tmp; exit 0",
    "trap by number": "trap 'echo bye' 0; export A=1; cd /tmp; exit 0",
    "trap that exits": "trap 'exit 0' EXIT; export A=1; cd /tmp",
    "trap reset": "trap 'echo bye' EXIT; trap - EXIT; export A=1; cd /tmp",
    "set -e": "set -e; export A=1; cd /tmp; true",
    "unset PATH": "export A=1; cd /tmp; unset PATH",
    "empty PATH": "export A=1; cd /tmp; PATH=",
    "set -u": "set -u; export A=1; cd /tmp",
    "set -x": "set -x; export A=1; cd /tmp",
    "subshell at the end": "export A=1; cd /tmp; (export B=2; cd /)",
    "background at the end": "export A=1; cd /tmp; sleep 0 &",
    "function": "f() { export A=1; cd /tmp; }; f",
    "compound": "if true; then export A=1; cd /tmp; fi",
    "eval": "eval 'export A=1'; eval 'cd /tmp'",
    "newline value": "export A=1 N='a\nb'; cd /tmp",
    "closed descriptors": "export A=1; cd /tmp; exec 0<&- 1>&- 2>&-",
    "moved stdout": "export A=1; cd /tmp; exec >/dev/null",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_sta_3_state_comes_back(shell_session, name):
    shell_session.exec(script=ENDINGS[name])
    assert shell_session.out('export PATH=/usr/bin:/bin; echo "$A $PWD"') == "1 /tmp\n", name
    r = shell_session.get()
    assert r["working_dir"] == "/tmp" and r["environment"]["A"] == "1"


def test_sta_3_exit_status_is_untouched(shell_session):
    for script, code in [
        ("exit 5", 5),
        ("false", 1),
        ("(exit 9)", 9),
        ("set -e; false; true", 1),
        ("trap 'true' EXIT; exit 6", 6),
        ("trap 'exit 8' EXIT; exit 6", 8),
        ("kill -TERM $$", 143),
        ("if", 2),
        ("nosuchcommand", 127),
    ]:
        assert shell_session.exec(script=script)["result"]["exit_code"] == code, script


def test_sta_3_last_status_is_visible_to_the_next(shell_session):
    shell_session.exec(script="exit 5")
    assert shell_session.out("echo $?") == "5\n"
    assert shell_session.out("echo $?") == "0\n"
    shell_session.exec("false")
    assert shell_session.out("echo $?") == "1\n"


def test_sta_3_own_trap_sees_the_status(shell_session):
    assert shell_session.exec(script="trap 'echo status $?' EXIT; exit 4")["result"]["stdout"] == "status 4\n"


def test_sta_3_positional_parameters_are_clean(shell_session):
    assert shell_session.out('echo "$# [$*]"') == "0 []\n"


def test_sta_3_values_survive_byte_for_byte(session):
    session.exec(script="export V='a b $(id) `x` \"q\" $HOME'")
    assert session.get()["environment"]["V"] == 'a b $(id) `x` "q" $HOME'
    session.exec(script="export W=\"$(printf 'line1\\nline2 = x')\"")
    assert session.out('printf "%s" "$W"') == "line1\nline2 = x"


def test_sta_3_environment_changed_is_reported(session):
    r = session.exec(script="export NEW=1; unset LANG")
    assert set(r["state"]["environment_changed"]) >= {"NEW", "LANG"}
    assert session.exec(script=":")["state"]["environment_changed"] == []


def test_sta_5_what_does_not_survive(session):
    session.exec(
        script="local_only=1; f() { echo f; }; alias ll='echo ll'; trap 'echo trapped' USR1; set -f; umask 077"
    )
    r = session.exec(script='echo "[$local_only]"; type f; type ll; trap -p USR1; echo $-')["result"]
    assert "[]" in r["stdout"] and "f ()" not in r["stdout"] and "trapped" not in r["stdout"]


@pytest.mark.parametrize("script", ["export K=9; cd /tmp; exec true", "export K=9; cd /tmp; kill -KILL $$"])
def test_sta_5_exec_and_kill_leave_the_old_state(session, script):
    session.exec(script="export K=1; cd /var")
    session.exec(script=script)
    assert session.out('echo "$K $PWD"') == "1 /var\n"


def test_sta_5_timeout_leaves_the_old_state(session):
    session.exec(script="export K=1")
    session.exec(script="export K=2; sleep 100", timeout="200ms")
    assert session.out("echo $K") == "1\n"


DANGEROUS = [
    "BASH_ENV", "ENV", "PROMPT_COMMAND", "EDITOR", "VISUAL", "PAGER", "GIT_PAGER", "MANPAGER", "LD_PRELOAD",
    "LD_LIBRARY_PATH", "LD_AUDIT", "CDPATH",
]  # fmt: skip


@pytest.mark.parametrize("name", DANGEROUS)
def test_sta_4_dangerous_variables_are_stripped(server, session, name):
    session.exec(script=f"export {name}=/tmp/evil")
    assert name not in session.get()["environment"]
    assert session.exec("printenv", name)["result"]["stdout"] == ""
    assert session.exec("printenv", name, env={name: "/tmp/evil"})["result"]["stdout"] == ""
    server.call("PATCH", session.path, {"environment": {name: "/tmp/evil"}})
    assert session.exec("printenv", name)["result"]["stdout"] == ""


def test_sta_4_dangerous_variables_at_creation_and_functions(server):
    s = server.session(environment={"LD_PRELOAD": "/tmp/x.so", "FINE": "yes"})
    assert "LD_PRELOAD" not in s.record["environment"] and s.record["environment"]["FINE"] == "yes"
    s.exec(script="f() { echo f; }; export -f f")
    assert not [k for k in s.get()["environment"] if k.startswith("BASH_FUNC_")]
    assert "LD_PRELOAD" in server.log_text()
    s.destroy()


def test_sta_4_the_servers_environment_never_arrives(session):
    out = session.exec("/usr/bin/env")["result"]["stdout"]
    assert "SECRET_OF_THE_SERVER" not in out
    assert "AGENTSH_IN_SESSION=1" in out


# --- builtins ---


def run(session, *argv):
    r = session.exec(*argv)["result"]
    return r["exit_code"], r["stdout"], r["stderr"]


def test_sta_1_builtins_without_a_process(session):
    assert run(session, "export", "A=1", "B=two words") == (0, "", "")
    assert session.out('echo "$A $B"') == "1 two words\n"
    assert run(session, "unset", "A") == (0, "", "")
    assert "A" not in session.get()["environment"]
    code, out, _ = run(session, "env")
    assert code == 0 and "B=two words" in out.splitlines()
    assert run(session, "pwd") == (0, "/workspace\n", "")
    assert run(session, "alias", "say=echo hello") == (0, "", "")
    assert run(session, "say", "there") == (0, "hello there\n", "")
    assert run(session, "unalias", "say") == (0, "", "")
    assert run(session, "say")[0] == 127
    code, out, _ = run(session, "history")
    assert code == 0 and "export" in out and "say there" in out
    assert session.exec("pwd")["resources"]["cpu_time_ms"] == 0


def test_sta_1_pushd_popd(session):
    assert run(session, "pushd", "/tmp")[0] == 0
    assert run(session, "pwd") == (0, "/tmp\n", "")
    assert run(session, "popd")[0] == 0
    assert run(session, "pwd") == (0, "/workspace\n", "")
    code, _, err = run(session, "popd")
    assert code == 1 and "directory stack empty" in err


def test_sta_2_cd(session):
    (session.workspace / "sub").mkdir()
    (session.workspace / "sub").chmod(0o755)
    (session.workspace / "file").write_text("x")
    (session.workspace / "link").symlink_to("sub")
    assert run(session, "cd", "sub") == (0, "", "")
    assert session.get()["working_dir"] == "/workspace/sub"
    assert run(session, "cd", "..") == (0, "", "")
    assert run(session, "cd", "link") == (0, "", "")
    assert run(session, "pwd") == (0, "/workspace/link\n", "")
    assert run(session, "cd", "-") == (0, "/workspace\n", "")
    assert session.out('echo "$OLDPWD"') == "/workspace/link\n"
    assert run(session, "cd") == (0, "", "")
    assert session.out('[ "$PWD" = "$HOME" ] && echo home') == "home\n"
    assert run(session, "cd", "~root")[0] in (0, 1)
    code, _, err = run(session, "cd", "/no/such")
    assert code == 1 and err == "cd: /no/such: No such file or directory\n"
    code, _, err = run(session, "cd", "/workspace/file")
    assert code == 1 and err == "cd: /workspace/file: Not a directory\n"
    assert run(session, "cd", "/a", "/b")[0] != 0


def test_sta_2_a_removed_directory_does_not_break_the_session(session):
    session.exec(script="mkdir gone && cd gone && rmdir ../gone")
    r = session.exec("cd", "/workspace")["result"]
    assert r["exit_code"] == 0
    assert session.out("pwd") == "/workspace\n"


# --- forgery ---


def test_sta_5_forged_captures_change_nothing(server, session):
    forge = r"""
import os, socket, sys
def attempt(payload, spawn):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(2)
    try:
        s.connect("/run/agentsh/state.sock")
        for p in payload: s.send(p)
        s.recv(16)
    except OSError: pass
attempt([b"E" + b"FORGED=1\0", b"D/tmp", b"F"], False)
attempt([b"E" + b"A"*30000]*100, False)
attempt([b"F"], False)
attempt([b"Ehalf"], False)
attempt([b"Z"], False)
"""
    (session.workspace / "forge.py").write_text(forge)
    session.exec(script="export REAL=1")
    r = session.exec(script="/usr/bin/python3 forge.py & wait; sh -c '/usr/bin/python3 forge.py'; export REAL=2")
    assert r["result"]["exit_code"] == 0, r["result"]
    env = session.get()["environment"]
    assert "FORGED" not in env and env["REAL"] == "2"
    # a grandchild that runs the real program with another environment is not believed either
    session.exec(script="sh -c 'FORGED=1 /run/agentsh/bin/state; true'; true")
    assert "FORGED" not in session.get()["environment"]
    # a late one neither
    session.exec(script="(sleep 0.2; FORGED=1 /run/agentsh/bin/state) & true")
    assert "FORGED" not in session.get()["environment"]


def test_sta_5_oversized_environment_changes_nothing(session):
    session.exec(script="export A=1")
    session.exec(
        script="for i in $(seq 1 200); do export BIG$i=$(head -c 4000 /dev/zero | tr '\\0' x); done; export A=2"
    )
    env = session.get()["environment"]
    assert env["A"] == "1" and "BIG1" not in env
    assert session.out("echo fine") == "fine\n"


def test_sta_6_the_program_cannot_be_replaced(session):
    for script in [
        "echo evil > /run/agentsh/bin/state",
        "rm -f /run/agentsh/bin/state",
        "mv /run/agentsh/bin/state /tmp/x",
        "echo x > /run/agentsh/session",
        "touch /run/agentsh/new",
    ]:
        assert session.exec(script=script)["result"]["exit_code"] != 0, script
    session.exec(script="export STILL=works")
    assert session.get()["environment"]["STILL"] == "works"


def test_sta_6_the_helper_appears_in_no_event(session):
    r = session.exec(script="export A=1")
    assert "agentsh/bin/state" not in str(session.history(command_id=r["command_id"]))
    assert r["result"]["background"] == []


def test_shm_3_the_proof_is_there_and_read_only(session):
    assert session.out("cat /run/agentsh/session").strip() == session.id
    assert session.exec(script="echo x >> /run/agentsh/session")["result"]["exit_code"] != 0
    assert session.exec(script="umount /run/agentsh")["result"]["exit_code"] != 0


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_sta_1_programs_that_are_replaced_under_a_running_server(new_server, monkeypatch, tmp_path, uid):
    """What a package upgrade does: new files are renamed over the old ones."""
    for parent in [tmp_path, *tmp_path.parents[:2]]:
        parent.chmod(0o755)
    for path in harness.BUILD.glob("agentsh*"):
        if path.is_file() and os.access(path, os.X_OK):
            shutil.copy(path, tmp_path / path.name)
    shutil.copytree(harness.BUILD / "packaging", tmp_path / "packaging")
    monkeypatch.setattr(harness, "AGENTSH", tmp_path / "agentsh")
    server = new_server(uid)
    old = server.session()
    for _ in range(2):
        for path in tmp_path.glob("agentsh*"):
            shutil.copy(path, tmp_path / "new")
            os.rename(tmp_path / "new", path)
        for s in (old, server.session(), server.session()):
            s.exec(script="cd /tmp; export KEPT=yes")
            assert s.out("echo $KEPT $PWD") == "yes /tmp\n"
    assert "agentsh_captures_refused_total 0" in server.get("/metrics").body.decode()


def test_sta_1_a_refused_state_is_logged_and_counted(new_server):
    server = new_server()
    s = server.session()
    s.exec(script="export KEPT=no; for i in 1 2 3 4; do export BIG$i=$(printf %0100000d 0); done")
    assert "a shell's state was refused" in server.log_text()
    assert "agentsh_captures_refused_total 1" in server.get("/metrics").body.decode()
    assert s.out("echo $KEPT") == "\n"


def test_sta_1_a_state_that_cannot_be_taken_is_told(shell_session):
    """Under ulimit -u 1 a shell with a trap cannot even start what takes its state, and ends with a code of its own."""
    limited = 'case $BASH_VERSION in "") ulimit -p 1 ;; *) ulimit -u 1 ;; esac'
    r = shell_session.exec(script=f"trap : EXIT; cd /tmp; {limited}")
    assert r["state"]["working_dir"] == "/workspace", r
    assert any("not taken over" in w and "exit code" in w for w in r["result"]["warnings"]), r
    r = shell_session.exec(script="cd /tmp; ulimit -n 4; (exit 7)")
    assert r["result"]["exit_code"] == 7, r
    assert (r["state"]["working_dir"] == "/tmp") != any("not taken over" in w for w in r["result"]["warnings"]), r
    assert shell_session.exec("true")["result"]["warnings"] == []


def test_sta_1_exec_leaves_the_state_as_it_was(shell_session):
    r = shell_session.exec(script="cd /tmp; export A=1; /run/agentsh/bin/state; exec true")
    assert (r["result"]["exit_code"], r["state"]["working_dir"], r["result"]["warnings"]) == (0, "/workspace", [])
    assert shell_session.out("echo $A $PWD") == "/workspace\n"


def test_exe_1_messages_of_the_shell_name_nothing_of_ours(shell_session):
    for script in ("no-such-program", "echo x\nno-such-program", "cd /no/such", "echo ${X?is missing}", "if"):
        r = shell_session.exec(script=script)["result"]
        assert r["exit_code"] != 0 and r["stderr"] and "eval" not in r["stderr"], r


def test_exe_1_a_script_that_is_too_long_is_told_the_way_out(new_server):
    s = new_server().session()
    text = "#" + "x" * 96 * 1024
    a = s.exec(script=text, status=400)
    assert "stdin" in a["error"]["details"][0]["problem"] and "file" in a["error"]["details"][0]["problem"], a
    assert s.exec("sh", stdin=text + "\necho done")["result"]["stdout"] == "done\n"
