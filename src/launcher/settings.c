// SPDX-License-Identifier: Apache-2.0
/* The launcher reads the files itself and hands on the very bytes that it has checked. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define FILE_MAX (1024 * 1024)
#define SYSTEM_CONFIG "/etc/agentsh/config.yaml"

/* The loop's directory is /, so that a relative name must be made absolute first. */
static char *absolute(const char *path)
{
	char cwd[PATH_MAX];

	if (path[0] == '/' || getcwd(cwd, sizeof(cwd)) == NULL)
		return mem_strdup(path);
	return mem_printf("%s/%s", cwd, path);
}

static char *default_path(enum config_mode mode)
{
	const char *home = getenv("HOME");

	if (mode == CONFIG_SYSTEM)
		return mem_strdup(SYSTEM_CONFIG);
	if (home == NULL || home[0] != '/')
		return NULL;
	return mem_printf("%s/.config/agentsh/config.yaml", home);
}

int settings_source_init(const struct launcher_options *o, enum config_mode mode,
			 struct settings_source *out, struct err *err)
{
	struct settings_source s = {.mode = mode, .must_exist = o->config_path != NULL};
	const int r = config_env(&s.overrides, err);

	if (r < 0) {
		settings_source_done(&s);
		return r;
	}
	for (size_t i = 0; i < o->overrides.n; i++)
		strv_add(&s.overrides, o->overrides.v[i]);
	s.path = o->config_path != NULL ? absolute(o->config_path) : default_path(mode);
	*out = s;
	return 0;
}

void settings_source_done(struct settings_source *s)
{
	free(s->path);
	strv_done(&s->overrides);
	*s = (struct settings_source){0};
}

/* Whoever may write the file decides what root does. */
static int check_owner(int fd, const char *path, enum config_mode mode, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, E_INTERNAL, path, "cannot stat %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_BAD_REQUEST, path, "%s is not a regular file", path);
	if (mode == CONFIG_USER)
		return 0;
	if (st.st_uid != 0)
		return err_set(err, E_FORBIDDEN, path,
			       "%s belongs to uid %u and root would obey it: chown root %s", path,
			       st.st_uid, path);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(err, E_FORBIDDEN, path,
			       "%s can be written by others and root would obey it: chmod go-w %s",
			       path, path);
	return 0;
}

/* Appends the file to out; *has tells whether there is one. O_NONBLOCK: a FIFO must not stop us. */
static int read_file(const char *path, enum config_mode mode, bool must_exist, struct buf *out,
		     bool *has, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r;

	if (fd == -1 && !must_exist && (errno == ENOENT || errno == ENOTDIR)) {
		*has = false;
		return 0;
	}
	if (fd == -1)
		return err_errno(err, E_NOT_FOUND, path, "cannot open %s", path);
	r = check_owner(fd, path, mode, err);
	if (r == 0)
		r = fdio_load(fd, FILE_MAX, out, err);
	if (r == 0)
		*has = true;
	return r;
}

static int load_config(const struct settings_source *src, struct settings *s, struct buf *report,
		       struct err *err)
{
	int r = config_defaults(src->mode, &s->config, err);

	if (r == 0 && src->path != NULL)
		r = read_file(src->path, src->mode, src->must_exist, &s->config_text,
			      &s->has_config, err);
	if (r == 0 && s->has_config)
		r = config_parse(src->path, s->config_text.len > 0 ? s->config_text.data : "",
				 s->config_text.len, &s->config, report, err);
	for (size_t i = 0; r == 0 && i < src->overrides.n; i++)
		r = config_override(src->overrides.v[i], &s->config, err);
	return r;
}

/* The same error, with the place of the key that named the file. */
static int at_key(const struct config *c, const char *key, const struct err *why, struct err *err)
{
	cleanup_free char *problem = mem_printf("%s: %s", key, why->message);

	config_wrong(c, problem, err);
	if (err != NULL)
		err->code = why->code;
	return -(int)why->code;
}

static int load_keys(const struct settings_source *src, struct settings *s, struct buf *report,
		     struct err *err)
{
	const char *path = s->config.api_keys_file;
	struct err why = {0};
	int r;

	if (path == NULL || path[0] == '\0')
		return 0;
	r = read_file(path, src->mode, true, &s->keys_text, &s->has_keys, &why);
	if (r < 0)
		return at_key(&s->config, "server.auth.api_keys_file", &why, err);
	return api_keys_parse(path, s->keys_text.len > 0 ? s->keys_text.data : "", s->keys_text.len,
			      &s->keys, report, err);
}

int settings_load(const struct settings_source *src, struct settings *out, struct buf *report,
		  struct err *err)
{
	struct settings s = {0};
	int r = load_config(src, &s, report, err);

	if (r == 0)
		r = config_check(&s.config, err);
	if (r == 0 && src->mode == CONFIG_SYSTEM && !uid_range_exists(&s.config.session_uids))
		r = config_wrong(&s.config,
				 "sandbox.session_uids: not all of these ids exist here (see "
				 "/proc/self/uid_map)",
				 err);
	if (r == 0)
		r = policies_check(&s.config, err);
	if (r == 0)
		r = load_keys(src, &s, report, err);
	if (r < 0) {
		settings_done(&s);
		return r;
	}
	*out = s;
	return 0;
}

void settings_done(struct settings *s)
{
	config_done(&s->config);
	api_keys_done(&s->keys);
	buf_done(&s->config_text);
	buf_done(&s->keys_text);
	strv_done(&s->kept);
	*s = (struct settings){0};
}

int settings_fd(const char *name, const struct buf *text, struct err *err, int *fd)
{
	const int made = fdio_sealed(name, text->len > 0 ? text->data : "", text->len);

	if (made == -1)
		return err_errno(err, E_UNAVAILABLE, name, "memfd_create");
	*fd = made;
	return 0;
}

int settings_open_log(const struct settings *s, int *fd, struct err *err)
{
	const char *path = s->config.log_output;
	cleanup_fd int made = -1;
	struct err why = {0};

	if (path == NULL || path[0] == '\0' || strcmp(path, "stderr") == 0) {
		*fd = STDERR_FILENO;
		return 0;
	}
	made = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0640);
	if (made == -1) {
		err_errno(&why, E_UNAVAILABLE, path, "cannot open %s", path);
		return at_key(&s->config, "logging.output", &why, err);
	}
	*fd = take_fd(made);
	return 0;
}

void settings_start_log(const struct settings *s, int fd)
{
	enum log_level level = LOG_INFO;

	log_level_parse(s->config.log_level, &level);
	log_init("agentsh-server", level,
		 strcmp(s->config.log_format, "json") == 0 ? LOG_JSON : LOG_TEXT, fd);
}
