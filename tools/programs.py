# SPDX-License-Identifier: Apache-2.0
"""What is built: one program for each file of src/prog, and agentsh-check, which is another name of agentsh."""

from pathlib import Path

SOURCES = (Path(__file__).resolve().parent.parent / "src/prog").glob("*.c")
PROGRAMS = sorted(["agentsh-check", *(p.stem.replace("_", "-") for p in SOURCES)])
