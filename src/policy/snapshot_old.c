// SPDX-License-Identifier: Apache-2.0
/* Snapshots of the previous version: the database has them for sessions that began before an
 * upgrade. */
#include "base/mem.h"
#include "policy/snapshot.h"

struct old_head {
	char magic[8];
	uint64_t size;
	uint8_t digest[HASH_LEN];
	uint32_t shadow;
	uint32_t name, description, file;
	struct {
		struct snapshot_span rules, slots;
		struct snapshot_span always; /* of PART_POSTINGS; has no slot */
		uint32_t fallback, line, column;
		uint32_t padding;
	} class[POLICY_RULE_CLASSES];
	struct snapshot_span env_allow, env_deny;
	uint32_t has_env_allow, padding;
	uint64_t lengths4, lengths6[3];
	int64_t limit[LIMITS]; /* in the order of old_limits; -1: not set */
	struct snapshot_place part[PARTS];
};

static const enum limit old_limits[] = {
	LIMIT_max_memory_mb,  LIMIT_memory_swap_max_mb, LIMIT_max_cpu_percent,
	LIMIT_cpu_period_us,  LIMIT_io_read_bps_max,	LIMIT_io_write_bps_max,
	LIMIT_pids_max,	      LIMIT_net_bandwidth_mbps, LIMIT_max_disk_mb,
	LIMIT_max_network_mb, LIMIT_command_timeout,	LIMIT_session_timeout,
	LIMIT_idle_timeout,   LIMIT_max_commands,	LIMIT_max_file_ops,
	LIMIT_max_net_ops,
};
_Static_assert(ARRAY_LEN(old_limits) == LIMITS, "the head has all limits of its version");

static void add_slot(struct snapshot_slot *slots, uint32_t room, struct snapshot_slot slot)
{
	uint32_t at = slot.hash & (room - 1);

	while (slots[at].postings.n != 0)
		at = (at + 1) & (room - 1);
	slots[at] = slot;
}

/* Appends the slots of a class and one for the postings that had none. */
static struct snapshot_span write_slots(const struct snapshot_slot *old, uint32_t n,
					struct snapshot_span always, struct buf *out)
{
	const uint32_t room = n > 0 ? 2 * n : 2;
	cleanup_free struct snapshot_slot *slots = mem_alloc(room * sizeof(*slots));
	const struct snapshot_span span = {(uint32_t)(out->len / sizeof(*slots)), room};

	if (always.n > 0)
		add_slot(slots, room, (struct snapshot_slot){SNAPSHOT_ALWAYS, always});
	for (uint32_t i = 0; i < n; i++)
		if (old[i].postings.n > 0)
			add_slot(slots, room, old[i]);
	buf_add(out, slots, room * sizeof(*slots));
	return span;
}

static void fill_head(const struct old_head *old, struct snapshot_head *h)
{
	memcpy(h->magic, SNAPSHOT_MAGIC, sizeof(h->magic));
	memcpy(h->digest, old->digest, sizeof(h->digest));
	h->shadow = old->shadow;
	h->name = old->name;
	h->description = old->description;
	h->file = old->file;
	h->env_allow = old->env_allow;
	h->env_deny = old->env_deny;
	h->has_env_allow = old->has_env_allow;
	h->lengths[0][0] = old->lengths4;
	memcpy(h->lengths[1], old->lengths6, sizeof(old->lengths6));
	for (unsigned i = 0; i < LIMITS; i++) {
		h->limits.given[old_limits[i]] = old->limit[i] >= 0;
		h->limits.value[old_limits[i]] = old->limit[i] > 0 ? old->limit[i] : 0;
	}
}

bool snapshot_is_old(const void *bytes, size_t len)
{
	return len >= sizeof(struct old_head) && memcmp(bytes, "agshpol2", 8) == 0;
}

const char *snapshot_renew(const void *bytes, size_t len, char **out)
{
	const struct old_head *old = bytes;
	const char *base = bytes, *wrong = snapshot_check_head(bytes, len, sizeof(*old), old->part);
	struct snapshot_head h = {0};
	struct buf all = {0}, slots = {0};

	if (wrong != NULL)
		return wrong;
	fill_head(old, &h);
	for (unsigned k = 0; k < POLICY_RULE_CLASSES; k++) {
		const struct snapshot_span *s = &old->class[k].slots;
		const uint64_t n = old->part[PART_SLOTS].n;
		const struct snapshot_slot *first = (const void *)(base + old->part[PART_SLOTS].at);

		if (s->at > n || s->n > n - s->at || (s->n & (s->n - 1)) != 0) {
			buf_done(&slots);
			return "an index";
		}
		h.class[k] = (struct snapshot_class){
			.rules = old->class[k].rules,
			.slots = write_slots(first + s->at, s->n, old->class[k].always, &slots),
			.fallback = old->class[k].fallback,
			.line = old->class[k].line,
			.column = old->class[k].column,
		};
	}
	buf_add(&all, &h, sizeof(h));
	for (unsigned i = 0; i < PARTS; i++) {
		const bool index = i == PART_SLOTS;
		const size_t size = index ? slots.len : old->part[i].n * snapshot_item_size[i];

		h.part[i] = (struct snapshot_place){all.len, size / snapshot_item_size[i]};
		buf_add(&all, index ? slots.data : base + old->part[i].at, size);
		buf_add(&all, "\0\0\0\0\0\0\0", -all.len & 7);
	}
	buf_done(&slots);
	h.size = all.len;
	memcpy(all.data, &h, sizeof(h));
	*out = buf_take(&all);
	return NULL;
}
