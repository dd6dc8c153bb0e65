// SPDX-License-Identifier: Apache-2.0
#include "bpf/bpf_programs.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "bpf/server_layout.h"
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define MOUNTS_MAX (1024 * 1024)
/* Attach types of Linux 6.7 that older headers do not have. */
#define CGROUP_UNIX_CONNECT 49
#define CGROUP_UNIX_SENDMSG 50

static int set_facts(struct bpf_object *object, const struct bpf_programs_uids *uids,
		     uint32_t fuse_file_handle)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, SERVER_FACTS);
	struct server_facts facts = {.uid_first = uids != NULL ? uids->first : 0,
				     .uid_last = uids != NULL ? uids->last : UINT32_MAX,
				     .fuse_file_handle = fuse_file_handle};
	struct stat st;
	int r;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return -1;
	facts.pid_namespace = (uint32_t)st.st_ino;
	r = map != NULL ? bpf_map__set_initial_value(map, &facts, sizeof(facts)) : -EINVAL;
	errno = -r;
	return r < 0 ? -1 : 0;
}

static int prepare_net(struct bpf_object *object, const void *uids)
{
	return set_facts(object, uids, 0);
}

/* libbpf 1.1 does not know these sections. */
static int prepare_unix(struct bpf_object *object, const void *uids)
{
	struct bpf_program *connect, *sendmsg;

	connect = bpf_object__find_program_by_name(object, "net_connect_unix");
	sendmsg = bpf_object__find_program_by_name(object, "net_sendmsg_unix");
	errno = EINVAL;
	if (connect == NULL || sendmsg == NULL)
		return -1;
	bpf_program__set_type(connect, BPF_PROG_TYPE_CGROUP_SOCK_ADDR);
	bpf_program__set_type(sendmsg, BPF_PROG_TYPE_CGROUP_SOCK_ADDR);
	bpf_program__set_expected_attach_type(connect, (enum bpf_attach_type)CGROUP_UNIX_CONNECT);
	bpf_program__set_expected_attach_type(sendmsg, (enum bpf_attach_type)CGROUP_UNIX_SENDMSG);
	return set_facts(object, uids, 0);
}

/* The offset in bytes of fuse_file.fh; 0 if these types do not have it. */
static uint32_t handle_offset(const struct btf *btf)
{
	const int id = btf != NULL ? btf__find_by_name_kind(btf, "fuse_file", BTF_KIND_STRUCT) : -1;
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

	for (uint32_t i = 0; type != NULL && i < btf_vlen(type); i++)
		if (strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off), "fh") == 0)
			return btf_member_bit_offset(type, i) / 8;
	return 0;
}

/* FUSE may be part of the kernel or a module, whose types libbpf may read only with more
 * capabilities than agentsh-bpf has. The types of a module are a file that everyone may read. */
static int prepare_files(struct bpf_object *object, const void *arg)
{
	struct btf *kernel = btf__load_vmlinux_btf(), *module = NULL;
	const struct bpf_programs_uids *uids = arg;
	uint32_t offset = handle_offset(kernel);
	cleanup_fd int device = -1;

	if (offset == 0 && kernel != NULL) {
		device = open("/dev/fuse", O_RDWR | O_CLOEXEC); /* loads the module */
		module = btf__load_module_btf("fuse", kernel);
		offset = handle_offset(module);
	}
	btf__free(module);
	btf__free(kernel);
	errno = ESRCH;
	if (offset == 0 && uids != NULL && uids->counts)
		return -1;
	return set_facts(object, uids, offset);
}

static const struct {
	const struct bpf_image *image;
	bpf_prepare_fn *prepare;
	bool cgroup;
	const char *map[BPF_PROGRAMS_MAPS], *program[BPF_PROGRAMS_LINKS];
	struct {
		int major, minor;
	} since; /* the first kernel that has all that it needs */
} objects[] = {
	{&net_owner_image, prepare_net, true, {"owners"}, {"net_owner"}, {5, 15}},
	{&net_refuse_image,
	 prepare_net,
	 true,
	 {"rules", "calls"},
	 {"net_connect4", "net_connect6", "net_sendmsg4", "net_sendmsg6"},
	 {5, 18}},
	{&net_unix_image,
	 prepare_unix,
	 true,
	 {"paths", "calls"},
	 {"net_connect_unix", "net_sendmsg_unix"},
	 {6, 7}},
	{&file_calls_image, prepare_files, false, {"slots", "rings"}, {"file_calls"}, {5, 17}},
};

/* Opens the root of the cgroup2 tree. */
static int open_cgroup(int *fd, struct err *err)
{
	cleanup_buf struct buf text = {0};
	char *save = NULL;
	int r = fdio_load_path("/proc/self/mounts", MOUNTS_MAX, &text, err);

	if (r < 0)
		return r;
	for (char *line = strtok_r(text.data, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		char *word = NULL;

		if (strtok_r(line, " ", &word) == NULL)
			continue;
		const char *dir = strtok_r(NULL, " ", &word), *type = strtok_r(NULL, " ", &word);

		if (dir == NULL || type == NULL || strcmp(type, "cgroup2") != 0)
			continue;
		*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (*fd != -1)
			return 0;
	}
	return err_set(err, E_ENFORCEMENT, "cgroup2",
		       "no cgroup2 file system is mounted: the network programs need one (mount -t "
		       "cgroup2 none /sys/fs/cgroup/unified)");
}

static int attach(size_t row, struct bpf_object *object, struct bpf_programs *p, struct err *err)
{
	cleanup_fd int cgroup = -1;
	int r = objects[row].cgroup ? open_cgroup(&cgroup, err) : 0;

	for (size_t i = 0; r == 0 && i < BPF_PROGRAMS_MAPS && objects[row].map[i] != NULL; i++)
		r = bpf_load_map(object, objects[row].map[i], &p->map[i], err);
	for (size_t i = 0; r == 0 && i < BPF_PROGRAMS_LINKS && objects[row].program[i] != NULL; i++)
		r = bpf_load_attach_cgroup(object, objects[row].program[i], cgroup, &p->link[i],
					   err);
	return r;
}

/* Adds to a failure that the kernel is too old, if it is. */
static int name_kernel(size_t row, const struct err *why, struct err *err)
{
	const int major = objects[row].since.major, minor = objects[row].since.minor;
	struct utsname u;
	int has[2] = {0};

	if (uname(&u) == 0 && sscanf(u.release, "%d.%d", &has[0], &has[1]) == 2 &&
	    (has[0] < major || (has[0] == major && has[1] < minor)))
		return err_set(err, E_ENFORCEMENT, why->subject,
			       "needs Linux %d.%d, this is %s: %s", major, minor, u.release,
			       why->message);
	return err_set(err, E_ENFORCEMENT, why->subject, "%s", why->message);
}

int bpf_programs_load(const struct bpf_image *image, const struct bpf_programs_uids *uids,
		      struct bpf_programs *out, struct err *err)
{
	struct bpf_programs p = BPF_PROGRAMS_NONE;
	struct bpf_object *object = NULL;
	struct err why = {0};
	size_t row = 0;
	int r;

	while (strcmp(objects[row].image->name, image->name) != 0)
		ensure(++row < ARRAY_LEN(objects));
	r = bpf_load_with(image, objects[row].prepare, uids, &object, &why);
	if (r < 0)
		r = name_kernel(row, &why, err);
	else
		r = attach(row, object, &p, err);
	bpf_unload(object);
	if (r == 0)
		*out = p;
	else
		bpf_programs_close(&p);
	return r;
}

void bpf_programs_close(struct bpf_programs *p)
{
	for (size_t i = 0; i < BPF_PROGRAMS_MAPS; i++)
		mem_cleanup_fd(&p->map[i]);
	for (size_t i = 0; i < BPF_PROGRAMS_LINKS; i++)
		mem_cleanup_fd(&p->link[i]);
	*p = BPF_PROGRAMS_NONE;
}

int file_calls_load(const struct check_wanted *wanted, struct exec_check *out, struct err *err)
{
	const struct bpf_programs_uids uids = {wanted->uid_first, wanted->uid_last,
					       wanted->fuse != 0};
	struct bpf_programs p;
	const int r = bpf_programs_load(&file_calls_image, &uids, &p, err);

	if (r < 0)
		return r;
	out->fd[CHECK_SLOTS] = p.map[0];
	out->fd[CHECK_RINGS] = p.map[1];
	out->fd[CHECK_FILES] = p.link[0];
	return 0;
}
