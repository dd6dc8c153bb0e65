// SPDX-License-Identifier: Apache-2.0
/* A pattern and a text, parted by a newline: matching ends, stays in bounds, and keeps the
 * promises between patterns. */
#include "base/mem.h"
#include "policy/glob.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
	cleanup_free char *pattern = NULL, *text = NULL, *escaped = NULL;
	const char *pair[2];

	if (line == NULL || size > 512)
		return 0;
	pattern = mem_strndup((const char *)data, (size_t)(line - data));
	text = mem_strndup((const char *)line + 1, size - (size_t)(line + 1 - data));
	escaped = mem_alloc(2 * strlen(text) + 1);
	glob_escape(text, escaped);
	pair[0] = pair[1] = text;
	if (glob_check_text(pattern) == NULL) {
		const bool match = glob_match_text(pattern, text);

		ensure(glob_match_joined(pattern, pair, 1) == match);
		glob_match_joined(pattern, pair, 2);
		ensure(!match || text[0] == '\0' || glob_text_overlaps(pattern, escaped));
		ensure(glob_text_covers(pattern, pattern));
	}
	if (text[0] != '\0' && glob_check_text(escaped) == NULL)
		ensure(glob_match_text(escaped, text));
	if (glob_check_path(pattern) == NULL && glob_plain_path(text)) {
		const bool match = glob_match_path(pattern, text);

		if (glob_check_path(escaped) == NULL) {
			ensure(glob_match_path(escaped, text));
			ensure(!match || glob_path_overlaps(pattern, escaped));
			ensure(match || !glob_path_covers(pattern, escaped));
		}
		ensure(glob_path_covers("**", pattern));
	}
	return 0;
}
