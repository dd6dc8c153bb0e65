// SPDX-License-Identifier: Apache-2.0
#include "bpf/fuse_file.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define FILE_NODE 2
#define WRITE_MAX 131072
#define REQUEST_MAX (WRITE_MAX + 4096)
#define MINOR 31 /* the oldest protocol that is asked for */

struct reply {
	struct fuse_out_header head;
	union {
		struct fuse_init_out init;
		struct fuse_entry_out entry;
		struct fuse_attr_out attr;
		struct fuse_open_out open;
		struct fuse_write_out write;
		char data[WRITE_MAX];
	};
};

static struct fuse_attr attributes(uint64_t node)
{
	const bool root = node == FUSE_ROOT_ID;

	return (struct fuse_attr){.ino = node,
				  .mode = root ? S_IFDIR | 0755 : S_IFREG | 0666,
				  .nlink = 1,
				  .size = root ? 0 : FUSE_FILE_SIZE};
}

/* Fills the answer and returns its size, or a negative errno. */
static int answer(const struct fuse_in_header *in, const void *body, struct reply *out)
{
	static uint64_t handles;
	const struct fuse_read_in *range = body; /* of READ */
	const struct fuse_write_in *write = body;

	switch (in->opcode) {
	case FUSE_INIT:
		out->init = (struct fuse_init_out){
			.major = FUSE_KERNEL_VERSION, .minor = MINOR, .max_write = WRITE_MAX};
		return sizeof(out->init);
	case FUSE_LOOKUP:
		if (strcmp(body, FUSE_FILE_NAME) != 0)
			return -ENOENT;
		out->entry =
			(struct fuse_entry_out){.nodeid = FILE_NODE, .attr = attributes(FILE_NODE)};
		return sizeof(out->entry);
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		out->attr = (struct fuse_attr_out){.attr = attributes(in->nodeid)};
		return sizeof(out->attr);
	case FUSE_OPEN:
		out->open = (struct fuse_open_out){.fh = ++handles};
		return sizeof(out->open);
	case FUSE_READ:
		if (range->offset >= FUSE_FILE_SIZE)
			return 0;
		return (int)(range->size < FUSE_FILE_SIZE - range->offset
				     ? range->size
				     : FUSE_FILE_SIZE - range->offset);
	case FUSE_WRITE:
		out->write = (struct fuse_write_out){.size = write->size};
		return sizeof(out->write);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return 0;
	default:
		return -ENOSYS;
	}
}

static void serve(int fd)
{
	static char request[REQUEST_MAX] __attribute__((aligned(8)));
	static struct reply out;
	const struct fuse_in_header *in = (const void *)request;

	for (;;) {
		const ssize_t n = read(fd, request, sizeof(request));
		int r;

		if (n < (ssize_t)sizeof(*in) && errno != EINTR && errno != ENOENT)
			return; /* unmounted */
		if (n < (ssize_t)sizeof(*in) || in->opcode == FUSE_FORGET ||
		    in->opcode == FUSE_BATCH_FORGET || in->opcode == FUSE_INTERRUPT)
			continue;
		memset(&out, 0, sizeof(out));
		r = answer(in, in + 1, &out);
		out.head = (struct fuse_out_header){.len = (uint32_t)sizeof(out.head) +
							   (uint32_t)(r > 0 ? r : 0),
						    .error = r < 0 ? r : 0,
						    .unique = in->unique};
		if (write(fd, &out, out.head.len) < 0 && errno != ENOENT)
			return;
	}
}

int fuse_file_mount(const char *dir, pid_t *pid, struct err *err)
{
	cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	const pid_t parent = getpid();
	char options[96];
	pid_t child;

	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, "/dev/fuse", "/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (mount("agentsh", dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return err_errno(err, E_UNAVAILABLE, dir, "cannot mount FUSE on %s", dir);
	child = fork();
	if (child == 0) {
		/* the mount goes with its server */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
			serve(fd);
		_exit(0);
	}
	if (child == -1) {
		umount2(dir, MNT_DETACH);
		return err_errno(err, E_UNAVAILABLE, dir, "fork");
	}
	*pid = child;
	return 0;
}
