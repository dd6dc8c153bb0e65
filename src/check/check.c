// SPDX-License-Identifier: Apache-2.0
#include "check/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "check/unheld.h"
#include "check/withheld.h"
#include "link/link.h"
#include "policy/policy.h"
#include "sandbox/seccomp.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DESCRIPTION_MAX 200 /* a list of policies has room for so much */
#define REPORT_MAX ((size_t)60 * 1024)
#define CPU_S 5
#define MEMORY_BYTES ((rlim_t)512 * 1024 * 1024)
#define SNAPSHOT_MAX ((size_t)64 * 1024 * 1024)

/* ---- the cage ---- */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* All that compiling, answering and ending need: memory, the descriptors that are there, and the
 * version of Landlock. */
static const unsigned calls[] = {
	__NR_read,	   __NR_write,	    __NR_pread64,	__NR_pwrite64,
	__NR_close,	   __NR_fstat,	    __NR_fcntl,		__NR_lseek,
	__NR_ftruncate,	   __NR_sendmsg,    __NR_recvmsg,	__NR_memfd_create,
	__NR_mmap,	   __NR_munmap,	    __NR_mremap,	__NR_mprotect,
	__NR_madvise,	   __NR_brk,	    __NR_futex,		__NR_getrandom,
	__NR_getpid,	   __NR_gettid,	    __NR_tgkill,	__NR_rt_sigaction,
	__NR_rt_sigreturn, __NR_exit,	    __NR_clock_gettime, __NR_rt_sigprocmask,
	__NR_exit_group,   __NR_newfstatat, __NR_sigaltstack,	__NR_landlock_create_ruleset,
};
enum { CALLS = ARRAY_LEN(calls) };

#define STMT(code, k) ((struct sock_filter)BPF_STMT(code, k))
#define IS(k, yes, no) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no))

/* Another call fails with EPERM. A kernel without the filter changes little: the process has no
 * capabilities, a uid of its own and no_new_privs. */
static void filter_calls(void)
{
	struct sock_filter code[CALLS + 6] = {
		STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		IS(ARCHITECTURE, 1, 0),
		STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};

	for (unsigned i = 0; i < CALLS; i++)
		code[4 + i] = IS(calls[i], (uint8_t)(CALLS - i), 0);
	code[CALLS + 4] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	code[CALLS + 5] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	seccomp_load(code, ARRAY_LEN(code), NULL, NULL);
}

/* A policy that takes more than this is refused, however it does it. */
static int enter_cage(struct err *err)
{
	static const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{RLIMIT_CPU, CPU_S},
#ifndef __SANITIZE_ADDRESS__ /* it reserves more than any program needs */
		{RLIMIT_AS, MEMORY_BYTES},
#endif
		{RLIMIT_CORE, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (setrlimit(limits[i].what, &(struct rlimit){limits[i].most, limits[i].most}) < 0)
			return err_errno(err, E_INTERNAL, NULL, "setrlimit");
	filter_calls();
	return 0;
}

/* ---- one policy ---- */

/* The i-th file's bytes. */
static const char *text_of(const struct check_ask *a, size_t i, size_t *len)
{
	const uint32_t *length = (const uint32_t *)(const void *)a->length.data;
	size_t at = 0;

	for (size_t k = 0; k < i; k++)
		at += length[k];
	*len = length[i];
	return *len > 0 ? (const char *)a->text.data + at : "";
}

/* Why the launcher could not read the i-th file: "CODE message". */
static int read_error(const struct check_ask *a, size_t i, struct err *err)
{
	const char *error = a->error.v[i];
	const size_t n = strcspn(error, " ");
	cleanup_free char *code = mem_strndup(error, n);

	return error[0] == '\0' ? 0
				: err_set(err, err_code_by_name(code), a->file.v[i], "%s",
					  error + n + (error[n] == ' '));
}

static int give_set(const char *name, struct buf *text, struct buf *file, void *arg,
		    struct err *err)
{
	const struct check_ask *a = arg;
	struct strv sets = {a->name.v + a->policies, a->name.n - a->policies};
	const char *bytes;
	size_t len;
	int r;

	for (size_t i = a->policies; i < a->name.n; i++) {
		if (strcmp(a->name.v[i], name) != 0)
			continue;
		buf_adds(file, a->file.v[i]);
		r = read_error(a, i, err);
		if (r == -E_NOT_FOUND) /* it is there: not to be taken for one that is missing */
			return err_set(err, E_UNAVAILABLE, a->file.v[i], "cannot read the set %s",
				       a->file.v[i]);
		bytes = text_of(a, i, &len);
		buf_add(text, bytes, len);
		return r;
	}
	return policy_no_set(&sets, name, err);
}

/* The bytes of the snapshot: the given one, or what the text compiles to. */
static int make_bytes(const struct check_ask *a, size_t i, int snapshot, struct buf *report,
		      struct buf *out, struct err *err)
{
	const struct policy_options o = {.name = a->name.v[i],
					 .workspace = a->workspace,
					 .home = a->home,
					 .shadow = a->shadow != 0,
					 .set = give_set,
					 .set_arg = (void *)(uintptr_t)a};
	const char *text;
	struct stat st;
	size_t len;

	if (snapshot == -1) {
		const int r = read_error(a, i, err);

		text = text_of(a, i, &len);
		return r < 0 ? r : policy_compile(a->file.v[i], text, len, &o, report, out, err);
	}
	if (fstat(snapshot, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size > SNAPSHOT_MAX)
		return err_set(err, E_INTERNAL, a->name.v[i], "not a snapshot of a policy");
	buf_reserve(out, (size_t)st.st_size);
	if (fdio_pread_full(snapshot, out->data, (size_t)st.st_size, 0) != st.st_size)
		return err_errno(err, E_INTERNAL, a->name.v[i], "cannot read a snapshot");
	out->len = (size_t)st.st_size;
	return 0;
}

/* The facts about the policy that the launcher needs. */
static void add_facts(const struct check_ask *a, const struct policy *p, struct check_policy *out)
{
	limits_pack(policy_limits(p), &out->limits);
	out->version = mem_strdup(policy_version(p));
	out->description = mem_strndup(policy_description(p), DESCRIPTION_MAX);
	out->soft_delete = policy_soft_deletes(p);
	if (policy_restricts(p, OP_FILE))
		withheld_find(p, &a->places, &out->withheld);
}

static int answer(struct link *l, const struct check_ask *a, size_t i, int snapshot)
{
	cleanup_buf struct buf report = {0}, bytes = {0};
	struct check_policy out = {.name = mem_strdup(a->name.v[i])};
	/* Borrowed for the question; the launcher narrows the numbers. */
	const struct session_request asked = {.allowed_domains = a->domains,
					      .allowed_ports = a->ports,
					      .environment = a->variables};
	const struct unheld_ask unheld = {a->mode, &a->places, &a->closed};
	struct policy *p = NULL;
	struct err why = {0};
	cleanup_fd int fd = -1;
	int r = make_bytes(a, i, snapshot, &report, &bytes, &why);

	if (r == 0)
		r = policy_open(bytes.data, bytes.len, &p, &why);
	/* one that was loaded already stays as it is */
	if (r == 0 && snapshot == -1 && a->mode != NULL)
		r = unheld_refuse(p, &unheld, &why);
	if (r == 0 && (fd = fdio_sealed("agentsh-policy", bytes.data, bytes.len)) == -1)
		r = err_errno(&why, E_UNAVAILABLE, NULL, "memfd_create");
	if (r == 0) {
		add_facts(a, p, &out);
		r = policy_covers(p, &asked, &why);
	}
	policy_close(p);
	if (report.len > 0)
		out.report = mem_strndup(report.data, REPORT_MAX);
	if (r < 0) {
		out.code = mem_strdup(err_row(why.code)->name);
		out.subject = mem_strdup(why.subject);
		out.message = mem_strdup(why.message);
		out.denial = why.denial[0] != '\0' ? mem_strdup(why.denial) : NULL;
	}
	r = link_send(l, MSG_check_policy, 0, &out, &fd, fd != -1, &why) == LINK_OK ? 0 : -1;
	if (r < 0)
		log_error("agentsh-check cannot answer", "error", why.message);
	msg_done(MSG_check_policy, &out);
	return r;
}

/* ---- the process ---- */

static bool is_whole(const struct check_ask *a)
{
	const uint32_t *length = (const uint32_t *)(const void *)a->length.data;
	uint64_t sum = 0;

	if (a->policies > a->name.n || a->file.n != a->name.n || a->error.n != a->name.n ||
	    a->length.len != a->name.n * sizeof(*length))
		return false;
	for (size_t i = 0; i < a->name.n; i++)
		sum += length[i];
	return sum == a->text.len;
}

int check_main(int link_fd)
{
	struct link l;
	struct link_msg m;
	struct check_ask ask = {0};
	struct err err = {0};
	int r;

	link_init(&l, link_fd, SIDE_CHECK, SIDE_LAUNCHER);
	r = enter_cage(&err);
	if (r == 0 && link_recv(&l, &m, &err) != LINK_OK)
		r = -E_BAD_REQUEST;
	if (r == 0) {
		r = link_unpack(&m, &ask, &err);
		if (r == 0 && !is_whole(&ask))
			r = err_set(&err, E_BAD_REQUEST, NULL, "its lists do not belong together");
		for (size_t i = 0; r == 0 && i < ask.policies; i++)
			r = answer(&l, &ask, i, m.nfds > 0 ? m.fd[0] : -1);
		link_msg_done(&m);
	}
	if (r < 0)
		log_error("agentsh-check cannot read its request", "error", err.message);
	msg_done(MSG_check_ask, &ask);
	link_done(&l);
	return r < 0;
}
