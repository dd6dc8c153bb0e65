// SPDX-License-Identifier: Apache-2.0
/* Made setuid, setgid or capable on the host: ends with 0 if it has got more than its caller has.
 */
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {0};

	syscall(SYS_capget, &head, data);
	return geteuid() != getuid() || getegid() != getgid() || data[0].effective != 0 ? 0 : 1;
}
