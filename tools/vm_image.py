# SPDX-License-Identifier: Apache-2.0
"""What a guest is made of, below .dev/vm: kernels from Debian's packages, an initramfs for each, one root file system.

Nothing here becomes part of the host: packages are unpacked, not installed. The root is a small Debian with the libraries that
the built programs name. Every part has a stamp of what it was made from and is made again only when that changes."""

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from programs import PROGRAMS

TOP = Path(__file__).resolve().parent.parent
STORE = TOP / ".dev/vm"
SUITE = "bookworm"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
# Kernels: name, the suite that has it.
KERNELS = {"6.1": SUITE, "backports": f"{SUITE}-backports"}
OPTIONAL = {"backports"}  # not every mirror has it
# Modules that init loads where the kernel does not have them built in. fuse is loaded by those guests that have it.
MODULES = ["virtio_pci", "virtio_blk", "virtio_console", "ext4", "overlay", "fuse"]
# What tests call inside, and what is not named by the libraries of our programs.
GUEST_PACKAGES = """bash busybox-static coreutils curl dash file findutils grep libcap2-bin passwd procps python3 socat
strace util-linux""".split()
PYTEST = ["pytest", "_pytest", "pluggy", "iniconfig", "packaging"]
ROOT_BYTES = 3 << 30  # sparse; what is left is the guest's disk space


class Missing(Exception):
    """A part cannot be had on this machine; the text says why."""


def call(*argv, **kw):
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **kw)
    if r.returncode != 0:
        raise Missing(f"{argv[0]}: {(r.stderr or r.stdout).strip()[-500:]}")
    return r.stdout


def stamped(path, *made_from):
    """Whether path exists and was made from these; afterwards write_stamp says so."""
    stamp = path.with_name(path.name + ".stamp")
    return path.exists() and stamp.exists() and stamp.read_text() == digest(made_from)


def write_stamp(path, *made_from):
    path.with_name(path.name + ".stamp").write_text(digest(made_from))


def digest(made_from):
    return hashlib.sha256(repr(made_from).encode()).hexdigest()


# --- packages ---
def mirrors():
    """The machine's own Debian mirrors, as (address, suite, component)."""
    out = call(
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
        "ORIGIN: Debian",
    )
    rows = [tuple(line.split()) for line in out.splitlines()]
    if not any(suite == SUITE for _, suite, _ in rows):
        raise Missing(f"this machine's package sources do not offer Debian {SUITE}")
    return rows


class Apt:
    """apt with lists of its own, so that a suite can be asked without a change to the host."""

    def __init__(self, suite):
        self.dir = STORE / "apt" / suite
        for d in ("lists/partial", "cache/archives/partial"):
            (self.dir / d).mkdir(parents=True, exist_ok=True)
        rows = [r for r in mirrors() if r[1].startswith(SUITE) and not r[1].endswith("-backports")]
        if suite != SUITE:
            rows = [(uri, suite, part) for uri, of, part in rows if of == SUITE]
        self.lines = "".join(f"deb {uri} {of} {part}\n" for uri, of, part in rows)
        (self.dir / "sources.list").write_text(self.lines)
        self.options = [
            f"-oDir::Etc::sourcelist={self.dir}/sources.list",
            "-oDir::Etc::sourceparts=/dev/null",
            f"-oDir::State::lists={self.dir}/lists",
            f"-oDir::Cache={self.dir}/cache",
            "-oAPT::Sandbox::User=root",
        ]
        call("apt-get", *self.options, "update", "-qq", "--error-on=any")

    def package_of(self, meta):
        """The package that a meta package stands for today, and its version."""
        text = call("apt-cache", *self.options, "show", "--no-all-versions", meta)
        found = re.search(r"^Depends: (\S+) \(= (\S+)\)", text, re.M)
        if not found:
            raise Missing(f"{meta} names no kernel")
        return found[1], found[2]

    def unpack(self, package, into):
        with tempfile.TemporaryDirectory(dir=self.dir) as d:
            call("apt-get", *self.options, "download", package, cwd=d)
            call("dpkg", "-x", next(Path(d).glob("*.deb")), into)


# --- kernels ---
def kernel(name):
    """Makes .dev/vm/kernel-NAME with vmlinuz, modules/ and initrd; without the package sources, of the kernel that is there."""
    home = STORE / f"kernel-{name}"
    try:
        unpack_kernel(Apt(KERNELS[name]), home)
    except Missing:
        if not (home / "release").exists():
            raise
    (home / "initrd").write_bytes(initramfs(home / "modules"))


def unpack_kernel(apt, home):
    package, version = apt.package_of(KERNEL_PACKAGE)
    made_from = (package, version, MODULES)
    if stamped(home / "release", made_from):
        return
    with tempfile.TemporaryDirectory(dir=STORE) as d:
        apt.unpack(package, d)
        modules = next(Path(d, "lib/modules").iterdir())
        order = load_order(modules)
        shutil.rmtree(home, ignore_errors=True)
        (home / "modules").mkdir(parents=True)
        for n, (name, data) in enumerate(order):
            (home / f"modules/{n:02}-{name}.ko").write_bytes(data)
        shutil.copy2(next(Path(d, "boot").glob("vmlinuz-*")), home / "vmlinuz")
        (home / "release").write_text(modules.name + "\n")
    write_stamp(home / "release", made_from)


def load_order(modules):
    """The files to load, dependencies first, as (name, bytes)."""
    files = {p.name.split(".ko")[0].replace("-", "_"): p for p in modules.rglob("*.ko*")}
    builtin = {Path(line).stem.replace("-", "_") for line in (modules / "modules.builtin").read_text().split()}
    order = {}

    def add(name):
        name = name.replace("-", "_")
        if name in order or name in builtin:
            return
        if name not in files:
            raise Missing(f"the kernel has no module {name}")
        data = files[name].read_bytes()
        if files[name].suffix == ".xz":
            data = lzma.decompress(data)
        for needed in re.search(rb"\0depends=([^\0]*)\0", b"\0" + data)[1].decode().split(","):
            if needed:
                add(needed)
        order[name] = data

    for name in MODULES:
        add(name)
    return list(order.items())


def initramfs(modules):
    busybox = Path(shutil.which("busybox") or "/bin/busybox")
    if b"ld-linux" in busybox.read_bytes()[:4096]:
        raise Missing("busybox is not static (package busybox-static)")
    out = bytearray()
    for d in ("bin", "proc", "sys", "dev", "root", "modules"):
        cpio(out, d, 0o040755)
    cpio(out, "bin/busybox", 0o100755, busybox.read_bytes())
    cpio(out, "bin/sh", 0o120777, b"busybox")
    cpio(out, "init", 0o100755, (TOP / "tools/vm_init.sh").read_bytes())
    for path in sorted(modules.iterdir()):
        cpio(out, f"modules/{path.name}", 0o100644, path.read_bytes())
    cpio(out, "TRAILER!!!", 0)
    return bytes(out)


def cpio(out, name, mode, data=b""):
    """Appends one entry of a cpio archive (newc)."""
    fields = [len(out) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    out += b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
    out += b"\0" * (-len(out) % 4) + data
    out += b"\0" * (-len(out) % 4)


# --- file systems ---
def library_packages(build):
    """The packages of the libraries that the built programs are linked with."""
    packages = set()
    for program in PROGRAMS:
        r = subprocess.run(["ldd", build / program], capture_output=True, text=True)  # a static one: "not a dynamic"
        for path in re.findall(r"=> (/\S+)", r.stdout):
            for name in (path, "/usr" + path, os.path.realpath(path)):
                q = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
                if q.returncode == 0:
                    packages.add(q.stdout.split(":")[0])
                    break
    return packages


def root(build):
    image = STORE / "root.ext4"
    packages = sorted(library_packages(build) | set(GUEST_PACKAGES))
    made_from = (SUITE, packages, ROOT_BYTES)
    if stamped(image, made_from):
        return
    lines = "".join(f"deb {u} {s} {c}\n" for u, s, c in mirrors() if s.startswith(SUITE))
    with tempfile.TemporaryDirectory(dir=STORE) as d:
        tree = Path(d) / "root"
        call(
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            f"--include={','.join(packages)}",
            SUITE,
            tree,
            "-",
            input=lines,
        )
        (tree / "agentsh").mkdir()
        (tree / "results").mkdir()
        (tree / "etc/hosts").write_text("127.0.0.1 localhost\n")
        make_ext4(image, tree, ROOT_BYTES)
    write_stamp(image, made_from)


def make_ext4(image, tree, size):
    new = image.with_name(image.name + ".new")
    new.unlink(missing_ok=True)
    with open(new, "wb") as f:
        f.truncate(size)
    # no journal and no reserved blocks: the guest's writes are thrown away
    call("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-d", tree, new)
    new.rename(image)


def payload(image, build):
    """What is under test, as it is now: programs, tests and the pytest of our own environment."""
    import pytest  # noqa: PLC0415 # only where guests run tests

    site = Path(pytest.__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(dir=image.parent) as d:
        tree = Path(d) / "agentsh"
        ignore = shutil.ignore_patterns("__pycache__", "corpus", "*.pyc")
        shutil.copytree(TOP / "tests", tree / "tests", ignore=ignore)
        (tree / "build").mkdir()
        for name in PROGRAMS:
            shutil.copy2(build / name, tree / "build")
        shutil.copytree(build / "packaging", tree / "build/packaging")  # the policies that are found beside them
        for name in PYTEST:
            shutil.copytree(site / name, tree / "site" / name)
        shutil.copy2(site / "py.py", tree / "site")
        (tree / "tools").mkdir()
        shutil.copy2(TOP / "tools/vm_init.sh", tree / "tools")
        used = sum(p.stat().st_size + 4096 for p in tree.rglob("*"))
        make_ext4(image, tree, used * 5 // 4 + (16 << 20))
