# SPDX-License-Identifier: Apache-2.0
bash -c 'exec -a true expr 40 + 2'
