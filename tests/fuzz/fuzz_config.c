// SPDX-License-Identifier: Apache-2.0
/* A configuration file, a file of keys and an override. The first byte chooses. */
#include "base/fdio.h"
#include "base/mem.h"
#include "config/table.h"
#include "launcher/settings.h"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is shown of an accepted file can be read again and is the same. */
static void read_again(const struct config *c)
{
	cleanup_buf struct buf first = {0}, second = {0}, json = {0};
	struct config again;

	config_show(c, false, &first);
	config_show(c, true, &json);
	ensure(config_defaults(CONFIG_SYSTEM, &again, NULL) == 0);
	ensure(config_parse("shown", first.data, first.len, &again, NULL, NULL) == 0);
	config_show(&again, false, &second);
	ensure(strcmp(first.data, second.data) == 0);
	config_done(&again);
}

/* Every part of every key of the real table, with those of other names. */
static void add_words(const char *prefix, struct strv *out)
{
	struct strv below = {0};

	config_row_words(prefix, &below);
	for (size_t i = 0; i < below.n; i++) {
		cleanup_free char *key =
			mem_printf("%s%s%s", prefix, prefix[0] != '\0' ? "." : "", below.v[i]);

		strv_add_new(out, below.v[i]);
		add_words(key, out);
	}
	strv_done(&below);
}

/* A byte above 127 and the one behind it stand for a word of the table, so that one change of the
 * fuzzer gives another known key. */
static void write_words(const uint8_t *data, size_t len, struct buf *out)
{
	static struct strv words;

	if (words.n == 0)
		add_words("", &words);
	for (size_t i = 0; i < len; i++) {
		if (data[i] < 128 || i + 1 == len) {
			buf_add(out, &data[i], 1);
			continue;
		}
		i++;
		buf_adds(out, words.v[((data[i - 1] & 127u) * 256u + data[i]) % words.n]);
	}
}

/* The whole way that a start and a SIGHUP take: a file, its checks, and what it names. */
static void load_file(const struct buf *text)
{
	const enum config_mode mode = geteuid() == 0 ? CONFIG_SYSTEM : CONFIG_USER;
	cleanup_fd int fd = memfd_create("fuzz", MFD_CLOEXEC);
	cleanup_buf struct buf report = {0};
	struct settings_source source = {.mode = mode, .must_exist = true};
	struct settings s;
	struct err err = {0};
	int r;

	ensure(fd != -1 && fchmod(fd, 0600) == 0);
	ensure(text->len == 0 || write(fd, text->data, text->len) == (ssize_t)text->len);
	source.path = mem_printf("/proc/self/fd/%d", fd);
	r = settings_load(&source, NULL, &s, &report, &err);
	ensure((r == 0) == (err.code == E_OK));
	if (r == 0)
		settings_done(&s);
	settings_source_done(&source);
}

/* A file with an error changes nothing. */
static void apply(char kind, const struct buf *text)
{
	const char *bytes = text->len > 0 ? text->data : "";
	cleanup_buf struct buf report = {0}, before = {0}, after = {0};
	struct err err = {0};
	struct config c;
	int r;

	ensure(config_defaults(CONFIG_SYSTEM, &c, NULL) == 0);
	config_show(&c, true, &before);
	r = kind == 'o' ? config_override(bytes, &c, &err)
			: config_parse("fuzz", bytes, text->len, &c, &report, &err);
	ensure((r == 0) == (err.code == E_OK));
	config_show(&c, true, &after);
	ensure(r == 0 || strcmp(before.data, after.data) == 0);
	if (r == 0) {
		read_again(&c);
		config_check(&c, &err);
	}
	config_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	cleanup_buf struct buf report = {0}, text = {0};
	struct err err = {0};
	struct api_keys keys;

	if (len == 0)
		return 0;
	if (data[0] == 'k') {
		if (api_keys_parse("fuzz", (const char *)data + 1, len - 1, &keys, &report, &err) ==
		    0)
			api_keys_done(&keys);
		return 0;
	}
	if (data[0] == 'w')
		write_words(data + 1, len - 1, &text);
	else
		buf_add(&text, data + 1, len - 1);
	apply((char)data[0], &text);
	if (data[0] != 'o')
		load_file(&text);
	return 0;
}
