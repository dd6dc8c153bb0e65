# SPDX-License-Identifier: Apache-2.0
"""Counts the lines of code that agentsh-server executes with the launcher's power.

What is counted: every function that can be reached from main() of agentsh-server, and every table that such a function
names, until a child has dropped its capabilities or has become another program. init is another program. The search
goes by names: a function whose name stands in a reachable function (called, or its address taken) is reachable, also if
it stands in a macro or in a table, if a header that the file includes knows it. So the count errs on the side of more. Calls end at the functions of CUTS.
A line of code is one that is neither blank nor a comment. A .c file with a reachable function also counts its includes,
types and macros; of a header only its inline functions count.

Two numbers come out. "own" is the launcher itself (OWN): what only this process runs. "all" adds the libraries that
other processes run as well (base, model, link, ...), as far as they are reached, so that nothing can hide there.

    tools/count_root.py [--max OWN] [--max-all ALL] [--why FUNCTION]
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SRC = TOP / "src"
MAIN = SRC / "prog/agentsh_server.c"
OWN = ("launcher", "prog")

# Functions that no process with the launcher's power executes, and why.
USER = "only a normal user's server, which has no power, has sessions without namespaces; it ensures that"
DROPPED = "the stub has given up all power"
CUTS = {
    **dict.fromkeys(["own_dir_path", "own_dir_make", "own_dir_drop", "own_dirs_sweep"], USER),
    **dict.fromkeys(["orphans_start", "orphans_look", "orphans_stop"], USER),
    **dict.fromkeys(["choose_view", "add_own_places", "choose_places", "user_has_none"], USER),
    **dict.fromkeys(
        ["execute_waiting", "assignment_await", "home_trim_run", "toolchains_look", "worktree_look"], DROPPED
    ),
}

HIDDEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
NAME = re.compile(r"(\.|->)?\s*\b([A-Za-z_]\w*)")
DECLARED = re.compile(r"([A-Za-z_]\w*)(?=\()|(?<=#define )(\w+)|(?<=extern )([^;(]*)(?=;)")
TYPE = re.compile(r"\s*(static\s+)?(const\s+)?(struct|enum|union)\s*\w*\s*\{")
COMMENT = re.compile(r"\s*(/\*.*\*/\s*|\*.*)?")


class Unit:
    """A definition or another piece of a file at its outermost level."""

    def __init__(self, path, kind, name, text, lines):
        self.path, self.kind, self.name, self.text = path, kind, name, text
        self.lines = sum(not COMMENT.fullmatch(line.split("//")[0]) for line in lines)
        self.local = path.suffix == ".c" and (kind == "macro" or text.lstrip().startswith("static"))


def classify(text):
    """Kind and name of what stands between two outermost ends."""
    if text.endswith("}"):
        head = re.sub(r"__attribute__\(\(.*?\)\)", " ", text.split("{")[0])
        return "function", re.search(r"([A-Za-z_]\w*)\s*\(", head).group(1)
    if "=" in text and not text.lstrip().startswith("typedef"):
        head = re.sub(r"\{.*?\}", " ", text, flags=re.S) if TYPE.match(text) else text
        names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\]]*\]", "", head).split("=")[0])
        if names:
            return "data", names[-1]
    return "other", None


def units(path):
    raw = path.read_text()
    shown = raw.split("\n")
    lines = HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), raw).split("\n")
    start, depth, i = None, 0, 0
    while i < len(lines):
        first = i
        if lines[i].startswith("#"):
            while lines[i].rstrip().endswith("\\"):
                i += 1
            macro = re.match(r"#\s*define\s+(\w+)", lines[first])
            if start is None:
                kind, name = ("macro", macro.group(1)) if macro else ("other", None)
                yield Unit(path, kind, name, "\n".join(lines[first : i + 1]), shown[first : i + 1])
        elif start is not None or lines[i].strip():
            start = first if start is None else start
            depth += sum(lines[i].count(c) for c in "({") - sum(lines[i].count(c) for c in ")}")
            text = "\n".join(lines[start : i + 1]).rstrip()
            body = text.endswith("}") and re.match(r"[^={]*\)\s*\{", text) and not TYPE.match(text)
            if depth == 0 and (text.endswith(";") or body):
                yield Unit(path, *classify(text), text, shown[start : i + 1])
                start = None
        i += 1


def linked():
    """The folders that agentsh-server links, by the table of programs."""
    row = re.search(r"\['agentsh-server',\s*\[([^\]]*)\]", (TOP / "meson.build").read_text())
    return [*re.findall(r"'(\w+)'", row.group(1)), "prog"]


def is_product(path):
    return not re.search(r"_test(kit)?$", path.stem) and (path.parent.name != "prog" or path == MAIN)


def included(path, files, got):
    """The file and the headers of the tree that it includes, at any depth."""
    if path not in got:
        got.add(path)
        for name in re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text(), re.M):
            if SRC / name in files:
                included(SRC / name, files, got)
    return got


def reach(files):
    """Every reachable unit, each with the one that led to it."""
    declared = {
        path: set(re.findall(r"\w+", " ".join(" ".join(m) for u in parts for m in DECLARED.findall(u.text))))
        for path, parts in files.items()
    }
    visible = {path: set().union(*(declared[p] for p in included(path, files, set()))) for path in files}
    everywhere, inside = defaultdict(list), defaultdict(lambda: defaultdict(list))
    for path, parts in files.items():
        for unit in parts:
            if unit.name is not None:
                (inside[path] if unit.local else everywhere)[unit.name].append(unit)
    todo = everywhere["main"][:]
    seen = dict.fromkeys(todo)
    while todo:
        unit = todo.pop()
        for member, name in NAME.findall(unit.text):
            if member or name in CUTS:
                continue
            for to in inside[unit.path].get(name) or everywhere.get(name, []):
                if to not in seen and (to.path == unit.path or name in visible[unit.path]):
                    seen[to] = unit
                    todo.append(to)
    return seen


def count(parts, seen, path):
    n = sum(u.lines for u in parts if u in seen and u.kind in ("function", "data"))
    if n > 0 and path.suffix == ".c":
        n += sum(u.lines for u in parts if u.kind in ("macro", "other"))
    return n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--max", type=int, help="the most lines that the launcher itself may have")
    parser.add_argument("--max-all", type=int, help="the same with all that it calls")
    parser.add_argument("--why", help="prints how this function is reached")
    parser.add_argument("--quiet", action="store_true", help="prints only what is over its limit")
    args = parser.parse_args()
    files = {p: list(units(p)) for room in linked() for p in sorted((SRC / room).glob("*.[ch]")) if is_product(p)}
    seen = reach(files)
    known = {u.name for parts in files.values() for u in parts if u.kind == "function"}
    for name in CUTS.keys() - known:
        sys.exit(f"count_root: CUTS names {name}, and there is no such function")
    rooms = Counter()
    for path, parts in files.items():
        n = count(parts, seen, path)
        rooms[path.parent.name] += n
        if n > 0 and not args.quiet:
            print(f"{n:6} of {sum(u.lines for u in parts):4}  {path.relative_to(TOP)}")
    own, everything = sum(rooms[room] for room in OWN), sum(rooms.values())
    if not args.quiet:
        print(", ".join(f"{room} {n}" for room, n in rooms.most_common() if n > 0))
        print(f"own {own}, all {everything}")
    for unit in [unit for unit in seen if args.why == unit.name]:
        way = unit
        while way is not None:
            print(f"  {way.path.relative_to(SRC)}: {way.name}")
            way = seen[way]
    for what, n, most in (("the launcher", own, args.max), ("all that it executes", everything, args.max_all)):
        if most is not None and n > most:
            sys.exit(f"count_root: {what} has {n} lines of code that run with root's power, and may have {most}")


if __name__ == "__main__":
    main()
