# SPDX-License-Identifier: Apache-2.0
busybox busybox expr 40 + 2
