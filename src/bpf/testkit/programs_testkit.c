// SPDX-License-Identifier: Apache-2.0
#include "bpf/testkit/programs_testkit.h"
#include "base/mem.h"
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

void programs_kit_load(const struct bpf_image *image, struct bpf_programs *p)
{
	struct err err = {0};

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	if (bpf_programs_load(image, NULL, p, &err) < 0) {
		print_message("# skipped: %s\n", err.message);
		skip();
	}
}

uint64_t programs_kit_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	cleanup_fd int s = -1;

	assert_int_equal(unshare(CLONE_NEWNET), 0);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(ioctl(s, SIOCSIFFLAGS, &lo), 0);
	assert_int_equal(getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len), 0);
	return cookie;
}

static _Noreturn void init_main(int go, kid_fn *fn, const void *arg)
{
	char byte;
	int status = 1;
	pid_t pid;

	if (read(go, &byte, 1) != 1)
		_exit(125);
	pid = fork();
	if (pid == 0)
		_exit(fn(arg));
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 125);
}

void programs_kit_start(struct programs_kit_session *s, kid_fn *fn, const void *arg)
{
	char path[64];
	struct stat st;
	int go[2];

	assert_int_equal(pipe(go), 0);
	s->init = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (s->init == 0) {
		close(go[1]);
		init_main(go[0], fn, arg);
	}
	assert_true(s->init > 0);
	close(go[0]);
	s->go = go[1];
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)s->init);
	assert_int_equal(stat(path, &st), 0);
	s->key = (struct exec_session_key){.pid_namespace = (uint32_t)st.st_ino,
					   .init = (uint32_t)s->init};
}

int programs_kit_finish(struct programs_kit_session *s)
{
	int status;

	assert_int_equal(write(s->go, "", 1), 1);
	close(s->go);
	assert_int_equal(waitpid(s->init, &status, 0), s->init);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

struct reading {
	programs_kit_record_fn *fn;
	void *arg;
};

static int one_record(void *arg, void *data, size_t len)
{
	const struct reading *r = arg;

	if (r->fn != NULL)
		r->fn(data, len, r->arg);
	return 0;
}

int programs_kit_read(int ring, programs_kit_record_fn *fn, void *arg)
{
	struct reading r = {fn, arg};
	struct ring_buffer *rb = ring_buffer__new(ring, one_record, &r, NULL);
	int n;

	assert_non_null(rb);
	n = ring_buffer__consume(rb);
	ring_buffer__free(rb);
	return n;
}

void net_kit_start(struct net_kit *kit, const struct bpf_image *image,
		   const struct session_map *rules)
{
	struct err err = {0};

	programs_kit_load(image, &kit->p);
	kit->netns = programs_kit_network();
	if (session_map_add(rules, kit->p.map[0], &kit->netns, &kit->rules, &err) < 0 ||
	    session_map_add(&session_calls, kit->p.map[1], &kit->netns, &kit->calls, &err) < 0)
		fail_msg("%s", err.message);
}

void net_kit_end(struct net_kit *kit)
{
	close(kit->rules);
	close(kit->calls);
	bpf_programs_close(&kit->p);
}

static void on_net_call(const void *record, size_t len, void *arg)
{
	assert_int_equal(len, sizeof(struct net_call));
	memcpy(arg, record, len);
}

int net_kit_read(struct net_kit *kit, struct net_call *last)
{
	return programs_kit_read(kit->calls, on_net_call, last);
}

static int load_programs(const struct bpf_image *image, struct err *err)
{
	struct bpf_programs p;
	const int r = bpf_programs_load(image, NULL, &p, err);

	if (r == 0)
		bpf_programs_close(&p);
	return r;
}

struct damaged {
	struct bpf_image image;
	damage_kit_load_fn *load;
};

#define ATTACHED 3

/* The caller cannot attach a program: the attempt fails with EXDEV. */
static bool forbid_attaching(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_LINK_CREATE, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_RAW_TRACEPOINT_OPEN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {ARRAY_LEN(code), code};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* A changed program that the kernel takes would refuse calls, or kill, on the whole machine:
 * therefore it is not attached. libbpf 1.1 does not survive every damage, so the programs are
 * loaded in a process that may die of it: agentsh-bpf, or a child of agentsh-probe. */
static int load_damaged(const void *arg)
{
	const struct damaged *d = arg;
	struct err err = {0};

	signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test, in this child */
	if (!forbid_attaching() || d->load(&d->image, &err) == 0)
		_exit(ATTACHED);
	_exit(strstr(err.message, strerror(EXDEV)) != NULL ? 0 : 1); /* no look for leaks */
}

void damage_kit_try(const struct bpf_image *image, damage_kit_load_fn *load, size_t places,
		    unsigned refused_least)
{
	cleanup_free unsigned char *bytes = mem_dup(image->bytes, image->size);
	struct damaged d = {{.name = image->name, .bytes = bytes}, load};
	unsigned refused = 0;

	for (size_t i = 0; i < places; i++) {
		struct err err = {0};

		d.image.size = image->size * i / places;
		assert_int_equal(load(&d.image, &err), -E_ENFORCEMENT);
		assert_string_not_equal(err.message, "");
	}
	d.image.size = image->size;
	for (size_t i = 0; i < places; i++) {
		const size_t at = image->size * i / places;
		int status;

		bytes[at] ^= 0xff;
		status = kid_wait(load_damaged, &d, false);
		assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != ATTACHED);
		refused += status != 0;
		bytes[at] ^= 0xff;
	}
	assert_in_range(refused, refused_least, places);
}

void programs_kit_damage(const struct bpf_image *image)
{
	struct bpf_programs p;

	programs_kit_load(image, &p);
	bpf_programs_close(&p);
	damage_kit_try(image, load_programs, 12, 2);
}
