// SPDX-License-Identifier: Apache-2.0
/* `policy sets` lists and prints named sets. It also makes the set of package registries from the
 * configuration files of this machine's package managers, and from the output of those that have
 * their default only in the program. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "cli/cmd_policy.h"
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>

#define REGISTRIES "package-registries"
#define TEXT_MAX ((size_t)1024 * 1024)

extern char **environ;

/* A path that does not begin with a slash is below HOME; a path may have a star. */
static const char *const files[] = {
	"/etc/apt/sources.list",
	"/etc/apt/sources.list.d/*.list",
	"/etc/apt/sources.list.d/*.sources",
	"/etc/apt/mirrors/*",
	"/etc/pip.conf",
	".config/pip/pip.conf",
	".pip/pip.conf",
	"/etc/npmrc",
	".npmrc",
	".yarnrc.yml",
	".config/go/env",
	"/usr/lib/go*/go.env",
	"/usr/local/go/go.env",
	".cargo/config.toml",
	".cargo/config",
	"/etc/gemrc",
	".gemrc",
};
static const char *const asked[][6] = {
	/* these print what their environment sets, too */
	{"python3", "-m", "pip", "config", "list", NULL},
	{"npm", "config", "get", "registry", NULL},
	{"go", "env", "GOPROXY", NULL},
	{"gem", "sources", NULL},
	{"python3", "-c",
	 "from pip._internal.models.index import PyPI as p\n"
	 "print(p.url, 'https://' + p.file_storage_domain)",
	 NULL},
};

static void read_files(const char *pattern, struct strv *hosts)
{
	const char *home = getenv("HOME");
	cleanup_free char *whole = NULL;
	glob_t found = {0};

	if (pattern[0] != '/' && home == NULL)
		return;
	whole = pattern[0] == '/' ? mem_strdup(pattern) : mem_printf("%s/%s", home, pattern);
	if (glob(whole, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			cleanup_buf struct buf text = {0};

			if (fdio_load_path(found.gl_pathv[i], TEXT_MAX, &text, NULL) == 0 &&
			    text.len > 0)
				policy_registry_hosts(text.data, text.len, hosts);
		}
	globfree(&found);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int refresh(const struct cli_policies *at, struct err *err)
{
	cleanup_free char *dir = mem_printf("%s/sets", at->config.policy_dir);
	cleanup_free char *path = mem_printf("%s/" REGISTRIES ".yaml", dir);
	cleanup_free char *temp = mem_printf("%s.new", path);
	cleanup_buf struct buf text = {0};
	cleanup_fd int fd = -1;
	cleanup_strv struct strv hosts = {0};
	int r;

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		read_files(files[i], &hosts);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		cleanup_buf struct buf answer = {0};

		/* not in the current directory: its files may be those of an agent */
		cli_program_output((char *const *)(uintptr_t)asked[i], "/", environ, &answer);
		if (answer.len > 0)
			policy_registry_hosts(answer.data, answer.len, &hosts);
	}
	if (hosts.n > 0)
		qsort(hosts.v, hosts.n, sizeof(*hosts.v), by_text);
	policy_set_format(
		REGISTRIES, "domains",
		"Made by agentsh policy sets --refresh from this machine's package managers.",
		&hosts, &text);
	r = fdio_mkdirs(dir, 0755, err);
	/* written beside and renamed, so that a reader sees the old set or the new one */
	if (r == 0)
		fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (r == 0 &&
	    (fd < 0 || fchmod(fd, 0644) < 0 || fdio_write_all(fd, text.data, text.len) < 0 ||
	     fsync(fd) < 0 || rename(temp, path) < 0))
		r = err_errno(err, E_UNAVAILABLE, path, "cannot write %s", path);

	if (r == 0)
		fprintf(stderr, "agentsh: %zu registries written to %s\n", hosts.n, path);
	return r;
}

static void list_sets(const struct cli *cli, const struct cli_policies *at)
{
	static const struct cli_column columns[] = {
		{"NAME", "name", CLI_WORDS},
		{"FILE", "file", CLI_WORDS},
	};
	cleanup_strv struct strv names = {0};
	cleanup_buf struct buf text = {0};
	struct jw w = JW(&text);

	policy_list(&at->dirs, true, &names);
	jw_obj(&w);
	jw_karr(&w, "sets");
	for (size_t i = 0; i < names.n; i++) {
		cleanup_free char *file = policy_find_file(&at->dirs, true, names.v[i]);

		jw_obj(&w);
		jw_kstr(&w, "name", names.v[i]);
		jw_kstr(&w, "file", file);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	cli_show_table(cli, &text, "sets", columns, ARRAY_LEN(columns));
}

static void format_set(const struct yaml *set, const char *name, const char *file, struct jw *w)
{
	static const char *const words[] = {"description", "kind"};
	const struct yaml *items = yaml_get(set, "items");

	jw_obj(w);
	jw_kstr(w, "name", name);
	jw_kstr(w, "file", file);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		const struct yaml *word = yaml_get(set, words[i]);

		jw_kstr(w, words[i], word != NULL ? word->text : NULL);
	}
	jw_karr(w, "items");
	for (size_t i = 0; items != NULL && i < items->n; i++)
		if (items->item[i].value->kind == YAML_SCALAR)
			jw_str(w, items->item[i].value->text);
	jw_arr_end(w);
	jw_obj_end(w);
}

static int print_set(const struct cli *cli, const struct cli_policies *at, const char *name,
		     struct err *err)
{
	cleanup_free char *file = policy_find_file(&at->dirs, true, name);
	cleanup_buf struct buf text = {0}, json = {0};
	struct yaml *set = NULL;
	int r;

	if (file == NULL)
		return err_set(err, E_NOT_FOUND, name, "no set '%s' (agentsh policy sets)", name);
	r = fdio_load_path(file, TEXT_MAX, &text, err);
	if (r == 0 && cli->v.json)
		r = yaml_parse(file, text.data, text.len, NULL, &set, err);
	if (r < 0)
		return r;
	if (cli->v.json)
		format_set(set, name, file, &JW(&json));
	cli_show(cli, cli->v.json ? &json : &text);
	yaml_free(set);
	return 0;
}

int cmd_policy_sets(struct cli *cli, struct err *err)
{
	cleanup_policies struct cli_policies at = {0};
	int r = cli_policy_open(cli, &at, err);

	if (r == 0 && cli->v.refresh)
		r = refresh(&at, err);
	if (r == 0 && cli->argc == 1)
		return print_set(cli, &at, cli->argv[0], err);
	if (r == 0)
		list_sets(cli, &at);
	return r;
}
