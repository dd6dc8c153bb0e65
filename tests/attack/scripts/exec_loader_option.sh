# SPDX-License-Identifier: Apache-2.0
/lib64/ld-linux-x86-64.so.2 --argv0 true --library-path /lib /usr/bin/expr 40 + 2
