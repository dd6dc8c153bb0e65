// SPDX-License-Identifier: Apache-2.0
/* The document follows the tables; that answers follow them too is shown through the server. */
#include "api/testkit/api_testkit.h"

static json_t *document(struct rig *r, bool metrics)
{
	struct err err = {0};
	json_t *doc = NULL;

	r->api.config.metrics_enabled = metrics;
	r->api.config.metrics_path = (char *)"/numbers";
	cleanup_got struct got g = rig_call(r, NULL, "GET /openapi.json", NULL);

	if (json_parse(g.body.data, g.body.len, &doc, &err) < 0)
		fail_msg("%s", err.message);
	return doc;
}

static const json_t *at(const json_t *doc, const char *const *keys)
{
	for (; *keys != NULL; keys++)
		doc = json_object_get(doc, *keys);
	return doc;
}
#define AT(doc, ...) at(doc, (const char *const[]){__VA_ARGS__, NULL})

static void api_1_every_row_is_an_operation(void **state)
{
	json_t *doc = document(*state, true);

	for (size_t i = 0; i < api_nmethods; i++) {
		const struct method *m = &api_methods[i];
		cleanup_free char *verb = mem_strdup(m->verb);
		cleanup_free char *status = mem_printf("%d", m->answers[0].status);
		const json_t *op;

		for (char *c = verb; *c != '\0'; c++)
			*c |= 0x20;
		op = AT(doc, "paths", m->path, verb);
		assert_non_null(AT(op, "responses", status));
		if (m->kind == BIDIRECTIONAL) { /* an answer of the operation that it upgrades */
			assert_string_equal(json_string_value(json_array_get(AT(op, "x-kinds"), 1)),
					    "bidirectional");
			continue;
		}
		assert_string_equal(json_string_value(AT(op, "operationId")), m->rpc);
		assert_string_equal(json_string_value(json_array_get(AT(op, "x-kinds"), 0)),
				    m->kind == UNARY ? "unary" : "server stream");
		assert_int_equal(json_array_size(AT(op, "x-listeners")),
				 __builtin_popcount(m->listeners));
		assert_int_equal(AT(op, "requestBody") != NULL, m->body != NULL);
		assert_int_equal(json_array_size(AT(op, "security")), m->roles != 0 ? 3 : 0);
	}
	assert_non_null(AT(doc, "paths", "/numbers", "get"));
	json_decref(doc);
	doc = document(*state, false);
	assert_null(AT(doc, "paths", "/numbers"));
	json_decref(doc);
}

static void refs_resolve(const json_t *schemas, const json_t *v)
{
	const char *key, *ref;
	json_t *item;
	size_t i;

	json_array_foreach(v, i, item) refs_resolve(schemas, item);
	json_object_foreach((json_t *)(uintptr_t)v, key, item)
	{
		ref = json_string_value(item);
		if (strcmp(key, "$ref") == 0 && strstr(ref, "/schemas/") != NULL &&
		    json_object_get(schemas, strrchr(ref, '/') + 1) == NULL)
			fail_msg("%s leads nowhere", ref);
		refs_resolve(schemas, item);
	}
}

static void api_1_every_reference_leads_somewhere(void **state)
{
	json_t *doc = document(*state, true);

	refs_resolve(AT(doc, "components", "schemas"), doc);
	json_decref(doc);
}

/* The boundaries of the tables, kind by kind. */
static void api_1_requests_are_described_by_their_tables(void **state)
{
	json_t *doc = document(*state, true);
	const json_t *all = AT(doc, "components", "schemas");
	const json_t *session = AT(all, "SessionRequest", "properties");
	const json_t *patch = AT(all, "SessionPatch", "properties");

	assert_int_equal(json_integer_value(AT(session, "workspace", "maxLength")), 4095);
	assert_int_equal(json_integer_value(AT(session, "workspace", "minLength")), 1);
	assert_int_equal(json_integer_value(AT(session, "id", "minLength")), 0);
	assert_int_equal(json_integer_value(AT(session, "resource_limits", "properties", "pids_max",
					       "minimum")),
			 1);
	assert_string_equal(json_string_value(AT(session, "network", "properties", "allowed_ports",
						 "items", "type")),
			    "integer");
	assert_string_equal(
		json_string_value(AT(session, "environment", "additionalProperties", "type")),
		"string");
	assert_int_equal(json_array_size(AT(patch, "environment", "additionalProperties", "type")),
			 2);
	assert_null(AT(patch, "workspace")); /* only known to be refused */
	assert_true(json_is_false(AT(all, "ExecRequest", "additionalProperties")));
	assert_string_equal(
		json_string_value(json_array_get(AT(all, "SessionRequest", "required"), 0)),
		"workspace");
	json_decref(doc);
}

/* Each reference leads to a schema; returns how many there are. */
static size_t check_references(const json_t *all, const json_t *at)
{
	static const char to[] = "#/components/schemas/";
	const char *key;
	size_t n = 0, i;
	json_t *v;

	if (json_is_array(at))
		json_array_foreach(at, i, v) n += check_references(all, v);
	json_object_foreach((json_t *)at, key, v)
	{
		const char *text = json_string_value(v);

		n += check_references(all, v);
		if (strcmp(key, "$ref") != 0 || strncmp(text, to, strlen(to)) != 0)
			continue;
		assert_non_null(json_object_get(all, text + strlen(to)));
		n++;
	}
	return n;
}

static void api_1_answers_are_described_by_their_shapes(void **state)
{
	json_t *doc = document(*state, true);
	const json_t *all = AT(doc, "components", "schemas");

	assert_true(check_references(all, doc) > json_object_size(all));
	assert_int_equal(json_array_size(AT(all, "Session", "properties", "state", "enum")), 6);
	assert_int_equal(json_array_size(AT(all, "Session", "properties", "ended", "type")), 2);
	assert_string_equal(json_string_value(AT(all, "Session", "properties", "created", "type")),
			    "string");
	assert_int_equal(json_array_size(AT(all, "Error", "properties", "error", "properties",
					    "code", "enum")),
			 E_CODES - 1);
	assert_int_equal(json_array_size(AT(all, "Event", "required")), 5);
	assert_non_null(AT(all, "Command", "properties", "error", "anyOf"));
	assert_string_equal(
		json_string_value(AT(all, "Sessions", "properties", "sessions", "items", "$ref")),
		"#/components/schemas/Session");
	json_decref(doc);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(api_1_every_row_is_an_operation),
		TEST(api_1_every_reference_leads_somewhere),
		TEST(api_1_requests_are_described_by_their_tables),
		TEST(api_1_answers_are_described_by_their_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
