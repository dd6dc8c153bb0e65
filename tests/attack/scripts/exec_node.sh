# SPDX-License-Identifier: Apache-2.0
node -e 'process.stdout.write(require("child_process").execFileSync("expr", ["40", "+", "2"]))'
