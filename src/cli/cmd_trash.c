// SPDX-License-Identifier: Apache-2.0
/* Files that sessions deleted under a soft_delete rule.
 *
 * While a session lives, its file server puts a file back. After its end this program does, with
 * the rights of the user who calls it and no others: the trash belongs to the owner of the
 * workspace, and names in it are followed beneath the workspace alone. */
#include "base/fdio.h"
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "trash/trash.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* All entries of a session: an answer of the API, of which `entries` has those of all pages. */
static int list_session(struct cli *cli, const char *id, json_t **out, struct err *err)
{
	cleanup_free char *base = NULL, *next = mem_strdup("0");
	json_t *all = NULL;
	int r = cli_session_path(id, "/trash?limit=1000&cursor=", &base, err);

	while (r == 0 && next[0] != '\0') {
		cleanup_free char *path = mem_printf("%s%s", base, next);
		json_auto_t *page = NULL;

		r = cli_call_json(cli, "GET", path, NULL, false, &page, err);
		if (r < 0)
			break;
		mem_replace(&next, mem_strdup(cli_string(page, "next")));
		if (all == NULL)
			all = json_incref(page);
		else
			json_array_extend(json_object_get(all, "entries"),
					  json_object_get(page, "entries"));
	}
	if (r < 0)
		json_decref(all);
	else
		*out = all;
	return r;
}

/* Adds the lists of all sessions of the caller that have entries. */
static int list_sessions(struct cli *cli, json_t *lists, struct err *err)
{
	cleanup_free char *next = mem_strdup("");
	int r = 0;

	do {
		cleanup_free char *path = mem_printf("/api/v1/sessions?limit=100&cursor=%s", next);
		json_auto_t *page = NULL;
		const json_t *s;
		size_t i;

		r = cli_call_json(cli, "GET", path, NULL, false, &page, err);
		json_array_foreach(json_object_get(page, "sessions"), i, s)
		{
			json_t *list = NULL;

			if (r == 0)
				r = list_session(cli, cli_string(s, "id"), &list, err);
			if (list != NULL && json_array_size(json_object_get(list, "entries")) > 0)
				json_array_append(lists, list);
			json_decref(list);
		}
		mem_replace(&next, mem_strdup(cli_string(page, "next")));
	} while (r == 0 && next[0] != '\0');
	return r;
}

/* Of the session that was named, or of all. */
static int load_lists(struct cli *cli, json_t **out, struct err *err)
{
	json_t *lists = json_array(), *list = NULL;
	int r = cli->v.session != NULL ? list_session(cli, cli->v.session, &list, err)
				       : list_sessions(cli, lists, err);

	if (list != NULL)
		json_array_append_new(lists, list);
	if (r < 0)
		json_decref(lists);
	else
		*out = lists;
	return r;
}

/* ---- list ---- */

static void show_table(const json_t *lists)
{
	static const struct cli_column columns[] = {
		{"ENTRY", "id", CLI_WORDS},	      {"DELETED", "deleted", CLI_TIME},
		{"BYTES", "size", CLI_THOUSANDS},     {"SESSION", "session_id", CLI_WORDS},
		{"COMMAND", "command_id", CLI_WORDS}, {"FILE", "real_path", CLI_WORDS},
	};
	json_auto_t *rows = json_array();
	cleanup_buf struct buf text = {0};
	const json_t *list;
	json_t *entry;
	size_t i, k;

	json_array_foreach(lists, i, list)
	{
		json_array_foreach(json_object_get(list, "entries"), k, entry)
		{
			json_object_set(entry, "session_id", json_object_get(list, "session_id"));
			json_array_append(rows, entry);
		}
	}
	cli_table(rows, columns, ARRAY_LEN(columns), &text);
	cli_print(&text);
}

int cmd_trash_list(struct cli *cli, struct err *err)
{
	json_auto_t *lists = NULL;
	cleanup_free char *text = NULL;
	struct buf json = {0};
	int r = load_lists(cli, &lists, err);

	if (r < 0)
		return r;
	if (!cli->v.json) {
		show_table(lists);
		return 0;
	}
	text = json_dumps(lists, JSON_COMPACT);
	buf_addf(&json, "{\"sessions\":%s}", text);
	cli_print_json(&json);
	buf_done(&json);
	return 0;
}

/* ---- with the caller's own rights ---- */

static int open_own(const json_t *list, int *out, struct err *err)
{
	const char *path = cli_string(list, "directory");
	cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (dir == -1 || fstat(dir, &st) < 0)
		return err_errno(err, errno == ENOENT ? E_NOT_FOUND : E_FORBIDDEN, path,
				 "cannot open the trash %s", path);
	if (st.st_uid != geteuid())
		return err_set(err, E_FORBIDDEN, path,
			       "the trash %s belongs to uid %u: call the command as that user",
			       path, st.st_uid);
	*out = take_fd(dir);
	return 0;
}

struct trash_change {
	int (*run)(struct cli *cli, struct trash_change *c, const json_t *list, uint64_t id,
		   struct err *err);
	const char *done; /* "restored" */
	struct buf lines, ids;
	/* the trash that was opened last, and the list that it belongs to */
	const json_t *list;
	int dir;
	struct trash_list own;
};

static int open_trash(struct trash_change *c, const json_t *list, struct err *err)
{
	cleanup_fd int dir = -1;
	int r = list == c->list ? 0 : open_own(list, &dir, err);

	if (r < 0 || list == c->list)
		return r;
	trash_list_done(&c->own);
	r = trash_load(dir, 0, &c->own, err);
	if (r < 0)
		return r;
	mem_cleanup_fd(&c->dir);
	c->dir = take_fd(dir);
	c->list = list;
	return 0;
}

static int restore_own(struct trash_change *c, const json_t *list, uint64_t id, struct err *err)
{
	cleanup_fd int root = -1;
	cleanup_free char *workspace = NULL;
	const struct trash_entry *e = NULL;
	const char *below;
	int r = open_trash(c, list, err);

	if (r < 0)
		return r;
	e = trash_find(&c->own, id);
	below = e != NULL ? trash_entry_below(e) : NULL;
	if (below == NULL)
		return err_set(err, E_NOT_FOUND, NULL, "no entry %" PRIu64 " in the trash", id);
	workspace = mem_strndup(e->real_path, strlen(e->real_path) - strlen(below) - 1);
	root = fdio_openat2(AT_FDCWD, workspace[0] != '\0' ? workspace : "/", O_PATH | O_DIRECTORY,
			    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (root == -1)
		return err_errno(err, E_NOT_FOUND, workspace, "cannot open the workspace %s",
				 workspace);
	return trash_put_back(c->dir, e, &(struct trash_target){.root = root}, err);
}

/* ---- restore and purge ---- */

static int restore(struct cli *cli, struct trash_change *c, const json_t *list, uint64_t id,
		   struct err *err)
{
	cleanup_free char *rest = mem_printf("/trash/%" PRIu64 "/restore", id);
	cleanup_free char *path = NULL;
	json_auto_t *doc = NULL;
	int r = cli_session_path(cli_string(list, "session_id"), rest, &path, err);

	if (r == 0)
		r = cli_call_json(cli, "POST", path, NULL, false, &doc, err);
	if (r != -E_SESSION_STOPPED)
		return r;
	*err = (struct err){0};
	buf_clear(&cli->refusal);
	return restore_own(c, list, id, err);
}

static int purge(struct cli *cli, struct trash_change *c, const json_t *list, uint64_t id,
		 struct err *err)
{
	cleanup_fd int dir = -1;
	const int r = open_own(list, &dir, err);

	(void)cli, (void)c;
	return r < 0 ? r : trash_purge(dir, id, err);
}

static int change_one(struct cli *cli, struct trash_change *c, const json_t *list,
		      const json_t *entry, struct err *err)
{
	const char *id = cli_string(entry, "id");
	const int r = c->run(cli, c, list, strtoull(id, NULL, 10), err);

	if (r < 0)
		return r;
	cli_line(&c->lines, "%s: %s", c->done, cli_string(entry, "real_path"));
	buf_addf(&c->ids, "%s\"%s\"", c->ids.len > 0 ? "," : "", id);
	return 0;
}

/* id NULL: all. One that cannot be changed does not keep the others. */
static int change(struct cli *cli, struct trash_change *c, const json_t *lists, const char *id,
		  struct err *err)
{
	const json_t *list, *entry;
	bool found = id == NULL;
	size_t i, k;
	struct err why = {0};
	int r = 0, one;

	json_array_foreach(lists, i, list)
	{
		json_array_foreach(json_object_get(list, "entries"), k, entry)
		{
			if (id != NULL && strcmp(cli_string(entry, "id"), id) != 0)
				continue;
			found = true;
			one = change_one(cli, c, list, entry, &why);
			if (one < 0)
				*err = why;
			r = one < 0 ? one : r;
		}
	}
	return found ? r : err_set(err, E_NOT_FOUND, id, "no entry '%.64s' in the trash", id);
}

static int change_entries(struct cli *cli, struct trash_change *c, struct err *err)
{
	json_auto_t *lists = NULL;
	int r;

	if (cli->v.all != (cli->argc == 0))
		return err_set(err, E_BAD_REQUEST, NULL,
			       "name the entries (agentsh trash list), or say --all");
	r = load_lists(cli, &lists, err);
	if (r == 0 && cli->v.all)
		r = change(cli, c, lists, NULL, err);
	for (int i = 0; r == 0 && i < cli->argc; i++)
		r = change(cli, c, lists, cli->argv[i], err);
	if (cli->v.json) {
		cleanup_buf struct buf json = {0};

		buf_addf(&json, "{\"%s\":[%s]}", c->done, c->ids.len > 0 ? c->ids.data : "");
		cli_print_json(&json);
	} else {
		cli_print(&c->lines);
	}
	buf_done(&c->lines);
	buf_done(&c->ids);
	trash_list_done(&c->own);
	mem_cleanup_fd(&c->dir);
	return r;
}

int cmd_trash_restore(struct cli *cli, struct err *err)
{
	return change_entries(
		cli, &(struct trash_change){.run = restore, .dir = -1, .done = "restored"}, err);
}

int cmd_trash_purge(struct cli *cli, struct err *err)
{
	return change_entries(
		cli, &(struct trash_change){.run = purge, .dir = -1, .done = "purged"}, err);
}
