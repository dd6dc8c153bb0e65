// SPDX-License-Identifier: Apache-2.0
/* What is shown to a session is bound when its sandbox is prepared. A name that leads elsewhere
 * afterwards must not be missed: inodes are compared, and of the places in /etc from where single
 * files are shown the times of the directories. */
#include "base/mem.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <sys/stat.h>

static const char *const directories[] = {"/etc", "/etc/ssl", "/etc/ssh", "/etc/pki",
					  "/etc/pki/tls"};
/* Links in /etc that lead to what the host changes. */
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

static void look_all(uint64_t *h, const struct strv *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		look(h, paths->v[i], false);
}

uint64_t sandbox_fingerprint(const struct sandbox_plan *plan)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < ARRAY_LEN(directories); i++)
		look(&h, directories[i], true);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		look(&h, targets[i], false);
	look_all(&h, &plan->read_only_paths);
	look_all(&h, &plan->passthrough_paths);
	look_all(&h, &plan->monitored_paths);
	look_all(&h, &plan->kept_out);
	look(&h, plan->state_program, false);
	return h != 0 ? h : 1;
}
