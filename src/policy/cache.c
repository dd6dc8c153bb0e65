// SPDX-License-Identifier: Apache-2.0
/* The cache of earlier decisions. It belongs to one policy, and ends with it.
 *
 * An entry keeps the whole operation, not only its hash, so that an operation never gets the
 * decision of another one. An operation that is longer than an entry is decided each time. */
#include "base/mem.h"
#include "policy/snapshot.h"

#define KEY_MAX 228
#define ENTRIES_MAX (1U << 20)
#define WAYS 4

struct cache_entry {
	uint64_t hash;
	uint32_t rule;
	uint16_t len; /* 0: empty */
	uint8_t over;
	char key[KEY_MAX];
};
struct cache {
	struct cache_entry *entry; /* owned; sets of WAYS */
	size_t n;		   /* sets, a power of two */
	unsigned turn;		   /* the entry of a set that is replaced next */
	/* the operation of the last cache_get */
	char key[KEY_MAX];
	size_t len; /* above KEY_MAX: it does not fit */
	uint64_t hash;
};

void policy_add_cache(struct policy *p, size_t n)
{
	struct cache *c = p->cache = mem_new(struct cache);

	for (c->n = 1; c->n * WAYS < n && c->n * WAYS < ENTRIES_MAX;)
		c->n *= 2;
	c->entry = mem_alloc(c->n * WAYS * sizeof(*c->entry));
}

void cache_free(struct cache *c)
{
	if (c == NULL)
		return;
	free(c->entry);
	free(c);
}

/* Past KEY_MAX only the length grows. */
static void put(struct cache *c, const void *p, size_t n)
{
	if (c->len <= KEY_MAX && n <= KEY_MAX - c->len)
		memcpy(c->key + c->len, p, n);
	c->len += n;
}

/* Adds the text with its NUL. The first byte says whether there is one at all. */
static void put_text(struct cache *c, const char *s)
{
	put(c, s != NULL ? "+" : "-", 1);
	if (s != NULL)
		put(c, s, strlen(s) + 1);
}

static void make_key(struct cache *c, const struct op *op)
{
	const uint8_t class = (uint8_t)op->class;

	c->len = 0;
	put(c, &class, 1);
	switch (op->class) {
	case OP_FILE:
		put(c, &op->file.op, sizeof(op->file.op));
		put(c, &op->file.made, sizeof(op->file.made));
		put(c, op->file.path, strlen(op->file.path));
		break;
	case OP_EXEC:
		put(c, &op->exec.flags, sizeof(op->exec.flags));
		put_text(c, op->exec.path);
		put_text(c, op->exec.called);
		put_text(c, op->exec.script);
		/* own: two for each of the chain at most */
		put(c, (uint8_t[]){(uint8_t)op->exec.nchain, (uint8_t)op->exec.own}, 2);
		for (size_t i = 0; i < op->exec.nchain; i++)
			put_text(c, op->exec.chain[i]);
		for (size_t i = 0; c->len <= KEY_MAX && i < op->exec.argc; i++)
			put_text(c, op->exec.argv[i]);
		break;
	case OP_NET:
		put(c, &op->net.address, sizeof(op->net.address));
		put(c, &op->net.port, sizeof(op->net.port));
		put(c, &op->net.proto, sizeof(op->net.proto));
		put_text(c, op->net.host);
		break;
	default: /* rules do not look at the type of a lookup */
		put_text(c, op->dns.name);
	}
}

static uint64_t hash_key(const char *key, size_t len)
{
	uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ len, part;

	for (; len >= 8; len -= 8, key += 8) {
		memcpy(&part, key, 8);
		h = (h ^ part) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	part = 0;
	memcpy(&part, key, len);
	h = (h ^ part) * UINT64_C(0xff51afd7ed558ccd);
	return h ^ h >> 29;
}

static struct cache_entry *set_of(const struct cache *c)
{
	return &c->entry[(c->hash & (c->n - 1)) * WAYS];
}

bool cache_get(struct cache *c, const struct op *op, struct rule_found *out)
{
	const struct cache_entry *e;

	make_key(c, op);
	if (c->len > KEY_MAX)
		return false;
	c->hash = hash_key(c->key, c->len);
	e = set_of(c);
	for (unsigned i = 0; i < WAYS; i++, e++)
		if (e->hash == c->hash && e->len == c->len && memcmp(e->key, c->key, c->len) == 0) {
			*out = (struct rule_found){e->rule, e->over != 0};
			return true;
		}
	return false;
}

void cache_put(struct cache *c, const struct rule_found *f)
{
	struct cache_entry *e = set_of(c);
	unsigned way = 0;

	if (c->len > KEY_MAX)
		return;
	while (way < WAYS && e[way].len != 0)
		way++;
	if (way == WAYS)
		way = c->turn++ % WAYS;
	e[way].hash = c->hash;
	e[way].rule = f->rule;
	e[way].over = f->over;
	e[way].len = (uint16_t)c->len;
	memcpy(e[way].key, c->key, c->len);
}
