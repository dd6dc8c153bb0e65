# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import manifest  # noqa: E402
import stage as stages  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs_wall(kind, wall): an attack on a wall; left out unless it is EXPECTED_UP"
    )
    config.addinivalue_line("markers", "needs_machine(attack): left out where the machine lacks what it is about")


def left_out(item):
    m = item.get_closest_marker("needs_wall")
    if m and m.args[1] not in manifest.EXPECTED_UP[m.args[0]] | manifest.ALWAYS:
        return f"wall {m.args[1]}"
    m = item.get_closest_marker("needs_machine")
    if m and not manifest.here(m.args[0]):
        return manifest.NEEDS[m.args[0].id]
    return None


def pytest_collection_modifyitems(config, items):
    """Attacks on walls that are not expected, or on what is not here, are not run, and counted."""
    config.left_out = {}
    for item in list(items):
        if why := left_out(item):
            config.left_out[why] = config.left_out.get(why, 0) + 1
            items.remove(item)


def pytest_terminal_summary(terminalreporter, config):
    for why, n in sorted(config.left_out.items()):
        terminalreporter.write_line(f"left out: {n} for {why}")


@pytest.fixture(scope="session")
def all_stages():
    made = {}
    yield made
    for s in made.values():
        if isinstance(s, stages.Stage):
            s.server.stop()
            try:
                s.server.check_log()
            finally:
                s.close()
    shutil.rmtree(stages.programs())


@pytest.fixture
def stage(request, all_stages):
    """The stage of one kind of server: made once; if that fails, it is not tried again."""
    kind = request.node.callspec.params["kind"]
    if os.geteuid() != 0:
        pytest.skip("needs root to make both kinds of server")
    if kind not in all_stages:
        if kind == "user":
            harness.ensure_user()
        try:
            all_stages[kind] = stages.Stage(kind, 0 if kind == "root" else harness.USER_UID)
        except Exception as e:
            all_stages[kind] = e
    if isinstance(all_stages[kind], Exception):
        raise all_stages[kind]
    return all_stages[kind]
