// SPDX-License-Identifier: Apache-2.0
/* The machine itself: its name, clocks, swap, modules, ports. Each changes nothing where it is
 * allowed, or takes it back. */
#include "attack.h"
#include <sys/io.h>
#include <sys/quota.h>
#include <sys/reboot.h>
#include <sys/swap.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

#define PAGE 4096
#define SWAP_PAGES 16

static int host_name(void)
{
	return outcome(sethostname("attacked", 8));
}

static int domain_name(void)
{
	return outcome(setdomainname("attacked", 8));
}

static int clock_set(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return outcome(clock_settime(CLOCK_REALTIME, &now));
}

static int time_zone(void)
{
	const struct timezone utc = {0, 0};

	return outcome(syscall(SYS_settimeofday, NULL, &utc));
}

static int clock_rate(void)
{
	struct timex t = {0};

	if (adjtimex(&t) < 0)
		return BROKEN;
	t.modes = ADJ_TICK;
	return outcome(adjtimex(&t));
}

static int module_load(void)
{
	return outcome(syscall(SYS_init_module, "", 0, ""));
}

static int module_load_file(void)
{
	return outcome(syscall(SYS_finit_module, 0, "", 0));
}

static int module_remove(void)
{
	return outcome(syscall(SYS_delete_module, "agentsh-attack", O_NONBLOCK));
}

static int kexec(void)
{
	return outcome(syscall(SYS_kexec_load, 0, 0, NULL, 0));
}

static int kexec_file(void)
{
	return outcome(syscall(SYS_kexec_file_load, -1, -1, 0, "", 4));
}

/* A file with the header of swap space, in the working directory. */
static const char *swap_file(void)
{
	static const char path[] = "agentsh-attack-swap";
	char page[PAGE] = {0};
	const uint32_t head[] = {1, SWAP_PAGES - 1};
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	for (int i = 0; i < SWAP_PAGES; i++) {
		memset(page, 0, sizeof(page));
		if (i == 0) {
			memcpy(page + 1024, head, sizeof(head));
			memcpy(page + PAGE - 10, "SWAPSPACE2", 10);
		}
		if (write(fd, page, sizeof(page)) != PAGE)
			_exit(BROKEN);
	}
	fsync(fd);
	close(fd);
	return path;
}

static int swap_on(void)
{
	const char *path = swap_file();
	const int r = outcome(swapon(path, 0));

	swapoff(path);
	unlink(path);
	return r;
}

static int swap_off(void)
{
	const char *path = swap_file();
	int r;

	swapon(path, 0);
	r = outcome(swapoff(path));
	unlink(path);
	return r;
}

static int accounting(void)
{
	return outcome(acct(NULL));
}

static int quota(void)
{
	return outcome(quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL));
}

static int quota_by_descriptor(void)
{
	const int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return outcome(syscall(SYS_quotactl_fd, fd, QCMD(Q_SYNC, USRQUOTA), 0, NULL));
}

/* Turns off what a keyboard's Ctrl-Alt-Del does: where a system is managed it is off. */
static int restart(void)
{
	return outcome(reboot(RB_DISABLE_CAD));
}

static int port(void)
{
	return outcome(ioperm(0x80, 1, 1));
}

static int all_ports(void)
{
	return outcome(iopl(3));
}

const struct attack machine_attacks[] = {
	{"sethostname", host_name},
	{"setdomainname", domain_name},
	{"clock_settime", clock_set},
	{"settimeofday", time_zone},
	{"adjtimex", clock_rate},
	{"init_module", module_load},
	{"finit_module", module_load_file},
	{"delete_module", module_remove},
	{"kexec_load", kexec},
	{"kexec_file_load", kexec_file},
	{"swapon", swap_on},
	{"swapoff", swap_off},
	{"acct", accounting},
	{"quotactl", quota},
	{"quotactl_fd", quota_by_descriptor},
	{"reboot", restart},
	{"ioperm", port},
	{"iopl", all_ports},
	{0},
};
