// SPDX-License-Identifier: Apache-2.0
/* The settings as text: a file that could be read again, and the reference for people. */
#include "base/mem.h"
#include "config/table.h"
#include <inttypes.h>

/* Length of the common beginning of two keys, in whole words with their dot. */
static size_t common(const char *a, const char *b)
{
	size_t end = 0;

	for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
		if (a[i] == '.')
			end = i + 1;
	return end;
}

static unsigned dots(const char *s)
{
	unsigned n = 0;

	for (; *s != '\0'; s++)
		n += *s == '.';
	return n;
}

static void show_json(const struct config *c, struct jw *w)
{
	const char *last = "";

	jw_obj(w);
	for (size_t i = 0; i < config_row_count; i++) {
		const char *key = config_rows[i].key, *rest = key + common(last, key);

		for (unsigned n = dots(last + common(last, key)); n > 0; n--)
			jw_obj_end(w);
		for (const char *dot; (dot = strchr(rest, '.')) != NULL; rest = dot + 1) {
			cleanup_free char *word = mem_strndup(rest, (size_t)(dot - rest));

			jw_kobj(w, word);
		}
		jw_key(w, rest);
		config_value_format(&config_rows[i], c, w);
		last = key;
	}
	for (unsigned n = dots(last); n > 0; n--)
		jw_obj_end(w);
	jw_obj_end(w);
}

static void show_yaml(const struct config *c, struct buf *out)
{
	const char *last = "";

	for (size_t i = 0; i < config_row_count; i++) {
		const char *key = config_rows[i].key, *rest = key + common(last, key);
		struct jw w = JW(out);

		for (;;) {
			const size_t len = strcspn(rest, ".");

			for (unsigned n = dots(key) - dots(rest); n > 0; n--)
				buf_adds(out, "  ");
			buf_add(out, rest, len);
			if (rest[len] == '\0')
				break;
			buf_adds(out, ":\n");
			rest += len + 1;
		}
		buf_adds(out, ": ");
		config_value_format(&config_rows[i], c, &w);
		buf_addc(out, '\n');
		last = key;
	}
}

void config_show(const struct config *c, bool json, struct buf *out)
{
	struct jw w = JW(out);

	if (!json) {
		show_yaml(c, out);
		return;
	}
	show_json(c, &w);
	buf_addc(out, '\n');
}

static void add_range(const struct config_row *row, struct buf *out)
{
	/* The choices are all values, refused paths, or a word that may stand instead of a path. */
	const char *begin = row->type == CONFIG_VIEW   ? ", apart from "
			    : row->type == CONFIG_PATH ? ", or "
						       : ": ";

	if (row->type == CONFIG_INT || row->type == CONFIG_SHARE || row->type == CONFIG_UID ||
	    row->type == CONFIG_UIDS)
		buf_addf(out, ", %" PRId64 " to %" PRId64, row->min, row->max);
	if (row->type == CONFIG_DURATION) {
		buf_adds(out, ", ");
		json_duration_format(out, row->min);
		buf_adds(out, " to ");
		json_duration_format(out, row->max);
	}
	for (const char *const *s = row->choices; s != NULL && *s != NULL; s++)
		buf_addf(out, "%s`%s`", s == row->choices ? begin : ", ", *s);
}

/* "{runtime}/x" for people. */
static void add_default(const struct config_row *row, struct buf *out)
{
	for (const struct config_default *d = config_places; d < config_places + CONFIG_PLACES;
	     d++) {
		const size_t len = strlen(d->name);

		if (strncmp(row->fallback, d->name, len) == 0) {
			buf_addf(out, "`%s%s`; a user's: `%s%s`", d->system, row->fallback + len,
				 d->user, row->fallback + len);
			return;
		}
	}
	if (row->fallback[0] == '\0')
		buf_adds(out, "empty");
	else
		buf_addf(out, "`%s`", row->fallback);
}

void config_reference(struct buf *out)
{
	const char *last = "";

	buf_adds(
		out,
		"# Configuration\n\n"
		"Made from the table of settings; `agentsh config show` prints what a server that "
		"is "
		"started now would\n"
		"have, `agentsh config validate FILE` checks a file. A key `a.b` is written as `b` "
		"below "
		"`a:`.\n"
		"Durations are written as `90s`, `5m`, `4h`. The last column names the test that "
		"shows the key\n"
		"working.\n\n"
		"On SIGHUP the server reads its file again. New values hold from then on; what "
		"concerns "
		"sessions,\n"
		"for those made afterwards. Keys that need a restart keep their value, and the log "
		"names them. A file\n"
		"with an error changes nothing.\n");
	for (size_t i = 0; i < config_row_count; i++) {
		const struct config_row *row = &config_rows[i];
		const size_t len = strcspn(row->key, ".");

		if (strncmp(last, row->key, len + 1) != 0)
			buf_addf(out,
				 "\n## %.*s\n\n| Key | Type | Default | Meaning | Test |\n"
				 "|---|---|---|---|---|\n",
				 (int)len, row->key);
		last = row->key;
		buf_addf(out, "| `%s` | %s", row->key, config_type_name(row->type));
		add_range(row, out);
		buf_adds(out, " | ");
		add_default(row, out);
		buf_addf(out, " | %s%s | `%s` |\n", row->help,
			 row->restart ? " Needs a restart." : "", row->test);
	}
}

void config_keys(struct jw *w)
{
	jw_obj(w);
	jw_karr(w, "keys");
	for (size_t i = 0; i < config_row_count; i++) {
		const struct config_row *row = &config_rows[i];

		jw_obj(w);
		jw_kstr(w, "key", row->key);
		jw_kstr(w, "type", config_type_name(row->type));
		jw_kstr(w, "default", row->fallback);
		jw_kstr(w, "help", row->help);
		jw_kstr(w, "test", row->test);
		jw_kbool(w, "restart", row->restart);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}
