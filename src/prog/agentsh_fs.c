// SPDX-License-Identifier: Apache-2.0
#include "fs/fs_process.h"

int main(int argc, char **argv)
{
	return fs_process_main(argc, argv);
}
