# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several files of this folder use."""

from policy_server import policies, shared  # noqa: F401
