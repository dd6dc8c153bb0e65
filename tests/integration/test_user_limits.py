# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts per user: a session that takes all of it harms itself alone, and ends no warden."""

import contextlib
import socket

import harness
from harness import USER_UID

# Holds every epoll watch and inotify watch and all pages of pipes that its user may have.
HOG = r"""
import ctypes, errno, fcntl, os, resource, select, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
libc = ctypes.CDLL(None, use_errno=True)

def pipes():
    held = []
    try:
        while len(held) < 4096:
            held.append(os.pipe())
            fcntl.fcntl(held[-1][0], fcntl.F_SETPIPE_SZ, 1 << 20)
    except PermissionError:
        pass
    return held

def inotify():
    top = "/tmp/watched"
    os.makedirs(top)
    names = [f"{top}/{i}" for i in range(2048)]
    for name in names:
        os.mkdir(name)
    fds = []
    while True:
        fd = libc.inotify_init1(0)
        if fd < 0:
            return fds
        fds.append(fd)
        for name in names:
            if libc.inotify_add_watch(fd, name.encode(), 0x100) < 0:
                assert ctypes.get_errno() == errno.ENOSPC
                return fds

def epoll():
    fds = [os.eventfd(0) for _ in range(min(hard - 1000, 8000))]
    held = []
    try:
        while True:
            held.append(select.epoll())
            for fd in fds:
                held[-1].register(fd)
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    return held, fds

kept = pipes(), inotify(), epoll()
open("full", "w").close()
while not os.path.exists("stop"):
    time.sleep(0.1)
"""
USES = "import fcntl, os, select; e = select.epoll(); r, w = os.pipe(); e.register(r); fcntl.fcntl(r, 1031, 1 << 20)"


def hog(session, connection=None):
    """Leaves a process behind that has all, until the file `stop` is there. The connection is kept from being idle."""

    def is_full():
        if connection:
            session.server.get("/health", connection=connection)
        return (session.workspace / "full").exists()

    (session.workspace / "hog.py").write_text(HOG)
    assert session.out("/usr/bin/python3 hog.py > log 2>&1 &") == ""
    harness.wait_for(is_full, "all is taken", 120, lambda: log(session))


def log(session):
    path = session.workspace / "log"
    return path.read_text() if path.exists() else ""


def refused(server, session, connection=None):
    a = server.post(f"{session.path}/exec", {"script": "echo a | cat"}, connection=connection)
    assert (a.status, a.code) == (429, "E_RESOURCE_LIMIT"), (a.body, log(session))
    assert "fs.epoll.max_user_watches" in a.json["error"]["message"]


def runs(server, session, connection=None):
    return server.post(f"{session.path}/exec", {"script": "echo a | cat"}, connection=connection).status == 200


def answer_of_a_new_connection(server):
    """The server may have answered and closed before the client writes."""
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(60)
        c.connect(str(server.socket))
        with contextlib.suppress(BrokenPipeError):
            c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with c.makefile("rb") as answer:
            return answer.read()


def test_sbx_6_a_session_that_takes_all_of_its_user_harms_itself_alone(new_server):
    s = new_server()
    greedy, other = s.session(background="keep"), s.session()
    wardens = set(s.warden_pids())
    hog(greedy)
    for _ in range(5):
        assert other.out("echo fine | cat; export A=1") == "fine\n"
        assert other.exec("/usr/bin/python3", "-c", USES)["result"]["exit_code"] == 0
    assert s.session().out("echo new") == "new\n"
    refused(s, greedy)
    (greedy.workspace / "stop").touch()
    harness.wait_for(lambda: runs(s, greedy), "it runs again", 60)
    assert wardens <= set(s.warden_pids())


def test_sbx_6_on_a_normal_users_server_no_warden_aborts(new_server):
    harness.ensure_user()
    s = new_server(uid=USER_UID)
    greedy, other = s.session(background="keep"), s.session()
    wardens, api = set(s.warden_pids()), s.api_pid()
    before = s.connect()
    assert s.get("/health", connection=before).status == 200
    hog(greedy, before)
    refused(s, greedy, before)
    refused(s, other, before)
    a = answer_of_a_new_connection(s)
    assert a.startswith(b"HTTP/1.1 503 ") and b"fs.epoll.max_user_watches" in a
    (greedy.workspace / "stop").touch()
    harness.wait_for(lambda: runs(s, greedy, before) and runs(s, other, before), "both run again", 60)
    assert wardens == set(s.warden_pids()) and s.api_pid() == api
    assert s.get("/health").status == 200
