// SPDX-License-Identifier: Apache-2.0
#include "exec/maps.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "exec/peer.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Linux 6.11; not in every header yet. */
struct map_query {
	uint64_t size, query_flags, query_addr;
	uint64_t start, end, flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
#define MAP_QUERY_SHARED 8

/* 0, ENOENT: no mapping there, ENOTTY: an older kernel. */
static int query_mapping(int maps, uint64_t page, struct mapping *m)
{
	struct map_query q = {.size = sizeof(q),
			      .query_addr = page,
			      .name_size = sizeof(m->name),
			      .name_addr = (uintptr_t)m->name};

	m->name[0] = '\0';
	if (ioctl(maps, MAP_QUERY, &q) == -1)
		return errno;
	m->start = q.start;
	m->end = q.end;
	m->inode = q.inode;
	m->dev = makedev(q.major, q.minor);
	m->shared = (q.flags & MAP_QUERY_SHARED) != 0;
	return 0;
}

#define MAPS_MAX (1024 * 1024)

int maps_find(const char *text, uint64_t page, struct mapping *m)
{
	for (const char *line = text; *line != '\0';) {
		unsigned long long start, end, inode;
		unsigned maj, min;
		char perm[5];
		int used = 0;
		const size_t len = strcspn(line, "\n");

		if (sscanf(line, "%llx-%llx %4s %*x %x:%x %llu%n", &start, &end, perm, &maj, &min,
			   &inode, &used) != 6)
			return EPROTO;
		if (page >= start && page < end) {
			const char *name = line + used + strspn(line + used, " ");

			*m = (struct mapping){.start = start,
					      .end = end,
					      .inode = inode,
					      .dev = makedev(maj, min),
					      .shared = perm[3] != 'p'};
			snprintf(m->name, sizeof(m->name), "%.*s", (int)(line + len - name), name);
			return 0;
		}
		line += len + (line[len] == '\n');
	}
	return ENOENT;
}

static int mapping_at(int maps, uint64_t page, struct buf *text, struct mapping *m)
{
	int r = text->len > 0 ? ENOTTY : query_mapping(maps, page, m);

	if (r != ENOTTY)
		return r;
	if (text->len == 0 && fdio_load(maps, MAPS_MAX, text, NULL) < 0)
		return EIO;
	return maps_find(text->data, page, m);
}

/* A private mapping shows what is written to its file until the page is copied. */
static bool file_is_fixed(pid_t tid, const struct mapping *m, struct fixed_names *names)
{
	cleanup_fd int root = peer_open(tid, "root", O_PATH | O_DIRECTORY);
	cleanup_fd int fd = fdio_openat2(root, m->name, O_PATH, RESOLVE_IN_ROOT);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == m->inode && st.st_dev == m->dev &&
	       fixed_path(names, root, m->name);
}

static bool is_private(pid_t tid, const struct mapping *m, struct fixed_names *names)
{
	if (m->shared)
		return false;
	if (m->inode == 0)
		return strncmp(m->name, "[v", 2) != 0; /* [vvar] is the kernel's clock */
	return m->name[0] == '/' && file_is_fixed(tid, m, names);
}

bool maps_private(pid_t tid, const uint64_t *page, unsigned n, struct fixed_names *names)
{
	cleanup_fd int maps = peer_open(tid, "maps", O_RDONLY);
	cleanup_buf struct buf text = {0};
	struct mapping m = {0};

	if (maps < 0 || n > EXEC_PAGES_MAX)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (page[i] >= m.start && page[i] < m.end)
			continue;
		if (mapping_at(maps, page[i], &text, &m) != 0 || !is_private(tid, &m, names))
			return false;
	}
	return true;
}
