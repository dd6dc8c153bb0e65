# SPDX-License-Identifier: Apache-2.0
"""Attacks on a session, by the manifest: each must succeed where its wall is not, and be refused in a session, however the
command was started and whoever runs the server."""

from pathlib import Path

import manifest
import pytest
import stage as stages

KINDS = ("root", "user")
LEAST = 80


def rows():
    for kind in KINDS:
        for a in manifest.ATTACKS:
            if a.test:
                continue
            marks = [pytest.mark.needs_wall(kind, a.wall), pytest.mark.needs_machine(a)]
            for way in stages.WAYS:
                yield pytest.param(kind, way, a, id=f"{kind}-{way}-{a.id}", marks=marks)


def test_sbx_6_the_manifest_is_sound():
    counted = [a for a in manifest.ATTACKS if a.counts and manifest.here(a)]
    assert len({(a.target, a.wall) for a in counted}) == len(counted) >= LEAST
    assert len({a.id for a in manifest.ATTACKS}) == len(manifest.ATTACKS)
    assert {a.threat for a in manifest.ATTACKS} == set(manifest.THREATS)
    scripts = {p.stem for p in (stages.HERE / "scripts").glob("*.sh")}
    assert scripts <= {a.id for a in manifest.ATTACKS}


@pytest.mark.parametrize("kind", KINDS)
def test_sbx_5_the_walls_that_are_expected_are_up(stage, kind):
    ours = {a.wall for a in manifest.ATTACKS} - manifest.ALWAYS
    assert stage.walls() & ours == manifest.EXPECTED_UP[kind] & ours


@pytest.mark.parametrize("kind,way,attack", rows())
def test_sbx_6_attack(stage, kind, way, attack):
    if attack.counts:
        assert stage.control(attack) == "done", f"the control of {attack.id} did not succeed"
    result = stage.result(way, attack)
    assert result in attack.refusal.split("|"), f"{attack.title}: {result}"


def test_sbx_6_the_threat_model_has_every_attack():
    text = (Path(stages.HERE).parent.parent / "docs/threat-model.md").read_text()
    assert manifest.table() in text, "docs/threat-model.md: run tests/attack/manifest.py"
