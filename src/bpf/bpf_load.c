// SPDX-License-Identifier: Apache-2.0
/* libbpf reports the reason of a failure only to its print function. The first line that it prints
 * is the nearest to the cause. */
#include "bpf/bpf_load.h"
#include "base/mem.h"
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"

static _Thread_local char reason[256];

__attribute__((format(printf, 2, 0))) static int keep_reason(enum libbpf_print_level level,
							     const char *format, va_list args)
{
	if (level != LIBBPF_WARN || reason[0] != '\0')
		return 0;
	vsnprintf(reason, sizeof(reason), format, args);
	reason[strcspn(reason, "\n")] = '\0';
	return 0;
}

static int failed(struct err *err, const char *name, const char *step, int code)
{
	if (code == EPERM || code == EACCES)
		return err_set(err, E_ENFORCEMENT, name,
			       "%s: the kernel refuses BPF programs to this process (%s): it needs "
			       "CAP_BPF and CAP_PERFMON, and a kernel that is not locked down",
			       step, strerror(code));
	return err_set(err, E_ENFORCEMENT, name, "%s: %s%s%s", step, strerror(code),
		       reason[0] != '\0' ? ": " : "", reason);
}

int bpf_load_with(const struct bpf_image *image, bpf_prepare_fn *prepare, const void *arg,
		  struct bpf_object **out, struct err *err)
{
	const char *btf = image->kernel_btf != NULL ? image->kernel_btf : KERNEL_BTF;
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = image->name);
	struct bpf_object *o;
	int r;

	if (access(btf, R_OK) < 0)
		return err_errno(err, E_ENFORCEMENT, btf,
				 "the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF): "
				 "%s",
				 btf);
	libbpf_set_print(keep_reason);
	reason[0] = '\0';
	o = bpf_object__open_mem(image->bytes, image->size, &options);
	if (o == NULL)
		return failed(err, image->name, "cannot read the BPF object", errno);
	r = prepare != NULL && prepare(o, arg) < 0 ? -errno : bpf_object__load(o);
	if (r < 0) {
		r = failed(err, image->name,
			   r == -ESRCH ? "this kernel has no such hook" : "cannot load the program",
			   -r);
		bpf_object__close(o);
		return r;
	}
	*out = o;
	return 0;
}

int bpf_load(const struct bpf_image *image, struct bpf_object **out, struct err *err)
{
	return bpf_load_with(image, NULL, NULL, out, err);
}

void bpf_unload(struct bpf_object *object)
{
	bpf_object__close(object);
}

static int keep(int fd, const char *name, int *out, struct err *err)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy == -1)
		return err_errno(err, E_ENFORCEMENT, name, "cannot keep a descriptor");
	*out = copy;
	return 0;
}

int bpf_load_attach_cgroup(struct bpf_object *object, const char *program, int cgroup, int *link,
			   struct err *err)
{
	struct bpf_program *p = bpf_object__find_program_by_name(object, program);
	struct bpf_link *l;
	int r;

	reason[0] = '\0';
	if (p == NULL)
		return err_set(err, E_ENFORCEMENT, program, "the BPF object has no program '%s'",
			       program);
	l = cgroup == -1 ? bpf_program__attach(p) : bpf_program__attach_cgroup(p, cgroup);
	if (l == NULL)
		return failed(err, program, "cannot attach the program", errno);
	r = keep(bpf_link__fd(l), program, link, err);
	bpf_link__destroy(l);
	return r;
}

int bpf_load_attach(struct bpf_object *object, const char *program, int *link, struct err *err)
{
	return bpf_load_attach_cgroup(object, program, -1, link, err);
}

int bpf_load_map(struct bpf_object *object, const char *name, int *map, struct err *err)
{
	const int fd = bpf_object__find_map_fd_by_name(object, name);

	if (fd < 0)
		return err_set(err, E_ENFORCEMENT, name, "the BPF object has no map '%s'", name);
	return keep(fd, name, map, err);
}

int exec_check_load(const struct bpf_image *image, struct exec_check *out, struct err *err)
{
	struct exec_check check = EXEC_CHECK_NONE;
	struct bpf_object *object = NULL;
	int r = bpf_load(image, &object, err);

	if (r == 0)
		r = bpf_load_map(object, "sessions", &check.fd[CHECK_SESSIONS], err);
	if (r == 0)
		r = bpf_load_attach(object, "exec_check", &check.fd[CHECK_LINK], err);
	bpf_unload(object);
	if (r == 0)
		*out = check;
	else
		exec_check_close(&check);
	return r;
}
