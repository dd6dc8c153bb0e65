// SPDX-License-Identifier: Apache-2.0
/* From a source to the bytes of a snapshot. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

#define COUNTS 65536 /* of components, by hash: how common each is */

struct index_entry { /* of the index, before it is sorted */
	uint32_t hash;
	struct snapshot_posting to;
};
struct compiler {
	const struct source *s;
	struct snapshot_head head;
	struct buf part[PARTS];
	uint32_t *count; /* owned */
	/* of the class that is compiled */
	struct buf entries; /* struct index_entry */
	struct buf always;  /* struct snapshot_posting */
};

static const size_t item_size[PARTS] = {
	[PART_RULES] = sizeof(struct snapshot_rule),
	[PART_PATTERNS] = sizeof(uint32_t),
	[PART_CIDRS] = sizeof(struct cidr),
	[PART_PORTS] = sizeof(struct port_range),
	[PART_SLOTS] = sizeof(struct snapshot_slot),
	[PART_POSTINGS] = sizeof(struct snapshot_posting),
	[PART_TEXT] = 1,
};

static uint32_t items(const struct compiler *c, enum snapshot_part part)
{
	const size_t n = c->part[part].len / item_size[part];

	ensure(n < UINT32_MAX);
	return (uint32_t)n;
}

static uint32_t add_text(struct compiler *c, const char *s)
{
	const uint32_t at = items(c, PART_TEXT);

	if (s == NULL || s[0] == '\0')
		return 0;
	buf_add(&c->part[PART_TEXT], s, strlen(s) + 1);
	return at;
}

static struct snapshot_span add_patterns(struct compiler *c, const struct strv *list)
{
	const struct snapshot_span span = {items(c, PART_PATTERNS), (uint32_t)list->n};

	for (size_t i = 0; i < list->n; i++) {
		const uint32_t at = add_text(c, list->v[i]);

		buf_add(&c->part[PART_PATTERNS], &at, sizeof(at));
	}
	return span;
}

/* --- the index --- */

typedef void component_fn(struct compiler *c, const char *name, size_t len, uint32_t *arg);

/* Calls f for every component of a path pattern that has no special character. */
static void each_component(struct compiler *c, const char *pattern, component_fn *f, uint32_t *arg)
{
	const char *p = pattern;

	while (*p != '\0') {
		const size_t len = strcspn(p, "/");

		if (len > 0 && glob_is_literal(p, len))
			f(c, p, len, arg);
		p += len + (p[len] == '/');
	}
}

static void count_component(struct compiler *c, const char *name, size_t len, uint32_t *arg)
{
	c->count[snapshot_hash(KEY_COMPONENT, name, len) % COUNTS]++;
}

/* arg: its hash and how common it is, of the rarest so far. */
static void rarest_component(struct compiler *c, const char *name, size_t len, uint32_t *arg)
{
	const uint32_t hash = snapshot_hash(KEY_COMPONENT, name, len);

	if (c->count[hash % COUNTS] < arg[1]) {
		arg[0] = hash;
		arg[1] = c->count[hash % COUNTS];
	}
}

static void post(struct compiler *c, uint32_t hash, uint32_t rule, uint32_t pattern)
{
	const struct index_entry e = {hash, {rule, pattern}};

	buf_add(&c->entries, &e, sizeof(e));
}

static void post_always(struct compiler *c, uint32_t rule, uint32_t pattern)
{
	const struct snapshot_posting p = {rule, pattern};

	buf_add(&c->always, &p, sizeof(p));
}

/* The last dot of the pattern and what follows, if that is literal and in the last component. */
static const char *literal_ending(const char *text)
{
	const char *dot = strrchr(text, '.');

	return dot != NULL && strchr(dot, '/') == NULL && strchr(dot, ']') == NULL &&
			       glob_is_literal(dot, strlen(dot))
		       ? dot
		       : NULL;
}

static COLD void post_path(struct compiler *c, const char *text, uint32_t rule, uint32_t pattern)
{
	const char *ending = literal_ending(text);
	uint32_t rarest[2] = {0, UINT32_MAX};

	each_component(c, text, rarest_component, rarest);
	if (rarest[1] != UINT32_MAX)
		post(c, rarest[0], rule, pattern);
	else if (ending != NULL)
		post(c, snapshot_hash(KEY_ENDING, ending, strlen(ending)), rule, pattern);
	else
		post_always(c, rule, pattern);
}

static void post_command(struct compiler *c, const char *text, uint32_t rule, uint32_t pattern)
{
	if (strchr(text, '/') != NULL)
		post_path(c, text, rule, pattern);
	else if (glob_is_literal(text, strlen(text)))
		post(c, snapshot_hash(KEY_NAME, text, strlen(text)), rule, pattern);
	else
		post_always(c, rule, pattern);
}

static void post_domain(struct compiler *c, const char *text, uint32_t rule, uint32_t pattern)
{
	const char *name = text[0] == '*' && text[1] == '.' ? text + 2 : text;

	if (strcmp(text, "*") == 0)
		post_always(c, rule, pattern);
	else
		post(c, snapshot_hash(KEY_DOMAIN, name, strlen(name)), rule, pattern);
}

static COLD void post_cidrs(struct compiler *c, const struct source_rule *r, uint32_t rule)
{
	for (size_t i = 0; i < r->ncidr; i++) {
		const struct cidr *b = &r->cidr[i];

		if (b->family == 4)
			c->head.bits4 |= UINT64_C(1) << b->bits;
		else
			c->head.bits6[b->bits / 64] |= UINT64_C(1) << b->bits % 64;
		post(c, snapshot_hash_cidr(b), rule, SNAPSHOT_NONE);
	}
}

/* Enters a rule under what it asks for first; the rest is matched when it is a candidate. */
static COLD void index_rule(struct compiler *c, enum op_class class, const struct source_rule *r,
			    const struct snapshot_rule *out, uint32_t rule)
{
	static void (*const poster[])(struct compiler * c, const char *text, uint32_t rule,
				      uint32_t pattern) = {
		[OP_FILE] = post_path, [OP_EXEC] = post_command, [OP_NET] = post_domain};
	static const unsigned condition[] = {
		[OP_FILE] = COND_PATHS, [OP_EXEC] = COND_COMMANDS, [OP_NET] = COND_DOMAINS};
	const struct strv *list = class == OP_FILE   ? &r->paths
				  : class == OP_EXEC ? &r->commands
						     : &r->domains;

	if (r->conditions & condition[class])
		for (uint32_t i = 0; i < out->subject.n; i++)
			poster[class](c, list->v[i], rule, out->subject.at + i);
	else if (r->conditions & COND_CIDRS)
		post_cidrs(c, r, rule);
	else
		post_always(c, rule, SNAPSHOT_NONE);
}

static int by_hash(const void *a, const void *b)
{
	const struct index_entry *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->to.rule != y->to.rule)
		return x->to.rule < y->to.rule ? -1 : 1;
	return (x->to.pattern > y->to.pattern) - (x->to.pattern < y->to.pattern);
}

static void put_slot(struct snapshot_slot *slots, uint32_t n, const struct snapshot_slot *slot)
{
	uint32_t i = slot->hash & (n - 1);

	while (slots[i].postings.n != 0)
		i = (i + 1) & (n - 1);
	slots[i] = *slot;
}

/* The entries of the class, sorted, as slots and postings. At least half of the slots are empty. */
static COLD void write_index(struct compiler *c, struct snapshot_class *class)
{
	struct index_entry *e = (struct index_entry *)(void *)c->entries.data;
	const size_t n = c->entries.len / sizeof(*e);
	cleanup_free struct snapshot_slot *slots = NULL;
	uint32_t room = 4;

	class->always =
		(struct snapshot_span){items(c, PART_POSTINGS),
				       (uint32_t)(c->always.len / sizeof(struct snapshot_posting))};
	if (c->always.len > 0)
		buf_add(&c->part[PART_POSTINGS], c->always.data, c->always.len);
	class->slots = (struct snapshot_span){items(c, PART_SLOTS), 0};
	if (n == 0)
		return;
	qsort(e, n, sizeof(*e), by_hash);
	while (room < 2 * n)
		room *= 2;
	slots = mem_alloc(room * sizeof(*slots));
	for (size_t i = 0; i < n;) {
		struct snapshot_slot slot = {e[i].hash, {items(c, PART_POSTINGS), 0}};

		for (; i < n && e[i].hash == slot.hash; i++, slot.postings.n++)
			buf_add(&c->part[PART_POSTINGS], &e[i].to, sizeof(e[i].to));
		put_slot(slots, room, &slot);
	}
	class->slots.n = room;
	buf_add(&c->part[PART_SLOTS], slots, room * sizeof(*slots));
}

/* --- rules --- */

static COLD struct snapshot_rule make_rule(struct compiler *c, enum op_class class,
					   const struct source_rule *r)
{
	struct snapshot_rule out = {
		.name = add_text(c, r->name),
		.message = add_text(c, r->message),
		.redirect_to = add_text(c, r->redirect_to),
		.line = r->line,
		.column = r->column,
		.decision = (uint8_t)r->decision,
		.final = r->final,
		.flags = r->flags,
		.args_whole = r->args_whole,
		.conditions = r->conditions,
		.bits = class == OP_FILE   ? r->operations
			: class == OP_EXEC ? r->kinds
					   : r->protocols,
		.cidrs = {items(c, PART_CIDRS), (uint32_t)r->ncidr},
		.ports = {items(c, PART_PORTS), (uint32_t)r->nport},
	};

	out.subject = add_patterns(c, class == OP_FILE	 ? &r->paths
				      : class == OP_EXEC ? &r->commands
							 : &r->domains);
	out.scripts = add_patterns(c, &r->scripts);
	out.args = add_patterns(c, &r->args);
	out.regex = add_patterns(c, &r->regex);
	out.groups = add_patterns(c, &r->groups);
	if (r->ncidr > 0)
		buf_add(&c->part[PART_CIDRS], r->cidr, r->ncidr * sizeof(*r->cidr));
	if (r->nport > 0)
		buf_add(&c->part[PART_PORTS], r->port, r->nport * sizeof(*r->port));
	return out;
}

static COLD void count_components(struct compiler *c, const struct source_rules *rules)
{
	memset(c->count, 0, COUNTS * sizeof(*c->count));
	for (size_t i = 0; i < rules->n; i++) {
		const struct source_rule *r = &rules->v[i];

		for (size_t k = 0; k < r->paths.n; k++)
			each_component(c, r->paths.v[k], count_component, NULL);
		for (size_t k = 0; k < r->commands.n; k++)
			each_component(c, r->commands.v[k], count_component, NULL);
	}
}

static COLD void compile_class(struct compiler *c, enum op_class class)
{
	const struct source_rules *rules = &c->s->rules[class];
	struct snapshot_class *out = &c->head.class[class];
	uint32_t n = 0;

	out->rules = (struct snapshot_span){items(c, PART_RULES), (uint32_t)rules->n};
	out->fallback = c->s->fallback[class];
	out->line = c->s->line[class];
	out->column = c->s->column[class];
	buf_clear(&c->entries);
	buf_clear(&c->always);
	count_components(c, rules);
	for (unsigned final = 2; final-- > 0;)
		for (size_t i = 0; i < rules->n; i++) {
			struct snapshot_rule r;

			if (rules->v[i].final != final)
				continue;
			r = make_rule(c, class, &rules->v[i]);
			buf_add(&c->part[PART_RULES], &r, sizeof(r));
			index_rule(c, class, &rules->v[i], &r, n++);
		}
	write_index(c, out);
}

/* Lays the parts behind the head and signs the whole. */
static COLD void assemble(struct compiler *c, struct buf *out)
{
	static const char zero[8];
	const size_t start = out->len, signed_from = offsetof(struct snapshot_head, shadow);
	size_t at = sizeof(c->head);

	for (unsigned i = 0; i < PARTS; i++) {
		c->head.part[i].at = at;
		c->head.part[i].n = items(c, (enum snapshot_part)i);
		at += (c->part[i].len + 7) & ~(size_t)7;
	}
	c->head.size = at;
	buf_add(out, &c->head, sizeof(c->head));
	for (unsigned i = 0; i < PARTS; i++) {
		if (c->part[i].len > 0)
			buf_add(out, c->part[i].data, c->part[i].len);
		buf_add(out, zero, -c->part[i].len & 7);
	}
	hash_sha256(c->head.digest, out->data + start + signed_from, out->len - start - signed_from,
		    NULL, 0);
	memcpy(out->data + start + offsetof(struct snapshot_head, digest), c->head.digest,
	       HASH_LEN);
}

void source_compile(const struct source *s, const struct policy_options *o, struct buf *out)
{
	struct compiler c = {.s = s};

	c.count = mem_alloc(COUNTS * sizeof(*c.count));
	memcpy(c.head.magic, SNAPSHOT_MAGIC, sizeof(c.head.magic));
	buf_addc(&c.part[PART_TEXT], '\0');
	c.head.shadow = o->shadow;
	c.head.name = add_text(&c, s->name);
	c.head.description = add_text(&c, s->description);
	c.head.file = add_text(&c, s->file);
	c.head.env_allow = add_patterns(&c, &s->env_allow);
	c.head.env_deny = add_patterns(&c, &s->env_deny);
	c.head.has_env_allow = s->has_env_allow;
	for (unsigned i = 0; i < LIMITS; i++)
		c.head.limit[limit_rows[i].number] = s->limits.given[i] ? s->limits.value[i] : -1;
	for (unsigned i = 0; i < POLICY_RULE_CLASSES; i++)
		compile_class(&c, (enum op_class)i);
	assemble(&c, out);
	for (unsigned i = 0; i < PARTS; i++)
		buf_done(&c.part[i]);
	buf_done(&c.entries);
	buf_done(&c.always);
	free(c.count);
}
