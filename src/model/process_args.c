// SPDX-License-Identifier: Apache-2.0
#include "model/process_args.h"
#include "base/id.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>

enum kind { FD, NUMBER, FD_OR_NONE, LIST, LINKS };

/* A pid_t and a uid_t are as wide as an int. */
static const struct key {
	const char *name;
	size_t offset;
	enum kind kind;
} keys[] = {
#define X(key, member, kind) {#key, offsetof(struct process_args, member), kind},
	PROCESS_ARGS(X)
#undef X
};
_Static_assert(sizeof(pid_t) == sizeof(int) && sizeof(uid_t) == sizeof(int), "see keys");

static int *number(const struct process_args *a, const struct key *k)
{
	return (int *)((char *)a + k->offset);
}

/* An argument of one number that is there. */
static bool is_given(const struct process_args *a, const struct key *k)
{
	return k->kind < LIST && (k->kind != FD_OR_NONE || *number(a, k) != -1);
}

static struct strv *list(const struct process_args *a, const struct key *k)
{
	return (struct strv *)((char *)a + k->offset);
}

/* Reads a number up to the character end. */
static int parse_number(const char **text, char end, int *out)
{
	char *rest;
	long long v;

	if (**text < '0' || **text > '9')
		return -1;
	errno = 0;
	v = strtoll(*text, &rest, 10);
	if (errno != 0 || *rest != end || v > UINT_MAX)
		return -1;
	*out = (int)(unsigned)v;
	*text = rest + (end != '\0');
	return 0;
}

static int parse_fd(const char **text, char end, int *fd)
{
	return parse_number(text, end, fd) < 0 || *fd < 0 || fcntl(*fd, F_SETFD, FD_CLOEXEC) < 0
		       ? -1
		       : 0;
}

/* "NAME PID LINK [RING]" */
static int parse_process(struct process_args *a, const char *text)
{
	for (size_t i = 0; i < PROCESSES; i++) {
		struct process_link l = {.row = &process_table[i]};
		const size_t n = strlen(l.row->name);

		if (strncmp(text, l.row->name, n) != 0 || text[n] != ' ')
			continue;
		text += n + 1;
		if (a->nothers == ARRAY_LEN(a->other) || parse_number(&text, ' ', &l.pid) < 0 ||
		    (parse_fd(&text, '\0', &l.fd) < 0 &&
		     (!l.row->ring || parse_fd(&text, ' ', &l.fd) < 0 ||
		      parse_fd(&text, '\0', &l.ring_fd) < 0)))
			return -1;
		a->other[a->nothers++] = l;
		if (l.row->start == PROCESS_INSIDE) {
			a->init_fd = l.fd;
			a->init_pid = l.pid;
		}
		return 0;
	}
	return -1;
}

static int parse_one(const struct process_row *row, struct process_args *a, const char *arg,
		     unsigned *seen, struct err *err)
{
	const char *value;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const size_t n = strlen(keys[i].name);

		if ((row->args & 1u << i) == 0 || strncmp(arg, keys[i].name, n) != 0 ||
		    arg[n] != '=')
			continue;
		value = arg + n + 1;
		if (keys[i].kind == LIST)
			strv_add(list(a, &keys[i]), value);
		else if (keys[i].kind == LINKS)
			r = parse_process(a, value);
		else if ((*seen & 1u << i) != 0)
			r = -1;
		else
			r = keys[i].kind == NUMBER ? parse_number(&value, '\0', number(a, &keys[i]))
						   : parse_fd(&value, '\0', number(a, &keys[i]));
		*seen |= 1u << i;
		return r == 0 ? 0
			      : err_set(err, E_BAD_REQUEST, keys[i].name,
					keys[i].kind == FD || keys[i].kind == FD_OR_NONE
						? "'%s' is not an open descriptor"
						: "bad argument '%s'",
					arg);
	}
	return err_set(err, E_BAD_REQUEST, NULL, "unknown argument '%s'", arg);
}

void process_args_done(struct process_args *args)
{
	strv_done(&args->walls);
	strv_done(&args->counters);
	strv_done(&args->programs);
}

int process_args_parse(const struct process_row *row, int argc, char **argv,
		       struct process_args *out, struct err *err)
{
	struct process_args a = {.exec_map_fd = -1, .exec_link_fd = -1, .fuse_fd = -1};
	unsigned seen = 0;
	int r = 0;

	if (argc < 2 || !id_valid(argv[1]))
		return err_set(err, E_BAD_REQUEST, NULL, "usage: %s SESSION_ID KEY=VALUE…",
			       row->program);
	a.session_id = argv[1];
	for (int i = 2; i < argc && r == 0; i++)
		r = parse_one(row, &a, argv[i], &seen, err);
	for (size_t i = 0; i < ARRAY_LEN(keys) && r == 0; i++)
		if ((row->args & ~seen & 1u << i) != 0 && keys[i].kind < FD_OR_NONE)
			r = err_set(err, E_BAD_REQUEST, keys[i].name, "'%s=' is missing",
				    keys[i].name);
	if (r == 0 && row->start == PROCESS_MAIN && a.init_pid == 0)
		r = err_set(err, E_BAD_REQUEST, "process", "'process=init …' is missing");
	if (r < 0) {
		process_args_done(&a);
		return r;
	}
	*out = a;
	return 0;
}

static void format_process(const struct process_link *l, const char *key, struct strv *argv)
{
	if (l->ring_fd > 0)
		strv_addf(argv, "%s=%s %d %d %d", key, l->row->name, (int)l->pid, l->fd,
			  l->ring_fd);
	else
		strv_addf(argv, "%s=%s %d %d", key, l->row->name, (int)l->pid, l->fd);
}

void process_args_format(const struct process_row *row, const struct process_args *args,
			 struct strv *argv)
{
	strv_add(argv, row->program);
	strv_add(argv, args->session_id);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct key *k = &keys[i];

		if ((row->args & 1u << i) == 0)
			continue;
		if (k->kind == LIST)
			for (size_t n = 0; n < list(args, k)->n; n++)
				strv_addf(argv, "%s=%s", k->name, list(args, k)->v[n]);
		else if (is_given(args, k))
			strv_addf(argv, "%s=%u", k->name, (unsigned)*number(args, k));
		else if (k->kind == LINKS)
			for (size_t n = 0; n < args->nothers; n++)
				format_process(&args->other[n], k->name, argv);
	}
}

void process_args_add(struct process_args *args, const struct process_link *link)
{
	ensure(args->nothers < ARRAY_LEN(args->other));
	args->other[args->nothers++] = *link;
}

int process_args_pass(const struct process_row *row, const struct process_args *args)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if ((row->args & 1u << i) != 0 && keys[i].kind != NUMBER &&
		    is_given(args, &keys[i]) && fcntl(*number(args, &keys[i]), F_SETFD, 0) < 0)
			return -1;
	for (size_t i = 0; (row->args & PROCESS_ARG(process)) != 0 && i < args->nothers; i++)
		if (fcntl(args->other[i].fd, F_SETFD, 0) < 0 ||
		    (args->other[i].ring_fd > 0 && fcntl(args->other[i].ring_fd, F_SETFD, 0) < 0))
			return -1;
	return 0;
}
