// SPDX-License-Identifier: Apache-2.0
#include "model/wall.h"
#include "base/mem.h"
#include "base/names.h"
#include <stdarg.h>
#include <stdio.h>

#define NOT_ASKED "not asked for"

static const char *const wall_names[WALLS] = {
#define X(name) [WALL_##name] = #name,
	WALL_LIST(X)
#undef X
};
static const char *const state_names[] = {
	[WALL_ABSENT] = "absent",
	[WALL_UP] = "up",
	[WALL_PARTIAL] = "partial",
	[WALL_UNAVAILABLE] = "unavailable",
};

const char *wall_name(enum wall w)
{
	return wall_names[w];
}

_Static_assert(WALL_user_namespace == 0 && WALL_cgroup_namespace + 1 == WALL_capabilities,
	       "namespaces come first in WALL_LIST");

bool wall_listed(const struct strv *list, enum wall w)
{
	return strv_has(list, wall_name(w)) ||
	       (w <= WALL_cgroup_namespace && strv_has(list, WALL_NAMESPACES));
}

const char *wall_state_name(enum wall_state s)
{
	return state_names[s];
}

void wall_report_init(struct wall_report *r)
{
	for (unsigned w = 0; w < WALLS; w++) {
		r->wall[w].state = WALL_ABSENT;
		snprintf(r->wall[w].detail, sizeof(r->wall[w].detail), NOT_ASKED);
	}
}

void wall_set(struct wall_report *r, enum wall w, enum wall_state s, const char *fmt, ...)
{
	char *detail = r->wall[w].detail;
	const size_t size = sizeof(r->wall[w].detail);
	va_list ap;
	int n;

	r->wall[w].state = s;
	va_start(ap, fmt);
	n = vsnprintf(detail, size, fmt, ap);
	va_end(ap);
	ensure(n >= 0);
	if ((size_t)n >= size)
		detail[json_text_cut(detail, size - 1)] = '\0';
	/* a detail is one line: the store joins packed entries by newlines */
	for (char *c = detail; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
}

void wall_pack(const struct wall_report *r, struct strv *out)
{
	for (unsigned w = 0; w < WALLS; w++)
		if (r->wall[w].state != WALL_ABSENT || strcmp(r->wall[w].detail, NOT_ASKED) != 0)
			strv_addf(out, "%s\t%s\t%s", wall_names[w], state_names[r->wall[w].state],
				  r->wall[w].detail);
}

int wall_unpack(struct wall_report *r, const struct strv *in, struct err *err)
{
	struct wall_report merged = *r;

	for (size_t i = 0; i < in->n; i++) {
		const char *entry = in->v[i], *state = strchr(entry, '\t');
		const char *detail = state != NULL ? strchr(state + 1, '\t') : NULL;
		int w, s;

		if (detail == NULL)
			return err_set(err, E_BAD_REQUEST, NULL,
				       "wall entry without state or detail");
		w = name_find(wall_names, WALLS, entry, (size_t)(state - entry));
		if (w < 0)
			return err_set(err, E_BAD_REQUEST, NULL, "unknown wall '%.*s'",
				       (int)(state - entry), entry);
		state++;
		s = name_find(state_names, ARRAY_LEN(state_names), state, (size_t)(detail - state));
		if (s < 0)
			return err_set(err, E_BAD_REQUEST, wall_names[w],
				       "unknown wall state '%.*s'", (int)(detail - state), state);
		wall_set(&merged, (enum wall)w, (enum wall_state)s, "%s", detail + 1);
	}
	*r = merged;
	return 0;
}

void wall_format(const struct wall_report *r, struct jw *w)
{
	jw_arr(w);
	for (unsigned i = 0; i < WALLS; i++) {
		jw_obj(w);
		jw_kstr(w, "wall", wall_names[i]);
		jw_kstr(w, "state", state_names[r->wall[i].state]);
		jw_kstr(w, "detail", r->wall[i].detail);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}
