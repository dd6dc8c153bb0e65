# SPDX-License-Identifier: Apache-2.0
git -c alias.x='!exec expr 40 + 2' x
