# SPDX-License-Identifier: Apache-2.0
"""Checks of the whole tree that no other tool makes: layers, headers alone, hardening, licences, names, SPDX."""

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from programs import PROGRAMS
from test_report import requirement_of, requirements

TOP = Path(__file__).resolve().parent.parent
SRC = TOP / "src"
STATIC = {"agentsh-init", "agentsh-state"}
BARE = {"agentsh-state"}  # without libc, which keeps the stack protector's guard

# A folder may include itself and folders of a lower number; never a sideways one. A folder that is not listed belongs
# to one process beside init: it stands where fs and net do, and only it includes itself.
LAYERS = {
    "base": 0,
    "model": 1,
    **dict.fromkeys(
        ["config", "policy", "event", "link", "listener", "walk", "cgroup", "bpf", "spawn", "terminal", "wire"], 2
    ),
    **dict.fromkeys(["sandbox", "trash"], 2),
    **dict.fromkeys(["gate", "check", "probe"], 3),
    "process": 4,
    **dict.fromkeys(["fs", "net", "exec"], 5),
    **dict.fromkeys(["warden", "command", "shell", "session", "approval", "launcher", "client"], 6),
    **dict.fromkeys(["api", "cli", "acmd", "shim"], 7),
    "prog": 8,
}
# Neighbours of the same layer that may be used: link, and the parts of a session that a wider part is made of.
SIDEWAYS = {
    ("bpf", "link"),
    ("sandbox", "link"),
    ("sandbox", "cgroup"),
    ("spawn", "link"),
    ("spawn", "sandbox"),
    ("command", "shell"),
    ("warden", "command"),
    ("warden", "shell"),
}

# Licences of libraries that we link: package -> why it may be linked.
LICENCES = {
    "libc6": "LGPL-2.1+, system library",
    "libevent-core-2.1-7": "BSD-3-clause",
    "libjansson4": "MIT",
    "libsqlite3-0": "public domain",
    "libyaml-0-2": "MIT",
    "libnettle8": "LGPL-3+ or GPL-2+, linked dynamically",
    "libpcre2-8-0": "BSD-3-clause",
    "libbpf1": "LGPL-2.1 or BSD-2-clause",
}
# Programs for the kernel, and the headers that they share with processes: the kernel wants a licence that it knows.
KERNEL_LICENCE = "(MIT OR GPL-2.0-only)"
KERNEL_FILES = re.compile(r"\.bpf\.[ch]$|^bpf/\w*(layout|siphash)\.h$")
BAD_NAMES = re.compile(r"(^|_)(util|utils|misc|common|helper|helpers)(_|\.|$)")

problems: list[str] = []


def bad(where, what):
    problems.append(f"{where}: {what}")


def rel(path):
    return str(path.relative_to(TOP))


def sources(*suffixes):
    return sorted(p for p in SRC.rglob("*") if p.suffix in suffixes)


def check_layers():
    for path in sources(".c", ".h"):
        folder = path.relative_to(SRC).parts[0]
        layer = LAYERS.get(folder, LAYERS["fs"])
        for n, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            other = m.group(1).split("/")[0] if "/" in m.group(1) else folder
            if other == folder or (folder, other) in SIDEWAYS:
                continue
            if LAYERS.get(other, 99) >= layer:
                bad(f"{rel(path)}:{n}", f"includes {m.group(1)}: {folder} must not use {other}")


# What of src/api knows HTTP/1: its provider, and the process that opens the listeners. Handlers know calls alone.
HTTP_FILES = {"api.h", "call_http.c", "api_process.c"}


def check_handlers():
    for path in sorted((SRC / "api").glob("*.[ch]")):
        if path.name in HTTP_FILES or path.stem.endswith(("_test", "_testkit")):
            continue
        for n, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bhttp_|wire/http|wire/sse", line):
                bad(f"{rel(path)}:{n}", "only the provider (call_http.c) knows HTTP; use api/call.h")


def check_names():
    for path in sources(".c", ".h"):
        text = path.read_text()
        for_kernel = KERNEL_FILES.search(str(path.relative_to(SRC))) is not None
        licence = KERNEL_LICENCE if for_kernel else "Apache-2.0"
        if not text.startswith(f"// SPDX-License-Identifier: {licence}\n"):
            bad(rel(path), f"first line is not the SPDX line with {licence}")
        if path.name.endswith(".bpf.c") and 'char LICENSE[] SEC("license") = "Dual MIT/GPL";' not in text:
            bad(rel(path), "a program for the kernel says that its licence is Dual MIT/GPL")
        if BAD_NAMES.search(path.name):
            bad(rel(path), "a file is named after one idea")
        if path.suffix == ".h" and "#pragma once" not in text:
            bad(rel(path), "no #pragma once")
        if path.parent.name == "prog" and len(text.splitlines()) > 100:
            bad(rel(path), "a main() file stays under 100 lines")
        if path.parent.name != "prog" and "_test" not in path.name:
            for n, line in enumerate(text.splitlines(), 1):
                if re.search(r"(?<![\w_])exit\(", line) and "_exit(" not in line and "*" not in line[:3]:
                    bad(f"{rel(path)}:{n}", "only src/prog may exit")
    for path in [
        TOP / "dev",
        TOP / ".ci/run",
        *TOP.glob("tools/*"),
        *TOP.glob("tests/**/*.py"),
        *TOP.glob("bench/*.py"),
    ]:
        if (
            path.is_file()
            and path.suffix != ".txt"
            and path.name != "codespell-ignore"
            and "SPDX" not in path.read_text()[:200]
        ):
            bad(rel(path), "no SPDX line")


def check_unique():
    """A file's base name and a struct's name say which one is meant, in the whole of src/."""
    stems, structs = {}, {}
    for path in sources(".c", ".h"):
        if re.search(r"_test\.|testkit|_fixture", path.name):
            continue
        stems.setdefault(path.stem, set()).add(path.parent.name)
        if path.name.endswith((".bpf.c", ".bpf.h")):  # declares structs of the kernel
            continue
        for name in re.findall(r"^\s*(?:static |const )*((?:struct|union|enum) \w+) \{", path.read_text(), re.M):
            structs.setdefault(name, []).append(rel(path))
    for stem, rooms in stems.items():
        if len(rooms) > 1 and "prog" not in rooms:
            bad("src", f"more than one file is called {stem}: {', '.join(sorted(rooms))}")
    for name, where in structs.items():
        if len(where) > 1:
            bad(where[1], f"{name} is also in {where[0]}")


def check_tests():
    """Every test is named after a requirement whose verdict allows it, and every test in a file is registered to run."""
    verdicts = requirements()
    shown = set()

    def check_name(path, test):
        rid = requirement_of(test)
        shown.add(rid)
        if rid not in verdicts:
            bad(rel(path), f"test {test} does not begin with a requirement id")
        elif verdicts[rid] == "not yet":
            bad(rel(path), f"test {test} claims {rid}, whose verdict in docs/requirements.md is 'not yet'")

    for path in SRC.rglob("*_test.c"):
        text = path.read_text()
        functions = re.findall(r"^static void (\w+)\(void \*\*\w+\)", text, re.M)
        for f in functions:
            check_name(path, f)
            if len(re.findall(rf"\b{f}\b", text)) < 2:
                bad(rel(path), f"test {f} is not registered")
        if not functions or "cmocka_run_group_tests" not in text:
            bad(rel(path), "no tests")
    for path in TOP.glob("tests/*/test_*.py"):
        for f in re.findall(r"^\s*def (test_\w+)", path.read_text(), re.M):
            check_name(path, f)
    for rid, verdict in verdicts.items():
        if verdict == "met" and rid not in shown:
            bad("docs/requirements.md", f"{rid} is 'met', and no test shows it")
        if verdict not in ("met", "not yet") and not re.fullmatch(r"partly: \S.*", verdict):
            bad("docs/requirements.md", f"{rid}: the verdict is met, not yet, or 'partly: what is missing'")
    for path in TOP.glob("tests/fuzz/fuzz_*.c"):
        if not any((TOP / "tests/fuzz/corpus" / path.stem.removeprefix("fuzz_")).glob("*")):
            bad(rel(path), "no corpus")


def compile_flags():
    entries = json.loads((TOP / "build/compile_commands.json").read_text())
    words = entries[0]["command"].split()
    keep = [w for w in words if w.startswith(("-D", "-W", "-std", "-f"))]
    return [w for w in keep if not w.startswith(("-Wl,", "-flto"))]


def check_headers_alone():
    flags = compile_flags()

    def one(header):
        with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
            f.write(f'#include "{header.relative_to(SRC)}"\n#include "{header.relative_to(SRC)}"\n')
            f.flush()
            r = subprocess.run(
                ["gcc", *flags, "-O1", f"-I{SRC}", "-fsyntax-only", f.name], capture_output=True, text=True
            )
            return None if r.returncode == 0 else r.stderr.strip().splitlines()[0]

    headers = [h for h in sources(".h") if not h.name.endswith(".bpf.h")]  # those are for clang and the kernel
    with ThreadPoolExecutor(2) as pool:
        for header, error in zip(headers, pool.map(one, headers), strict=True):
            if error:
                bad(rel(header), f"does not compile alone: {error}")


def check_hardening():
    for name in PROGRAMS:
        path = TOP / "build" / name
        if not path.exists():
            bad(name, "not built")
            continue
        out = subprocess.run(["readelf", "-hldsW", path], capture_output=True, text=True).stdout
        wanted = {
            "PIE": "DYN (" in out,
            "RELRO": "GNU_RELRO" in out,
            "full RELRO (BIND_NOW)": "NOW" in out,
            "no executable stack": not re.search(r"GNU_STACK.*RWE", out),
            "stack protector": name in BARE or "__stack_chk_fail" in out,
        }
        if name in STATIC:
            wanted["static"] = "INTERP" not in out
        else:
            wanted["FORTIFY"] = re.search(r"__\w+_chk\b", out) is not None
        for what, ok in wanted.items():
            if not ok:
                bad(f"build/{name}", f"release build lacks {what}")


def check_licences():
    libs = set()
    for name in PROGRAMS:
        path = TOP / "build" / name
        if name in STATIC or not path.exists():
            continue
        out = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True).stdout
        libs |= set(re.findall(r"NEEDED.*\[(\S+?)\]", out))
    cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    for lib in sorted(libs):
        found = re.search(rf"^\s*{re.escape(lib)} .*=> (\S+)", cache, re.M)
        target = Path(found.group(1)) if found else Path(lib)
        names = [str(target), str(target.resolve()), str(target).replace("/lib/", "/usr/lib/", 1)]
        package = ""
        for n in names:
            r = subprocess.run(["dpkg-query", "-S", n], capture_output=True, text=True)
            if r.returncode == 0:
                package = r.stdout.split(":")[0]
                break
        if package not in LICENCES:
            bad("linked libraries", f"{lib} ({package or 'no package'}) is not in the list of licences")


def check_config_rows():
    """Every configuration key names a test that exists."""
    tests = "\n".join(p.read_text() for p in TOP.glob("tests/*/test_*.py"))
    r = subprocess.run([TOP / "build/agentsh", "config", "keys", "--json"], capture_output=True, text=True)
    if r.returncode != 0:
        bad("agentsh config keys", r.stderr.strip())
        return
    for row in json.loads(r.stdout)["keys"]:
        if f"def {row['test']}(" not in tests and f'"{row["key"]}"' not in tests:
            bad("src/config", f"{row['key']}: no test {row['test']}")


def main():
    checks = [
        check_layers,
        check_handlers,
        check_names,
        check_unique,
        check_tests,
        check_headers_alone,
        check_hardening,
        check_licences,
        check_config_rows,
    ]
    for check in checks:
        check()
    for p in problems:
        print(p, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
