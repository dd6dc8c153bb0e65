# SPDX-License-Identifier: Apache-2.0
"""Runs inside a guest: a normal user's session without namespaces, where these cannot be had and the words are there. Debian 12's
kernel has an older Landlock, which does not keep signals apart: that needs a word of its own."""

import json
import os
import signal
from pathlib import Path

import harness

GUEST = os.environ["AGENTSH_GUEST"]
RESULTS = Path("/results")
LACKS = GUEST == "no-userns"
NAMESPACES = "user mount pid net ipc uts cgroup".split()
TREE = "setsid sleep 5001 & (setsid sh -c 'trap \"\" TERM; sleep 5002; sleep 5003' &) ; sleep 5004"


def made(new_server, *words):
    return new_server(uid=harness.USER_UID, config={"sandbox": {"allow_unenforced": list(words)}, **harness.OBSERVE})


def states(session):
    return {w["wall"]: w["state"] for w in session.record["enforcement"]}


def test_sbx_5_words_are_no_reason_to_do_without(new_server):
    if LACKS:
        server = made(new_server, "namespaces")
        a = server.post("/api/v1/sessions", {"workspace": str(server.workspace())})
        assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "process_separation"), a.body
        return
    up = states(made(new_server, "namespaces").session())
    assert {up[f"{n}_namespace"] for n in NAMESPACES} == {"up"}


def test_sbx_5_landlock_and_seccomp_alone(new_server):
    if not LACKS:
        return
    server = made(new_server, "namespaces", "process_separation")
    s = server.session()
    (RESULTS / "walls-bare.json").write_text(json.dumps(s.record["enforcement"]))
    up = states(s)
    assert {up[f"{n}_namespace"] for n in NAMESPACES} == {"unavailable"}
    assert (up["seccomp"], up["landlock"], up["process_separation"]) == ("up", "partial", "unavailable")
    assert s.out("export KEPT=1; echo made > made; chmod 700 made; cat made; pwd") == f"made\n{s.workspace}\n"
    assert (s.workspace / "made").stat().st_uid == harness.USER_UID
    outside = server.dir / "outside"
    outside.write_text("x")
    os.chown(outside, harness.USER_UID, harness.USER_UID)
    refused = s.out(
        f"exec 2>&-; cat {outside} || echo 1; echo y > {outside} || echo 2; chmod 777 {outside} || echo 3; true"
    )
    assert refused == "1\n2\n3\n" and outside.read_text() == "x"
    # the server is killed, and its successor finds the session
    server.process.kill()
    server.process.wait()
    server.start()
    assert s.out("echo $KEPT") == "1\n"
    for victim in ("agentsh-warden", "agentsh-init"):
        s = server.session()
        s.exec(script=TREE, detach=True, status=202)

        def family():
            for w in server.warden_pids():
                below = harness.descendants_of(w)
                if [harness.program_of(p) for p in below].count("sleep") >= 3:
                    return [w, *below]
            return None

        all_of_it = harness.wait_for(family, "it runs")
        os.kill(next(p for p in all_of_it if harness.program_of(p) == victim), signal.SIGKILL)
        harness.wait_for(lambda a=all_of_it: not any(map(harness.alive, a)), "nothing is left", 60)
