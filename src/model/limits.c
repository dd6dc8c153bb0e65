// SPDX-License-Identifier: Apache-2.0
#include "model/limits.h"
#include "base/mem.h"
#include <errno.h>
#include <inttypes.h>

#define ROW(names, name, type, unit, low, high, wall, by, help) \
	{#name, names, LIMIT_##type, unit, low, high, WALL_##wall, LIMIT_BY_##by, help},
#define NAMES(other, field) other, field

const struct limit_row limit_rows[LIMITS] = {
#define X(name, other, type, unit, low, high, wall, by, fallback, help) \
	ROW(NAMES(NULL, other), name, type, unit, low, high, wall, by, help)
	LIMIT_TIMES(X)
#undef X
#define X(name, other, type, unit, low, high, wall, by, fallback, help) \
	ROW(NAMES(other, "resource_limits." #name), name, type, unit, low, high, wall, by, help)
		LIMIT_RESOURCES(X, X)
#undef X
#define X(name, other, type, unit, low, high, wall, by, fallback, help) \
	ROW(NAMES(other, "limits." #name), name, type, unit, low, high, wall, by, help)
			LIMIT_COUNTS(X)
#undef X
};

bool limits_has(const struct limits *l, enum limit i)
{
	return l->value[i] != 0 || (l->given[i] && limit_rows[i].low == 0);
}

/* Whether l asks for more than the other, which has this limit. */
static bool wider(const struct limits *l, enum limit i, const struct limits *than)
{
	return limits_has(l, i) ? l->value[i] > than->value[i] : l->given[i];
}

void limits_narrow(struct limits *l, const struct limits *by)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		if (!limits_has(by, i) || (limits_has(l, i) && !wider(l, i, by)))
			continue;
		l->value[i] = by->value[i];
		l->given[i] = true;
	}
}

void limits_drop_wider(struct limits *asked, const struct limits *now, struct strv *capped)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		if (!limits_has(now, i) || !wider(asked, i, now))
			continue;
		strv_add(capped, limit_rows[i].field);
		asked->value[i] = 0;
		asked->given[i] = false;
	}
}

void limits_resolve(struct limits *l, int64_t share_mb)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		const int64_t percent = l->value[i] ^ JSON_SHARE;
		const bool share = percent > 0 && percent <= 100;

		if (share && share_mb > 0)
			l->value[i] = share_mb * percent / 100 > 0 ? share_mb * percent / 100 : 1;
		else if (!share && (l->value[i] < 0 || l->value[i] > limit_rows[i].high))
			l->value[i] = limit_rows[i].high;
	}
}

void limits_add_swap(struct limits *l, const struct limits *server)
{
	struct limits swap = {0};

	swap.value[LIMIT_memory_swap_max_mb] = server->value[LIMIT_memory_swap_max_mb];
	swap.given[LIMIT_memory_swap_max_mb] = limits_has(l, LIMIT_max_memory_mb);
	if (swap.given[LIMIT_memory_swap_max_mb])
		limits_narrow(l, &swap);
}

void limits_choose(struct limits *asked, const struct limits *server, const struct limits *policy,
		   int64_t share_mb, struct strv *capped)
{
	struct limits own = *server, rules = *policy, was;

	own.value[LIMIT_memory_swap_max_mb] = 0;
	limits_resolve(asked, share_mb);
	limits_resolve(&own, share_mb);
	limits_resolve(&rules, share_mb);
	was = *asked;
	limits_narrow(asked, &own);
	limits_narrow(asked, &rules);
	limits_add_swap(asked, server);
	if (capped != NULL)
		limits_drop_wider(&was, asked, capped);
}

uint64_t limits_walls(const struct limits *l)
{
	uint64_t walls = 0;

	for (unsigned i = 0; i < LIMITS; i++)
		if (limits_has(l, i) && (l->value[i] & JSON_SHARE) == 0 &&
		    limit_rows[i].wall != WALL_none)
			walls |= UINT64_C(1) << limit_rows[i].wall;
	return walls;
}

const char *limit_unenforceable(enum limit i, bool fuse)
{
	if (limit_rows[i].by >= LIMIT_BY_RULES)
		return "nothing enforces this limit yet; leave it out";
	return limit_rows[i].by == LIMIT_BY_FUSE && !fuse
		       ? "operations on files are not counted where monitoring.mode is native; "
			 "set it to fuse, or leave this limit out"
		       : NULL;
}

int limits_enforceable(const struct limits *l, bool fuse, struct err *err)
{
	for (unsigned i = 0; i < LIMITS; i++)
		if (limits_has(l, i) && limit_unenforceable(i, fuse) != NULL)
			return err_set(err, E_ENFORCEMENT, wall_name(limit_rows[i].wall), "%s: %s",
				       limit_rows[i].field, limit_unenforceable(i, fuse));
	return 0;
}

void limits_pack(const struct limits *l, struct strv *out)
{
	for (unsigned i = 0; i < LIMITS; i++)
		if (limits_has(l, i))
			strv_addf(out, "%s=%" PRId64, limit_rows[i].name, l->value[i]);
}

int limits_unpack(struct limits *l, const struct strv *in, struct err *err)
{
	for (size_t n = 0; n < in->n; n++) {
		const char *text = in->v[n], *number = strchrnul(text, '=');
		const size_t len = (size_t)(number - text);
		unsigned i = 0;
		int64_t value;
		char *end;

		while (i < LIMITS && (strlen(limit_rows[i].name) != len ||
				      memcmp(limit_rows[i].name, text, len) != 0))
			i++;
		errno = 0;
		value = strtoll(number + (*number == '='), &end, 10);
		if (i == LIMITS || errno != 0 || *end != '\0' || end <= number + 1 || value < 0)
			return err_set(err, E_BAD_REQUEST, "limits", "'%.64s' is not a limit",
				       text);
		l->value[i] = value;
		l->given[i] = true;
	}
	return 0;
}
