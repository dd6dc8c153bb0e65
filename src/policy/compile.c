// SPDX-License-Identifier: Apache-2.0
/* Makes a snapshot of the parts that the loader has read: puts the rules into the order of trial,
 * and adds the index. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/load.h"

#define COUNTS 65536 /* how often each component of a path occurs, by its hash */

struct index_entry {
	uint32_t hash;
	struct snapshot_posting to;
};
struct compiler {
	struct loader *l;
	uint32_t *count;    /* owned */
	struct buf entries; /* struct index_entry of the class that is compiled, not sorted yet */
};

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

/* Each returns the key of the index under which a pattern is found. */
typedef uint32_t key_of_fn(struct compiler *c, const char *text);

static COLD uint32_t path_key(struct compiler *c, const char *text)
{
	const char *dot = strrchr(text, '.');
	uint32_t rarest[2] = {SNAPSHOT_ALWAYS, UINT32_MAX};

	each_component(c, text, rarest);
	if (rarest[1] == UINT32_MAX && dot != NULL && strpbrk(dot, "/]") == NULL &&
	    glob_is_literal(dot, strlen(dot)))
		return snapshot_hash(KEY_ENDING, dot, strlen(dot));
	return rarest[0];
}

static uint32_t command_key(struct compiler *c, const char *text)
{
	if (strchr(text, '/') != NULL)
		return path_key(c, text);
	return glob_is_literal(text, strlen(text)) ? snapshot_hash(KEY_NAME, text, strlen(text))
						   : SNAPSHOT_ALWAYS;
}

static uint32_t domain_key(struct compiler *c, const char *text)
{
	const char *name = text[0] == '*' && text[1] == '.' ? text + 2 : text;

	return strcmp(text, "*") == 0 ? SNAPSHOT_ALWAYS
				      : snapshot_hash(KEY_DOMAIN, name, strlen(name));
}

static void post(struct compiler *c, uint32_t hash, uint32_t rule, uint32_t pattern)
{
	const struct index_entry e = {hash, {rule, pattern}};

	buf_add(&c->entries, &e, sizeof(e));
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
	struct buf *postings = &c->l->part[PART_POSTINGS];
	const size_t n = c->entries.len / sizeof(*e);
	cleanup_free struct snapshot_slot *slots = NULL;
	uint32_t room = 4;

	if (n == 0)
		return;
	qsort(e, n, sizeof(*e), by_hash);
	while (room < 2 * n)
		room *= 2;
	slots = mem_alloc(room * sizeof(*slots));
	for (size_t i = 0; i < n;) {
		struct snapshot_slot slot = {e[i].hash, {loader_items(c->l, PART_POSTINGS), 0}};
		uint32_t at = slot.hash & (room - 1);

		for (; i < n && e[i].hash == slot.hash; i++, slot.postings.n++)
			buf_add(postings, &e[i].to, sizeof(e[i].to));
		while (slots[at].postings.n != 0)
			at = (at + 1) & (room - 1);
		slots[at] = slot;
	}
	class->slots = (struct snapshot_span){loader_items(c->l, PART_SLOTS), room};
	buf_add(&c->l->part[PART_SLOTS], slots, room * sizeof(*slots));
}

static const char *pattern_text(const struct compiler *c, uint32_t i)
{
	const uint32_t *patterns = (const void *)c->l->part[PART_PATTERNS].data;

	return c->l->part[PART_TEXT].data + patterns[i];
}

/* Adds the first condition of rule number n to the index; the others are matched when the rule is a
 * candidate. */
static COLD void index_rule(struct compiler *c, unsigned class, const struct snapshot_rule *r,
			    uint32_t n)
{
	static key_of_fn *const key_of[] = {
		[OP_FILE] = path_key, [OP_EXEC] = command_key, [OP_NET] = domain_key};
	const struct cidr *cidrs = (const void *)c->l->part[PART_CIDRS].data;

	if ((r->conditions & (COND_SUBJECT | COND_CIDRS)) == 0)
		post(c, SNAPSHOT_ALWAYS, n, SNAPSHOT_NONE);
	for (uint32_t i = r->subject.at; i < r->subject.at + r->subject.n; i++)
		post(c, key_of[class](c, pattern_text(c, i)), n, i);
	for (uint32_t i = 0; !(r->conditions & COND_SUBJECT) && i < r->cidrs.n; i++) {
		const struct cidr *b = &cidrs[r->cidrs.at + i];

		c->l->head.lengths[b->family == 6][b->bits / 64] |= UINT64_C(1) << b->bits % 64;
		post(c, snapshot_hash_cidr(b), n, SNAPSHOT_NONE);
	}
}

static COLD void compile_class(struct compiler *c, unsigned class)
{
	const struct snapshot_rule *rules = (const void *)c->l->rules[class].data;
	const size_t count = c->l->rules[class].len / sizeof(*rules);
	struct snapshot_class *out = &c->l->head.class[class];

	out->rules.at = loader_items(c->l, PART_RULES);
	buf_clear(&c->entries);
	memset(c->count, 0, COUNTS * sizeof(*c->count));
	for (size_t i = 0; class != OP_NET && i < count; i++)
		for (uint32_t k = 0; k < rules[i].subject.n; k++)
			each_component(c, pattern_text(c, rules[i].subject.at + k), NULL);
	for (unsigned final = 2; final-- > 0;)
		for (size_t i = 0; i < count; i++)
			if (rules[i].final == final) {
				buf_add(&c->l->part[PART_RULES], &rules[i], sizeof(rules[i]));
				index_rule(c, class, &rules[i], out->rules.n++);
			}
	write_index(c, out);
}

/* Writes the head and the parts behind it, and then the digest of the whole. */
COLD void snapshot_write(struct loader *l, struct buf *out)
{
	static const char zero[8];
	const size_t from = offsetof(struct snapshot_head, shadow);
	struct compiler c = {.l = l, .count = mem_alloc(COUNTS * sizeof(*c.count))};
	size_t at = sizeof(l->head);

	for (unsigned i = 0; i < POLICY_RULE_CLASSES; i++)
		compile_class(&c, i);
	memcpy(l->head.magic, SNAPSHOT_MAGIC, sizeof(l->head.magic));
	for (unsigned i = 0; i < PARTS; i++) {
		l->head.part[i].at = at;
		l->head.part[i].n = loader_items(l, (enum snapshot_part)i);
		at += (l->part[i].len + 7) & ~(size_t)7;
	}
	l->head.size = at;
	buf_add(out, &l->head, sizeof(l->head));
	for (unsigned i = 0; i < PARTS; i++) {
		buf_add(out, l->part[i].data, l->part[i].len);
		buf_add(out, zero, -l->part[i].len & 7);
	}
	hash_sha256((uint8_t *)out->data + offsetof(struct snapshot_head, digest), out->data + from,
		    out->len - from, NULL, 0);
	buf_done(&c.entries);
	free(c.count);
}
