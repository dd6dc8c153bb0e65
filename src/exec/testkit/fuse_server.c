// SPDX-License-Identifier: Apache-2.0
#include "exec/testkit/fuse_server.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define FILES_MAX 8
#define FIRST_NODE 101 /* FUSE_ROOT_ID is the directory */
#define READ_MAX (128 * 1024)

static struct {
	int fd; /* /dev/fuse */
	struct {
		char name[64]; /* "": another file has taken its name */
		int fd;
	} file[FILES_MAX];
	size_t n;
} served;

static void fill(uint64_t node, struct fuse_attr *a)
{
	struct stat st;

	*a = (struct fuse_attr){.ino = node, .nlink = 1, .mode = S_IFDIR | 0755, .blksize = 4096};
	if (node == FUSE_ROOT_ID)
		return;
	fstat(served.file[node - FIRST_NODE].fd, &st);
	a->mode = S_IFREG | 0755;
	a->size = (uint64_t)st.st_size;
}

static size_t find(const char *name)
{
	size_t i = 0;

	while (i < served.n && strcmp(served.file[i].name, name) != 0)
		i++;
	return i;
}

/* The size of the answer, or -errno. */
static ssize_t serve(const struct fuse_in_header *in, const void *arg, void *out)
{
	const struct fuse_read_in *read_in = arg;
	struct fuse_entry_out *entry = out;
	struct fuse_attr_out *attr = out;
	struct fuse_init_out *init = out;
	const char *name = arg;
	size_t i, to;

	switch (in->opcode) {
	case FUSE_INIT:
		*init = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
					       .minor = FUSE_KERNEL_MINOR_VERSION,
					       .max_write = 4096,
					       .max_readahead = READ_MAX};
		return sizeof(*init);
	case FUSE_LOOKUP:
		i = find(name);
		if (i == served.n)
			return -ENOENT;
		*entry = (struct fuse_entry_out){.nodeid = FIRST_NODE + i};
		fill(entry->nodeid, &entry->attr);
		return sizeof(*entry);
	case FUSE_GETATTR:
		*attr = (struct fuse_attr_out){0};
		fill(in->nodeid, &attr->attr);
		return sizeof(*attr);
	case FUSE_RENAME:
	case FUSE_RENAME2:
		name += in->opcode == FUSE_RENAME ? sizeof(struct fuse_rename_in)
						  : sizeof(struct fuse_rename2_in);
		i = find(name);
		if (i == served.n)
			return -ENOENT;
		name += strlen(name) + 1;
		to = find(name);
		if (to < served.n)
			served.file[to].name[0] = '\0';
		snprintf(served.file[i].name, sizeof(served.file[i].name), "%s", name);
		return 0;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		*(struct fuse_open_out *)out = (struct fuse_open_out){0};
		return sizeof(struct fuse_open_out);
	case FUSE_STATFS:
		*(struct fuse_statfs_out *)out = (struct fuse_statfs_out){0};
		return sizeof(struct fuse_statfs_out);
	case FUSE_READ:
		return pread(served.file[in->nodeid - FIRST_NODE].fd, out,
			     read_in->size < READ_MAX ? read_in->size : READ_MAX,
			     (off_t)read_in->offset);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		return 0;
	default:
		return -ENOSYS;
	}
}

static _Noreturn void run(void)
{
	static _Alignas(8) char in[READ_MAX + 4096], out[READ_MAX + 4096];
	const struct fuse_in_header *head = (const struct fuse_in_header *)in;
	struct fuse_out_header *answer = (struct fuse_out_header *)out;

	while (read(served.fd, in, sizeof(in)) > 0) {
		ssize_t r;

		if (head->opcode == FUSE_FORGET || head->opcode == FUSE_BATCH_FORGET)
			continue;
		r = serve(head, head + 1, answer + 1);
		*answer = (struct fuse_out_header){.len = (uint32_t)sizeof(*answer) +
							  (r > 0 ? (uint32_t)r : 0),
						   .error = r < 0 ? (int32_t)r : 0,
						   .unique = head->unique};
		if (write(served.fd, out, answer->len) < 0 && errno != ENOENT)
			break;
	}
	_exit(0);
}

int fuse_server_start(const char *where, const struct fuse_file *files, size_t n)
{
	char options[128];
	pid_t pid;

	served.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (served.fd < 0)
		return -1;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
		 served.fd);
	if (mount("agentsh-test", where, "fuse.agentsh-test", MS_NODEV | MS_NOSUID, options) < 0)
		return -1;
	for (served.n = 0; served.n < n; served.n++) {
		served.file[served.n].fd = open(files[served.n].from, O_RDONLY | O_CLOEXEC);
		snprintf(served.file[served.n].name, sizeof(served.file[0].name), "%s",
			 files[served.n].name);
	}
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		run();
	}
	close(served.fd);
	return pid > 0 ? 0 : -1;
}
