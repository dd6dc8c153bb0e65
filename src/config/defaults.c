// SPDX-License-Identifier: Apache-2.0
/* The default directories: the system's for root, else below the user's own. */
#include "base/mem.h"
#include "config/table.h"
#include <errno.h>
#include <sys/stat.h>

#define UIDS_FEWER 4096

const struct config_default config_places[CONFIG_PLACES] = {
	[PLACE_RUNTIME] = {"{runtime}", "/run/agentsh", "$XDG_RUNTIME_DIR/agentsh"},
	[PLACE_STATE] = {"{state}", "/var/lib/agentsh", "~/.local/state/agentsh"},
	[PLACE_CONFIG] = {"{config}", "/etc/agentsh", "~/.config/agentsh"},
};

static int user_runtime(char **out, struct err *err)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	cleanup_free char *path = NULL;
	struct stat st;

	if (xdg != NULL && xdg[0] == '/' && stat(xdg, &st) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_uid == geteuid()) {
		*out = mem_printf("%s/agentsh", xdg);
		return 0;
	}
	path = mem_printf("%s/agentsh-%u", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
			  (unsigned)geteuid());
	/* Another user may have made the name before us: it must be our directory, closed to
	 * others. */
	if ((mkdir(path, 0700) < 0 && errno != EEXIST) || lstat(path, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot make %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return err_set(err, E_FORBIDDEN, path,
			       "%s is not a directory of user %u alone: remove it, or set "
			       "XDG_RUNTIME_DIR",
			       path, (unsigned)geteuid());
	*out = take(path);
	return 0;
}

static int find_places(enum config_mode mode, char *out[CONFIG_PLACES], struct err *err)
{
	const char *home = getenv("HOME");

	for (int i = 0; mode == CONFIG_SYSTEM && i < CONFIG_PLACES; i++)
		out[i] = mem_strdup(config_places[i].system);
	if (mode == CONFIG_SYSTEM)
		return 0;
	if (home == NULL || home[0] != '/')
		return err_set(err, E_BAD_REQUEST, "HOME", "HOME is not an absolute path");
	for (int i = PLACE_STATE; i < CONFIG_PLACES; i++) /* "~/…" */
		out[i] = mem_printf("%s%s", home, config_places[i].user + 1);
	return user_runtime(&out[PLACE_RUNTIME], err);
}

int config_defaults(enum config_mode mode, struct config *out, struct err *err)
{
	char *at[CONFIG_PLACES] = {0};
	struct config c = {.system = mode == CONFIG_SYSTEM};
	int r = find_places(mode, at, err);

	for (size_t i = 0; r == 0 && i < config_row_count; i++) {
		const char *begin = "", *rest = config_rows[i].fallback;
		cleanup_free char *text = NULL;
		struct config_problem p;

		for (int k = 0; k < CONFIG_PLACES && begin[0] == '\0'; k++)
			if (strncmp(rest, config_places[k].name, strlen(config_places[k].name)) ==
			    0) {
				begin = at[k];
				rest += strlen(config_places[k].name);
			}
		text = mem_printf("%s%s", begin, rest);
		if (!config_value_parse(&config_rows[i], text, &c, &p))
			r = err_set(err, E_BAD_REQUEST, config_rows[i].key, "%s: %s",
				    config_rows[i].key, p.text);
	}
	if (r == 0 && !uid_range_exists(&c.session_uids))
		c.session_uids = uid_range_highest(UIDS_FEWER);
	for (int k = 0; k < CONFIG_PLACES; k++)
		free(at[k]);
	if (r < 0)
		config_done(&c);
	else
		*out = c;
	return r;
}
