// SPDX-License-Identifier: Apache-2.0
#include "model/file_type.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *bytes;
	size_t len, at;
	bool container; /* the name says more */
	const char *type;
} magics[] = {
#define MAGIC(s, at, container, type)                 \
	{                                             \
		s, sizeof(s) - 1, at, container, type \
	}
	MAGIC("\177ELF", 0, false, "application/x-elf"),
	MAGIC("\x89PNG\r\n\x1a\n", 0, false, "image/png"),
	MAGIC("\xff\xd8\xff", 0, false, "image/jpeg"),
	MAGIC("GIF8", 0, false, "image/gif"),
	MAGIC("WEBP", 8, false, "image/webp"),
	MAGIC("%PDF-", 0, false, "application/pdf"),
	MAGIC("\x1f\x8b", 0, true, "application/gzip"),
	MAGIC("BZh", 0, true, "application/x-bzip2"),
	MAGIC("\xfd"
	      "7zXZ\0",
	      0, true, "application/x-xz"),
	MAGIC("\x28\xb5\x2f\xfd", 0, true, "application/zstd"),
	MAGIC("7z\xbc\xaf\x27\x1c", 0, false, "application/x-7z-compressed"),
	MAGIC("ustar", 257, false, "application/x-tar"),
	MAGIC("PK\3\4", 0, true, "application/zip"),
	MAGIC("PK\5\6", 0, true, "application/zip"),
	MAGIC("!<arch>\n", 0, true, "application/x-archive"),
	MAGIC("SQLite format 3\0", 0, false, "application/vnd.sqlite3"),
	MAGIC("\0asm", 0, false, "application/wasm"),
	MAGIC("\xca\xfe\xba\xbe", 0, false, "application/java-vm"),
#undef MAGIC
};

static const struct name_row {
	const char *name, *type;
} extensions[] = {
	{"c", "text/x-c"},
	{"h", "text/x-c"},
	{"cc", "text/x-c++"},
	{"cpp", "text/x-c++"},
	{"cxx", "text/x-c++"},
	{"hpp", "text/x-c++"},
	{"py", "text/x-python"},
	{"pyi", "text/x-python"},
	{"pyc", "application/x-python-code"},
	{"js", "text/javascript"},
	{"mjs", "text/javascript"},
	{"cjs", "text/javascript"},
	{"jsx", "text/jsx"},
	{"ts", "text/x-typescript"},
	{"tsx", "text/x-typescript"},
	{"go", "text/x-go"},
	{"rs", "text/x-rust"},
	{"java", "text/x-java"},
	{"kt", "text/x-kotlin"},
	{"scala", "text/x-scala"},
	{"swift", "text/x-swift"},
	{"cs", "text/x-csharp"},
	{"rb", "text/x-ruby"},
	{"php", "text/x-php"},
	{"pl", "text/x-perl"},
	{"pm", "text/x-perl"},
	{"lua", "text/x-lua"},
	{"sh", "text/x-shellscript"},
	{"bash", "text/x-shellscript"},
	{"sql", "text/x-sql"},
	{"html", "text/html"},
	{"htm", "text/html"},
	{"css", "text/css"},
	{"csv", "text/csv"},
	{"tsv", "text/tab-separated-values"},
	{"md", "text/markdown"},
	{"rst", "text/x-rst"},
	{"tex", "text/x-tex"},
	{"txt", "text/plain"},
	{"log", "text/plain"},
	{"ini", "text/plain"},
	{"conf", "text/plain"},
	{"cfg", "text/plain"},
	{"diff", "text/x-diff"},
	{"patch", "text/x-diff"},
	{"json", "application/json"},
	{"jsonl", "application/jsonl"},
	{"yaml", "application/yaml"},
	{"yml", "application/yaml"},
	{"toml", "application/toml"},
	{"xml", "application/xml"},
	{"svg", "image/svg+xml"},
	{"png", "image/png"},
	{"jpg", "image/jpeg"},
	{"jpeg", "image/jpeg"},
	{"gif", "image/gif"},
	{"webp", "image/webp"},
	{"ico", "image/vnd.microsoft.icon"},
	{"pdf", "application/pdf"},
	{"gz", "application/gzip"},
	{"tgz", "application/gzip"},
	{"bz2", "application/x-bzip2"},
	{"xz", "application/x-xz"},
	{"zst", "application/zstd"},
	{"tar", "application/x-tar"},
	{"zip", "application/zip"},
	{"7z", "application/x-7z-compressed"},
	{"jar", "application/java-archive"},
	{"class", "application/java-vm"},
	{"whl", "application/zip"},
	{"deb", "application/vnd.debian.binary-package"},
	{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{"odt", "application/vnd.oasis.opendocument.text"},
	{"wasm", "application/wasm"},
	{"so", "application/x-elf"},
	{"o", "application/x-elf"},
	{"a", "application/x-archive"},
	{"sqlite", "application/vnd.sqlite3"},
	{"woff2", "font/woff2"},
	{"ttf", "font/ttf"},
};

static const struct name_row whole_names[] = {
	{"Makefile", "text/x-makefile"},
	{"GNUmakefile", "text/x-makefile"},
	{"Dockerfile", "text/x-dockerfile"},
	{"CMakeLists.txt", "text/x-cmake"},
};

/* Interpreters of `#!`, without their version. */
static const struct name_row interpreters[] = {
	{"sh", "text/x-shellscript"},	{"bash", "text/x-shellscript"},
	{"dash", "text/x-shellscript"}, {"zsh", "text/x-shellscript"},
	{"ksh", "text/x-shellscript"},	{"python", "text/x-python"},
	{"node", "text/javascript"},	{"perl", "text/x-perl"},
	{"ruby", "text/x-ruby"},	{"php", "text/x-php"},
	{"lua", "text/x-lua"},
};

static const char *find(const struct name_row *row, size_t n, const char *s, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(row[i].name) == len && strncasecmp(row[i].name, s, len) == 0)
			return row[i].type;
	return NULL;
}

static const char *by_name(const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
	const char *dot = strrchr(base, '.');
	const char *type = find(whole_names, ARRAY_LEN(whole_names), base, strlen(base));

	/* the dot of a hidden file begins its name */
	if (type == NULL && dot != NULL && dot > base)
		type = find(extensions, ARRAY_LEN(extensions), dot + 1, strlen(dot + 1));
	return type;
}

/* The program of "#!/usr/bin/env -S python3.11 -u": "python". */
static const char *by_shebang(const char *s, const char *end)
{
	static const char blank[] = " \t";

	while (s < end && *s != '\n') {
		const char *word, *base;

		while (s < end && strchr(blank, *s) != NULL)
			s++;
		for (word = base = s; s < end && *s != '\n' && strchr(blank, *s) == NULL; s++)
			if (*s == '/')
				base = s + 1;
		if ((s - base == 3 && strncmp(base, "env", 3) == 0) || (s > word && *word == '-'))
			continue;
		for (const char *last = s; last > base; last--)
			if (strchr("0123456789.", last[-1]) == NULL)
				return find(interpreters, ARRAY_LEN(interpreters), base,
					    (size_t)(last - base));
		break;
	}
	return NULL;
}

/* A character that the end of the bytes cuts is text. */
static bool is_text(const uint8_t *p, size_t n)
{
	int len;

	for (; n > 0; p += len, n -= (size_t)len) {
		len = *p != '\0' ? utf8_char(p, n) : 0;
		if (len <= 0)
			return len < 0;
	}
	return true;
}

const char *file_type(const char *name, const void *first, size_t len)
{
	const char *named = name != NULL ? by_name(name) : NULL, *bytes = first, *type = NULL;

	if (len > FILE_TYPE_BYTES)
		len = FILE_TYPE_BYTES;
	if (len == 0)
		return named;
	for (size_t i = 0; i < ARRAY_LEN(magics); i++)
		if (magics[i].at + magics[i].len <= len &&
		    memcmp(bytes + magics[i].at, magics[i].bytes, magics[i].len) == 0)
			return magics[i].container && named != NULL &&
					       strncmp(named, "text/", 5) != 0
				       ? named
				       : magics[i].type;
	if (!is_text(first, len))
		return named != NULL && strncmp(named, "text/", 5) != 0
			       ? named
			       : "application/octet-stream";
	if (named == NULL && len > 2 && bytes[0] == '#' && bytes[1] == '!')
		type = by_shebang(bytes + 2, bytes + len);
	return named != NULL ? named : type != NULL ? type : "text/plain";
}

void open_flags_format(int flags, char out[OPEN_FLAGS_MAX])
{
	static const struct {
		int mask, value;
		const char *name;
	} rows[] = {
		{O_ACCMODE, O_RDONLY, "O_RDONLY"},
		{O_ACCMODE, O_WRONLY, "O_WRONLY"},
		{O_ACCMODE, O_RDWR, "O_RDWR"},
#define BIT(f) {f, f, #f}
		BIT(O_CREAT),
		BIT(O_EXCL),
		BIT(O_NOCTTY),
		BIT(O_TRUNC),
		BIT(O_APPEND),
		BIT(O_NONBLOCK),
		BIT(O_SYNC),
		{O_SYNC, O_DSYNC, "O_DSYNC"}, /* O_SYNC is O_DSYNC and a bit */
		BIT(O_DIRECT),
		BIT(O_TMPFILE),
		{O_TMPFILE, O_DIRECTORY, "O_DIRECTORY"}, /* the same */
		BIT(O_NOFOLLOW),
		BIT(O_NOATIME),
		BIT(O_CLOEXEC),
		BIT(O_PATH),
#undef BIT
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((flags & rows[i].mask) == rows[i].value) {
			const size_t len = strlen(rows[i].name);

			ensure(n + len + 2 <= OPEN_FLAGS_MAX);
			if (n > 0)
				out[n++] = '|';
			memcpy(out + n, rows[i].name, len);
			n += len;
		}
	out[n] = '\0';
}
