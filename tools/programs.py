# SPDX-License-Identifier: Apache-2.0
"""What is built: one program for each file of src/prog."""

from pathlib import Path

PROGRAMS = sorted(p.stem.replace("_", "-") for p in (Path(__file__).resolve().parent.parent / "src/prog").glob("*.c"))
