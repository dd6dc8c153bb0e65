# SPDX-License-Identifier: Apache-2.0
"""Finds phrases that a stranger stumbles over, in comments, messages and documents.

CONTRIBUTING.md says how we write: plain sentences with a subject, in the words of the field. A script cannot judge a
sentence; it finds phrases that a plain sentence does not need. A room (a folder of src/, or docs) that is in LEFT may
still have some, and is listed; any other room must have none.

    tools/check_words.py [ROOM...]    with rooms: prints every place in them
"""

import re
import sys
from collections import Counter
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
# Rooms that are not rewritten yet.
LEFT = set()
QUOTED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
PHRASES = re.compile(
    r"""\b(
      nobody(?:'s)?(?!:)|whom|somebody(?:'s)?|anybody|whoever         # name the process or the person
    | (?-i:Who)\s(?:has|is|asks|does|can|may|would|knows|waits|reads|writes|holds|owns)
    | what\s(?:is|has|was|does|can|may|did)\snot\b|what\sis\sno\b # say which thing
    | (?<!there\s)(?:is|are|was)\sno\s(?!longer|more|less)\w+     # is not a ...
    | (?:has|have|is|are)\snone
    | knows?\s(?:it|of|nothing)|told|hears?|heard                  # processes send, receive and record
    | wish(?:es|ed)?|strays?
    )\b""",
    re.X | re.I,
)


def passages(path):
    """Comments and strings of a C file, all of a document; with the line where each begins."""
    text = path.read_text()
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for m in QUOTED.finditer(text):
        if m.group().startswith('"') and re.search(r"_test\.|testkit", path.name):
            continue
        # A comment's lines are joined, so that a phrase may run over a line's end.
        yield text.count("\n", 0, m.start()) + 1, re.sub(r"\s*\n\s*\*?\s*", " ", m.group())


def main():
    wanted = sys.argv[1:]
    found = Counter()
    files = [*TOP.glob("src/**/*.[ch]"), *TOP.glob("docs/**/*.md"), *TOP.glob("*.md")]
    files.remove(TOP / "docs/requirements.md")  # the words of the specification
    for path in sorted(files):
        parts = path.relative_to(TOP).parts
        room = parts[1] if parts[0] == "src" else "docs"
        for n, text in passages(path):
            for m in PHRASES.finditer(text):
                found[room] += 1
                if room in wanted or (not wanted and room not in LEFT):
                    print(f"{path.relative_to(TOP)}:{n}: '{m.group()}'")
    if wanted:
        return 0
    if LEFT:
        print("words: rooms left:", ", ".join(f"{r} {found[r]}" for r in sorted(LEFT)))
    return 1 if any(n for r, n in found.items() if r not in LEFT) else 0


sys.exit(main())
