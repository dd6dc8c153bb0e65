# SPDX-License-Identifier: Apache-2.0
"""The server's state directory on a small file system that fills up."""

import os
import signal
import subprocess
import time

import harness
import pytest

SIZE_KIB = 24 * 1024
ORPHAN_S = 1


@pytest.fixture(params=["ext4-1k", "tmpfs"])
def small(request, new_server):
    """A server whose state lies on a file system of its own: ext4 with blocks of 1 KiB, or tmpfs."""
    server = new_server(config={"sessions": {"orphan_timeout": f"{ORPHAN_S}s"}}, start=False)
    disk = server.dir / "disk"
    disk.mkdir()
    server.state = disk / "state"
    server.config["sessions"]["base_dir"] = str(server.state)
    if request.param == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "none", disk], check=True)
    else:
        image = server.dir / "image"
        with open(image, "wb") as f:
            f.truncate(SIZE_KIB * 1024)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "1024", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, disk], check=True)
    try:
        yield server
    finally:
        if server.process is not None:
            server.stop()
        subprocess.run(["umount", "-l", disk], check=True)


def fill_up(server):
    """Not a byte is left. As root: file systems keep blocks for it."""
    with open(server.state.parent / "ballast", "ab", buffering=0) as f:
        for size in (1 << 20, 1 << 12, 1 << 10, 1):
            try:
                while True:
                    f.write(bytes(size))
            except OSError:
                pass


def make_room(server):
    os.unlink(server.state.parent / "ballast")


def metric(server, name):
    text = server.get("/metrics").body.decode()
    return next(line.split()[1] for line in text.splitlines() if line.startswith(name + " "))


def wait_until(server, path, status):
    def there():
        try:
            return server.get(path).status == status
        except OSError:
            return False

    harness.wait_for(there, f"{status} for {path}", show=server.log_text)


def write_until_it_fails(server, s):
    """Nothing more can be stored: an exec is refused with the cause."""

    def refused():
        a = server.post(f"{s.path}/exec", {"command": "/bin/true", "args": ["x" * 50000]})
        assert a.status in (200, 503), a.body
        return a.status == 503

    harness.wait_for(refused, "a refused exec", show=server.log_text)


def test_obs_1_a_full_disk_shows_in_ready_and_metrics(small):
    server = small.start()
    s = server.session()
    s.exec("true")
    assert metric(server, "agentsh_store_writable") == "1"
    fill_up(server)
    write_until_it_fails(server, s)
    assert metric(server, "agentsh_store_writable") == "0"
    a = server.get("/ready")
    assert a.status == 503 and a.json["ready"] is False and "database" in a.json["reason"]
    assert server.get("/health").status == 200
    make_room(server)
    wait_until(server, "/ready", 200)
    assert metric(server, "agentsh_store_writable") == "1"
    s.exec("true")


def restart_api_on_full_disk(server, free=0):
    api = server.api_pid()
    os.kill(server.pid, signal.SIGSTOP)  # nothing starts before the disk is full
    os.kill(api, signal.SIGKILL)
    harness.wait_for(lambda: harness.status_of(api).get("State", "Z")[0] == "Z", "the end of the API process")
    (server.state / "agentsh.db-shm").unlink()  # the next start makes it anew and needs space for it
    fill_up(server)
    ballast = server.state.parent / "ballast"
    os.truncate(ballast, ballast.stat().st_size - free)


@pytest.mark.parametrize("whole", [False, True], ids=["api", "server"])
def test_ses_8_a_start_on_a_full_disk_waits_for_room(small, whole):
    server = small.start()
    s = server.session()
    s.script("export KEPT=yes")
    wardens = server.warden_pids()
    restart_api_on_full_disk(server)
    if whole:
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        server.start(wait=False)
    else:
        os.kill(server.pid, signal.SIGCONT)
    wait_until(server, "/health", 200)
    for path in ("/api/v1/sessions", s.path, f"{s.path}/history", "/openapi.json"):
        a = server.get(path)
        assert a.status == 503 and a.code == "E_UNAVAILABLE" and str(server.state) in a.json["error"]["message"]
    a = server.get("/ready")
    assert a.status == 503 and str(server.state) in a.json["reason"]
    assert metric(server, "agentsh_store_writable") == "0"
    was, orphaned = server.api_pid(), time.monotonic() + 3 * ORPHAN_S
    harness.wait_for(lambda: server.get("/health").status == 200 and time.monotonic() > orphaned, "orphan time-outs")
    assert server.api_pid() == was
    assert server.warden_pids() == wardens and all(harness.alive(w) for w in wardens)
    make_room(server)
    if whole:
        server.wait_ready()
    wait_until(server, "/ready", 200)
    assert s.out('echo "$KEPT"') == "yes\n"
    assert server.api_pid() == was


@pytest.mark.parametrize("small", ["ext4-1k"], indirect=True)
def test_ses_8_too_little_room_is_an_error_and_not_a_signal(small):
    """The index of the log is mapped: its holes must not be met when there is no block left to fill them."""
    server = small.start()
    s = server.session()
    s.exec("true")
    for free in range(4, 44, 4):
        restart_api_on_full_disk(server, free * 1024)
        os.kill(server.pid, signal.SIGCONT)
        wait_until(server, "/health", 200)
        server.post(f"{s.path}/exec", {"command": "/bin/true"})
        assert "BUS" not in server.log_text()
        make_room(server)
        wait_until(server, "/ready", 200)
        s.exec("true")
