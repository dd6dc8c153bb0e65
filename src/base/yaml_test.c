// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/mem.h"
#include "base/yaml.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct yaml *parse(const char *text)
{
	cleanup_free char *copy = mem_dup(text, strlen(text));
	struct err err = {0};
	struct yaml *y = NULL;

	if (yaml_parse("f.yaml", copy, strlen(text), NULL, &y, &err) != 0)
		fail_msg("refused: %s: %s", text, err.message);
	return y;
}

static void refused(const char *text, const char *message)
{
	cleanup_free char *copy = mem_dup(text, strlen(text));
	struct err err = {0};
	struct yaml *y = NULL;

	if (yaml_parse("f.yaml", copy, strlen(text), NULL, &y, &err) != -E_BAD_REQUEST)
		fail_msg("accepted: %s", text);
	assert_null(y);
	assert_string_equal(err.subject, "f.yaml");
	if (strncmp(err.message, message, strlen(message)) != 0)
		fail_msg("%s: '%s' does not begin with '%s'", text, err.message, message);
	assert_int_equal(yaml_parse("f.yaml", copy, strlen(text), NULL, &y, NULL), -E_BAD_REQUEST);
}

static void pol_5_nodes_know_their_places(void **state)
{
	struct yaml *y = parse("# comment\n"
			       "name: default\n"
			       "list:\n"
			       "  - one\n"
			       "  - {ä: \"2\", k: [x]}\n"
			       "empty:\n");
	const struct yaml *list = yaml_get(y, "list"), *inner;

	assert_int_equal(y->kind, YAML_MAP);
	assert_int_equal(y->n, 3);
	assert_int_equal(y->line, 2);
	assert_int_equal(y->column, 1);
	assert_string_equal(y->item[0].key, "name");
	assert_int_equal(y->item[1].key_line, 3);
	assert_int_equal(y->item[1].key_column, 1);
	assert_string_equal(yaml_get(y, "name")->text, "default");
	assert_int_equal(yaml_get(y, "name")->line, 2);
	assert_int_equal(yaml_get(y, "name")->column, 7);
	assert_int_equal(list->kind, YAML_LIST);
	assert_int_equal(list->n, 2);
	assert_null(list->item[0].key);
	assert_string_equal(list->item[0].value->text, "one");
	inner = list->item[1].value;
	assert_string_equal(yaml_get(inner, "ä")->text, "2");
	assert_true(yaml_get(inner, "ä")->quoted);
	assert_int_equal(inner->item[1].key_line, 5);
	assert_int_equal(inner->item[1].key_column, 14);
	assert_string_equal(yaml_get(inner, "k")->item[0].value->text, "x");
	assert_string_equal(yaml_get(y, "empty")->text, "");
	assert_false(yaml_get(y, "empty")->quoted);
	assert_null(yaml_get(y, "none"));
	assert_null(yaml_get(list, "one"));
	assert_null(yaml_get(NULL, "one"));
	yaml_free(y);
}

static void cfg_1_an_empty_file_is_an_empty_map(void **state)
{
	static const char *const texts[] = {"", "\n", "# only this\n", "---\n", "---\n...\n"};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct yaml *y = parse(texts[i]);

		assert_int_equal(y->kind, YAML_MAP);
		assert_int_equal(y->n, 0);
		assert_int_equal(y->line, 1);
		assert_int_equal(y->column, 1);
		assert_null(yaml_get(y, "a"));
		yaml_free(y);
	}
	yaml_free(NULL);
}

static void cfg_1_scalars_alone_stay_scalars(void **state)
{
	struct yaml *y = parse("''");

	assert_int_equal(y->kind, YAML_SCALAR);
	assert_true(y->quoted);
	yaml_free(y);
	y = parse("word");
	assert_int_equal(y->kind, YAML_SCALAR);
	assert_string_equal(y->text, "word");
	yaml_free(y);
}

static void pol_5_quotes_and_tags_tell_strings(void **state)
{
	static const struct {
		const char *text;
		bool quoted;
	} rows[] = {
		{"a: 1", false},	{"a: '1'", true},	 {"a: \"1\"", true},
		{"a: |\n  1\n", true},	{"a: !!str 1", true},	 {"a: ! 1", true},
		{"a: !!int 1", false},	{"a: !!int '1'", false}, {"a: !!float 1", false},
		{"a: !!bool 1", false}, {"a: !!null 1", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct yaml *y = parse(rows[i].text);

		assert_int_equal(yaml_get(y, "a")->quoted, rows[i].quoted);
		yaml_free(y);
	}
	yaml_free(parse("!!map {a: !!seq [b]}"));
}

static void pol_5_what_is_not_supported_is_refused_with_its_place(void **state)
{
	refused("a: &x 1\nb: 2\n", "f.yaml:1:4: anchors and aliases are not supported");
	refused("a: *x\n", "f.yaml:1:4: anchors and aliases are not supported (a value that begins "
			   "with '*' or '&' must be quoted)");
	refused("a: [**/.env]\n", "f.yaml:1:5: a value that begins with '*' must be quoted");
	refused("a:\n  - *\n", "f.yaml:2:5: a value that begins with '*' must be quoted");
	refused("*x : 1\n", "f.yaml:1:1: anchors and aliases are not supported");
	refused("a: &x [1]\n", "f.yaml:1:4: anchors and aliases are not supported");
	refused("&x a: 1\n", "f.yaml:1:1: anchors and aliases are not supported");
	refused("a: &x {b: 1}\n", "f.yaml:1:4: anchors and aliases are not supported");
	refused("a: !mine 1\n", "f.yaml:1:4: this tag is not supported here");
	refused("a: !!binary aGk=\n", "f.yaml:1:4: this tag is not supported here");
	refused("a: !!map 1\n", "f.yaml:1:4: this tag is not supported here");
	refused("a: !!str [1]\n", "f.yaml:1:4: this tag is not supported here");
	refused("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document");
	refused("a: 1\nb: 2\n\na: 3\nb: 4\n", "f.yaml:4:1: key 'a' stands here twice");
	refused("b: 1\na: 2\nb: 3\nb: 4\na: 5\n", "f.yaml:3:1: key 'b' stands here twice");
	refused("x:\n  [{k: 1, \"k\": 2}]\n", "f.yaml:2:11: key 'k' stands here twice");
	refused("? [a]\n: 1\n", "f.yaml:1:3: a key must be a scalar");
	refused("? {a: 1}\n: 1\n", "f.yaml:1:3: a key must be a scalar");
	refused("a: \"x\\0y\"\n", "f.yaml:1:4: NUL inside a scalar");
	refused("\"x\\0y\": 1\n", "f.yaml:1:1: NUL inside a scalar");
}

static void pol_5_broken_files_are_refused_with_their_place(void **state)
{
	refused("a: [1, 2\nb: 3\n", "f.yaml:2:");
	refused("a: 1\n  b: 2\n", "f.yaml:2:4: mapping values are not allowed in this context");
	refused("a:\n\tb: 1\n", "f.yaml:2:1: ");
	refused("a: \"open\n", "f.yaml:");
	refused("a: 1\näb: \xff\n", "f.yaml:2:5: ");
	refused("a: 1\n\xff", "f.yaml:2:1: ");
	refused("}", "f.yaml:1:1: ");
}

static char *nested(unsigned depth)
{
	struct buf b = {0};

	for (unsigned i = 0; i < depth; i++)
		buf_addc(&b, '[');
	for (unsigned i = 0; i < depth; i++)
		buf_addc(&b, ']');
	return buf_take(&b);
}

static void pol_5_depth_is_bounded(void **state)
{
	cleanup_free char *fits = nested(32), *deep = nested(33), *very = nested(900);

	yaml_free(parse(fits));
	refused(deep, "f.yaml:1:33: nested too deeply");
	refused(very, "f.yaml:1:33: nested too deeply");
	/* siblings do not add up */
	yaml_free(parse("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
			"[],[],[],[],[],[],[],[],[],[],[],[],[],[],{a: b}]"));
}

static void cfg_1_no_bytes_at_all(void **state)
{
	struct yaml *y = NULL;

	assert_int_equal(yaml_parse("f.yaml", NULL, 0, NULL, &y, NULL), 0);
	assert_int_equal(y->n, 0);
	yaml_free(y);
}

static void pol_5_size_is_bounded(void **state)
{
	const size_t max = 4 * 1024 * 1024;
	cleanup_free char *text = mem_alloc(max + 1);
	struct yaml *y = NULL;
	struct err err = {0};

	memset(text, '\n', max + 1);
	assert_int_equal(yaml_parse("f.yaml", text, max, NULL, &y, &err), 0);
	yaml_free(y);
	y = NULL;
	assert_int_equal(yaml_parse("f.yaml", text, max + 1, NULL, &y, &err), -E_TOO_LARGE);
	assert_string_equal(err.message, "f.yaml:1:1: larger than 4194304 bytes");
	assert_null(y);
}

static void pol_5_many_keys(void **state)
{
	cleanup_buf struct buf b = {0};
	struct yaml *y;

	for (int i = 0; i < 5000; i++)
		buf_addf(&b, "k%d: %d\n", i, i);
	y = parse(b.data);
	assert_int_equal(y->n, 5000);
	assert_string_equal(yaml_get(y, "k4999")->text, "4999");
	for (int i = 0; i < 5000; i++)
		assert_int_equal(y->item[i].key_line, i + 1);
	yaml_free(y);
	buf_adds(&b, "k77: 1\n");
	refused(b.data, "f.yaml:5001:1: key 'k77' stands here twice");
}

static const char *suggest(const char *word)
{
	static const char *const list[] = {"allow", "deny",	   "approve", "redirect",
					   "log",   "soft_delete", NULL};

	return yaml_suggest(word, list);
}

static void note(const struct yaml_item *item, void *arg)
{
	buf_addf(arg, "%u:%u %s, ", item->key_line, item->key_column, item->key);
}

static void pol_5_keys_that_stand_twice_are_all_reported(void **state)
{
	static const char text[] = "a: 1\nb: {x: 1, x: 2}\na: 3\nc: 4\nb: 5\na: 6\n";
	cleanup_buf struct buf told = {0};
	const struct yaml_twice twice = {note, &told};
	struct yaml *y = NULL;
	struct err err = {0};

	assert_int_equal(yaml_parse("f.yaml", text, strlen(text), &twice, &y, &err), 0);
	assert_string_equal(told.data, "2:11 x, 3:1 a, 5:1 b, 6:1 a, ");
	assert_int_equal(y->n, 3);
	assert_string_equal(y->item[0].value->text, "1");
	assert_int_equal(y->item[1].value->n, 1);
	assert_string_equal(y->item[2].key, "c");
	yaml_free(y);
	assert_int_equal(yaml_parse("f.yaml", text, strlen(text), NULL, &y, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "f.yaml:2:11: key 'x' stands here twice");
}

static void pol_5_a_byte_order_mark_is_passed_over(void **state)
{
	struct yaml *y = parse("\xef\xbb\xbf"
			       "a: 1\nb: 2\n");

	assert_int_equal(y->n, 2);
	assert_string_equal(y->item[0].key, "a");
	assert_int_equal(y->item[0].key_column, 1);
	yaml_free(y);
	y = parse("\xef\xbb\xbf");
	assert_int_equal(y->kind, YAML_MAP);
	yaml_free(y);
	refused("\xef\xbb\xbf"
		"a: 1\nb: \xff\n",
		"f.yaml:2:4: ");
	refused("\xef\xbb", "f.yaml:1:");
}

static void pol_5_misspelt_words_get_a_suggestion(void **state)
{
	const char *const close[] = {"abcdefgh", "abcdefgx", NULL};
	const char *const letters[] = {"ab", "abc", NULL};
	char word[66];
	const char *const longs[] = {word, NULL};

	assert_string_equal(suggest("alow"), "allow");
	assert_string_equal(suggest("allow"), "allow");
	assert_string_equal(suggest("allwo"), "allow");
	assert_string_equal(suggest("dney"), "deny");
	assert_string_equal(suggest("denyy"), "deny");
	assert_string_equal(suggest("lgo"), "log");
	assert_string_equal(suggest("softdelete"), "soft_delete");
	assert_string_equal(suggest("sftdlete"), "soft_delete");
	assert_null(suggest("sftdlt"));
	assert_null(suggest("dxxy"));
	assert_null(suggest("lxx"));
	assert_null(suggest(""));
	assert_null(suggest("permit"));
	assert_string_equal(yaml_suggest("abcdefgy", close), "abcdefgh");
	assert_string_equal(yaml_suggest("abcdefgx", close), "abcdefgx");
	assert_null(yaml_suggest("a", letters));
	assert_null(yaml_suggest("a", NULL)); /* an empty list */
	assert_string_equal(yaml_suggest("abd", letters), "abc");
	assert_string_equal(yaml_suggest("bac", letters), "abc");

	memset(word, 'w', sizeof(word));
	word[64] = '\0';
	assert_ptr_equal(yaml_suggest(word, longs), word);
	word[64] = 'w';
	word[65] = '\0';
	assert_null(yaml_suggest(word, longs));
	assert_null(yaml_suggest(word + 1, longs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_5_nodes_know_their_places),
		cmocka_unit_test(cfg_1_an_empty_file_is_an_empty_map),
		cmocka_unit_test(cfg_1_scalars_alone_stay_scalars),
		cmocka_unit_test(pol_5_quotes_and_tags_tell_strings),
		cmocka_unit_test(pol_5_what_is_not_supported_is_refused_with_its_place),
		cmocka_unit_test(pol_5_broken_files_are_refused_with_their_place),
		cmocka_unit_test(pol_5_depth_is_bounded),
		cmocka_unit_test(cfg_1_no_bytes_at_all),
		cmocka_unit_test(pol_5_size_is_bounded),
		cmocka_unit_test(pol_5_many_keys),
		cmocka_unit_test(pol_5_keys_that_stand_twice_are_all_reported),
		cmocka_unit_test(pol_5_a_byte_order_mark_is_passed_over),
		cmocka_unit_test(pol_5_misspelt_words_get_a_suggestion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
