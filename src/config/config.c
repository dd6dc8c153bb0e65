// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/report.h"
#include "config/table.h"
#include <arpa/inet.h>
#include <stdio.h>

#define KEY_LEN 256
#define FILE_MAX (1024 * 1024)

/* Where a key was given, by row; line 0: not in a file. */
struct config_place {
	unsigned line, column;
	bool given; /* by a file or an override */
};

/* Line 0 for a key of an override. */
static void remember(struct config *c, const struct config_row *row, unsigned line, unsigned column)
{
	if (c->places == NULL)
		c->places = mem_alloc(config_row_count * sizeof(*c->places));
	c->places[row - config_rows] = (struct config_place){line, column, true};
}

static struct strv *list_of(const struct config_row *row, struct config *c)
{
	return (struct strv *)(void *)((char *)c + row->offset);
}

/* Removes a default path from its list when a list that the operator gave has it too, because some
 * lists must not share a path (check_view). */
static void yield_defaults(struct config *c)
{
	const struct config_row *const rows[] = {
		config_row_find("filesystem.monitored_paths"),
		config_row_find("filesystem.read_only_passthrough_paths"),
		config_row_find("filesystem.passthrough_paths")};

	for (size_t i = 0; c->places != NULL && i < ARRAY_LEN(rows); i++) {
		struct strv all = {0}, *list = list_of(rows[i], c);
		struct config_problem p;

		if (c->places[rows[i] - config_rows].given)
			continue;
		ensure(config_value_parse(rows[i], rows[i]->fallback, c, &p)); /* it was before */
		strv_copy(&all, list);
		strv_done(list);
		for (size_t k = 0; k < all.n; k++) {
			bool taken = false;

			for (size_t j = 0; j < ARRAY_LEN(rows); j++)
				taken |= c->places[rows[j] - config_rows].given &&
					 strv_has(list_of(rows[j], c), all.v[k]);
			if (!taken || strcmp(all.v[k], "/workspace") == 0)
				strv_add(list, all.v[k]);
		}
		strv_done(&all);
	}
}

static void take_value(struct report *r, struct config *c, const struct config_row *row,
		       const char *key, const struct yaml_item *item)
{
	struct config_problem p;

	if (c->places[row - config_rows].given)
		report_add(r, item->key_line, item->key_column,
			   "'%s' is another name of a key that was given: give one of them", key);
	remember(c, row, item->value->line, item->value->column);
	if (!config_value_read(row, item->value, c, &p))
		report_add(r, p.at->line, p.at->column, "%s: %s", row->key, p.text);
}

/* A known key in the wrong place is the best suggestion, else the nearest of this place. */
static void report_key(struct report *r, const char *prefix, const char *key,
		       const struct yaml_item *item)
{
	const char *near = NULL;
	struct strv words = {0};

	for (size_t i = 0; near == NULL && i < config_row_count; i++)
		if (strcmp(strrchr(config_rows[i].key, '.') + 1, item->key) == 0)
			near = config_rows[i].key;
	config_row_words(prefix, &words);
	if (near == NULL)
		near = yaml_suggest(item->key, (const char *const *)words.v);
	report_unknown(r, item, key, near);
	strv_done(&words);
}

static void walk_map(struct report *r, struct config *c, const char *prefix, const struct yaml *map)
{
	for (size_t i = 0; i < map->n; i++) { /* an empty map has no items at all */
		const struct yaml_item *item = &map->item[i];
		const bool dotted = strchr(item->key, '.') != NULL;
		const struct yaml *value = item->value, *enabled = yaml_get(value, "enabled");
		const struct config_row *row;
		char key[KEY_LEN];

		snprintf(key, sizeof(key), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
			 item->key);
		row = config_row_find(key);
		if (row != NULL && !dotted)
			take_value(r, c, row, key, item);
		else if (row != NULL)
			report_add(r, item->key_line, item->key_column,
				   "'%s' must be written as keys below each other, without dots",
				   key);
		else if (config_row_later(key) &&
			 (enabled == NULL || enabled->kind != YAML_SCALAR || enabled->quoted ||
			  strcmp(enabled->text, "false") != 0))
			report_add(r, item->key_line, item->key_column,
				   "'%s' is not available in this version", key);
		else if (config_row_later(key))
			; /* `tls: {enabled: false}` asks for nothing */
		else if (dotted || item->key[0] == '\0' || !config_row_section(key))
			report_key(r, prefix, key, item);
		else if (value->kind == YAML_MAP)
			walk_map(r, c, key, value);
		/* all keys of a section may be commented out */
		else if (value->kind != YAML_SCALAR || value->quoted || value->text[0] != '\0')
			report_add(r, value->line, value->column, "%s: must be a section of keys",
				   key);
	}
}

static void report_twice(const struct yaml_item *item, void *arg)
{
	report_add(arg, item->key_line, item->key_column, YAML_TWICE, item->key);
}

int config_parse(const char *name, const char *text, size_t len, struct config *c,
		 struct buf *report, struct err *err)
{
	struct report r = {name, report, err, 0};
	struct err why = {0};
	struct config unused = {0};
	struct config *const to[] = {&unused, c};
	struct yaml *root;
	const struct yaml_twice twice = {report_twice, &r};
	int rc = yaml_parse(name, text, len, &twice, &root, &why);

	if (rc < 0) {
		if (report != NULL)
			buf_addf(report, "%s\n", why.message);
		return r.count > 0 ? -E_BAD_REQUEST
				   : err_set(err, why.code, name, "%s", why.message);
	}
	/* The first time only to find the problems: a wrong file changes nothing. */
	for (size_t i = 0; i < ARRAY_LEN(to) && (i == 0 || r.count == 0); i++) {
		free(to[i]->places);
		to[i]->places = mem_alloc(config_row_count * sizeof(*to[i]->places));
		if (root->kind == YAML_MAP)
			walk_map(&r, to[i], "", root);
		else
			report_add(&r, root->line, root->column, "must be sections of keys");
	}
	config_done(&unused);
	rc = report_done(&r);
	if (rc == 0) {
		yield_defaults(c);
		free(c->file);
		c->file = mem_strdup(name);
	}
	yaml_free(root);
	return rc;
}

int config_override(const char *assignment, struct config *c, struct err *err)
{
	const size_t len = strcspn(assignment, "=");
	cleanup_free char *key = mem_strndup(assignment, len);
	const struct config_row *row = config_row_find(key);
	struct config_problem p;

	if (assignment[len] == '\0')
		return err_set(err, E_BAD_REQUEST, key, "'%.100s' is not KEY=VALUE", key);
	if (row == NULL && config_row_later(key))
		return err_set(err, E_BAD_REQUEST, key, "'%s' is not available in this version",
			       key);
	if (row == NULL) {
		cleanup_free const char **known =
			mem_alloc((config_row_count + 1) * sizeof(*known));
		const char *near;

		for (size_t i = 0; i < config_row_count; i++)
			known[i] = config_rows[i].key;
		near = yaml_suggest(key, known);
		return err_set(err, E_BAD_REQUEST, key, "unknown key '%.100s'%s%s%s", key,
			       near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
			       near != NULL ? "'?)" : "");
	}
	if (!config_value_parse(row, assignment + len + 1, c, &p))
		return err_set(err, E_BAD_REQUEST, key, "%s: %s", key, p.text);
	remember(c, row, 0, 0);
	yield_defaults(c);
	return 0;
}

int config_env(struct strv *overrides, struct err *err)
{
	static const struct {
		const char *name, *key;
	} row[] = {
		{"AGENTSH_LOG_LEVEL", "logging.level"},
		{"AGENTSH_HTTP_ADDR", "server.http_addr"},
		{"AGENTSH_DATA_DIR", "sessions.base_dir"},
	};
	const char *grpc = getenv("AGENTSH_GRPC_ADDR");

	if (grpc != NULL && grpc[0] != '\0')
		return err_set(err, E_BAD_REQUEST, "AGENTSH_GRPC_ADDR",
			       "AGENTSH_GRPC_ADDR: gRPC is not available in this version");
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const char *value = getenv(row[i].name);
		cleanup_free char *assignment = NULL;

		if (value == NULL || value[0] == '\0')
			continue;
		assignment = mem_printf("%s=%s", row[i].key, value);
		strv_add(overrides, assignment);
	}
	return 0;
}

int config_load(const char *path, struct config *c, struct buf *report, struct err *err)
{
	cleanup_buf struct buf text = {0};
	struct strv overrides = {0};
	int r = path != NULL ? fdio_load_path(path, FILE_MAX, &text, err) : 0;

	if (r == 0 && path != NULL)
		r = config_parse(path, text.data != NULL ? text.data : "", text.len, c, report,
				 err);
	if (r == 0)
		r = config_env(&overrides, err);
	for (size_t i = 0; r == 0 && i < overrides.n; i++)
		r = config_override(overrides.v[i], c, err);
	strv_done(&overrides);
	return r;
}

bool config_is_loopback(const char *host)
{
	unsigned char bytes[16];

	if (inet_pton(AF_INET, host, bytes) == 1)
		return bytes[0] == 127;
	return inet_pton(AF_INET6, host, bytes) == 1 &&
	       memcmp(bytes, &in6addr_loopback, sizeof(bytes)) == 0;
}

static const char *check_http(const struct config *c)
{
	char host[INET6_ADDRSTRLEN];
	unsigned port;

	if (c->http_addr[0] == '\0')
		return NULL;
	if (config_address_split(c->http_addr, host, sizeof(host), &port) < 0 ||
	    !config_is_loopback(host))
		return "server.http_addr: only a loopback address is allowed, TLS does not exist "
		       "yet";
	if (strcmp(c->auth_type, "api_key") == 0 && c->api_keys_file[0] == '\0')
		return "server.auth.api_keys_file: is needed by server.http_addr, "
		       "unless server.auth.type is 'none'";
	if (strcmp(c->auth_type, "none") != 0)
		return NULL;
	if (c->system && c->none_as == 0)
		return "server.auth.none_as: must name a user id other than 0, because "
		       "server.auth.type none lets every local user ask at server.http_addr";
	if (c->system && c->none_as == c->api_uid)
		return "server.auth.none_as: must not be server.api_uid, which talks to the "
		       "network";
	if (!c->system && c->none_as != 0 && c->none_as != geteuid())
		return "server.auth.none_as: a normal user's server speaks for that user only";
	return NULL;
}

static const char *check_numbers(const struct config *c)
{
	const struct uid_range *r = &c->session_uids;

	if (r->first == r->last && r->first == c->api_uid)
		return "sandbox.session_uids: must not be server.api_uid, which talks to the "
		       "network";
	if (c->output_command_quota > c->output_quota)
		return "output.command_quota: must not be larger than output.quota";
	if (c->open_files > c->open_files_max)
		return "sandbox.resource_limits.open_files: must not be larger than "
		       "sandbox.resource_limits.open_files_max";
	return c->ring_bytes % 4096 != 0 ? "events.ring_bytes: must be a multiple of 4096" : NULL;
}

/* The path must not be another one of the API. */
static const char *check_metrics(const struct config *c)
{
	static const char *const taken[] = {"/", "/health", "/ready", "/openapi.json"};

	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (strcmp(c->metrics_path, taken[i]) == 0)
			return "metrics.path: this path has another meaning; choose another one";
	if (path_within(c->metrics_path, "/api"))
		return "metrics.path: must not be below /api";
	if (strpbrk(c->metrics_path, "?#% ") != NULL)
		return "metrics.path: must be a plain path";
	return NULL;
}

/* The workspace may be in several lists: it can be watched and read-only. */
static bool share_one(const struct strv *a, const struct strv *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++)
			if (strcmp(a->v[i], b->v[j]) == 0 && strcmp(a->v[i], "/workspace") != 0)
				return true;
	return false;
}

static const char *check_view(const struct config *c)
{
	if (share_one(&c->monitored_paths, &c->read_only_paths) ||
	    share_one(&c->passthrough_paths, &c->read_only_paths))
		return "filesystem.read_only_passthrough_paths: has a path that another list makes "
		       "writable";
	if (share_one(&c->monitored_paths, &c->passthrough_paths))
		return "filesystem.passthrough_paths: has a path of filesystem.monitored_paths";
	return NULL;
}

/* Names the place of the first key of the problem that a file gave: of two settings that do not
 * fit, one may be a default. */
int config_wrong(const struct config *c, const char *problem, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
	cleanup_free char *subject = mem_strndup(problem, strcspn(problem, ":"));

	for (const char *s = problem; c->places != NULL && *s != '\0'; s += strcspn(s, letters)) {
		const size_t n = strspn(s, letters);
		cleanup_free char *key = mem_strndup(s, n);
		const struct config_row *row = config_row_find(key);
		const struct config_place *at = row != NULL ? &c->places[row - config_rows] : NULL;

		if (at != NULL && at->line != 0)
			return err_set(err, E_BAD_REQUEST, subject, "%s:%u:%u: %s", c->file,
				       at->line, at->column, problem);
		s += n;
	}
	return err_set(err, E_BAD_REQUEST, subject, "%s", problem);
}

bool config_fuse(const struct config *c)
{
	return strcmp(c->monitoring_mode, "fuse") == 0;
}

static bool is_hybrid(const struct config *c)
{
	return strcmp(c->monitoring_mode, "hybrid") == 0;
}

bool config_serves(const struct config *c)
{
	return config_fuse(c) || is_hybrid(c);
}

bool config_records(const struct config *c)
{
	return config_serves(c) || strcmp(c->monitoring_mode, "ebpf") == 0;
}

void config_watched_paths(const struct config *c, struct strv *recorded, struct strv *enforced)
{
	if (is_hybrid(c)) {
		strv_copy(recorded, &c->ebpf_monitor);
		strv_copy(enforced, &c->fuse_enforce);
	} else if (!config_fuse(c) && config_records(c)) {
		strv_copy(recorded, &c->monitored_paths);
		strv_add_new(recorded, "/workspace");
	}
}

const char *config_needs_bpf(const struct config *c)
{
	return strcmp(c->bpf, "required") == 0	      ? "sandbox.bpf is 'required'"
	       : is_hybrid(c)			      ? "monitoring.mode is 'hybrid'"
	       : config_records(c) && !config_fuse(c) ? "monitoring.mode is 'ebpf'"
						      : NULL;
}

static const char *check_records(const struct config *c)
{
	if (strcmp(c->bpf, "off") == 0 && config_needs_bpf(c) != NULL)
		return "monitoring.mode: ebpf and hybrid need BPF, and sandbox.bpf is off; set "
		       "sandbox.bpf to auto, or monitoring.mode to fuse";
	if (is_hybrid(c) && c->fuse_enforce.n == 0)
		return "monitoring.hybrid.fuse_enforce: is empty; list the directories that a file "
		       "server decides, or set monitoring.mode to ebpf";
	for (size_t i = 0; is_hybrid(c) && i < c->fuse_enforce.n; i++)
		if (!path_within(c->fuse_enforce.v[i], "/workspace") &&
		    !strv_has(&c->monitored_paths, c->fuse_enforce.v[i]))
			return "monitoring.hybrid.fuse_enforce: a path must be in /workspace, or "
			       "stand in filesystem.monitored_paths, too";
	return NULL;
}

void config_listed_paths(const struct config *c, struct strv *places, struct strv *closed)
{
	const struct {
		const struct strv *paths;
		struct strv *to;
	} lists[] = {{&c->passthrough_paths, places}, {&c->monitored_paths, places},
		     {&c->read_only_paths, places},   {&c->read_only_paths, closed},
		     {&c->blocked_paths, closed},     {&c->fuse_enforce, closed}};

	for (size_t i = 0; i < ARRAY_LEN(lists) - !is_hybrid(c); i++)
		for (size_t k = 0; k < lists[i].paths->n; k++)
			strv_add_new(lists[i].to, lists[i].paths->v[k]);
}

int config_check(const struct config *c, struct err *err)
{
	static const char *(*const checks[])(const struct config *) = {
		check_http, check_numbers, check_metrics, check_view, check_records};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		const char *problem = checks[i](c);

		if (problem != NULL)
			return config_wrong(c, problem, err);
	}
	for (unsigned i = 0; i < LIMITS; i++)
		if (limits_has(&c->limits, i) &&
		    limit_unenforceable(i, config_records(c)) != NULL) {
			cleanup_free char *problem =
				mem_printf("sandbox.resource_limits.%s: %s", limit_rows[i].name,
					   limit_unenforceable(i, config_records(c)));

			return config_wrong(c, problem, err);
		}
	return 0;
}

static char *text_of(const struct config_row *row, const struct config *c)
{
	const void *at = (const char *)c + row->offset;

	if (row->type == CONFIG_UID)
		return mem_printf("%u", *(const uint32_t *)at);
	ensure(row->type == CONFIG_PATH || row->type == CONFIG_ADDRESS ||
	       row->type == CONFIG_CHOICE);
	return mem_strdup(*(char *const *)at);
}

void config_keep(const struct config *was, struct config *is, struct strv *kept)
{
	for (size_t i = 0; i < config_row_count; i++) {
		const struct config_row *row = &config_rows[i];
		cleanup_free char *before = row->restart ? text_of(row, was) : NULL;
		cleanup_free char *after = row->restart ? text_of(row, is) : NULL;
		cleanup_free char *assignment = NULL;
		struct config_problem p;

		if (before == NULL || strcmp(before, after) == 0)
			continue;
		assignment = mem_printf("%s=%s", row->key, before);
		strv_add(kept, assignment);
		ensure(config_value_parse(row, before, is, &p)); /* it was read before */
		remember(is, row, 0, 0);
	}
}

void config_done(struct config *c)
{
	for (size_t i = 0; i < config_row_count; i++)
		config_value_done(&config_rows[i], c);
	free(c->file);
	free(c->places);
	*c = (struct config){0};
}

char *config_runtime_dir(const struct config *c)
{
	const char *slash = strrchr(c->unix_socket, '/');

	ensure(slash != NULL);
	return slash == c->unix_socket
		       ? mem_strdup("/")
		       : mem_strndup(c->unix_socket, (size_t)(slash - c->unix_socket));
}
