// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/proc.h"
#include "client/client_internal.h"
#include "config/config.h"
#include <errno.h>

#define START_TRIES 3
static const char system_socket[] = "/run/agentsh/agentsh.sock";

static struct client *new_client(const struct client_options *o, struct address *address, int fd)
{
	struct client *c = mem_new(struct client);

	c->address = *address;
	*address = (struct address){0};
	c->api_key = mem_strdup(o->api_key);
	c->fd = fd;
	buf_reserve(&c->in, 0);
	return c;
}

static int open_named(const struct client_options *o, const char *name, struct client **out,
		      struct err *err)
{
	struct address address = {0};
	int r = address_parse(name, &address, err);
	int fd;

	if (r != 0)
		return r;
	fd = address_dial(&address);
	if (fd == -1 && (errno == EACCES || errno == EPERM))
		r = err_errno(err, E_FORBIDDEN, name, "the server at %s is out of reach", name);
	else if (fd == -1)
		r = err_errno(err, E_UNAVAILABLE, name, "no server at %s", name);
	else
		*out = new_client(o, &address, fd);
	address_done(&address);
	return r;
}

/* Two servers that are started at once settle it by their lock: the slower one names the faster
 * one's socket. A server that ends between its word and our call (it was idle) leaves the lock, so
 * that the next try starts another. */
static int start_one(const struct client_options *o, const struct client_places *places,
		     struct client **out, struct err *err)
{
	cleanup_free char *program = mem_strdup(places->program);
	int r = program != NULL ? 0 : proc_sibling("agentsh-server", &program, err);

	for (int i = 0; i < START_TRIES; i++) {
		cleanup_free char *socket = NULL;

		if (r == 0)
			r = client_start(program, places->dir, &socket, err);
		if (r != 0)
			return r;
		if (places->only && strcmp(socket, places->sockets[0]) != 0)
			return err_set(
				err, E_CONFLICT, socket,
				"the server at %s has the data directory that AGENTSH_CONFIG "
				"names: use that server (AGENTSH_SERVER=%s), or name another "
				"sessions.base_dir",
				socket, socket);
		if (open_named(o, socket, out, NULL) == 0)
			return 0;
	}
	return err_set(err, E_UNAVAILABLE, NULL,
		       "servers were started, but none answers: see %s/agentsh-server.log",
		       places->dir);
}

int client_open_at(const struct client_options *o, const struct client_places *places,
		   struct client **out, struct err *err)
{
	cleanup_buf struct buf looked = {0};

	for (const char *const *s = places->sockets; *s != NULL; s++) {
		/* Nothing there, or a file that nobody listens on: not running. */
		if (open_named(o, *s, out, NULL) == 0)
			return 0;
		buf_addf(&looked, "%s%s", looked.len != 0 ? " and " : "", *s);
	}
	if (o->no_auto || getenv("AGENTSH_NO_AUTO") != NULL)
		return err_set(
			err, E_UNAVAILABLE, NULL,
			"no server is running (looked at %s): start one with 'agentsh server', "
			"or name one with --server or AGENTSH_SERVER",
			looked.data);
	return start_one(o, places, out, err);
}

/* The settings of the server that AGENTSH_CONFIG describes. It starts in another directory than
 * ours.
 */
static int load_config(const char *file, struct config *c, struct err *err)
{
	cleanup_free char *path = realpath(file, NULL);

	if (path == NULL)
		return err_errno(err, E_BAD_REQUEST, file, "AGENTSH_CONFIG: cannot open %s", file);
	setenv("AGENTSH_CONFIG", path, 1);
	return config_load(path, c, NULL, err);
}

int client_open(const struct client_options *o, struct client **out, struct err *err)
{
	const bool root = geteuid() == 0;
	const char *name = o->server != NULL ? o->server : getenv("AGENTSH_SERVER");
	const char *file = getenv("AGENTSH_CONFIG");
	struct client_places places = {.sockets = {system_socket}};
	cleanup_free char *dir = NULL;
	struct config config = {0};
	struct err problem = {0};
	int r;

	if (name != NULL && *name != '\0')
		return open_named(o, name, out, err);
	places.only = file != NULL && *file != '\0';
	if (config_defaults(root ? CONFIG_SYSTEM : CONFIG_USER, &config, &problem) != 0) {
		/* Without a place of our own there is only the system's server. */
		if (!places.only && open_named(o, system_socket, out, NULL) == 0)
			return 0;
		return err_set(err, problem.code, problem.subject, "%s", problem.message);
	}
	r = places.only ? load_config(file, &config, err) : 0;
	places.sockets[0] = config.unix_socket;
	places.sockets[1] = root || places.only ? NULL : system_socket;
	places.dir = dir = config_runtime_dir(&config);
	if (r == 0)
		r = client_open_at(o, &places, out, err);
	config_done(&config);
	return r;
}
