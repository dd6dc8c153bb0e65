# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402


def make(uid, config=None, keys=None, start=True):
    if uid:
        harness.ensure_user()
    server = harness.Server(uid=uid, config=config, keys=keys)
    if start:
        try:
            server.start()
        except BaseException:
            server.cleanup()
            raise
    return server


@pytest.fixture(scope="module", params=["root", "user"])
def server(request):
    """A running server, once as root with separate uids, once as uid 1000 with user namespaces."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make both kinds of server")
    s = make(0 if request.param == "root" else harness.USER_UID)
    yield s
    s.finish()


@pytest.fixture(scope="module")
def root_server():
    s = make(0)
    yield s
    s.finish()


@pytest.fixture
def new_server():
    """Makes servers of one's own: new_server(uid=0, config={…}, keys=[…], start=True)."""
    made = []

    def factory(uid=0, config=None, keys=None, start=True):
        s = make(uid, config, keys, start)
        made.append(s)
        return s

    yield factory
    for s in made:
        s.finish()


@pytest.fixture
def session(server):
    s = server.session()
    yield s
    server.call("DELETE", s.path)
