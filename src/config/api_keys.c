// SPDX-License-Identifier: Apache-2.0
/* The file of API keys. It contains digests, never secrets. */
#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"
#include "config/config.h"
#include "config/report.h"

#define KEYS_MAX 1000
#define SECRET_LEN 128

static const char *const roles[] = {
	[ROLE_AGENT] = "agent", [ROLE_APPROVER] = "approver", [ROLE_ADMIN] = "admin", NULL};
static const char *const known[] = {"id", "agent_id", "role", "uid", "sha256", NULL};
static const char *const sections[] = {"keys", NULL};

const char *role_name(enum role r)
{
	return roles[r];
}

/* The scalar of a key; NULL if the key is absent or (reported) not a scalar. */
static const struct yaml *get(struct report *r, const struct yaml *entry, const char *key,
			      bool required)
{
	const struct yaml *v = yaml_get(entry, key);

	if (v == NULL && required)
		report_add(r, entry->line, entry->column, "%s is missing", key);
	if (v == NULL || v->kind == YAML_SCALAR)
		return v;
	report_add(r, v->line, v->column, "%s must be a word", key);
	return NULL;
}

static char *read_id(struct report *r, const struct yaml *entry, const char *key, bool required)
{
	const struct yaml *v = get(r, entry, key, required);

	if (v == NULL)
		return NULL;
	if (!id_valid(v->text))
		report_add(r, v->line, v->column, "%s must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}",
			   key);
	return mem_strdup(v->text);
}

static enum role read_role(struct report *r, const struct yaml *entry)
{
	const struct yaml *v = get(r, entry, "role", true);

	for (enum role i = ROLE_AGENT; v != NULL && i <= ROLE_ADMIN; i++)
		if (strcmp(v->text, roles[i]) == 0)
			return i;
	if (v != NULL) {
		const char *near = yaml_suggest(v->text, roles);

		report_add(r, v->line, v->column, "role must be agent, approver or admin%s%s%s",
			   near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
			   near != NULL ? "'?)" : "");
	}
	return ROLE_APPROVER; /* for it fewest other keys are required */
}

static uint32_t read_uid(struct report *r, const struct yaml *entry, bool required)
{
	const struct yaml *v = get(r, entry, "uid", required);
	unsigned long n;
	char *end;

	if (v == NULL)
		return UINT32_MAX;
	n = strtoul(v->text, &end, 10);
	if (v->quoted || v->text[0] < '0' || v->text[0] > '9' || *end != '\0' || n >= UINT32_MAX ||
	    (v->text[0] == '0' && n > 0))
		report_add(r, v->line, v->column, "uid must be a number from 0 to %u",
			   UINT32_MAX - 1);
	return (uint32_t)n;
}

static void read_entry(struct report *r, const struct yaml *entry, struct api_keys *k)
{
	struct api_key key = {0};
	const struct yaml *digest;

	if (entry->kind != YAML_MAP) {
		report_add(r, entry->line, entry->column,
			   "must be {id, agent_id, role, uid, sha256}");
		return;
	}
	for (size_t i = 0; i < entry->n; i++) {
		const struct yaml_item *item = &entry->item[i];
		const char *const *name = known;

		while (*name != NULL && strcmp(*name, item->key) != 0)
			name++;
		if (*name == NULL)
			report_unknown(r, item, item->key, yaml_suggest(item->key, known));
	}
	key.id = read_id(r, entry, "id", true);
	key.agent_id = read_id(r, entry, "agent_id", false);
	if (key.agent_id == NULL)
		key.agent_id = mem_strdup(key.id);
	key.role = read_role(r, entry);
	key.uid = read_uid(r, entry, key.role != ROLE_APPROVER);
	digest = get(r, entry, "sha256", true);
	if (digest != NULL && hash_unhex(key.sha256, HASH_LEN, digest->text) < 0)
		report_add(r, digest->line, digest->column, "sha256 must be 64 hexadecimal digits");
	/* Two keys with one name or one secret would make it unclear which client asks. */
	for (size_t i = 0, n = r->count == 0 ? k->n : 0; i < n; i++) {
		if (strcmp(key.id, k->key[i].id) == 0)
			report_add(r, entry->line, entry->column, "id '%.64s' stands here twice",
				   key.id);
		if (memcmp(key.sha256, k->key[i].sha256, HASH_LEN) == 0)
			report_add(r, entry->line, entry->column, "sha256 stands here twice");
	}
	k->key[k->n++] = key;
}

static void read_keys(struct report *r, const struct yaml *root, struct api_keys *k)
{
	const struct yaml *list = yaml_get(root, "keys");

	if (root->kind != YAML_MAP || list == NULL) {
		report_add(r, root->line, root->column, "must be a list 'keys:'");
		return;
	}
	for (size_t i = 0; i < root->n; i++)
		if (root->item[i].value != list)
			report_unknown(r, &root->item[i], root->item[i].key,
				       yaml_suggest(root->item[i].key, sections));
	if (list->kind != YAML_LIST || list->n > KEYS_MAX) {
		report_add(r, list->line, list->column, "keys must be a list of at most %d",
			   KEYS_MAX);
		return;
	}
	k->key = list->n > 0 ? mem_alloc(list->n * sizeof(*k->key)) : NULL;
	for (size_t i = 0; i < list->n; i++)
		read_entry(r, list->item[i].value, k);
}

int api_keys_parse(const char *name, const char *text, size_t len, struct api_keys *out,
		   struct buf *report, struct err *err)
{
	struct report r = {name, report, err, 0};
	struct api_keys k = {0};
	struct err why = {0};
	struct yaml *root;
	int rc = yaml_parse(name, text, len, NULL, &root, &why);

	if (rc < 0) {
		if (report != NULL)
			buf_addf(report, "%s\n", why.message);
		return err_set(err, why.code, name, "%s", why.message);
	}
	read_keys(&r, root, &k);
	yaml_free(root);
	rc = report_done(&r);
	if (rc < 0)
		api_keys_done(&k);
	else
		*out = k;
	return rc;
}

const struct api_key *api_keys_find(const struct api_keys *k, const void *secret, size_t len)
{
	const struct api_key *found = NULL;
	uint8_t digest[HASH_LEN];

	if (len == 0 || len > SECRET_LEN)
		return NULL;
	hash_sha256(digest, secret, len, NULL, 0);
	/* Compare every key, so that the time does not depend on which one matches. */
	for (size_t i = 0; i < k->n; i++)
		if (hash_equal(digest, k->key[i].sha256, HASH_LEN))
			found = &k->key[i];
	return found;
}

void api_keys_done(struct api_keys *k)
{
	for (size_t i = 0; i < k->n; i++) {
		free(k->key[i].id);
		free(k->key[i].agent_id);
	}
	free(k->key);
	*k = (struct api_keys){0};
}
