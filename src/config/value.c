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

/* What a scalar means, by the storage of its type. */
struct scalar {
	int64_t number;
	struct uid_range range;
};
/* v is a printable scalar. */
typedef bool check_fn(const struct config_row *row, const struct yaml *v, struct scalar *out,
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

static bool is_choice(const struct config_row *row, const char *text)
{
	for (const char *const *c = row->choices; c != NULL && *c != NULL; c++)
		if (strcmp(*c, text) == 0)
			return true;
	return false;
}

static bool check_path(const struct config_row *row, const struct yaml *v, struct scalar *out,
		       struct config_problem *p)
{
	const size_t len = strlen(v->text);

	if (len > (uint64_t)row->max)
		return wrong(p, v, "must have at most %" PRId64 " bytes, has %zu", row->max, len);
	if (v->text[0] != '/' && !is_choice(row, v->text) && !(len == 0 && row->min == 0))
		return wrong(p, v, "must be an absolute path, is '%.*s'", SHOWN, v->text);
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
	/* Port 0 lets the kernel choose; the ready line has the number. */
	if (digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && digits[1] != '\0') ||
	    *rest != '\0' || v > 65535 || inet_pton(six ? AF_INET6 : AF_INET, host, address) != 1)
		return -1;
	*port = (unsigned)v;
	return 0;
}

#define ADDRESS "an IP address and a port, such as 127.0.0.1:8080"

static bool check_address(const struct config_row *row, const struct yaml *v, struct scalar *out,
			  struct config_problem *p)
{
	char host[INET6_ADDRSTRLEN];
	unsigned port;

	return v->text[0] == '\0' ||
	       config_address_split(v->text, host, sizeof(host), &port) == 0 ||
	       wrong(p, v, "must be " ADDRESS ", is '%.*s'", SHOWN, v->text);
}

static bool check_choice(const struct config_row *row, const struct yaml *v, struct scalar *out,
			 struct config_problem *p)
{
	const char *near = yaml_suggest(v->text, row->choices);
	cleanup_free char *pair = mem_printf("%s=%s", row->key, v->text);
	cleanup_buf struct buf list = {0};

	if (is_choice(row, v->text))
		return true;
	if (config_row_later(pair))
		return wrong(p, v, "'%s' is not available in this version", v->text);
	if (near != NULL)
		return wrong(p, v, "unknown value '%.*s' (did you mean '%s'?)", SHOWN, v->text,
			     near);
	for (const char *const *c = row->choices; *c != NULL; c++)
		buf_addf(&list, "%s%s", c == row->choices ? "" : c[1] != NULL ? ", " : " or ", *c);
	if (list.len > LIST_LEN) {
		while (list.data[--list.len] != ',' || list.len > LIST_LEN)
			;
		list.data[list.len] = '\0';
		buf_adds(&list, ", …");
	}
	return wrong(p, v, "must be %s, is '%.*s'", list.data, SHOWN, v->text);
}

static bool check_name(const struct config_row *row, const struct yaml *v, struct scalar *out,
		       struct config_problem *p)
{
	return id_valid(v->text) ||
	       wrong(p, v, "must be a name of letters, digits, '.', '_' and '-', is '%.*s'", SHOWN,
		     v->text);
}

/* Digits only, without a leading zero (other readers of YAML read octal then); -1 if the text is
 * not such a number. */
static int64_t number(const char *text, size_t len)
{
	int64_t n = 0;

	if (len == 0 || (text[0] == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++)
		if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, text[i] - '0', &n))
			return -1;
	return n;
}

static bool check_number(const struct config_row *row, const struct yaml *v, struct scalar *out,
			 struct config_problem *p)
{
	out->number = v->quoted ? -1 : number(v->text, strlen(v->text));
	return (out->number >= row->min && out->number <= row->max) ||
	       wrong(p, v, "must be a whole number from %" PRId64 " to %" PRId64 ", is '%.*s'",
		     row->min, row->max, SHOWN, v->quoted ? "quoted" : v->text);
}

static bool check_share(const struct config_row *row, const struct yaml *v, struct scalar *out,
			struct config_problem *p)
{
	return json_share_parse(v->text, &out->number) || check_number(row, v, out, p);
}

/* One number is a range of one. */
static bool check_uids(const struct config_row *row, const struct yaml *v, struct scalar *out,
		       struct config_problem *p)
{
	const size_t len = strcspn(v->text, "-");
	const char *end = v->text[len] == '-' ? v->text + len + 1 : v->text;
	const int64_t first = number(v->text, len), last = number(end, strlen(end));

	if (first < row->min || last > row->max || first > last)
		return wrong(p, v,
			     "must be A-B, user ids from %" PRId64 " to %" PRId64 ", is '%.*s'",
			     row->min, row->max, SHOWN, v->text);
	out->range = (struct uid_range){(uint32_t)first, (uint32_t)last};
	return true;
}

static bool check_bool(const struct config_row *row, const struct yaml *v, struct scalar *out,
		       struct config_problem *p)
{
	out->number = strcmp(v->text, "true") == 0;
	return (!v->quoted && (out->number != 0 || strcmp(v->text, "false") == 0)) ||
	       wrong(p, v, "must be true or false, is '%.*s'", SHOWN, v->text);
}

#define DURATION "a duration such as 90s or 5m"

static bool check_duration(const struct config_row *row, const struct yaml *v, struct scalar *out,
			   struct config_problem *p)
{
	cleanup_buf struct buf min = {0}, max = {0};

	if (json_duration_parse(v->text, &out->number, NULL) < 0)
		return wrong(p, v, "must be " DURATION ", is '%.*s'", SHOWN, v->text);
	if (out->number >= row->min && out->number <= row->max)
		return true;
	json_duration_format(&min, row->min);
	json_duration_format(&max, row->max);
	return wrong(p, v, "must be from %s to %s, is '%.*s'", min.data, max.data, SHOWN, v->text);
}

static bool check_path_item(const struct config_row *row, const struct yaml *v, struct scalar *out,
			    struct config_problem *p)
{
	static const struct config_row any = {.min = 1, .max = PATH_LEN};

	return check_path(&any, v, out, p);
}

/* What sessions have of their own, and never the machine's. */
static bool is_sessions_own(const struct config_row *row, const char *path)
{
	return row->max == 1 && (strcmp(path, "/dev") == 0 || strcmp(path, "/proc") == 0 ||
				 strcmp(path, "/sys") == 0);
}

static bool check_view_item(const struct config_row *row, const struct yaml *v, struct scalar *out,
			    struct config_problem *p)
{
	if (!check_path_item(row, v, out, p))
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
		if (path_overlap(v->text, *c) && !is_sessions_own(row, v->text))
			return wrong(p, v, "must keep apart from %s, is '%.*s'", *c, SHOWN,
				     v->text);
	return true;
}

/* The name of a variable; v is where a problem is reported. */
static bool check_variable(const char *name, size_t len, const struct yaml *v,
			   struct config_problem *p)
{
	if (request_env_dangerous(name, strlen(name)))
		return wrong(p, v, "'%.*s' never comes into a session", SHOWN, name);
	return request_env_name(name, len) ||
	       wrong(p, v, "not the name of a variable: '%.*s'", SHOWN, name);
}

static bool check_variable_item(const struct config_row *row, const struct yaml *v,
				struct scalar *out, struct config_problem *p)
{
	const size_t len = strlen(v->text);

	return check_variable(v->text, len - (len > 0 && v->text[len - 1] == '*'), v, p);
}

static bool check_pair(const struct yaml_item *item, struct config_problem *p)
{
	return scalar(item->value, "text", p) != NULL &&
	       check_variable(item->key, strlen(item->key), item->value, p);
}

enum storage { TEXT, NUMBER, TIME, ID, RANGE, FLAG, LIST, PAIRS };
static const struct value_type {
	const char *name;
	enum storage storage;
	const char *what; /* a scalar, or an item of a list, must be */
	check_fn *check;
} types[CONFIG_TYPES] = {
	[CONFIG_PATH] = {"path", TEXT, "an absolute path", check_path},
	[CONFIG_ADDRESS] = {"address", TEXT, ADDRESS, check_address},
	[CONFIG_CHOICE] = {"word", TEXT, "a word", check_choice},
	[CONFIG_NAME] = {"name", TEXT, "a name", check_name},
	[CONFIG_INT] = {"number", NUMBER, "a whole number", check_number},
	[CONFIG_SHARE] = {"number or share", NUMBER, "a whole number or a share", check_share},
	[CONFIG_UID] = {"user id", ID, "a whole number", check_number},
	[CONFIG_UIDS] = {"range of user ids", RANGE, "user ids such as 100000-165535", check_uids},
	[CONFIG_BOOL] = {"true or false", FLAG, "true or false", check_bool},
	[CONFIG_DURATION] = {"duration", TIME, DURATION, check_duration},
	[CONFIG_PATHS] = {"list of paths", LIST, "an absolute path", check_path_item},
	[CONFIG_VIEW] = {"list of paths", LIST, "an absolute path", check_view_item},
	[CONFIG_CHOICES] = {"list of words", LIST, "a word", check_choice},
	[CONFIG_NAMES] = {"list of names", LIST, "the name of a variable", check_variable_item},
	[CONFIG_OURS] = {"list of names", LIST, "a name", check_name},
	[CONFIG_ENV] = {"names with values", PAIRS},
};

const char *config_type_name(enum config_type t)
{
	return types[t].name;
}

static bool read_items(const struct config_row *row, const struct yaml *v, struct strv *at,
		       struct config_problem *p)
{
	const struct value_type *t = &types[row->type];
	const bool pairs = t->storage == PAIRS;
	const size_t most = pairs ? ENV_LEN : row->type == CONFIG_VIEW ? VIEW_LEN : SIZE_MAX;
	struct scalar ignored;
	size_t bytes = 0;

	if (v->kind != (pairs ? YAML_MAP : YAML_LIST))
		return wrong(p, v, pairs ? "must be names with values" : "must be a list");
	if (!pairs && v->n > ITEMS_MAX)
		return wrong(p, v, "must have at most %d items", ITEMS_MAX);
	for (size_t i = 0; i < v->n; i++) {
		const struct yaml_item *item = &v->item[i];

		if (pairs ? !check_pair(item, p)
			  : scalar(item->value, t->what, p) == NULL ||
				    !t->check(row, item->value, &ignored, p))
			return false;
		bytes += (pairs ? strlen(item->key) : 0) + 1 + strlen(item->value->text);
	}
	if (bytes > most)
		return wrong(p, v, "must have at most %zu bytes in all", most);
	strv_done(at);
	for (size_t i = 0; i < v->n; i++)
		if (pairs)
			strv_env_set(at, v->item[i].key, v->item[i].value->text);
		else if (row->type != CONFIG_VIEW || !is_sessions_own(row, v->item[i].value->text))
			strv_add(at, v->item[i].value->text);
	return true;
}

bool config_value_read(const struct config_row *row, const struct yaml *v, struct config *c,
		       struct config_problem *p)
{
	const struct value_type *t = &types[row->type];
	void *at = (char *)c + row->offset;
	struct scalar got = {0};

	if (t->storage == LIST || t->storage == PAIRS)
		return read_items(row, v, at, p);
	if (scalar(v, t->what, p) == NULL || !t->check(row, v, &got, p))
		return false;
	if (t->storage == TEXT) {
		free(*(char **)at);
		*(char **)at = mem_strdup(v->text);
	} else if (t->storage == ID) {
		*(uint32_t *)at = (uint32_t)got.number;
	} else if (t->storage == RANGE) {
		*(struct uid_range *)at = got.range;
	} else if (t->storage == FLAG) {
		*(bool *)at = got.number != 0;
	} else {
		*(int64_t *)at = got.number;
	}
	return true;
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
	const enum storage storage = types[row->type].storage;
	struct yaml *v = storage == LIST || storage == PAIRS ? new_items(text, storage == PAIRS)
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

	switch (types[row->type].storage) {
	case TEXT:
		jw_str(w, *(char *const *)at);
		break;
	case NUMBER:
		jw_share(w, *(const int64_t *)at);
		break;
	case TIME:
		jw_duration_ms(w, *(const int64_t *)at);
		break;
	case ID:
		jw_uint(w, *(const uint32_t *)at);
		break;
	case RANGE: {
		const struct uid_range *r = at;
		cleanup_free char *text = mem_printf("%u-%u", r->first, r->last);

		jw_str(w, text);
		break;
	}
	case FLAG:
		jw_bool(w, *(const bool *)at);
		break;
	case LIST:
		jw_arr(w);
		for (size_t i = 0; i < list->n; i++)
			jw_str(w, list->v[i]);
		jw_arr_end(w);
		break;
	case PAIRS:
		jw_obj(w);
		for (size_t i = 0; i < list->n; i++) {
			const size_t len = strcspn(list->v[i], "=");
			cleanup_free char *name = mem_strndup(list->v[i], len);

			jw_kstr(w, name, list->v[i] + len + 1);
		}
		jw_obj_end(w);
	}
}

void config_value_done(const struct config_row *row, struct config *c)
{
	const enum storage storage = types[row->type].storage;
	void *at = (char *)c + row->offset;

	if (storage == TEXT)
		free(*(char **)at);
	else if (storage == LIST || storage == PAIRS)
		strv_done(at);
}
