// SPDX-License-Identifier: Apache-2.0
#include "bpf/exec_wants.h"
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/siphash.h"
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/sysmacros.h>

struct exec_wants {
	int map, link;
	__u64 hash_key[2];
};

struct exec_wants *exec_wants_open(int map, int link)
{
	struct exec_wants *w = mem_new(struct exec_wants);

	w->map = map;
	w->link = link;
	ensure(getrandom(w->hash_key, sizeof(w->hash_key), 0) == sizeof(w->hash_key));
	return w;
}

void exec_wants_close(struct exec_wants *w)
{
	if (w == NULL)
		return;
	mem_cleanup_fd(&w->map);
	mem_cleanup_fd(&w->link);
	free(w);
}

int exec_wants_check(const struct exec_wants *w)
{
	return bpf_link_check(w->link);
}

int exec_wants_let_all(int map)
{
	const union exec_entry e = {.record = {.unchecked = 1}};
	const uint32_t key = 0;

	return bpf_map_put(map, &key, &e);
}

static int put(struct exec_wants *w, pid_t pid, const struct exec_want *want)
{
	const union exec_entry e = {.want = *want};
	const uint32_t key = (uint32_t)pid;

	return bpf_map_put(w->map, &key, &e);
}

int exec_wants_put(struct exec_wants *w, pid_t pid, const struct exec_decision *d)
{
	struct exec_want want = {
		.state = EXEC_COMPARE,
		.decided = {.ino = d->ino,
			    .dev = EXEC_DEV(major(d->dev), minor(d->dev)),
			    .argv_len = d->argv_len},
		.hash_key = {w->hash_key[0], w->hash_key[1]},
		.argv_hash = siphash(w->hash_key, d->argv, d->argv_len),
	};

	snprintf(want.decided_path, sizeof(want.decided_path), "%s", d->path);
	return put(w, pid, &want);
}

int exec_wants_pass(struct exec_wants *w, pid_t pid)
{
	return put(w, pid, &(struct exec_want){.state = EXEC_PASS});
}

int exec_wants_stop(struct exec_wants *w, pid_t pid)
{
	return put(w, pid, &(struct exec_want){.state = EXEC_STOPS});
}

int exec_wants_get(const struct exec_wants *w, pid_t pid, struct exec_want *out)
{
	const uint32_t key = (uint32_t)pid;
	union exec_entry e;
	const int r = bpf_map_get(w->map, &key, &e);

	if (r == 0)
		*out = e.want;
	return r;
}

bool exec_wants_drop(struct exec_wants *w, pid_t pid)
{
	const uint32_t key = (uint32_t)pid;

	return bpf_map_drop(w->map, &key) == 0;
}

bool exec_wants_next(const struct exec_wants *w, pid_t *pid, struct exec_want *out)
{
	const uint32_t last = (uint32_t)*pid;
	uint32_t key;
	int r = bpf_map_next(w->map, last != 0 ? &last : NULL, &key);

	while (r == 0 && (key == 0 || exec_wants_get(w, (pid_t)key, out) != 0))
		r = bpf_map_next(w->map, &key, &key);
	if (r == 0)
		*pid = (pid_t)key;
	return r == 0;
}

int exec_wants_record(const struct exec_wants *w, struct exec_record *out)
{
	const uint32_t key = 0;
	union exec_entry e;
	const int r = bpf_map_get(w->map, &key, &e);

	if (r == 0)
		*out = e.record;
	return r;
}
