# SPDX-License-Identifier: Apache-2.0
"""What guests answered about their walls is printed at the end of the run. Loaded on the host and inside guests."""

import pytest

REPORTS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[REPORTS] = []


@pytest.fixture
def guest_report(request):
    """guest_report(line): a line for the end of the run."""
    return request.config.stash[REPORTS].append


def pytest_terminal_summary(terminalreporter, config):
    if config.stash[REPORTS]:
        terminalreporter.section("guests")
        for line in config.stash[REPORTS]:
            terminalreporter.write_line(line)
