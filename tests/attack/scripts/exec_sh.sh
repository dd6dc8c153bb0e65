# SPDX-License-Identifier: Apache-2.0
sh -c 'bash -c "expr 40 + 2"'
