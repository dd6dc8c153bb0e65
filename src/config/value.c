// SPDX-License-Identifier: Apache-2.0
/* Values of settings. Overrides and defaults are turned into the tree that a file would have given,
 * so that each type has one reader. */
#include "base/mem.h"
#include "base/path.h"
#include "config/table.h"
#include "model/request.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#define SHOWN 64     /* bytes of a wrong value in a message */
#define LIST_LEN 120 /* bytes of the choices there */
#define ITEMS_MAX 1024
#define ENV_LEN (64 * 1024)
#define VIEW_LEN (32 * 1024)
#define PATH_LEN 4095

typedef bool read_fn(const struct config_row *row, const struct yaml *v, void *at,
		     struct config_problem *p);

__attribute__((format(printf, 3, 4))) static bool wrong(struct config_problem *p,
							const struct yaml *at, const char *fmt, ...)
{
	va_list ap;

	p->at = at;
	va_start(ap, fmt);
	vsnprintf(p->text, sizeof(p->text), fmt, ap);
	va_end(ap);
	return false;
}

static bool empty(const struct yaml *v)
{
	return v->kind == YAML_SCALAR && !v->quoted &&
	       (v->text[0] == '\0' || strcmp(v->text, "~") == 0 || strcmp(v->text, "null") == 0);
}

/* Whether a text is UTF-8 without control characters, line breaks and non-characters: a file and a
 * log can show it, and it can be read again. */
static bool printable(const char *s)
{
	static const char *const never[] = {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbf\xbe",
					    "\xef\xbf\xbf"};

	for (const unsigned char *c = (const unsigned char *)s; *c != '\0'; c++)
		if (*c < ' ' || *c == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (strstr(s, never[i]) != NULL)
			return false;
	return json_is_text(s, strlen(s));
}

/* The text of a plain or quoted scalar; NULL if the value is not one. */
static const char *scalar(const struct yaml *v, const char *what, struct config_problem *p)
{
	if (v->kind == YAML_SCALAR && !empty(v)) {
		if (printable(v->text))
			return v->text;
		wrong(p, v, "must be printable text on one line");
		return NULL;
	}
	wrong(p, v, empty(v) ? "has no value, must be %s" : "must be %s", what);
	return NULL;
}

static void store_str(void *at, const char *text)
{
	if (at == NULL)
		return;
	free(*(char **)at);
	*(char **)at = mem_strdup(text);
}

static bool is_choice(const struct config_row *row, const char *text)
{
	for (const char *const *c = row->choices; c != NULL && *c != NULL; c++)
		if (strcmp(*c, text) == 0)
			return true;
	return false;
}

static bool read_path(const struct config_row *row, const struct yaml *v, void *at,
		      struct config_problem *p)
{
	const char *text = scalar(v, "an absolute path", p);
	const size_t len = text != NULL ? strlen(text) : 0;

	if (text == NULL)
		return false;
	if (len > (uint64_t)row->max)
		return wrong(p, v, "must have at most %" PRId64 " bytes, has %zu", row->max, len);
	if (text[0] != '/' && !is_choice(row, text) && !(len == 0 && row->min == 0))
		return wrong(p, v, "must be an absolute path, is '%.*s'", SHOWN, text);
	store_str(at, text);
	return true;
}

int config_address_split(const char *s, char *host, size_t n, unsigned *port)
{
	const bool six = s[0] == '[';
	const char *end = six ? strstr(s, "]:") : strchr(s, ':');
	const size_t len = end != NULL ? (size_t)(end - s) - six : 0;
	unsigned char address[sizeof(struct in6_addr)];
	const char *digits;
	char *rest;
	unsigned long v;

	if (end == NULL || len >= n)
		return -1;
	memcpy(host, s + six, len);
	host[len] = '\0';
	digits = end + 1 + six;
	v = strtoul(digits, &rest, 10);
	/* Port 0 lets the kernel choose; the ready line tells which. */
	if (digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && digits[1] != '\0') ||
	    *rest != '\0' || v > 65535 || inet_pton(six ? AF_INET6 : AF_INET, host, address) != 1)
		return -1;
	*port = (unsigned)v;
	return 0;
}

static bool read_address(const struct config_row *row, const struct yaml *v, void *at,
			 struct config_problem *p)
{
	static const char what[] = "an IP address and a port, such as 127.0.0.1:8080";
	const char *text = scalar(v, what, p);
	char host[INET6_ADDRSTRLEN];
	unsigned port;

	if (text == NULL)
		return false;
	if (text[0] != '\0' && config_address_split(text, host, sizeof(host), &port) < 0)
		return wrong(p, v, "must be %s, is '%.*s'", what, SHOWN, text);
	store_str(at, text);
	return true;
}

static bool check_choice(const struct config_row *row, const struct yaml *v,
			 struct config_problem *p)
{
	const char *text = scalar(v, "a word", p);
	const char *near;
	cleanup_buf struct buf list = {0};

	if (text == NULL)
		return false;
	if (is_choice(row, text))
		return true;
	if (config_value_later(row, text))
		return wrong(p, v, "'%s' is not available in this version", text);
	for (const char *const *c = row->choices; *c != NULL; c++)
		buf_addf(&list, "%s%s", c == row->choices ? "" : c[1] != NULL ? ", " : " or ", *c);
	if (list.len > LIST_LEN) {
		while (list.data[--list.len] != ',' || list.len > LIST_LEN)
			;
		list.data[list.len] = '\0';
		buf_adds(&list, ", …");
	}
	near = yaml_suggest(text, row->choices);
	if (near != NULL)
		return wrong(p, v, "unknown value '%.*s' (did you mean '%s'?)", SHOWN, text, near);
	return wrong(p, v, "must be %s, is '%.*s'", list.data, SHOWN, text);
}

static bool read_choice(const struct config_row *row, const struct yaml *v, void *at,
			struct config_problem *p)
{
	if (!check_choice(row, v, p))
		return false;
	store_str(at, v->text);
	return true;
}

static bool read_name(const struct config_row *row, const struct yaml *v, void *at,
		      struct config_problem *p)
{
	const char *text = scalar(v, "a name", p);

	if (text == NULL)
		return false;
	if (!id_valid(text))
		return wrong(p, v, "must be a name of letters, digits, '.', '_' and '-', is '%.*s'",
			     SHOWN, text);
	store_str(at, text);
	return true;
}

/* Digits only, without a leading zero (other readers of YAML read octal then); -1 if the value is
 * not such a number. */
static int64_t number(const struct yaml *v)
{
	int64_t n = 0;

	if (v->kind != YAML_SCALAR || v->quoted || v->text[0] == '\0' ||
	    (v->text[0] == '0' && v->text[1] != '\0'))
		return -1;
	for (const char *s = v->text; *s != '\0'; s++)
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *s - '0', &n))
			return -1;
	return n;
}

static bool check_number(const struct config_row *row, const struct yaml *v, int64_t *n,
			 struct config_problem *p)
{
	const char *shown = v->kind != YAML_SCALAR ? "no number" : v->quoted ? "quoted" : v->text;

	*n = number(v);
	if (*n >= row->min && *n <= row->max)
		return true;
	return wrong(p, v, "must be a whole number from %" PRId64 " to %" PRId64 ", is '%.*s'",
		     row->min, row->max, SHOWN, shown);
}

static bool read_int(const struct config_row *row, const struct yaml *v, void *at,
		     struct config_problem *p)
{
	int64_t n;

	if (!check_number(row, v, &n, p))
		return false;
	if (at != NULL)
		*(int64_t *)at = n;
	return true;
}

static bool read_share(const struct config_row *row, const struct yaml *v, void *at,
		       struct config_problem *p)
{
	int64_t share;

	if (v->kind != YAML_SCALAR || !json_share_parse(v->text, &share))
		return read_int(row, v, at, p);
	if (at != NULL)
		*(int64_t *)at = share;
	return true;
}

static bool read_uid(const struct config_row *row, const struct yaml *v, void *at,
		     struct config_problem *p)
{
	int64_t n;

	if (!check_number(row, v, &n, p))
		return false;
	if (at != NULL)
		*(uint32_t *)at = (uint32_t)n;
	return true;
}

/* One number is a range of one. */
static bool read_uids(const struct config_row *row, const struct yaml *v, void *at,
		      struct config_problem *p)
{
	const char *text = scalar(v, "user ids such as 100000-165535", p);
	const size_t len = text != NULL ? strcspn(text, "-") : 0;
	struct yaml part = {.kind = YAML_SCALAR};
	int64_t first, last;

	if (text == NULL)
		return false;
	part.text = mem_strndup(text, len);
	first = number(&part);
	free(part.text);
	part.text = mem_strdup(text[len] == '-' ? text + len + 1 : text);
	last = number(&part);
	free(part.text);
	if (first < row->min || last > row->max || first > last)
		return wrong(p, v,
			     "must be A-B, user ids from %" PRId64 " to %" PRId64 ", is '%.*s'",
			     row->min, row->max, SHOWN, text);
	if (at != NULL)
		*(struct uid_range *)at = (struct uid_range){(uint32_t)first, (uint32_t)last};
	return true;
}

static bool read_bool(const struct config_row *row, const struct yaml *v, void *at,
		      struct config_problem *p)
{
	const char *text = scalar(v, "true or false", p);

	if (text == NULL)
		return false;
	if (v->quoted || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
		return wrong(p, v, "must be true or false, is '%.*s'", SHOWN, text);
	if (at != NULL)
		*(bool *)at = text[0] == 't';
	return true;
}

static bool read_duration(const struct config_row *row, const struct yaml *v, void *at,
			  struct config_problem *p)
{
	const char *text = scalar(v, "a duration such as 90s or 5m", p);
	cleanup_buf struct buf min = {0}, max = {0};
	int64_t ms;

	if (text == NULL)
		return false;
	if (json_duration_parse(text, &ms, NULL) < 0)
		return wrong(p, v, "must be a duration such as 90s or 5m, is '%.*s'", SHOWN, text);
	if (ms < row->min || ms > row->max) {
		json_duration_format(&min, row->min);
		json_duration_format(&max, row->max);
		return wrong(p, v, "must be from %s to %s, is '%.*s'", min.data, max.data, SHOWN,
			     text);
	}
	if (at != NULL)
		*(int64_t *)at = ms;
	return true;
}

static bool check_path_item(const struct config_row *row, const struct yaml *v,
			    struct config_problem *p)
{
	static const struct config_row any = {.min = 1, .max = PATH_LEN};

	return read_path(&any, v, NULL, p);
}

static bool check_view_item(const struct config_row *row, const struct yaml *v,
			    struct config_problem *p)
{
	if (!check_path_item(row, v, p))
		return false;
	/* A path must have one spelling. */
	for (const char *s = v->text; *s != '\0'; s += 1 + strcspn(s + 1, "/")) {
		const size_t n = strcspn(s + 1, "/");

		if (n == 0 || (n <= 2 && strncmp(s + 1, "..", n) == 0))
			return wrong(p, v,
				     "must be a plain path below /, without '.', '..' or empty "
				     "parts, is '%.*s'",
				     SHOWN, v->text);
	}
	for (const char *const *c = row->choices; *c != NULL; c++)
		if (path_overlap(v->text, *c))
			return wrong(p, v, "must keep apart from %s, is '%.*s'", *c, SHOWN,
				     v->text);
	return true;
}

static bool check_name_item(const struct config_row *row, const struct yaml *v,
			    struct config_problem *p)
{
	const char *text = scalar(v, "the name of a variable", p);
	size_t len;

	if (text == NULL)
		return false;
	len = strlen(text);
	if (request_env_dangerous(text, len))
		return wrong(p, v, "'%.*s' never comes into a session", SHOWN, text);
	if (len > 0 && text[len - 1] == '*')
		len--;
	if (!request_env_name(text, len))
		return wrong(p, v, "not the name of a variable: '%.*s'", SHOWN, text);
	return true;
}

static bool check_our_item(const struct config_row *row, const struct yaml *v,
			   struct config_problem *p)
{
	return read_name(row, v, NULL, p);
}

typedef bool item_fn(const struct config_row *row, const struct yaml *v, struct config_problem *p);

static bool read_items(const struct config_row *row, const struct yaml *v, void *at,
		       struct config_problem *p)
{
	static item_fn *const checks[CONFIG_TYPES] = {[CONFIG_PATHS] = check_path_item,
						      [CONFIG_VIEW] = check_view_item,
						      [CONFIG_CHOICES] = check_choice,
						      [CONFIG_NAMES] = check_name_item,
						      [CONFIG_OURS] = check_our_item};
	size_t bytes = 0;

	if (v->kind != YAML_LIST)
		return wrong(p, v, "must be a list");
	if (v->n > ITEMS_MAX)
		return wrong(p, v, "must have at most %d items", ITEMS_MAX);
	for (size_t i = 0; i < v->n; i++) {
		if (!checks[row->type](row, v->item[i].value, p))
			return false;
		bytes += strlen(v->item[i].value->text) + 1;
	}
	if (row->type == CONFIG_VIEW && bytes > VIEW_LEN)
		return wrong(p, v, "must have at most %d bytes in all", VIEW_LEN);
	if (at == NULL)
		return true;
	strv_done(at);
	for (size_t i = 0; i < v->n; i++)
		strv_add(at, v->item[i].value->text);
	return true;
}

static bool read_env(const struct config_row *row, const struct yaml *v, void *at,
		     struct config_problem *p)
{
	size_t bytes = 0;

	if (v->kind != YAML_MAP)
		return wrong(p, v, "must be names with values");
	for (size_t i = 0; i < v->n; i++) {
		const struct yaml_item *item = &v->item[i];
		const size_t len = strlen(item->key);

		if (scalar(item->value, "text", p) == NULL)
			return false;
		if (request_env_dangerous(item->key, len))
			return wrong(p, item->value, "'%.*s' never comes into a session", SHOWN,
				     item->key);
		if (!request_env_name(item->key, len))
			return wrong(p, item->value, "not the name of a variable: '%.*s'", SHOWN,
				     item->key);
		bytes += len + 1 + strlen(item->value->text);
	}
	if (bytes > ENV_LEN)
		return wrong(p, v, "must have at most %d bytes in all", ENV_LEN);
	if (at == NULL)
		return true;
	strv_done(at);
	for (size_t i = 0; i < v->n; i++)
		strv_env_set(at, v->item[i].key, v->item[i].value->text);
	return true;
}

static const struct {
	const char *name;
	read_fn *read;
} types[CONFIG_TYPES] = {
	[CONFIG_PATH] = {"path", read_path},
	[CONFIG_ADDRESS] = {"address", read_address},
	[CONFIG_CHOICE] = {"word", read_choice},
	[CONFIG_NAME] = {"name", read_name},
	[CONFIG_INT] = {"number", read_int},
	[CONFIG_SHARE] = {"number or share", read_share},
	[CONFIG_UID] = {"user id", read_uid},
	[CONFIG_UIDS] = {"range of user ids", read_uids},
	[CONFIG_BOOL] = {"true or false", read_bool},
	[CONFIG_DURATION] = {"duration", read_duration},
	[CONFIG_PATHS] = {"list of paths", read_items},
	[CONFIG_VIEW] = {"list of paths", read_items},
	[CONFIG_CHOICES] = {"list of words", read_items},
	[CONFIG_NAMES] = {"list of names", read_items},
	[CONFIG_OURS] = {"list of names", read_items},
	[CONFIG_ENV] = {"names with values", read_env},
};

const char *config_type_name(enum config_type t)
{
	return types[t].name;
}

bool config_value_read(const struct config_row *row, const struct yaml *value, struct config *c,
		       struct config_problem *p)
{
	return types[row->type].read(row, value, c != NULL ? (char *)c + row->offset : NULL, p);
}

static bool is_list(enum config_type t)
{
	return t == CONFIG_PATHS || t == CONFIG_VIEW || t == CONFIG_CHOICES || t == CONFIG_NAMES ||
	       t == CONFIG_OURS;
}

static struct yaml *new_scalar(const char *text, size_t len)
{
	struct yaml *v = mem_new(struct yaml);

	/* A text that ends with the '=' gives an empty value, not an absent one. */
	*v = (struct yaml){.kind = YAML_SCALAR, .text = mem_strndup(text, len), .quoted = len == 0};
	return v;
}

/* The tree of "a,b" or "A=1,B=2". */
static struct yaml *new_items(const char *text, bool pairs)
{
	struct yaml *v = mem_new(struct yaml);

	*v = (struct yaml){.kind = pairs ? YAML_MAP : YAML_LIST};
	while (*text != '\0') {
		const size_t len = strcspn(text, ",");
		const size_t name = pairs ? strcspn(text, "=,") : 0;
		const size_t skip = pairs && name < len ? name + 1 : name;
		struct yaml *value = new_scalar(text + skip, len - skip);

		if (pairs && name == len)
			value->quoted = false;
		v->item = mem_resize(v->item, v->n + 1, sizeof(*v->item));
		v->item[v->n++] = (struct yaml_item){.key = pairs ? mem_strndup(text, name) : NULL,
						     .value = value};
		text += len + (text[len] == ',');
	}
	return v;
}

bool config_value_parse(const struct config_row *row, const char *text, struct config *c,
			struct config_problem *p)
{
	struct yaml *v = is_list(row->type) || row->type == CONFIG_ENV
				 ? new_items(text, row->type == CONFIG_ENV)
				 : new_scalar(text, strlen(text));
	const bool good = config_value_read(row, v, c, p);

	p->at = NULL;
	yaml_free(v);
	return good;
}

void config_value_format(const struct config_row *row, const struct config *c, struct jw *w)
{
	const void *at = (const char *)c + row->offset;
	const struct strv *list = at;

	switch (row->type) {
	case CONFIG_PATH:
	case CONFIG_ADDRESS:
	case CONFIG_CHOICE:
	case CONFIG_NAME:
		jw_str(w, *(char *const *)at);
		break;
	case CONFIG_INT:
	case CONFIG_SHARE:
		jw_share(w, *(const int64_t *)at);
		break;
	case CONFIG_UID:
		jw_uint(w, *(const uint32_t *)at);
		break;
	case CONFIG_UIDS: {
		const struct uid_range *r = at;
		char text[32];

		snprintf(text, sizeof(text), "%u-%u", r->first, r->last);
		jw_str(w, text);
		break;
	}
	case CONFIG_BOOL:
		jw_bool(w, *(const bool *)at);
		break;
	case CONFIG_DURATION:
		jw_duration_ms(w, *(const int64_t *)at);
		break;
	case CONFIG_PATHS:
	case CONFIG_VIEW:
	case CONFIG_CHOICES:
	case CONFIG_NAMES:
	case CONFIG_OURS:
		jw_arr(w);
		for (size_t i = 0; i < list->n; i++)
			jw_str(w, list->v[i]);
		jw_arr_end(w);
		break;
	case CONFIG_ENV:
		jw_obj(w);
		for (size_t i = 0; i < list->n; i++) {
			const size_t len = strcspn(list->v[i], "=");
			cleanup_free char *name = mem_strndup(list->v[i], len);

			jw_kstr(w, name, list->v[i] + len + 1);
		}
		jw_obj_end(w);
		break;
	case CONFIG_TYPES:
		break;
	}
}

void config_value_done(const struct config_row *row, struct config *c)
{
	void *at = (char *)c + row->offset;

	if (row->type == CONFIG_PATH || row->type == CONFIG_ADDRESS || row->type == CONFIG_CHOICE ||
	    row->type == CONFIG_NAME)
		free(*(char **)at);
	else if (is_list(row->type) || row->type == CONFIG_ENV)
		strv_done(at);
}
