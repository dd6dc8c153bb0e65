// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"
#include "base/mem.h"
#include "warden/warden.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#define PROGRAM "agentsh-warden"

/* A pid_t and a uid_t are as wide as an int. */
static const struct {
	const char *key;
	size_t offset;
	bool fd;
} keys[] = {
	{"listen", offsetof(struct warden_args, listen_fd), true},
	{"api", offsetof(struct warden_args, api_fd), true},
	{"init", offsetof(struct warden_args, init_fd), true},
	{"ring", offsetof(struct warden_args, ring_fd), true},
	{"ack", offsetof(struct warden_args, ack_fd), true},
	{"policy", offsetof(struct warden_args, policy_fd), true},
	{"init_pid", offsetof(struct warden_args, init_pid), false},
	{"api_uid", offsetof(struct warden_args, api_uid), false},
	{"log_level", offsetof(struct warden_args, log_level), false},
	{"log_format", offsetof(struct warden_args, log_format), false},
};
#define WALL_KEY "wall="
#define COUNTER_KEY "counter="
_Static_assert(sizeof(pid_t) == sizeof(int) && sizeof(uid_t) == sizeof(int), "see keys");

static int *place(struct warden_args *a, size_t i)
{
	return (int *)((char *)a + keys[i].offset);
}

static int parse_number(const char *text, int *out)
{
	char *end;
	long long v;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0' || v > UINT_MAX)
		return -1;
	*out = (int)(unsigned)v;
	return 0;
}

static int parse_one(struct warden_args *a, const char *arg, unsigned *seen, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const size_t n = strlen(keys[i].key);
		int v;

		if (strncmp(arg, keys[i].key, n) != 0 || arg[n] != '=')
			continue;
		if ((*seen & 1U << i) != 0 || parse_number(arg + n + 1, &v) < 0)
			return err_set(err, E_BAD_REQUEST, keys[i].key, "bad argument '%s'", arg);
		if (keys[i].fd && (v < 0 || fcntl(v, F_SETFD, FD_CLOEXEC) < 0))
			return err_set(err, E_BAD_REQUEST, keys[i].key,
				       "'%s' is no open descriptor", arg);
		*place(a, i) = v;
		*seen |= 1U << i;
		return 0;
	}
	if (strncmp(arg, WALL_KEY, strlen(WALL_KEY)) == 0)
		strv_add(&a->walls, arg + strlen(WALL_KEY));
	else if (strncmp(arg, COUNTER_KEY, strlen(COUNTER_KEY)) == 0)
		strv_add(&a->counters, arg + strlen(COUNTER_KEY));
	else
		return err_set(err, E_BAD_REQUEST, NULL, "unknown argument '%s'", arg);
	return 0;
}

void warden_args_done(struct warden_args *args)
{
	strv_done(&args->walls);
	strv_done(&args->counters);
}

int warden_args_parse(int argc, char **argv, struct warden_args *out, struct err *err)
{
	struct warden_args a = {0};
	unsigned seen = 0;
	int r = 0;

	if (argc < 2 || !id_valid(argv[1]))
		return err_set(err, E_BAD_REQUEST, NULL, "usage: %s SESSION_ID KEY=VALUE…",
			       PROGRAM);
	a.session_id = argv[1];
	for (int i = 2; i < argc && r == 0; i++)
		r = parse_one(&a, argv[i], &seen, err);
	for (size_t i = 0; i < ARRAY_LEN(keys) && r == 0; i++)
		if ((seen & 1U << i) == 0)
			r = err_set(err, E_BAD_REQUEST, keys[i].key, "'%s=' is missing",
				    keys[i].key);
	if (r < 0) {
		warden_args_done(&a);
		return r;
	}
	*out = a;
	return 0;
}

static void add_list(const char *key, const struct strv *list, struct strv *argv)
{
	for (size_t i = 0; i < list->n; i++) {
		cleanup_free char *arg = mem_printf("%s%s", key, list->v[i]);

		strv_add(argv, arg);
	}
}

void warden_args_format(const struct warden_args *args, struct strv *argv)
{
	struct warden_args a = *args;

	strv_add(argv, PROGRAM);
	strv_add(argv, args->session_id);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		cleanup_free char *arg = mem_printf("%s=%u", keys[i].key, (unsigned)*place(&a, i));

		strv_add(argv, arg);
	}
	add_list(WALL_KEY, &args->walls, argv);
	add_list(COUNTER_KEY, &args->counters, argv);
}
