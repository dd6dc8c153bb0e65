# SPDX-License-Identifier: Apache-2.0
timeout 5 nice -n 1 setsid -w expr 40 + 2
