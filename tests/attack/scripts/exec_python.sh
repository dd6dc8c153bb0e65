# SPDX-License-Identifier: Apache-2.0
/usr/bin/python3 -c 'import subprocess; subprocess.run(["expr", "40", "+", "2"], check=True)'
