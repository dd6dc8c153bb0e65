# SPDX-License-Identifier: Apache-2.0
"""Counts static functions of src/ (tests and test support left out), and those that exactly one place uses.

usage: tools/count_helpers.py [--list] [--max-share PERCENT]
A static function with one caller makes the reader jump. It earns its place by an idea of its own. --list prints each of
them with its length in lines, shortest first; --max-share fails when they are more than so many in a hundred."""

import argparse
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
DEFINITION = re.compile(
    r"^(?:_Noreturn )?static [\w \t*]*?\b(\w+)\((?:[^;{}]*?)\)(?:\s*__attribute__[^\n]*)?\n\{\n(.*?)^\}", re.M | re.S
)
NOISE = re.compile(r"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\])+'|\"(?:\\.|[^\"\\])*\"", re.S)


def scan(path):
    text = NOISE.sub(lambda m: "\n" * m.group().count("\n"), path.read_text())
    for m in DEFINITION.finditer(text):
        name, body = m.group(1), m.group(2)
        calls = len(re.findall(rf"\b{name}\(", text)) - 1
        declared = len(re.findall(rf"^(?:_Noreturn )?static [^=;{{}}()]*\b{name}\([^;{{}}]*\);", text, re.M))
        pointers = len(re.findall(rf"\b{name}\b(?!\()", text))
        yield name, calls - declared if pointers == 0 else 0, body.count("\n"), text[: m.start()].count("\n") + 1


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--list", action="store_true")
    args.add_argument("--max-share", type=float)
    args = args.parse_args()
    found = []
    total = 0
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        if re.search(r"_test\.|testkit|_fixture", str(path)):
            continue
        for name, uses, length, line in scan(path):
            total += 1
            if uses == 1:
                found.append((length, f"{path.relative_to(TOP)}:{line}", name))
    if args.list:
        for length, where, name in sorted(found):
            print(f"{length:4} {where} {name}")
    print(f"{len(found)} of {total} static functions have exactly one caller")
    if args.max_share is not None and len(found) * 100 > total * args.max_share:
        sys.exit(f"more than {args.max_share} in a hundred")


if __name__ == "__main__":
    main()
