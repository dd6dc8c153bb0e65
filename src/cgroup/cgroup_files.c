// SPDX-License-Identifier: Apache-2.0
/* The counters as open files: whoever is given them reads without any right of its own. A control
 * file is read anew from its start by each pread. */
#include "base/mem.h"
#include "cgroup/cgroup_version.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>

#define TEXT_MAX 4096 /* cpu.stat is the longest, with a few hundred bytes */

static const struct cgroup_version *version(bool v2)
{
	return v2 ? &cgroup_v2 : &cgroup_v1;
}

static bool has(const struct cgroup_files *f, bool v2, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->file[i].v2 == v2 && strcmp(f->file[i].name, name) == 0)
			return true;
	return false;
}

static void add(struct cgroup_files *f, int fd, bool v2, const struct cgroup_counter *row)
{
	ensure(f->n < CGROUP_FILES);
	f->file[f->n].fd = fd;
	f->file[f->n].v2 = v2;
	f->file[f->n].controller = row->controller;
	f->file[f->n].kinds = 0;
	for (size_t i = 0; i < version(v2)->ncounters; i++)
		if (strcmp(version(v2)->counters[i].file, row->file) == 0)
			f->file[f->n].kinds |= version(v2)->counters[i].kind;
	f->file[f->n++].name = row->file;
}

int cgroup_notify(struct cgroup_files *f, int dir, const char *file)
{
	char path[64];

	if (f->notify == -1)
		f->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (f->notify == -1)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, file);
	return inotify_add_watch(f->notify, path, IN_MODIFY) == -1 ? -1 : 0;
}

void cgroup_files_open(const struct cgroup_host *host, const char *id, struct cgroup_files *out)
{
	bool told = true;

	*out = CGROUP_FILES_NONE;
	for (size_t i = 0; i < host->n; i++) {
		const bool v2 = host->tree[i].v2;
		const struct cgroup_version *v = version(v2);
		cleanup_fd int dir = cgroup_group(host, i, id);

		for (size_t k = 0; dir >= 0 && k < v->ncounters; k++) {
			const struct cgroup_counter *row = &v->counters[k];
			int fd;

			if ((host->tree[i].controllers & 1u << row->controller) == 0 ||
			    row->kind == CGROUP_NOW || has(out, v2, row->file))
				continue;
			fd = openat(dir, row->file,
				    (row->kind == CGROUP_PEAK ? O_RDWR : O_RDONLY) | O_CLOEXEC);
			if (fd >= 0)
				add(out, fd, v2, row);
		}
		told = told && (dir < 0 || v->watch(dir, host->tree[i].controllers, out) == 0);
	}
	if (told)
		return;
	/* part of it would look like all */
	mem_cleanup_fd(&out->event);
	mem_cleanup_fd(&out->notify);
	out->event = out->notify = -1;
}

void cgroup_files_close(struct cgroup_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		close(f->file[i].fd);
	mem_cleanup_fd(&f->event);
	mem_cleanup_fd(&f->notify);
	*f = CGROUP_FILES_NONE;
}

/* ---- as arguments ---- */

static const char event_name[] = "event", notify_name[] = "notify";
static const char *const prefixes[] = {"1/", "2/"}; /* by version */

static void format(int fd, const char *prefix, const char *name, struct strv *out)
{
	cleanup_free char *text = mem_printf("%d %s%s", fd, prefix, name);

	if (fd >= 0)
		strv_add(out, text);
}

void cgroup_files_format(const struct cgroup_files *f, struct strv *out)
{
	for (size_t i = 0; i < f->n; i++)
		format(f->file[i].fd, prefixes[f->file[i].v2], f->file[i].name, out);
	format(f->event, "", event_name, out);
	format(f->notify, "", notify_name, out);
}

/* The row of a counter whose file has this name; NULL if none has. */
static const struct cgroup_counter *find(const char *name, bool *v2)
{
	for (unsigned k = 0; k < ARRAY_LEN(prefixes); k++) {
		const struct cgroup_version *v = version(k == 1);
		const size_t n = strlen(prefixes[k]);

		for (size_t i = 0; strncmp(name, prefixes[k], n) == 0 && i < v->ncounters; i++)
			if (strcmp(v->counters[i].file, name + n) == 0) {
				*v2 = k == 1;
				return &v->counters[i];
			}
	}
	return NULL;
}

int cgroup_files_parse(struct cgroup_files *f, const char *text, struct err *err)
{
	const struct cgroup_counter *row;
	char *name;
	const long fd = strtol(text, &name, 10);
	int *poll = NULL;
	bool v2 = false;

	if (text[0] < '0' || text[0] > '9' || *name != ' ' || fd > INT_MAX ||
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, E_BAD_REQUEST, "counter", "'%s' is no open descriptor", text);
	name++;
	if (strcmp(name, event_name) == 0)
		poll = &f->event;
	else if (strcmp(name, notify_name) == 0)
		poll = &f->notify;
	row = find(name, &v2);
	if (poll != NULL && *poll == -1)
		*poll = (int)fd;
	else if (poll == NULL && row != NULL && f->n < CGROUP_FILES && !has(f, v2, row->file))
		add(f, (int)fd, v2, row);
	else
		return err_set(err, E_BAD_REQUEST, "counter", "'%s' is no counter", text);
	return 0;
}

/* ---- read ---- */

/* The sum of the counters of these kinds. */
static struct cgroup_counters sum_of(const struct cgroup_files *f, unsigned kinds,
				     unsigned controllers)
{
	struct cgroup_counters sum = {0};

	for (size_t i = 0; i < f->n; i++) {
		const struct cgroup_version *v = version(f->file[i].v2);
		char text[TEXT_MAX];
		ssize_t n;

		if ((f->file[i].kinds & kinds) == 0 ||
		    (controllers & 1u << f->file[i].controller) == 0)
			continue;
		n = pread(f->file[i].fd, text, sizeof(text) - 1, 0);
		if (n <= 0)
			continue;
		text[n] = '\0';
		for (size_t k = 0; k < v->ncounters; k++)
			if ((v->counters[k].kind & kinds) != 0 &&
			    strcmp(v->counters[k].file, f->file[i].name) == 0)
				cgroup_count(&v->counters[k], text, &sum);
	}
	return sum;
}

void cgroup_files_read(const struct cgroup_files *f, unsigned controllers,
		       struct cgroup_counters *out)
{
	*out = sum_of(f, CGROUP_HIT, controllers);
}

void cgroup_files_use(const struct cgroup_files *f, struct cgroup_counters *out)
{
	*out = sum_of(f, CGROUP_USE | CGROUP_PEAK, ~0u);
}

int cgroup_files_reset_peak(const struct cgroup_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		if ((f->file[i].kinds & CGROUP_PEAK) != 0)
			return pwrite(f->file[i].fd, "0", 1, 0) == 1 ? 0 : -1;
	return -1;
}
