// SPDX-License-Identifier: Apache-2.0
/* Large or seldom used parts of the kernel, and the other ways into it. */
#include "attack.h"
#include <asm/ldt.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pty.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define X32_BIT 0x40000000

static int ring_setup(void)
{
	struct io_uring_params p = {0};

	return (int)syscall(SYS_io_uring_setup, 4, &p);
}

static int uring_setup(void)
{
	return outcome(ring_setup());
}

static int uring_enter(void)
{
	return outcome(syscall(SYS_io_uring_enter, ring_setup(), 0, 0, 0, NULL, 0));
}

static int uring_register(void)
{
	const int fd = 0;

	return outcome(syscall(SYS_io_uring_register, ring_setup(), IORING_REGISTER_FILES, &fd, 1));
}

static int fault_descriptor(void)
{
	return outcome(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_CLOEXEC));
}

static int bpf_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};

	return outcome(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static long bpf_call(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static long bpf_info(long fd, void *info, unsigned size)
{
	union bpf_attr attr = {
		.info = {.bpf_fd = (unsigned)fd, .info_len = size, .info = (uintptr_t)info}};

	return bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

/* Looks for a map of wants, and lets a process run anything. */
static int exec_check_map(void)
{
	union bpf_attr number = {0};

	while (bpf_call(BPF_MAP_GET_NEXT_ID, &number) == 0) {
		union bpf_attr open = {.map_id = number.next_id};
		struct bpf_map_info info = {0};
		const unsigned process = 0xfffffffe;
		char entry[1024] = {2}; /* EXEC_PASS */
		const long fd = bpf_call(BPF_MAP_GET_FD_BY_ID, &open);
		union bpf_attr write = {.map_fd = (unsigned)fd,
					.key = (uintptr_t)&process,
					.value = (uintptr_t)entry};

		number.start_id = number.next_id;
		if (fd >= 0 && bpf_info(fd, &info, sizeof(info)) == 0 &&
		    strcmp(info.name, "agentsh_wants") == 0 &&
		    bpf_call(BPF_MAP_UPDATE_ELEM, &write) == 0) {
			write.value = 0;
			return outcome(bpf_call(BPF_MAP_DELETE_ELEM, &write));
		}
	}
	return errno;
}

/* Looks for the link that holds the program, and opens it. */
static int exec_check_link(void)
{
	union bpf_attr number = {0};

	while (bpf_call(BPF_LINK_GET_NEXT_ID, &number) == 0) {
		union bpf_attr open = {.link_id = number.next_id}, of = {0};
		struct bpf_link_info link = {0};
		struct bpf_prog_info program = {0};
		const long fd = bpf_call(BPF_LINK_GET_FD_BY_ID, &open);

		number.start_id = number.next_id;
		if (fd < 0 || bpf_info(fd, &link, sizeof(link)) != 0)
			continue;
		of.prog_id = link.prog_id;
		if (bpf_info(bpf_call(BPF_PROG_GET_FD_BY_ID, &of), &program, sizeof(program)) ==
			    0 &&
		    strcmp(program.name, "exec_check") == 0)
			return 0;
	}
	return errno;
}

static int performance(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_TASK_CLOCK,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};

	return outcome(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static int join_keyring(void)
{
	return outcome(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL));
}

static long new_key(void)
{
	return syscall(SYS_add_key, "user", "agentsh-attack", "x", 1, KEY_SPEC_PROCESS_KEYRING);
}

static int add_key(void)
{
	return outcome(new_key());
}

static int request_key(void)
{
	new_key();
	return outcome(
		syscall(SYS_request_key, "user", "agentsh-attack", NULL, KEY_SPEC_PROCESS_KEYRING));
}

static int no_randomisation(void)
{
	return outcome(personality(ADDR_NO_RANDOMIZE));
}

static int local_descriptor_table(void)
{
	struct user_desc d = {.entry_number = 0, .limit = 1, .read_exec_only = 1};

	return outcome(syscall(SYS_modify_ldt, 1, &d, sizeof(d)));
}

/* A second listener would see the execs instead of the warden. */
static int listener(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_fprog prog = {1, &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return BROKEN;
	return outcome(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			       SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog));
}

/* A system call of 32-bit programs: their numbers are others. */
static int foreign_call(void)
{
	long r = 20; /* getpid */

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	return r == getpid() ? 0 : r < 0 ? (int)-r : BROKEN;
}

static int x32_call(void)
{
	return outcome(syscall(X32_BIT | SYS_getpid));
}

/* A terminal of our own as the controlling one; its keyboard side is *main. */
static int terminal(int *keyboard)
{
	int tty;

	setsid();
	if (openpty(keyboard, &tty, NULL, NULL, NULL) < 0 || ioctl(tty, TIOCSCTTY, 0) < 0)
		_exit(BROKEN);
	return tty;
}

static int in_child(int (*run)(void))
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(run());
	return status_of(pid);
}

static int type_text(void)
{
	int keyboard;

	return outcome(ioctl(terminal(&keyboard), TIOCSTI, "x"));
}

static int type_into_terminal(void)
{
	return in_child(type_text);
}

static int set_discipline(void)
{
	const int slip = 0; /* N_TTY; others are loaded as modules */
	int keyboard;

	return outcome(ioctl(terminal(&keyboard), TIOCSETD, &slip));
}

static int line_discipline(void)
{
	return in_child(set_discipline);
}

static int file_watch(void)
{
	return outcome(fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY));
}

static int hang_up(void)
{
	return outcome(vhangup());
}

static int kernel_text(void)
{
	char text[64];

	return outcome(syscall(SYS_syslog, 3, text, sizeof(text))); /* SYSLOG_ACTION_READ_ALL */
}

const struct attack kernel_attacks[] = {
	{"io_uring_setup", uring_setup},
	{"io_uring_enter", uring_enter},
	{"io_uring_register", uring_register},
	{"userfaultfd", fault_descriptor},
	{"bpf", bpf_map},
	{"exec_check_map", exec_check_map},
	{"exec_check_link", exec_check_link},
	{"perf_event_open", performance},
	{"keyctl", join_keyring},
	{"add_key", add_key},
	{"request_key", request_key},
	{"personality", no_randomisation},
	{"modify_ldt", local_descriptor_table},
	{"seccomp_listener", listener},
	{"int_0x80", foreign_call},
	{"x32", x32_call},
	{"tiocsti", type_into_terminal},
	{"tiocsetd", line_discipline},
	{"fanotify", file_watch},
	{"vhangup", hang_up},
	{"syslog", kernel_text},
	{0},
};
