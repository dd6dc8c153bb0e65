// SPDX-License-Identifier: Apache-2.0
#include "exec/file_numbers.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "exec/args.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#define MOUNTINFO_MAX (4 << 20)

/* 0: it has no such line. */
static unsigned long long line_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* 0: not found. */
static dev_t device_of(int mount, pid_t tid)
{
	cleanup_buf struct buf text = {0};
	unsigned int id, parent, major, minor;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)tid);
	if (fdio_load_path(path, MOUNTINFO_MAX, &text, NULL) < 0)
		return 0;
	for (const char *line = text.data; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%u %u %u:%u", &id, &parent, &major, &minor) == 4 &&
		    id == (unsigned int)mount)
			return makedev(major, minor);
	}
	return 0;
}

bool file_numbers_compare(struct mount_devices *m, int fd, dev_t dev, ino_t ino, pid_t tid)
{
	char name[32], text[512] = "";
	struct mount_device *k = m->known;
	int mount;
	cleanup_fd int info = -1;

	snprintf(name, sizeof(name), "fdinfo/%d", fd);
	info = caller_open(getpid(), name, O_RDONLY);
	if (info < 0 || read(info, text, sizeof(text) - 1) <= 0)
		return false;
	mount = (int)line_of(text, "\nmnt_id:");
	if (mount <= 0 || line_of(text, "\nino:") != ino)
		return false;
	while (k < m->known + MOUNTS_KNOWN && k->mount != mount)
		k++;
	if (k < m->known + MOUNTS_KNOWN && k->dev == dev)
		return true;
	if (k == m->known + MOUNTS_KNOWN)
		k = &m->known[m->next++ % MOUNTS_KNOWN];
	*k = (struct mount_device){mount, device_of(mount, tid)};
	return k->dev == dev;
}
