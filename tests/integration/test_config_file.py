# SPDX-License-Identifier: Apache-2.0
"""Configuration files: what is refused and how it is told, what is shown, and the file that is shipped."""

import json
import re
import subprocess

import harness


def test_cfg_1_every_error_in_one_pass(tmp_path):
    r = harness.validate_config(
        "server:\n  unix_sockt: /x\nsessions:\n  max_sessions: many\nlogging:\n  level: loud\n", tmp_path
    )
    assert r.returncode == 125
    for part in ("c.yaml:2:3", "unix_socket", "c.yaml:4:17", "c.yaml:6:10"):
        assert part in r.stderr, (part, r.stderr)
    assert harness.validate_config("server: {}\n", tmp_path).returncode == 0
    assert harness.validate_config("server: [\n", tmp_path).returncode == 125


def test_cfg_1_an_unknown_key_of_a_section_with_only_other_names(new_server, tmp_path):
    """In the file of `config validate`, of a start, and of SIGHUP in a running server, which goes on as it was."""
    text = "monitoring:\n  full_monitr: [/workspace]\n  other: 1\n"
    r = harness.validate_config(text, tmp_path)
    assert r.returncode == 125, r
    assert "c.yaml:2:3: unknown key 'monitoring.full_monitr' (did you mean 'full_monitor'?)" in r.stderr
    assert "c.yaml:3:3: unknown key 'monitoring.other'" in r.stderr
    s = new_server(config={"monitoring": {"other": 1}}, start=False)
    s.start(wait=False)
    assert s.process.wait(30) == 125 and "monitoring.other" in s.log_text(), s.log_text()
    s = new_server()
    before = s.api_pid()
    s.refuses_to_reload({"monitoring": {"other": 1}, "metrics": {"path": "/numbers"}}, "monitoring.other")
    assert s.process.poll() is None and s.api_pid() == before
    assert s.get("/metrics").status == 200 and s.get("/numbers").status == 404


def test_cfg_1_keys_that_do_not_exist_yet_are_said_so(tmp_path):
    r = harness.validate_config("server:\n  grpc_addr: 127.0.0.1:9090\n", tmp_path)
    assert r.returncode == 125 and "not available" in r.stderr


def show(path):
    r = subprocess.run(
        [harness.AGENTSH, "config", "show", "--json", "--config", path], capture_output=True, text=True, env={}
    )
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_cfg_1_the_shipped_configuration(tmp_path):
    """Every line is a key with its default: alone, and all of them together."""
    shipped = harness.TOP / "packaging/config.yaml"
    lines = shipped.read_text().splitlines()
    empty, one = tmp_path / "empty.yaml", tmp_path / "one.yaml"
    empty.write_text("")
    want = show(empty)
    assert show(shipped) == want
    keys = [i for i, line in enumerate(lines) if re.match(r" +#[a-z]", line)]
    r = subprocess.run([harness.AGENTSH, "config", "keys", "--json"], capture_output=True, text=True)
    assert len(keys) == len(json.loads(r.stdout)["keys"])
    for i in keys:
        one.write_text("\n".join([*lines[:i], lines[i].replace("#", "", 1), *lines[i + 1 :]]))
        assert show(one) == want, lines[i]
    one.write_text("\n".join(line.replace("#", "", 1) if i in keys else line for i, line in enumerate(lines)))
    assert show(one) == want


def test_cfg_1_sections_that_are_off_and_lists_that_replace_a_default(tmp_path):
    for text in (
        "server: {tls: {enabled: false, cert_file: /etc/agentsh/tls/server.crt}}\n",
        "filesystem: {passthrough_paths: [/opt]}\n",
    ):
        r = harness.validate_config(text, tmp_path)
        assert r.returncode == 0, (text, r.stderr)
    for text, said in (
        ("approvals:\n  notification: {type: webhook}\n", "c.yaml:2:3: 'approvals.notification' is not available"),
        ("sandbox:\n  network: {}\n", "c.yaml:2:3: 'sandbox.network' is not available"),
        ("monitoring:\n  mode: hybrid\n", "c.yaml:2:9: monitoring.hybrid.fuse_enforce: is empty"),
        ("output:\n  quota: 4096\n", "c.yaml:2:10: output.command_quota: must not be larger"),
        ("policies:\n  selectable: [no-such]\n", "c.yaml:2:15: policies.selectable: "),
        ("filesystem:\n  passthrough_paths: [/srv]\n  monitored_paths: [/srv]\n", "c.yaml:"),
    ):
        r = harness.validate_config(text, tmp_path)
        assert r.returncode == 125 and said in r.stderr, (text, r.stderr)


def test_cfg_1_a_file_that_the_configuration_names_is_told_with_its_place(new_server):
    for config, said in (
        ({"server": {"auth": {"api_keys_file": "/no/such"}}}, "server.auth.api_keys_file: cannot open /no/such"),
        ({"logging": {"output": "/no/such/log"}}, "logging.output: cannot open /no/such/log"),
    ):
        s = new_server(config=config, start=False)
        s.start(wait=False)
        assert s.process.wait(30) == 125
        assert re.search(rf"config\.yaml:1:\d+: {said}", s.log_text()), s.log_text()


def test_cfg_1_show(tmp_path):
    f = tmp_path / "c.yaml"
    f.write_text("sessions: {max_sessions: 7}\n")
    r = subprocess.run([harness.AGENTSH, "config", "show", "--config", f, "--json"], capture_output=True, text=True)
    assert json.loads(r.stdout)["sessions"]["max_sessions"] == 7
    r = subprocess.run(
        [harness.AGENTSH, "config", "show", "--config", f], capture_output=True, text=True,
        env={"AGENTSH_LOG_LEVEL": "error", "AGENTSH_DATA_DIR": "/x/y", "HOME": "/"},
    )  # fmt: skip
    assert 'level: "error"' in r.stdout and "/x/y" in r.stdout
    f2 = tmp_path / "again.yaml"
    f2.write_text(r.stdout)
    assert subprocess.run([harness.AGENTSH, "config", "validate", f2]).returncode == 0


def test_cfg_1_environment_variables(new_server):
    s = new_server(start=False)
    f = s.config_file
    r = subprocess.run([harness.AGENTSH, "config", "show", "--json"], capture_output=True, text=True,
                       env={"AGENTSH_HTTP_ADDR": "127.0.0.1:7777", "AGENTSH_CONFIG": "/no/such", "HOME": "/"})  # fmt: skip
    assert r.returncode == 125 and "/no/such" in r.stderr
    f.write_text("{}")
    r = subprocess.run([harness.AGENTSH, "config", "show", "--json"], capture_output=True, text=True,
                       env={"AGENTSH_CONFIG": str(f), "AGENTSH_GRPC_ADDR": "x:1", "HOME": "/"})  # fmt: skip
    assert r.returncode == 125 and "gRPC" in r.stderr or "GRPC" in r.stderr
