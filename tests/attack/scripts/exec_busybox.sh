# SPDX-License-Identifier: Apache-2.0
busybox expr 40 + 2
