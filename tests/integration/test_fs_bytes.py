# SPDX-License-Identifier: Apache-2.0
"""The bytes of each open file, counted by the kernel's program or by requests."""

import os
import re

import harness
import pytest
from harness import wait_for

FUSE = {"monitoring": {"mode": "fuse"}}
WAYS = ["bpf", "requests", "user"]


@pytest.fixture(params=WAYS)
def way(request):
    if request.param != "user" and os.geteuid() != 0:
        pytest.skip("needs root")
    if request.param == "bpf" and os.environ.get("AGENTSH_TEST_BPF") == "off":
        pytest.skip("this run has no BPF")
    return request.param


def start(new_server, way, **sandbox):
    """sandbox.bpf is set when the server has its configuration: AGENTSH_TEST_BPF does not change it."""
    server = new_server(uid=harness.USER_UID if way == "user" else 0, start=False, config=FUSE)
    server.config["sandbox"].update(bpf={"bpf": "required", "requests": "off", "user": "auto"}[way], **sandbox)
    server.start()
    return server


@pytest.fixture
def served(way, new_server):
    return start(new_server, way)


@pytest.fixture
def by_bpf(new_server):
    if os.geteuid() != 0 or os.environ.get("AGENTSH_TEST_BPF") == "off":
        pytest.skip("needs root and BPF")
    return start(new_server, "bpf")


def operations(answer, kind):
    """{name: [operation]} of the events of one type."""
    found = {}
    for event in answer["events"]["file_operations"]:
        if event["type"] == kind:
            found.setdefault(os.path.basename(event["path"]), []).append(event.get("operation", {}))
    return found


def bytes_of(answer, kind):
    return {name: [o.get("bytes") for o in all_] for name, all_ in operations(answer, kind).items()}


def python(session, text, *args):
    (session.workspace / "run.py").write_text(text)
    answer = session.exec("python3", "-B", "run.py", *args)
    assert answer["result"]["exit_code"] == 0, answer["result"]
    return answer


def requests_of(server):
    for line in server.get("/metrics").body.decode().splitlines():
        if line.startswith("agentsh_fuse_requests_total "):
            return int(line.split()[1])
    raise AssertionError("no such metric")


ALL_WAYS = """
import os
block = b"x" * 1000
def opened(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(name, flags, 0o644)
fd = opened("write")
os.write(fd, block), os.pwrite(fd, block, 50), os.writev(fd, [block, block]), os.pwritev(fd, [block], 0)
os.close(fd)
fd = opened("read", os.O_RDONLY)
os.read(fd, 1000), os.pread(fd, 10, 7), os.readv(fd, [bytearray(100), bytearray(50)]), os.preadv(fd, [bytearray(9)], 1)
os.pread(fd, 10, 1 << 40)
os.close(fd)
sink = open("/tmp/sink", "wb")
fd = opened("sendfile", os.O_RDONLY)
assert os.sendfile(sink.fileno(), fd, 0, 3000) == 3000
os.close(fd)
a, b = os.pipe()
fd, out = opened("splice", os.O_RDONLY), opened("spliced")
assert os.splice(fd, b, 4000) == 4000 and os.splice(a, out, 4000) == 4000
os.close(fd), os.close(out)
fd, out = opened("copy", os.O_RDONLY), opened("copied")
assert os.copy_file_range(fd, out, 200000) == 200000
os.close(fd), os.close(out)
"""


def test_fil_8_bytes_are_those_of_the_calls(served, way):
    s = served.session()
    for name in ("read", "sendfile", "splice"):
        (s.workspace / name).write_bytes(b"r" * 100000)
    (s.workspace / "copy").write_bytes(b"r" * 200000)
    a = python(s, ALL_WAYS)
    reads, writes = bytes_of(a, "file_read"), bytes_of(a, "file_write")
    assert writes == {"write": [5000], "spliced": [4000], "copied": [200000]}
    exact = {"read": [1169], "sendfile": [3000], "splice": [4000], "copy": [200000]}
    del reads["run.py"]
    if way == "bpf":
        assert reads == exact
    else:  # the kernel asks for whole pages, and reads ahead
        assert reads.keys() == exact.keys() and all(reads[n][0] >= exact[n][0] for n in reads)
    operation = {o for kind in ("file_read", "file_write") for all_ in operations(a, kind).values() for o in all_[0]}
    assert "offset" not in operation
    assert s.get()["total_bytes_written"] == 209000


def test_fil_8_what_the_page_cache_serves_is_counted_or_not_known(served, way):
    """A small file that is read again makes no request."""
    s = served.session()
    (s.workspace / "small").write_bytes(b"s" * 1000)
    got = [bytes_of(s.exec("cat", "small"), "file_read")["small"] for _ in range(4)]
    assert set(map(tuple, got[1:])) == ({(1000,)} if way == "bpf" else {(None,)})


def test_fil_8_an_open_file_that_is_not_read_is_no_read(by_bpf):
    s = by_bpf.session()
    (s.workspace / "f").write_bytes(b"f" * 100)
    a = s.script("exec 3< f 4>> f; exec 3<&- 4>&-")
    assert "f" not in operations(a, "file_read") and "f" not in operations(a, "file_write")
    assert [e["type"] for e in a["events"]["file_operations"] if e["path"].endswith("/f")].count("file_open") == 2


MAPPED = """
import mmap, os
with open("mapped", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    m[0:5] = b"hello"
with open("looked", "rb") as f:
    assert mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:1] == b"l"
with open("plain", "rb", buffering=0) as f:
    f.read(10)
"""


def test_fil_8_a_mapping_is_a_flag_and_no_number(by_bpf):
    s = by_bpf.session()
    for name in ("mapped", "looked", "plain"):
        (s.workspace / name).write_bytes(name.encode() * 20000)
    a = python(s, MAPPED)
    reads, writes = operations(a, "file_read"), operations(a, "file_write")
    assert writes["mapped"] == [{"mapped": True}]
    assert reads["looked"] == [{"mapped": True}] and reads["plain"] == [{"bytes": 10}]
    assert (s.workspace / "mapped").read_bytes()[:5] == b"hello"


def test_ses_4_two_commands_at_once_have_their_own_bytes(by_bpf):
    s = by_bpf.session(background="keep")
    for name in "ab":
        (s.workspace / name).write_bytes(b"x" * 300000)
    loop = "while [ ! -e stop ]; do head -c 70000 a > /dev/null; : > again; done; : > stopped"
    first = s.script(f"({loop}) > /dev/null 2>&1 & echo $!")
    wait_for(lambda: (s.workspace / "again").exists(), "it runs")
    a = s.script("for i in 1 2 3 4 5; do head -c 90000 b > /dev/null; head -c 8000 a > /dev/null; done; : > stop")
    wait_for(lambda: (s.workspace / "stopped").exists(), "it ends")
    # head reads blocks: every read is of this command or of the other one
    reads = bytes_of(a, "file_read")
    assert sum(reads["b"]) >= 5 * 90000 and sum(reads["a"]) < 5 * 70000
    wait_for(
        lambda: any(e.get("path", "").endswith("stopped") for e in s.history(command_id=first["command_id"])),
        "all is there",
    )
    of = {e["command_id"] for e in s.history(type="file_read") if e["path"].endswith("/b")}
    assert of == {a["command_id"]}


def test_fil_7_large_files_are_passed_through(by_bpf):
    """The kernel reads and writes them: no request is sent for 64 MB, and the bytes are exact."""
    s = by_bpf.session()
    (s.workspace / "big").write_bytes(b"b" * (64 << 20))
    s.exec("true")
    before = requests_of(by_bpf)
    a = s.script("dd if=big of=copy bs=4k status=none")
    wait_for(lambda: requests_of(by_bpf) > before, "the metric is there")
    assert requests_of(by_bpf) - before < 500
    assert bytes_of(a, "file_read")["big"] == [64 << 20] and bytes_of(a, "file_write")["copy"] == [64 << 20]
    assert [int(a["resources"][f"disk_{way}_mb"]) for way in ("write", "read")] == [64, 64]
    assert (s.workspace / "copy").stat().st_size == 64 << 20


def test_fil_7_a_large_program_of_the_workspace_runs(by_bpf):
    s = by_bpf.session()
    r = s.exec(script="cp /usr/bin/python3 p && ./p -c 'print(6 * 7)' && exec ./p -c 'print(7 * 7)'")["result"]
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("42\n49\n", "", 0)


def test_fil_3_names_with_other_decisions_are_passed_through(new_server):
    """Two nodes of one inode: what is written by one name is read by the other at once."""
    if os.geteuid() != 0 or os.environ.get("AGENTSH_TEST_BPF") == "off":
        pytest.skip("needs root and BPF")
    server = new_server(start=False, config=FUSE)
    server.config["sandbox"]["bpf"] = "required"
    rules = server.dir / "policies"
    rules.mkdir(mode=0o755)
    (rules / "rules.yaml").write_text(
        "version: 1\nname: rules\ndefault: {files: allow, network: deny, commands: allow}\nfile_rules:\n"
        '  - {name: kept, paths: ["${WORKSPACE}/two"], operations: [delete], decision: deny}\n'
    )
    server.config["policies"] = {"dir": str(rules), "selectable": ["rules"]}
    server.start()
    s = server.session(policy="rules")
    (s.workspace / "one").write_bytes(b"1" * 100)
    os.link(s.workspace / "one", s.workspace / "two")
    a = python(
        s,
        "import os\none, two = os.open('one', os.O_RDWR), os.open('two', os.O_RDWR)\n"
        "for i in range(100):\n"
        "    os.pwrite(one, b'%03d' % i, 0)\n"
        "    assert os.pread(two, 3, 0) == b'%03d' % i\n",
    )
    assert bytes_of(a, "file_write")["one"] == [300] and bytes_of(a, "file_read")["two"] == [300]


def test_fil_8_without_a_free_slot_requests_are_counted(new_server):
    """4,095 files may have a slot at a time; further ones are served without passthrough."""
    if os.geteuid() != 0 or os.environ.get("AGENTSH_TEST_BPF") == "off":
        pytest.skip("needs root and BPF")
    s = start(new_server, "bpf").session()
    for name in ("f", "g"):
        (s.workspace / name).write_bytes(name.encode() * 100000)
    a = python(
        s,
        "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4500, 4500))\nheld = [os.open('f', os.O_RDONLY) for _ in range(4200)]\n"
        "fd = os.open('g', os.O_RDONLY)\nassert os.read(fd, 200) == b'g' * 200\nos.close(fd)\n"
        "fd = os.open('made', os.O_WRONLY | os.O_CREAT)\nos.write(fd, b'm' * 5000)\nos.close(fd)\n"
        "assert os.read(held[0], 300) == b'f' * 300 and os.read(held[-1], 300) == b'f' * 300\n"
        "for fd in held: os.close(fd)\n"
        "fd = os.open('g', os.O_RDONLY)\nos.read(fd, 17)\n",
    )

    def events():  # 4,200 files are closed late
        return s.history(type="file_read,file_write", command_id=a["command_id"])

    wait_for(lambda: any(e.get("operation", {}).get("bytes") == 17 for e in events()), "the last file is closed")
    found = events()
    reads = [e.get("operation", {}) for e in found if e["path"].endswith("/g")]
    # 17 exactly; before that the request for whole pages
    assert [o["bytes"] == 17 for o in reads] == [False, True] and reads[0]["bytes"] >= 200
    assert [e["operation"]["bytes"] for e in found if e["path"].endswith("/made")] == [5000]
    # 300 of one that has a slot; of the others it is not known, because their file is passed through
    held = [(e.get("operation", {}).get("bytes"), e["count"]) for e in found if e["path"].endswith("/f")]
    assert sum(b or 0 for b, _ in held) == 300 and any(b is None for b, _ in held)


def test_fil_8_requests_that_nothing_counts_are_refused(by_bpf):
    s = by_bpf.session()
    number = {"x86_64": 206, "aarch64": 0}[os.uname().machine]
    a = s.exec("python3", "-c", f"import ctypes; l = ctypes.CDLL(None, use_errno=True); l.syscall({number}, 1, 0); "
                                "print(ctypes.get_errno())")  # fmt: skip
    assert re.fullmatch("38\n", a["result"]["stdout"])
