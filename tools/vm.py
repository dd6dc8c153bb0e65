# SPDX-License-Identifier: Apache-2.0
"""Guests for tests: a Debian kernel of another age, or a host that lacks something, in a few seconds.

  vm.py prepare                       unpack kernels, make the root; needs root and the machine's package sources
  vm.py guests                        list the guests
  vm.py run GUEST [--user] -- CMD…    run a command in a guest, from /agentsh (build/, tests/), as root or uid 1000

A guest has no network and no file of the host but what is under test. Its disk is thrown away."""

import argparse
import contextlib
import dataclasses
import functools
import io
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import vm_image
from vm_image import STORE, TOP, Missing

BUILD = Path(os.environ.get("AGENTSH_BUILD_DIR", TOP / "build"))
CONSOLE_LINES = 40
PROBE_SECONDS = 20
# Emulated by QEMU 7.2, newer kernels crash at boot where they find CMPXCHG16B (seen with 6.12; not without it).
CPUS = {"kvm": "host", "tcg": "max,la57=off,cx16=off"}
EXTRA_SECONDS = 60  # to boot and to end, beside the command's own time


@dataclasses.dataclass(frozen=True)
class Guest:
    kernel: str
    lacks: tuple = ()  # words for tools/vm_init.sh
    what: str = ""


GUESTS = {
    "debian-6.1": Guest("6.1", what="cgroup v2, Landlock ABI 2"),
    "debian-backports": Guest("backports", what="cgroup v2, newer Landlock ABI"),
    "no-userns": Guest("6.1", ("nouserns",), "user.max_user_namespaces=0"),
    "no-fuse": Guest("6.1", ("nofuse",), "no /dev/fuse"),
}


@dataclasses.dataclass
class Outcome:
    status: int | None  # of the command; None: the guest did not get to its end
    output: str
    files: dict  # what the command left in /results
    console: str

    def explain(self):
        end = "\n".join(self.console.splitlines()[-CONSOLE_LINES:])
        return f"status {self.status}\n{self.output}\n--- console ---\n{end}"


def qemu(accel, kernel, words, files, seconds):
    """Runs one machine to its end, or kills it; files: its console, disks, and ports by name."""
    home = STORE / f"kernel-{kernel}"
    argv = ["qemu-system-x86_64", "-M", "pc", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-m", "1024", "-smp", "2", "-accel", accel, "-cpu", CPUS[accel]]
    argv += ["-kernel", home / "vmlinuz", "-initrd", home / "initrd"]
    argv += ["-append", " ".join(["console=ttyS0 panic=-1 loglevel=4", *words])]
    argv += ["-serial", f"file:{files['console']}", "-device", "virtio-serial"]
    for disk in files.get("disks", []):
        argv += ["-drive", f"file={disk},if=virtio,format=raw,snapshot=on"]
    for name, path in files.get("ports", {}).items():
        argv += ["-chardev", f"file,id={name},path={path}", "-device", f"virtserialport,chardev={name},name={name}"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([str(a) for a in argv], timeout=seconds, stdin=subprocess.DEVNULL)


def kvm_fails():
    """Why KVM does not run a plain kernel here, or None: /dev/kvm alone does not say it."""
    if Path("/sys/module/kvm_pvm").exists():
        return "KVM is kvm_pvm, without help of the CPU: it runs only kernels built for it and decodes all others"
    with tempfile.NamedTemporaryFile(dir=STORE) as console:
        qemu("kvm", "6.1", ["agentsh.probe"], {"console": console.name}, PROBE_SECONDS)
        if b"agentsh-vm: started" in console.read():
            return None
    return f"KVM did not start a Debian kernel within {PROBE_SECONDS} s"


@functools.cache
def accelerator():
    """(kvm or tcg, why not kvm); found out once per machine."""
    wanted = os.environ.get("AGENTSH_VM_ACCEL")
    if wanted:
        if wanted not in CPUS:
            raise Missing(f"AGENTSH_VM_ACCEL is kvm or tcg, not {wanted!r}")
        return wanted, "asked for"
    if no_kvm():
        raise Missing(no_kvm())
    seen = STORE / "accelerator"
    machine = os.uname().release
    known = seen.read_text().split(maxsplit=1) if seen.exists() else []
    if known and known[0] == machine:
        why = known[1] if len(known) > 1 else ""
    else:
        why = kvm_fails() or ""
        seen.write_text(f"{machine} {why}")
    return ("tcg", why) if why else ("kvm", "")


def no_kvm():
    if os.environ.get("AGENTSH_VM_ACCEL") or os.access("/dev/kvm", os.R_OK | os.W_OK):
        return None
    return "no /dev/kvm (AGENTSH_VM_ACCEL=tcg emulates)"


def note_of(kernel):
    """The file that says why an optional kernel is not there."""
    return STORE / f"kernel-{kernel}.missing"


def missing(guest):
    """Why a guest need not run here, or None. What prepare has not made is no such reason."""
    note = note_of(GUESTS[guest].kernel)
    return no_kvm() or (note.read_text() if note.exists() else None)


def prepare():
    """Makes all parts. An optional kernel that the package sources do not offer is noted."""
    if no_kvm():
        raise Missing(no_kvm())
    STORE.mkdir(parents=True, exist_ok=True)
    os.chown(STORE, TOP.stat().st_uid, TOP.stat().st_gid)  # guests run without root
    vm_image.root(BUILD)
    for name in vm_image.KERNELS:
        note_of(name).unlink(missing_ok=True)
        try:
            vm_image.kernel(name)
        except Missing as e:
            if name not in vm_image.OPTIONAL:
                raise
            note_of(name).write_text(f"the kernel '{name}' cannot be had here: {e}")
            print(f"vm: {note_of(name).read_text()}", file=sys.stderr)
    accel, why = accelerator()
    print(f"vm: guests run by {accel}" + (f": {why}" if why else ""), file=sys.stderr)


def unpack(data):
    """The files of a tar archive; of a broken one, which a guest left that died, those before the break."""
    files = {}
    with contextlib.suppress(tarfile.ReadError), tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar:
            if entry.isfile():
                files[entry.name.removeprefix("./")] = tar.extractfile(entry).read()
    return files


def run(guest, script, user=False, limit=120):
    """Runs a shell script in a guest, as root or uid 1000; it has limit seconds. Files left in /results come back."""
    row = GUESTS[guest]
    for part in ("root.ext4", f"kernel-{row.kernel}/initrd"):
        if not (STORE / part).exists():
            raise Missing(f"no {part}: run tools/vm.py prepare")
    with tempfile.TemporaryDirectory(dir=STORE) as d:
        work = Path(d)
        vm_image.payload(work / "payload.ext4", BUILD)
        text = script.encode()
        (work / "script").write_bytes(text + b"\0" * (-len(text) % 4096))
        for name in ("console", "output", "results"):
            (work / name).touch()
        words = [f"agentsh.{w}" for w in row.lacks]
        words += [f"agentsh.uid={1000 if user else 0}", f"agentsh.limit={limit}", f"agentsh.guest={guest}"]
        files = {
            "console": work / "console",
            "disks": [STORE / "root.ext4", work / "payload.ext4", work / "script"],
            "ports": {"output": work / "output", "results": work / "results"},
        }
        qemu(accelerator()[0], row.kernel, words, files, limit + EXTRA_SECONDS)
        left = unpack((work / "results").read_bytes())
        status = left.pop(".status", None)
        return Outcome(
            int(status) if status else None,
            (work / "output").read_text(errors="replace"),
            left,
            (work / "console").read_text(errors="replace"),
        )


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    sub.add_parser("prepare")
    sub.add_parser("guests")
    r = sub.add_parser("run")
    r.add_argument("guest", choices=GUESTS)
    r.add_argument("--user", action="store_true", help="as uid 1000")
    r.add_argument("--limit", type=int, default=120, help="seconds for the command")
    r.add_argument("--results", type=Path, help="where files of the guest's /results go")
    r.add_argument("command", nargs="+")
    args = ap.parse_args()
    try:
        if args.what == "prepare":
            prepare()
        elif args.what == "guests":
            for name, g in GUESTS.items():
                print(f"{name:18} {g.kernel:10} {g.what}")
        else:
            return run_command(args)
    except Missing as e:
        print(f"vm: {e}", file=sys.stderr)
        return 1
    return 0


def run_command(args):
    why = missing(args.guest)
    if why:
        raise Missing(why)
    script = args.command[0] if len(args.command) == 1 else shlex.join(args.command)
    o = run(args.guest, script, args.user, args.limit)
    sys.stdout.write(o.output)
    if args.results:
        args.results.mkdir(parents=True, exist_ok=True)
        for name, data in o.files.items():
            (args.results / Path(name).name).write_bytes(data)
    if o.status is None:
        print(o.explain(), file=sys.stderr)
        return 1
    return o.status


if __name__ == "__main__":
    sys.exit(main())
