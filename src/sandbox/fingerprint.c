// SPDX-License-Identifier: Apache-2.0
/* A sandbox binds the host's paths when it is prepared. The launcher must notice a path that leads
 * elsewhere afterwards, so the fingerprint contains the inodes. For the directories in /etc of
 * which single files are shown it contains the times as well. */
#include "base/mem.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <sys/stat.h>

static const char *const directories[] = {"/etc", "/etc/ssl", "/etc/ssh", "/etc/pki",
					  "/etc/pki/tls"};
/* Links in /etc with a target that the host changes. */
static const char *const targets[] = {"/etc/resolv.conf"};

/* FNV-1a. */
static void mix(uint64_t *h, const void *p, size_t n)
{
	const uint8_t *byte = p;

	for (size_t i = 0; i < n; i++)
		*h = (*h ^ byte[i]) * UINT64_C(0x100000001b3);
}

static void look(uint64_t *h, const char *path, bool times)
{
	struct stat st = {0};

	if (stat(path, &st) < 0)
		st = (struct stat){0};
	mix(h, &st.st_dev, sizeof(st.st_dev));
	mix(h, &st.st_ino, sizeof(st.st_ino));
	if (times)
		mix(h, &st.st_ctim, sizeof(st.st_ctim));
}

uint64_t sandbox_fingerprint(const struct sandbox_plan *plan)
{
	const struct strv *const lists[] = {&plan->read_only_paths, &plan->passthrough_paths,
					    &plan->monitored_paths, &plan->kept_out};
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < ARRAY_LEN(directories); i++)
		look(&h, directories[i], true);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		look(&h, targets[i], false);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			look(&h, lists[i]->v[k], false);
	look(&h, plan->state_program, false);
	return h != 0 ? h : 1;
}
