// SPDX-License-Identifier: Apache-2.0
/* launcher/settings.h - the configuration and the keys, as the launcher read them. Private to
 * launcher/. */
#pragma once
#include "base/log.h"
#include "config/config.h"
#include "launcher/launcher.h"

struct settings_source {
	enum config_mode mode;
	char *path;	       /* absolute; NULL: none */
	bool must_exist;       /* named by flag or variable */
	struct strv overrides; /* environment, then flags */
};
/* One consistent reading of the files; SIGHUP makes another one. */
struct settings {
	struct config config;
	struct api_keys keys;
	struct buf config_text, keys_text;
	bool has_config, has_keys;
	enum log_level log_level;
	enum log_format log_format;
	int log_fd; /* above 2 it is owned; also the stderr of the API child and of wardens */
	struct strv
		kept; /* "key=value" of what only a restart can change, as it was at the start */
};
/* out is to be freed, also after a failure. */
int settings_source_init(const struct launcher_options *o, enum config_mode mode,
			 struct settings_source *out, struct err *err);
void settings_source_done(struct settings_source *s);
/* Reads and checks everything, and opens the log. All problems of a file, one a line, go to report.
 * was: the configuration in use, NULL at the start; what only a restart can change stays. */
int settings_load(const struct settings_source *src, const struct config *was, struct settings *out,
		  struct buf *report, struct err *err);
void settings_done(struct settings *s);
/* From now on this process logs there. */
void settings_start_log(const struct settings *s);
