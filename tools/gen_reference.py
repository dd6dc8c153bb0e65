# SPDX-License-Identifier: Apache-2.0
"""Writes the parts of the documentation that follow from tables in the sources and from the programs' own help.

usage: tools/gen_reference.py [--check]

  docs/configuration.md                 whole, from `agentsh config keys`
  packaging/config.yaml                 whole, from the same
  docs/api.md                           methods, errors, walls, event types: from src/
  docs/policy.md                        limits: from src/
  docs/seccomp.md                       refused system calls: from src/
  docs/architecture/fs.md               flags of the FUSE protocol: from src/
  docs/agentsh.1                        commands and their options: from `agentsh help` and `agentsh COMMAND --help`
  packaging/completion/agentsh.bash     tables of commands and options, from the same

A generated part stands between two marks, "generated: NAME" and "end: NAME"; what stands outside of them is written by
hand. With --check nothing is written, and the exit status is 1 if a file is not what it would be. The programs are
those in build/, or in AGENTSH_BUILD_DIR."""

import difflib
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
AGENTSH = Path(os.environ.get("AGENTSH_BUILD_DIR", TOP / "build")) / "agentsh"


@dataclass
class Option:
    name: str
    value: str  # "" for a flag
    text: str


@dataclass
class Command:
    name: str
    operands: str
    summary: str
    options: list[Option]
    examples: list[str]


# --- what there is ---


def agentsh(*args):
    return subprocess.run([AGENTSH, *args], check=True, capture_output=True, text=True).stdout


def options_of(text):
    """Rows "  --name VALUE   help"; a value stands one space behind its name."""
    rows = re.findall(r"^  (--[\w-]+)(?: ([^\s]+))? +(\S.*)$", text, re.M)
    return [Option(*row) for row in rows]


def section(text, title):
    """The indented lines below "title:"."""
    found = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.M)
    return found.group(1) if found else ""


def command(name, summary):
    text = agentsh(*name.split(), "--help")
    operands = " ".join(re.match(rf"usage: agentsh {name} ?(.*(?:\n  .*)*)", text).group(1).split())
    examples = section(text, "examples").splitlines()
    if name != "server":
        return Command(name, operands, summary, options_of(section(text, "options")), examples)
    # A program of its own, whose help has no sections; its usage says more about values.
    better = dict(re.findall(r"\[(--[\w-]+) (\S+)\]", text))
    options = [Option(o.name, better.get(o.name, o.value), o.text) for o in options_of(text)]
    return Command(name, operands, summary, options, examples)


def commands():
    rows = re.findall(r"^  (\S+(?: \S+)?) {2,}(\S.*)$", section(agentsh("help"), "commands"), re.M)
    return [command(name, summary) for name, summary in rows]


def everywhere():
    return options_of(section(agentsh("help"), "everywhere"))


def c_string(text, macros):
    """The value of adjacent C string literals and macros."""
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|(\w+)', text)
    return "".join(macros[name] if name else literal for literal, name in parts)


KINDS = {"UNARY": "unary", "SERVER_STREAM": "server stream", "BIDIRECTIONAL": "bidirectional"}
LISTENERS = {"EVERYWHERE": ["unix", "tcp"]}


def methods():
    text = (TOP / "src/api/methods.c").read_text()
    prefix = re.search(r'#define API_PREFIX "(.*)"', (TOP / "src/api/api.h").read_text()).group(1)
    macros = {"P": prefix, "FILTERS": re.search(r'#define FILTERS "(.*)"', text).group(1)}
    row = re.compile(
        r"""^\t\{"(?P<verb>\w+)",\s*(?P<path>[^,]+),\s*"(?P<rpc>\w+)",\s*(?P<kind>\w+),\s*(?P<listeners>\w+),
            \s*(?P<roles>\w+),\s*\w+,\s*(?P<params>[^,]+),\s*(?P<idempotent>\w+),\s*\w+,\s*\w+,$""",
        re.M | re.X,
    )
    for m in row.finditer(text):
        yield m.groupdict() | {"path": c_string(m["path"], macros), "params": c_string(m["params"], macros).split()}


def errors():
    text = (TOP / "src/base/err.h").read_text()
    return re.findall(r'X\((\w+), (\d+), (\d+), (\d+), "(.*?)"\)', text)


def names(path, macro):
    """The names of an X-macro list, which are in its first column."""
    text = (TOP / path).read_text()
    body = re.search(rf"#define {macro}\(X\)((?:.*\\\n)+.*)", text).group(1)
    return re.findall(r"X\((\w+)", body)


# --- Markdown ---


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def methods_table():
    who = {"AGENT": "agent, admin", "ADMIN": "admin", "ANYONE": "anyone"}
    rows = [
        [
            m["verb"],
            f"`{m['path']}`",
            m["rpc"],
            KINDS[m["kind"]],
            ", ".join(LISTENERS[m["listeners"]]),
            who[m["roles"]],
            " ".join(f"`{p}`" for p in m["params"]),
        ]
        for m in methods()
    ]
    return table(["Method", "Path", "Name", "Kind", "Listeners", "Role", "Parameters"], rows)


def errors_table():
    rows = [
        [f"`E_{name}`", http if http != "200" else "in `result.error`", exit_status, text]
        for name, http, _, exit_status, text in errors()
    ]
    return table(["Code", "HTTP", "Exit status of the CLI", "Meaning"], rows)


def walls_list():
    return " ".join(f"`{w}`" for w in names("src/model/wall.h", "WALL_LIST"))


def events_table():
    groups = {}
    for name in names("src/model/event.h", "EVENT_TYPES"):
        groups.setdefault(name.split("_")[0], []).append(f"`{name}`")
    return table(["About", "Types"], [[group, " ".join(types)] for group, types in groups.items()])


def limits_table():
    """Rows of LIMIT_TIMES, LIMIT_RESOURCES and LIMIT_COUNTS."""
    text = (TOP / "src/model/limits.h").read_text()
    row = re.compile(r"^\t(?:X|TWO)\((\w+), (\S+), (\w+), \"(.*?)\", .*\\\n\t  \"(.*)\"\)", re.M)
    found = row.findall(text)
    if len(found) != len(re.findall(r"^\t(?:X|TWO)\(\w", text, re.M)):
        sys.exit("gen_reference.py: a row of limits.h cannot be read")
    kinds = {"DURATION": "duration", "SHARE": "{}, or a share such as `75%`", "INT": "{}"}
    times = names("src/model/limits.h", "LIMIT_TIMES")
    rows = []
    for name, other, kind, unit, text in found:
        also = f" or `{other[1:-1]}`" if other != "NULL" and name not in times else ""
        rows.append([f"`{name}`{also}", kinds[kind].format(unit), re.sub(r"; 0 for (no limit|1 GB)", "", text)])
    return table(["Limit", "Value", "Meaning"], rows)


def seccomp_table(rows="seccomp_rows"):
    warden = "the warden's"
    answers = {
        "EPERM": "`EPERM`",
        "ENOSYS": "`ENOSYS`",
        "EOPNOTSUPP": "`EOPNOTSUPP`",
        "NOTIFY": warden,
        "HOLD": warden,
    }
    text = (TOP / "src/sandbox/seccomp_table.c").read_text()
    text = text.split(f"struct seccomp_row {rows}[] = {{")[1].split("\n};")[0]
    found = re.findall(r'\{CALL\((\w+)\), SECCOMP_(\w+), "([^"]*)",\s+"([^"]*)"', text)
    if len(found) != text.count("{CALL("):
        sys.exit(f"gen_reference.py: a row of {rows} cannot be read")
    return table(
        ["System call", "When", "Answer", "Why"],
        [[f"`{name}`", when or "always", answers[answer], reason] for name, answer, when, reason in found],
    )


def fuse_flags_table():
    wants = {"ALWAYS": "yes", "OPTION": "if asked for", "NEVER": "no"}
    text = (TOP / "src/fs/negotiate.c").read_text().split("fs_flag_row rows[] = {")[1].split("\n};")[0]
    found = re.findall(r'ROW\((\w+), (\d+), (\w+),\s+((?:"[^"]*"\s*)+)\)', text)
    if len(found) != text.count("ROW("):
        sys.exit("gen_reference.py: a row of negotiate.c cannot be read")
    return table(
        ["Flag", "Since", "Used", "Without it"],
        [[f"`{n}`", f"7.{minor}", wants[want], c_string(why, {})] for n, minor, want, why in found],
    )


# --- the manual page ---


def roff(text):
    text = text.replace("\\", "\\e").replace("--", "\\-\\-")
    return "\\&" + text if text[:1] in ".'" else text


def roff_options(options):
    out = [".Bl -tag -width Ds"]
    for o in options:
        out += [f".It Fl {o.name[1:]}" + (f" Ar {roff(o.value)}" if o.value else ""), roff(o.text)]
    return [*out, ".El"]


def roff_commands():
    out = []
    for c in commands():
        out += [f".Ss agentsh {c.name}", c.summary[0].upper() + roff(c.summary[1:]) + "."]
        out += [".Pp", f".Dl agentsh {c.name} {roff(c.operands)}"] if c.operands else []
        out += roff_options(c.options) if c.options else []
        out += [".Pp", "For example:", ".Pp", *(f".Dl {roff(e.strip())}" for e in c.examples)] if c.examples else []
    out += [".Ss Everywhere", "These options stand before the command or among its own."]
    return "\n".join([*out, *roff_options(everywhere())])


# --- completion ---


def bash_tables():
    """Options as words "--name" and "--name=VALUE"."""

    def words(options):
        return " ".join(o.name + (f"={o.value}" if o.value else "") for o in options)

    known = commands()
    out = ["_agentsh_commands=("]
    out += [f"\t'{c.name}'" for c in known]
    out += [")", "declare -gA _agentsh_options=("]
    out += [f"\t['{c.name}']='{words(c.options)}'" for c in known if c.options]
    out += [")", "declare -gA _agentsh_operands=("]
    out += [f"\t['{c.name}']='{c.operands}'" for c in known if c.operands]
    return "\n".join([*out, ")", f"_agentsh_everywhere='{words(everywhere())}'"])


# --- files ---


def marked(path, comment, **parts):
    """The file with its generated parts made anew. comment: how a mark is written, with {} for its text."""
    text = (TOP / path).read_text()
    for name, part in parts.items():
        begin, end = comment.format(f"generated: {name}"), comment.format(f"end: {name}")
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"gen_reference.py: {path}: the marks of '{name}' must stand there once")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{part}\n{end}{rest.split(end)[1]}"
    return text


def default_of(row):
    """A default of the table as a file has it; JSON is YAML as well."""
    places = {"{runtime}": "/run/agentsh", "{state}": "/var/lib/agentsh", "{config}": "/etc/agentsh"}
    text = re.sub(r"^\{\w+\}", lambda m: places[m[0]], row["default"])
    if row["type"].startswith("list of"):
        return json.dumps(text.split(",") if text else [])
    if row["type"] == "names with values":
        return json.dumps(dict(pair.split("=", 1) for pair in text.split(",") if pair))
    return (
        text
        if row["type"] in ("number", "number or share", "user id", "true or false", "duration")
        else json.dumps(text)
    )


def example_config():
    lines = [
        "# Configuration of agentsh: /etc/agentsh/config.yaml for the system's server, ~/.config/agentsh/config.yaml for a user's.",
        "# Every line that begins with '#' and a key shows the default of a server that root starts: take the '#' away and",
        "# change the value. `agentsh config validate FILE` checks a file, `agentsh config show` prints what holds.",
    ]
    above = []
    for row in json.loads(agentsh("config", "keys", "--json"))["keys"]:
        *sections, key = row["key"].split(".")
        for depth, name in enumerate(sections):
            if above[: depth + 1] != sections[: depth + 1]:
                lines += [""] * (depth == 0) + ["  " * depth + name + ":"]
        above = sections
        indent = "  " * len(sections)
        note = row["help"] + (" Needs a restart." if row["restart"] else "")
        lines += [f"{indent}# {line}" for line in textwrap.wrap(note, 100)]
        lines.append(f"{indent}#{key}: {default_of(row)}")
    return "\n".join(lines) + "\n"


def files():
    yield "docs/configuration.md", agentsh("config", "keys")
    yield "packaging/config.yaml", example_config()
    yield (
        "docs/api.md",
        marked(
            "docs/api.md",
            "<!-- {} -->",
            methods=methods_table(),
            errors=errors_table(),
            walls=walls_list(),
            events=events_table(),
        ),
    )
    yield "docs/policy.md", marked("docs/policy.md", "<!-- {} -->", limits=limits_table())
    yield (
        "docs/seccomp.md",
        marked("docs/seccomp.md", "<!-- {} -->", calls=seccomp_table(), bare=seccomp_table("seccomp_shared_rows")),
    )
    yield (
        "docs/architecture/fs.md",
        marked("docs/architecture/fs.md", "<!-- {} -->", flags=fuse_flags_table()),
    )
    yield "docs/agentsh.1", marked("docs/agentsh.1", '.\\" {}', commands=roff_commands())
    completion = "packaging/completion/agentsh.bash"
    yield completion, marked(completion, "# {}", tables=bash_tables())


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    check, differs = len(sys.argv) > 1, False
    for path, want in files():
        target = TOP / path
        have = target.read_text() if target.exists() else ""
        if have == want:
            continue
        differs = True
        if check:
            diff = difflib.unified_diff(have.splitlines(True), want.splitlines(True), path, "generated", n=0)
            sys.stderr.writelines(list(diff)[:20])
        else:
            target.write_text(want)
            print(path)
    if check and differs:
        print("run tools/gen_reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
