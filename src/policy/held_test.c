// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

#define EVERY FILE_OPS
#define LOOK (FILE_OP(read) | FILE_OP(open) | FILE_OP(stat) | FILE_OP(list))
#define CHANGE (FILE_OP(write) | FILE_OP(create) | FILE_OP(delete))

/* A session with a file server, and one without. */
static const struct file_place served[] = {
	{.path = "/", .alone = true, .open = FILE_OP(stat) | FILE_OP(list), .rest = HOLDER_MOUNT},
	{.path = "/workspace", .rest = HOLDER_SERVER},
	{.path = "/home/me/p", .canonical = "/workspace", .rest = HOLDER_SERVER},
	{.path = "/tmp", .open = EVERY},
	{.path = "/usr", .open = LOOK | FILE_OP(execute), .rest = HOLDER_MOUNT},
	{.path = "/usr/blocked", .rest = HOLDER_VIEW},
	{.path = "/data", .open = EVERY & ~CHANGE, .landlock = CHANGE},
};
static const struct file_place native[] = {
	{.path = "/workspace", .open = EVERY},
	{.path = "/home/me/p", .canonical = "/workspace", .open = EVERY},
	{.path = "/tmp", .open = EVERY},
	{.path = "/usr", .open = LOOK | FILE_OP(execute), .rest = HOLDER_MOUNT},
};

static struct file_view view_of(const struct file_place *places, size_t n)
{
	struct file_view v = {0};

	for (size_t i = 0; i < n; i++)
		file_view_add(&v, &places[i]);
	return v;
}

struct row {
	const char *rules; /* the last one is asked about */
	enum policy_held served, native;
	const char *places; /* where it is not held with a file server */
};

static void fil_3_a_rule_is_held_where_something_refuses_its_operations(void **state)
{
	static const struct row rows[] = {
		{"{name: a, paths: ['/workspace/x/**'], decision: deny}", POLICY_HELD,
		 POLICY_NOT_HELD, ""},
		{"{name: a, paths: ['/workspace/x/**'], decision: approve}", POLICY_HELD,
		 POLICY_NOT_HELD, ""},
		{"{name: a, paths: ['/workspace/x/**'], decision: allow}", POLICY_HELD, POLICY_HELD,
		 ""},
		{"{name: a, paths: ['/workspace/x/**'], decision: log}", POLICY_HELD, POLICY_HELD,
		 ""},
		{"{name: a, paths: ['/workspace/x/**'], operations: [delete], decision: "
		 "soft_delete}",
		 POLICY_HELD, POLICY_NOT_HELD, ""},
		{"{name: a, paths: ['/tmp/x'], operations: [delete], decision: soft_delete}",
		 POLICY_NOT_HELD, POLICY_NOT_HELD, "/tmp"},
		{"{name: a, paths: ['/workspace/x/**'], decision: redirect, redirect_to: "
		 "/workspace/y}",
		 POLICY_HELD, POLICY_NOT_HELD, ""},
		/* by the real path of the workspace */
		{"{name: a, paths: ['/home/me/p/x'], decision: deny}", POLICY_HELD, POLICY_NOT_HELD,
		 ""},
		{"{name: a, paths: ['/home/me/p/x'], decision: allow}", POLICY_HELD, POLICY_HELD,
		 ""},
		/* not in the view */
		{"{name: a, paths: ['/srv/**'], decision: deny}", POLICY_HELD, POLICY_HELD, ""},
		{"{name: a, paths: ['/usr/blocked/**'], decision: deny}", POLICY_HELD,
		 POLICY_PARTLY_HELD, ""},
		{"{name: a, paths: ['/'], operations: [write], decision: deny}", POLICY_HELD,
		 POLICY_HELD, ""},
		{"{name: a, paths: ['/'], operations: [list], decision: deny}", POLICY_NOT_HELD,
		 POLICY_HELD, "/"},
		/* a mount, Landlock */
		{"{name: a, paths: ['/usr/**'], operations: [write, delete], decision: deny}",
		 POLICY_HELD, POLICY_HELD, ""},
		{"{name: a, paths: ['/usr/**'], operations: [write, read], decision: deny}",
		 POLICY_PARTLY_HELD, POLICY_PARTLY_HELD, "/usr"},
		{"{name: a, paths: ['/data/**'], operations: [write, create], decision: deny}",
		 POLICY_HELD, POLICY_HELD, ""},
		{"{name: a, paths: ['/data/**'], operations: [truncate], decision: deny}",
		 POLICY_NOT_HELD, POLICY_HELD, "/data"},
		/* a native place */
		{"{name: a, paths: ['/tmp/x'], decision: deny}", POLICY_NOT_HELD, POLICY_NOT_HELD,
		 "/tmp"},
		{"{name: a, paths: ['/tmp'], operations: [list], decision: deny}", POLICY_NOT_HELD,
		 POLICY_NOT_HELD, "/tmp"},
		{"{name: a, paths: ['**/.env'], decision: deny}", POLICY_PARTLY_HELD,
		 POLICY_PARTLY_HELD, "/tmp /usr /data"},
		{"{name: a, paths: ['**/.env'], decision: deny, hide: true}", POLICY_PARTLY_HELD,
		 POLICY_PARTLY_HELD, "/tmp /usr /data"},
		/* an earlier rule decides */
		{"{name: b, paths: ['/tmp/**', '/usr/**', '/data/**'], decision: allow}\n"
		 "  - {name: a, paths: ['**/.env'], decision: deny}",
		 POLICY_HELD, POLICY_NOT_HELD, ""},
		{"{name: b, paths: ['/tmp/*'], decision: allow}\n"
		 "  - {name: a, paths: ['/tmp/x/**'], decision: deny}",
		 POLICY_NOT_HELD, POLICY_NOT_HELD, "/tmp"},
		{"{name: b, paths: ['/tmp/x/*'], operations: [read], decision: allow}\n"
		 "  - {name: a, paths: ['/tmp/x/y'], operations: [read], decision: deny}",
		 POLICY_HELD, POLICY_HELD, ""},
		{"{name: b, paths: ['/tmp/x/*'], operations: [read], decision: allow}\n"
		 "  - {name: a, paths: ['/tmp/x/y'], operations: [read, write], decision: deny}",
		 POLICY_NOT_HELD, POLICY_NOT_HELD, "/tmp"},
		/* an allow by the real path does not count */
		{"{name: b, paths: ['/home/me/p/**'], decision: allow}\n"
		 "  - {name: a, paths: ['/workspace/x'], decision: deny}",
		 POLICY_HELD, POLICY_NOT_HELD, ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *text = mem_printf(
			HEAD "default: {files: allow}\nfile_rules:\n  - %s\n", rows[i].rules);
		cleanup_file_view struct file_view with = view_of(served, ARRAY_LEN(served)),
						   without = view_of(native, ARRAY_LEN(native));
		cleanup_strv struct strv places = {0};
		cleanup_buf struct buf list = {0};
		struct policy_kit k;
		uint32_t last;

		policy_kit_open(&k, text, NULL);
		policy_name_workspace(k.p, "/home/me/p");
		last = (uint32_t)policy_rules(k.p, OP_FILE) - 1;
		assert_string_equal(policy_rule_name(k.p, last), "a");
		if (policy_rule_held(k.p, last, &with, &places) != rows[i].served ||
		    policy_rule_held(k.p, last, &without, NULL) != rows[i].native)
			fail_msg("row %zu: %s", i, rows[i].rules);
		for (size_t n = 0; n < places.n; n++)
			buf_addf(&list, "%s%s", n > 0 ? " " : "", places.v[n]);
		assert_string_equal(list.len > 0 ? list.data : "", rows[i].places);
		policy_kit_close(&k);
	}
}

static void fil_3_the_default_is_a_rule_for_what_no_rule_names(void **state)
{
	static const struct {
		const char *text;
		uint32_t lacking, first, first_unheld;
	} rows[] = {
		{"default: {files: allow}\n", 0, 1, 1},
		{"default: {files: deny}\n", 1, 0, 1},
		{"default: {files: deny}\nfile_rules:\n  - {name: a, paths: ['/tmp/**', "
		 "'/data/**', '/'], "
		 "decision: allow}\n  - {name: b, paths: ['/usr/**'], operations: [read, open, "
		 "stat, list, "
		 "execute], decision: allow}\n",
		 0, 3, 3},
		{"default: {files: deny}\nfile_rules:\n  - {name: a, paths: ['/tmp/**', "
		 "'/data/**', '/'], "
		 "decision: allow}\n  - {name: b, paths: ['/usr/**'], operations: [read, open, "
		 "stat, list], "
		 "decision: allow}\n",
		 1, 2, 3},
		{"default: {files: allow}\nfile_rules:\n  - {name: a, paths: ['**/x'], decision: "
		 "deny}\n  "
		 "- {name: b, paths: ['/tmp/y'], decision: deny}\n",
		 2, 0, 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *text = mem_printf(HEAD "%s", rows[i].text);
		cleanup_file_view struct file_view view = view_of(served, ARRAY_LEN(served));
		struct policy_holds holds;
		struct policy_kit k;

		policy_kit_open(&k, text, NULL);
		policy_hold(k.p, &view, &holds);
		assert_int_equal(holds.rules, policy_rules(k.p, OP_FILE) + 1);
		assert_int_equal(holds.lacking, rows[i].lacking);
		assert_int_equal(holds.first, rows[i].first);
		assert_int_equal(holds.first_unheld, rows[i].first_unheld);
		assert_int_equal(holds.places.n > 0, rows[i].lacking > 0);
		assert_string_equal(policy_rule_name(k.p, holds.rules - 1), "default");
		strv_done(&holds.places);
		policy_kit_close(&k);
	}
}

static void fil_3_places_are_named_or_counted(void **state)
{
	cleanup_strv struct strv places = {0};
	cleanup_buf struct buf text = {0};

	for (const char *name = "abcde"; *name != '\0'; name++) {
		cleanup_free char *place = mem_printf("/%c", *name);

		strv_add(&places, place);
		if (places.n >= 3) {
			policy_format_places(&places, &text);
			buf_adds(&text, "; ");
		}
	}
	assert_string_equal(text.data, "/a, /b, /c; /a, /b, /c and 1 more place; "
				       "/a, /b, /c and 2 more places; ");
}

/* ---- random policies and views against every path ---- */

static uint32_t seed = 11;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525U + 1013904223U;
	return (seed >> 8) % n;
}

#define PICK(list) (list)[dice(ARRAY_LEN(list))]
#define POLICIES 1500

static const char *const parts[] = {"a", "b", "w"};
static const char *const patterns[] = {
	"/a/**",   "/a/*",	"/a",	   "**",     "/w/**",	"**/b",	  "**/b/**", "/w/a/*",
	"/w/a/**", "/a/b/**",	"/[ab]/*", "/b/?/w", "/*/b/**", "/**/a",  "/b/**/w", "/w/b",
	"/a/a/a",  "**/a/**/b", "/",	   "/*",     "/b/a/**", "/w/*/*", "/a/w/**",
};
static const char *const where[] = {"/", "/a", "/w", "/w/a", "/a/b", "/b/a", "/a/b/w", "/b"};

static void write_policy(struct buf *out)
{
	static const char *const decisions[] = {"allow", "deny", "deny", "approve", "log"};
	const unsigned rules = 1 + dice(5);

	buf_addf(out, HEAD "default: {files: %s}\nfile_rules:\n", dice(2) ? "allow" : "deny");
	for (unsigned i = 0; i < rules; i++) {
		const char *decision = PICK(decisions);

		buf_addf(out, "  - {name: r%u, decision: %s, paths: ['%s', '%s']", i, decision,
			 PICK(patterns), PICK(patterns));
		if (dice(2) == 0)
			buf_addf(out, ", operations: [%s, %s]",
				 op_file_name((enum op_file)dice(OP_FILES / 2)),
				 op_file_name((enum op_file)(OP_FILES / 2 + dice(OP_FILES / 2))));
		if (decision[0] == 'd' && dice(6) == 0)
			buf_adds(out, ", final: true");
		if (decision[0] == 'd' && dice(4) == 0)
			buf_adds(out, ", existing_only: true");
		buf_adds(out, "}\n");
	}
}

static void random_view(struct file_view *v)
{
	static const uint32_t open[] = {0, EVERY, LOOK, EVERY & ~CHANGE};

	for (unsigned n = 1 + dice(5); n > 0; n--)
		file_view_add(v, &(struct file_place){.path = PICK(where),
						      .alone = dice(4) == 0,
						      .open = PICK(open),
						      .rest = HOLDER_MOUNT});
}

/* Bit i: rule i refuses an operation at some path, and nothing holds it there. */
static uint64_t search(const struct policy *p, const struct file_view *v, char *path,
		       unsigned depth)
{
	const uint32_t rules = (uint32_t)policy_rules(p, OP_FILE);
	const size_t len = strlen(path);
	uint64_t lacking = 0;

	for (unsigned i = 0; i < 2 * OP_FILES; i++) {
		const enum op_file op = (enum op_file)(i / 2);
		struct file_rules found;
		struct verdict verdict;

		policy_decide_file(p, len > 0 ? path : "/", i % 2 != 0, &found);
		policy_file_verdict(p, &found, op, false, &verdict);
		if (!verdict_allows(&verdict) &&
		    file_view_holder(v, op, len > 0 ? path : "/") == HOLDER_NOTHING)
			lacking |= UINT64_C(1) << (found.rule[op] < rules ? found.rule[op] : rules);
	}
	for (size_t i = 0; depth > 0 && i < ARRAY_LEN(parts); i++) {
		sprintf(path + len, "/%s", parts[i]);
		lacking |= search(p, v, path, depth - 1);
		path[len] = '\0';
	}
	return lacking;
}

/* A rule that is held is refused everywhere. The other way round, few may be missed. */
static void fil_3_no_rule_is_held_that_some_path_escapes(void **state)
{
	unsigned held = 0, lacking = 0, missed = 0;

	for (unsigned i = 0; i < POLICIES; i++) {
		cleanup_buf struct buf text = {0};
		cleanup_file_view struct file_view view = {0};
		char path[64] = "";
		struct policy_kit k;
		uint64_t real;

		write_policy(&text);
		random_view(&view);
		policy_kit_open(&k, text.data, NULL);
		real = search(k.p, &view, path, 5);
		for (uint32_t r = 0; r <= policy_rules(k.p, OP_FILE); r++) {
			const bool says = policy_rule_held(k.p, r, &view, NULL) == POLICY_HELD;

			if (says && (real >> r & 1) != 0)
				fail_msg("%sis not held: %s", text.data, policy_rule_name(k.p, r));
			held += says;
			lacking += !says && (real >> r & 1) != 0;
			missed += !says && (real >> r & 1) == 0;
		}
		policy_kit_close(&k);
	}
	assert_in_range(held, 1000, UINT32_MAX);
	assert_in_range(lacking, 1000, UINT32_MAX);
	assert_in_range(missed, 0, (held + lacking) / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_a_rule_is_held_where_something_refuses_its_operations),
		cmocka_unit_test(fil_3_the_default_is_a_rule_for_what_no_rule_names),
		cmocka_unit_test(fil_3_places_are_named_or_counted),
		cmocka_unit_test(fil_3_no_rule_is_held_that_some_path_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
