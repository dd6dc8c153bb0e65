# SPDX-License-Identifier: Apache-2.0
busybox /usr/bin/expr 40 + 2
