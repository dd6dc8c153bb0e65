# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several files of this folder use."""

from approvals import asked, asking, io_uring, wardens  # noqa: F401
from policy_server import policies, shared  # noqa: F401
