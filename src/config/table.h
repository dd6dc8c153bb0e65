// SPDX-License-Identifier: Apache-2.0
/* config/table.h - the settings as rows, and one reader and writer per type. Private to this
 * folder. */
#pragma once
#include "base/json.h"
#include "base/yaml.h"
#include "config/config.h"

enum config_type {
	CONFIG_PATH,	/* char *, absolute; "" where min is 0; also one of choices */
	CONFIG_ADDRESS, /* char *, IP:PORT or "" */
	CONFIG_CHOICE,	/* char *, one of choices */
	CONFIG_NAME,	/* char *, the name of something of ours: [A-Za-z0-9][A-Za-z0-9._-]{0,63} */
	CONFIG_INT,	/* int64_t, min..max */
	CONFIG_SHARE,	/* the same, or a part of the machine: "75%" */
	CONFIG_UID,	/* uint32_t, min..max */
	CONFIG_UIDS,	/* struct uid_range, "A-B" or one number; min..max */
	CONFIG_BOOL,	/* bool */
	CONFIG_DURATION, /* int64_t ms, min..max */
	CONFIG_PATHS,	 /* struct strv of absolute paths */
	CONFIG_VIEW,	 /* struct strv of plain absolute paths, apart from all choices */
	CONFIG_CHOICES,	 /* struct strv of choices */
	CONFIG_NAMES,	 /* struct strv of names of variables, the last character may be '*' */
	CONFIG_OURS,	 /* struct strv of names as of CONFIG_NAME */
	CONFIG_ENV,	 /* struct strv "NAME=value" from a map */
	CONFIG_TYPES
};

struct config_row {
	const char *key; /* dotted; rows of a section stand together */
	enum config_type type;
	uint16_t offset;
	int64_t min, max; /* PATH: length; VIEW: max 1 if it may name the session's own */
	/* Default as an override has it; {runtime}, {state} and {config} are the mode's places. */
	const char *fallback;
	const char *const *choices; /* NULL-ended */
	const char *help;	    /* a sentence */
	const char *test;	    /* shows the key working */
	bool restart; /* a new value waits for the next start; only types of one word */
};
/* A default may begin with one of these names. */
enum { PLACE_RUNTIME, PLACE_STATE, PLACE_CONFIG, CONFIG_PLACES };
struct config_default {
	const char *name, *system, *user; /* user: for people */
};
extern const struct config_default config_places[CONFIG_PLACES];
extern const struct config_row config_rows[];
extern const size_t config_row_count;

/* By dotted key or its other name; NULL if unknown. */
const struct config_row *config_row_find(const char *key);
/* Whether rows exist below this prefix. */
bool config_row_section(const char *prefix);
/* Whether a later version has this key, section or KEY=VALUE. */
bool config_row_later(const char *key);
/* Every word that may follow a prefix ("" for the first word), also of other names. */
void config_row_words(const char *prefix, struct strv *out);

#define CONFIG_PROBLEM 256
struct config_problem {
	const struct yaml *at; /* the wrong value, maybe an item of a list */
	char text[CONFIG_PROBLEM];
};
/* Checks value for row and stores it. False: p says why, c is as it was. */
bool config_value_read(const struct config_row *row, const struct yaml *value, struct config *c,
		       struct config_problem *p);
/* The same from "a", "a,b" or "A=1,B=2". */
bool config_value_parse(const struct config_row *row, const char *text, struct config *c,
			struct config_problem *p);
/* Writes the value as JSON, which is YAML as well. */
void config_value_format(const struct config_row *row, const struct config *c, struct jw *w);
const char *config_type_name(enum config_type t);
void config_value_done(const struct config_row *row, struct config *c);
