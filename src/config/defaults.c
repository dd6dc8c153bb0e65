// SPDX-License-Identifier: Apache-2.0
/* Where things lie without a configuration: of the system for root, else below the user's
 * directories. */
#include "base/mem.h"
#include "config/table.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define UIDS_FEWER 4096

struct places {
	char *runtime, *state, *config; /* owned */
};

static bool own_dir(const char *path)
{
	struct stat st;

	return path != NULL && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

/* Anyone may have made the name before us: it must be a directory, ours, and closed to others. */
static int make_private(const char *path, struct err *err)
{
	struct stat st;

	if (mkdir(path, 0700) == 0)
		return 0;
	if (errno != EEXIST || lstat(path, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot make %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return err_set(err, E_FORBIDDEN, path,
			       "%s is not a directory of user %u alone: remove it, or set "
			       "XDG_RUNTIME_DIR",
			       path, (unsigned)geteuid());
	return 0;
}

static int user_runtime(char **out, struct err *err)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	cleanup_free char *path = NULL;
	int r;

	if (own_dir(xdg)) {
		*out = mem_printf("%s/agentsh", xdg);
		return 0;
	}
	path = mem_printf("%s/agentsh-%u", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
			  (unsigned)geteuid());
	r = make_private(path, err);
	if (r == 0)
		*out = take(path);
	return r;
}

static int find_places(enum config_mode mode, struct places *out, struct err *err)
{
	const char *home = getenv("HOME");
	int r;

	if (mode == CONFIG_SYSTEM) {
		*out = (struct places){mem_strdup("/run/agentsh"), mem_strdup("/var/lib/agentsh"),
				       mem_strdup("/etc/agentsh")};
		return 0;
	}
	if (home == NULL || home[0] != '/')
		return err_set(err, E_BAD_REQUEST, "HOME", "HOME is not an absolute path");
	r = user_runtime(&out->runtime, err);
	if (r == 0) {
		out->state = mem_printf("%s/.local/state/agentsh", home);
		out->config = mem_printf("%s/.config/agentsh", home);
	}
	return r;
}

/* {runtime}, {state} and {config} stand only at the beginning of a default. */
static char *expand(const char *text, const struct places *at)
{
	static const char runtime[] = "{runtime}", state[] = "{state}", config[] = "{config}";

	if (strncmp(text, runtime, sizeof(runtime) - 1) == 0)
		return mem_printf("%s%s", at->runtime, text + sizeof(runtime) - 1);
	if (strncmp(text, state, sizeof(state) - 1) == 0)
		return mem_printf("%s%s", at->state, text + sizeof(state) - 1);
	if (strncmp(text, config, sizeof(config) - 1) == 0)
		return mem_printf("%s%s", at->config, text + sizeof(config) - 1);
	return mem_strdup(text);
}

int config_defaults(enum config_mode mode, struct config *out, struct err *err)
{
	struct places at = {0};
	struct config c = {.system = mode == CONFIG_SYSTEM};
	int r = find_places(mode, &at, err);

	for (size_t i = 0; r == 0 && i < config_row_count; i++) {
		cleanup_free char *text = expand(config_rows[i].fallback, &at);
		struct config_problem p;

		if (!config_value_parse(&config_rows[i], text, &c, &p))
			r = err_set(err, E_BAD_REQUEST, config_rows[i].key, "%s: %s",
				    config_rows[i].key, p.text);
	}
	if (r == 0 && !uid_range_exists(&c.session_uids))
		c.session_uids = uid_range_highest(UIDS_FEWER);
	free(at.runtime);
	free(at.state);
	free(at.config);
	if (r < 0)
		config_done(&c);
	else
		*out = c;
	return r;
}
