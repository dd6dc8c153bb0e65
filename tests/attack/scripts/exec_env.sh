# SPDX-License-Identifier: Apache-2.0
env -i /usr/bin/env A=1 expr 40 + 2
