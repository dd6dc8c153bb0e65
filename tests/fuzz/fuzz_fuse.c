// SPDX-License-Identifier: Apache-2.0
/* A request of the kernel's FUSE protocol. The first byte says whether FUSE_SETXATTR_EXT was agreed
 * on. What is accepted keeps the promises of the header; INIT is negotiated. */
#include "base/mem.h"
#include "fs/fuse_request.h"
#include "fs/negotiate.h"
#include <limits.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_name(const struct fs_request *q, size_t i)
{
	const char *name = q->name[i];
	bool xattr = q->opcode == FUSE_SETXATTR || q->opcode == FUSE_GETXATTR ||
		     q->opcode == FUSE_REMOVEXATTR;
	bool target = q->opcode == FUSE_SYMLINK && i == 1;

	if (name == NULL)
		return;
	ensure(name[0] != '\0' && strlen(name) <= (target ? PATH_MAX - 1 : NAME_MAX));
	if (!xattr && !target)
		ensure(strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
		       strcmp(name, "..") != 0);
}

/* Reads every byte, so that ASan sees one outside. */
static unsigned sum(const uint8_t *p, size_t n)
{
	unsigned s = 0;

	for (size_t i = 0; i < n; i++)
		s += p[i];
	return s;
}

static void check_init(const struct fuse_init_in *in)
{
	struct fs_wanted w = {.also = UINT64_MAX, .max_readahead = 131072};
	uint64_t offered = in->flags | (uint64_t)in->flags2 << 32;
	struct fs_init_out out;
	struct fs_features f;

	if (fs_negotiate(in, &w, &out, &f, NULL) < 0)
		return;
	ensure((f.flags & ~offered) == 0);
	ensure((out.flags | (uint64_t)out.flags2 << 32) == f.flags);
	ensure(out.major == FUSE_KERNEL_VERSION && out.max_readahead <= 131072);
	ensure(f.minor == 0 || (out.max_write >= 4096 && out.max_write <= FS_MAX_IO));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	cleanup_free uint8_t *bytes = NULL;
	struct fs_request q;
	volatile unsigned read_all = 0;
	size_t n;

	if (len < 2)
		return 0;
	bytes = mem_dup(data + 1, len - 1);
	n = len - 1;
	if (n >= 4 && (data[0] & 2) != 0) { /* the header's length is right */
		uint32_t n32 = (uint32_t)n;

		memcpy(bytes, &n32, sizeof(n32));
	}
	ensure(strlen(fs_opcode_name(0)) == 1);
	if (fs_request_parse(bytes, n, (data[0] & 1) != 0 ? FUSE_SETXATTR_EXT : 0, &q) < 0)
		return 0;
	check_name(&q, 0);
	check_name(&q, 1);
	ensure(strcmp(fs_opcode_name(q.opcode), "?") != 0);
	ensure((uintptr_t)q.arg % 8 == 0);
	if (q.data != NULL) {
		ensure((const uint8_t *)q.data >= bytes &&
		       (const uint8_t *)q.data + q.data_len <= bytes + n);
		read_all += sum(q.data, q.data_len);
	}
	if (q.opcode == FUSE_SETXATTR)
		read_all += sum(q.arg, sizeof(struct fuse_setxattr_in));
	if (q.opcode == FUSE_BATCH_FORGET)
		ensure(q.data_len == ((const struct fuse_batch_forget_in *)q.arg)->count *
					     sizeof(struct fuse_forget_one));
	(void)read_all;
	if (q.opcode == FUSE_INIT)
		check_init(q.arg);
	return 0;
}
