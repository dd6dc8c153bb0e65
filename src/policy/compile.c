// SPDX-License-Identifier: Apache-2.0
/* Turns a source into the bytes of a snapshot. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

#define COUNTS 65536 /* how often each component of a path occurs, by its hash */

struct index_entry {
	uint32_t hash;
	struct snapshot_posting to;
};
struct compiler {
	const struct source *s;
	struct snapshot_head head;
	struct buf part[PARTS];
	uint32_t *count; /* owned */
	/* of the class that is compiled */
	struct buf entries; /* struct index_entry, not sorted yet */
	struct buf always;  /* struct snapshot_posting */
};

static uint32_t items(const struct compiler *c, enum snapshot_part part)
{
	const size_t n = c->part[part].len / snapshot_item_size[part];

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

/* Looks at every component of a path pattern that has no special character: counts it, or, if
 * rarest is given, sets rarest to the hash and the count of the rarest one. */
static void each_component(struct compiler *c, const char *pattern, uint32_t rarest[2])
{
	for (const char *p = pattern; *p != '\0';) {
		const size_t len = strcspn(p, "/");
		const uint32_t hash = snapshot_hash(KEY_COMPONENT, p, len);
		uint32_t *count = &c->count[hash % COUNTS];

		if (len > 0 && glob_is_literal(p, len)) {
			if (rarest == NULL) {
				++*count;
			} else if (*count < rarest[1]) {
				rarest[0] = hash;
				rarest[1] = *count;
			}
		}
		p += len + (p[len] == '/');
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

static COLD void post_path(struct compiler *c, const char *text, uint32_t rule, uint32_t pattern)
{
	const char *dot = strrchr(text, '.');
	uint32_t rarest[2] = {0, UINT32_MAX};

	each_component(c, text, rarest);
	if (rarest[1] != UINT32_MAX)
		post(c, rarest[0], rule, pattern);
	else if (dot != NULL && strpbrk(dot, "/]") == NULL && glob_is_literal(dot, strlen(dot)))
		post(c, snapshot_hash(KEY_ENDING, dot, strlen(dot)), rule, pattern);
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

static int by_hash(const void *a, const void *b)
{
	const struct index_entry *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->to.rule != y->to.rule)
		return x->to.rule < y->to.rule ? -1 : 1;
	return (x->to.pattern > y->to.pattern) - (x->to.pattern < y->to.pattern);
}

/* Sorts the entries of the class and writes them as slots and postings. At least half of the slots
 * stay empty. */
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
		uint32_t at = slot.hash & (room - 1);

		for (; i < n && e[i].hash == slot.hash; i++, slot.postings.n++)
			buf_add(&c->part[PART_POSTINGS], &e[i].to, sizeof(e[i].to));
		while (slots[at].postings.n != 0)
			at = (at + 1) & (room - 1);
		slots[at] = slot;
	}
	class->slots.n = room;
	buf_add(&c->part[PART_SLOTS], slots, room * sizeof(*slots));
}

/* --- rules --- */

/* Adds rule number n of the class. The index gets the rule's first condition; the others are
 * matched when the rule is a candidate. */
static COLD void add_rule(struct compiler *c, enum op_class class, const struct source_rule *r,
			  uint32_t n)
{
	static void (*const poster[])(struct compiler * c, const char *text, uint32_t rule,
				      uint32_t pattern) = {
		[OP_FILE] = post_path, [OP_EXEC] = post_command, [OP_NET] = post_domain};
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
		.bits = r->bits,
		.cidrs = {items(c, PART_CIDRS), (uint32_t)r->ncidr},
		.ports = {items(c, PART_PORTS), (uint32_t)r->nport},
	};

	out.subject = add_patterns(c, &r->subject);
	out.scripts = add_patterns(c, &r->scripts);
	out.args = add_patterns(c, &r->args);
	out.regex = add_patterns(c, &r->regex);
	out.groups = add_patterns(c, &r->groups);
	if (r->ncidr > 0)
		buf_add(&c->part[PART_CIDRS], r->cidr, r->ncidr * sizeof(*r->cidr));
	if (r->nport > 0)
		buf_add(&c->part[PART_PORTS], r->port, r->nport * sizeof(*r->port));
	buf_add(&c->part[PART_RULES], &out, sizeof(out));
	if ((r->conditions & (COND_SUBJECT | COND_CIDRS)) == 0)
		post_always(c, n, SNAPSHOT_NONE);
	for (uint32_t i = 0; i < out.subject.n; i++)
		poster[class](c, r->subject.v[i], n, out.subject.at + i);
	for (size_t i = 0; !(r->conditions & COND_SUBJECT) && i < r->ncidr; i++) {
		const struct cidr *b = &r->cidr[i];

		if (b->family == 4)
			c->head.bits4 |= UINT64_C(1) << b->bits;
		else
			c->head.bits6[b->bits / 64] |= UINT64_C(1) << b->bits % 64;
		post(c, snapshot_hash_cidr(b), n, SNAPSHOT_NONE);
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
	memset(c->count, 0, COUNTS * sizeof(*c->count));
	for (size_t i = 0; class != OP_NET && i < rules->n; i++)
		for (size_t k = 0; k < rules->v[i].subject.n; k++)
			each_component(c, rules->v[i].subject.v[k], NULL);
	for (unsigned final = 2; final-- > 0;)
		for (size_t i = 0; i < rules->n; i++)
			if (rules->v[i].final == final)
				add_rule(c, class, &rules->v[i], n++);
	write_index(c, out);
}

/* Writes the head and the parts behind it, and then the digest of the whole. */
static COLD void assemble(struct compiler *c, struct buf *out)
{
	static const char zero[8];
	const size_t start = out->len, from = offsetof(struct snapshot_head, shadow);
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
	hash_sha256(c->head.digest, out->data + start + from, out->len - start - from, NULL, 0);
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
