// SPDX-License-Identifier: Apache-2.0
/* The launcher reads the files itself and hands on the very bytes that it has checked. */
#include "launcher/settings.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/policy_snapshots.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#define FILE_MAX (1024 * 1024)
#define SYSTEM_CONFIG "/etc/agentsh/config.yaml"

int settings_source_init(const struct launcher_options *o, enum config_mode mode,
			 struct settings_source *out, struct err *err)
{
	const char *home = getenv("HOME"), *named = o->config_path;
	char cwd[PATH_MAX];
	int r;

	*out = (struct settings_source){.mode = mode, .must_exist = named != NULL};
	r = config_env(&out->overrides, err);
	for (size_t i = 0; i < o->overrides.n; i++)
		strv_add(&out->overrides, o->overrides.v[i]);
	/* A relative name becomes absolute: the launcher's directory will be /. */
	if (named != NULL && named[0] != '/' && getcwd(cwd, sizeof(cwd)) != NULL)
		out->path = mem_printf("%s/%s", cwd, named);
	else if (named != NULL || mode == CONFIG_SYSTEM)
		out->path = mem_strdup(named != NULL ? named : SYSTEM_CONFIG);
	else if (home != NULL && home[0] == '/')
		out->path = mem_printf("%s/.config/agentsh/config.yaml", home);
	return r;
}

void settings_source_done(struct settings_source *s)
{
	free(s->path);
	strv_done(&s->overrides);
	*s = (struct settings_source){0};
}

/* Appends the file to out; *has: there is one. O_NONBLOCK: a FIFO must not stop us.
 * Root follows the file: only root may be able to write it. */
static int read_file(const char *path, enum config_mode mode, bool must_exist, struct buf *out,
		     bool *has, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	*has = fd != -1;
	if (fd == -1 && !must_exist && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd == -1 || fstat(fd, &st) < 0)
		return err_errno(err, E_NOT_FOUND, path, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_BAD_REQUEST, path, "%s is not a regular file", path);
	if (mode == CONFIG_SYSTEM && (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0))
		return err_set(err, E_FORBIDDEN, path,
			       "%s must belong to root, and no other user may be able to write it: "
			       "chown root %s, chmod go-w %s",
			       path, path, path);
	return fdio_load(fd, FILE_MAX, out, err);
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

/* stderr, or the file of logging.output, opened for appending. */
static int open_log(struct settings *s, struct err *err)
{
	const char *path = s->config.log_output;
	struct err why = {0};

	log_level_parse(s->config.log_level, &s->log_level);
	s->log_format = strcmp(s->config.log_format, "json") == 0 ? LOG_JSON : LOG_TEXT;
	s->log_fd = STDERR_FILENO;
	if (path[0] == '\0' || strcmp(path, "stderr") == 0)
		return 0;
	s->log_fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0640);
	if (s->log_fd != -1)
		return 0;
	err_errno(&why, E_UNAVAILABLE, path, "cannot open %s", path);
	return at_key(&s->config, "logging.output", &why, err);
}

int settings_load(const struct settings_source *src, const struct config *was, struct settings *out,
		  struct buf *report, struct err *err)
{
	struct settings s = {0};
	struct err why = {0};
	const char *keys;
	int r = config_defaults(src->mode, &s.config, err);

	if (r == 0 && src->path != NULL)
		r = read_file(src->path, src->mode, src->must_exist, &s.config_text, &s.has_config,
			      err);
	if (r == 0 && s.has_config)
		r = config_parse(src->path, s.config_text.len > 0 ? s.config_text.data : "",
				 s.config_text.len, &s.config, report, err);
	for (size_t i = 0; r == 0 && i < src->overrides.n; i++)
		r = config_override(src->overrides.v[i], &s.config, err);
	if (r == 0)
		r = config_check(&s.config, err);
	if (r == 0 && was != NULL) {
		config_keep(was, &s.config, &s.kept);
		r = config_check(&s.config, err);
	}
	if (r == 0 && src->mode == CONFIG_SYSTEM && !uid_range_exists(&s.config.session_uids))
		r = config_wrong(&s.config,
				 "sandbox.session_uids: not all of these ids exist here (see "
				 "/proc/self/uid_map)",
				 err);
	if (r == 0)
		r = policies_check(&s.config, err);
	keys = s.config.api_keys_file;
	if (r == 0 && keys[0] != '\0') {
		r = read_file(keys, src->mode, true, &s.keys_text, &s.has_keys, &why);
		r = r < 0 ? at_key(&s.config, "server.auth.api_keys_file", &why, err)
			  : api_keys_parse(keys, s.keys_text.len > 0 ? s.keys_text.data : "",
					   s.keys_text.len, &s.keys, report, err);
	}
	if (r == 0)
		r = open_log(&s, err);
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
	if (s->log_fd > STDERR_FILENO)
		close(s->log_fd);
	*s = (struct settings){0};
}

void settings_start_log(const struct settings *s)
{
	log_init("agentsh-server", s->log_level, s->log_format, s->log_fd);
}
