// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/proc.h"
#include "client/client_internal.h"
#include "config/config.h"
#include <errno.h>

#define START_TRIES 3
static const char system_socket[] = "/run/agentsh/agentsh.sock";

static int open_named(const struct client_options *o, const char *name, struct client **out,
		      struct err *err)
{
	struct client *c = mem_new(struct client);
	int r = address_parse(name, &c->address, err);

	c->name = mem_strdup(name);
	c->api_key = mem_strdup(o->api_key);
	c->fd = -1;
	buf_reserve(&c->in, 0);
	if (r == 0)
		r = client_connect(c, err);
	if (r == 0)
		*out = c;
	else
		client_close(c);
	return r;
}

/* If two servers start at once, one gets the lock, and the other names the socket of the first. A
 * server that was idle may end before it gets the call; it releases the lock, so that the next try
 * starts another one. */
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
			return err_set(err, E_CONFLICT, socket,
				       "the server at %s already uses the data directory of "
				       "AGENTSH_CONFIG: use that server (AGENTSH_SERVER=%s), or "
				       "set another sessions.base_dir",
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
		/* A missing socket, or one without a listener: the server does not run. */
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

int client_open(const struct client_options *o, struct client **out, struct err *err)
{
	const bool root = geteuid() == 0;
	const char *name = o->server != NULL ? o->server : getenv("AGENTSH_SERVER");
	const char *file = getenv("AGENTSH_CONFIG");
	struct client_places places = {.sockets = {system_socket}};
	cleanup_free char *dir = NULL, *path = NULL;
	cleanup_config struct config config = {0};
	struct err problem = {0};
	int r;

	if (name != NULL && *name != '\0')
		return open_named(o, name, out, err);
	places.only = file != NULL && *file != '\0';
	if (config_defaults(root ? CONFIG_SYSTEM : CONFIG_USER, &config, &problem) != 0) {
		/* Without an own runtime directory only the system's server is left. */
		if (!places.only && open_named(o, system_socket, out, NULL) == 0)
			return 0;
		return err_set(err, problem.code, problem.subject, "%s", problem.message);
	}
	if (places.only) {
		/* a server that is started has another working directory */
		path = realpath(file, NULL);
		if (path == NULL)
			return err_errno(err, E_BAD_REQUEST, file, "AGENTSH_CONFIG: cannot open %s",
					 file);
		setenv("AGENTSH_CONFIG", path, 1);
		r = config_load(path, &config, NULL, err);
		if (r < 0)
			return r;
	}

	places.sockets[0] = config.unix_socket;
	places.sockets[1] = root || places.only ? NULL : system_socket;
	places.dir = dir = config_runtime_dir(&config);
	return client_open_at(o, &places, out, err);
}
