// SPDX-License-Identifier: Apache-2.0
/* Foreign bytes: every length is bounded by the kernel's own limits, so that nothing that the
 * kernel would execute is refused for its size, and nothing larger is read. */
#include "exec/args.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <sys/uio.h>

/* ---- the calling process ---- */

int caller_read(pid_t tid, uint64_t addr, void *out, size_t n)
{
	const struct iovec to = {out, n}, from = {(void *)(uintptr_t)addr, n};
	const ssize_t got = process_vm_readv(tid, &to, 1, &from, 1, 0);

	return got == (ssize_t)n ? 0 : got == -1 ? errno : EFAULT;
}

int caller_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE])
{
	return caller_read(*(const pid_t *)arg, page, out, EXEC_PAGE);
}

#define PAGE_PRESENT (UINT64_C(1) << 63) /* in an entry of /proc/PID/pagemap */

int caller_loaded_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE])
{
	struct caller_pages *c = arg;
	const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t entry = 0;

	if (c->pagemap < 0)
		c->pagemap = caller_open(c->tid, "pagemap", O_RDONLY);
	if (c->pagemap < 0 ||
	    pread(c->pagemap, &entry, sizeof(entry), (off_t)(page / size * sizeof(entry))) !=
		    sizeof(entry) ||
	    (entry & PAGE_PRESENT) == 0)
		return EAGAIN;
	return caller_read(c->tid, page, out, EXEC_PAGE);
}

int caller_open(pid_t tid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

int caller_link(pid_t tid, const char *name, char out[PATH_MAX])
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	len = readlink(path, out, PATH_MAX);
	if (len == -1)
		return errno;
	if (len == PATH_MAX)
		return ENAMETOOLONG;
	out[len] = '\0';
	return 0;
}

/* ---- argv ---- */

void args_memory_init(struct args_memory *m, int (*read)(void *, uint64_t, uint8_t[EXEC_PAGE]),
		      void *arg)
{
	m->read = read;
	m->arg = arg;
	m->next = 0;
	for (size_t i = 0; i < ARRAY_LEN(m->cache); i++)
		m->cache[i].at = 0;
}

static int page_at(struct args_memory *m, uint64_t page, const uint8_t **out)
{
	struct args_page *p;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(m->cache); i++)
		if (m->cache[i].at == page && page != 0) {
			*out = m->cache[i].byte;
			return 0;
		}
	if (page == 0) /* never mapped; also our mark of an empty entry */
		return EFAULT;
	p = &m->cache[m->next++ % ARRAY_LEN(m->cache)];
	p->at = 0;
	r = m->read(m->arg, page, p->byte);
	if (r != 0)
		return r;
	p->at = page;
	*out = p->byte;
	return 0;
}

int args_string(struct args_memory *m, uint64_t addr, size_t max, struct buf *out)
{
	const size_t before = out->len;

	for (;;) {
		const uint64_t in = addr % EXEC_PAGE;
		const uint8_t *page, *end;
		size_t n = EXEC_PAGE - in;
		int r = page_at(m, addr - in, &page);

		if (r != 0)
			return r;
		end = memchr(page + in, 0, n);
		if (end != NULL)
			n = (size_t)(end - page) - in + 1;
		if (out->len - before + n > max)
			return E2BIG;
		buf_add(out, page + in, n);
		if (end != NULL)
			return 0;
		addr += n;
	}
}

static int pointer_at(struct args_memory *m, uint64_t addr, uint64_t *out)
{
	uint8_t raw[sizeof(*out)];

	for (size_t i = 0; i < sizeof(raw); i++) {
		const uint64_t in = (addr + i) % EXEC_PAGE;
		const uint8_t *page;
		int r = page_at(m, addr + i - in, &page);

		if (r != 0)
			return r;
		raw[i] = page[in];
	}
	memcpy(out, raw, sizeof(raw));
	return 0;
}

void args_replace_first(struct strv *argv, char *const *head, size_t n)
{
	struct strv v = {0};

	for (size_t i = 0; i < n; i++)
		strv_add(&v, head[i]);
	for (size_t i = 1; i < argv->n; i++)
		strv_add(&v, argv->v[i]);
	strv_done(argv);
	*argv = v;
}

void args_done(struct args *a)
{
	buf_done(&a->text);
	free(a->v);
	*a = (struct args){0};
}

/* Keeps the first strings. Where these are not all, the hash stands for everything behind argv[0]:
 * we must not use as much memory as a caller, because both may share one limit. */
static int read_strings(struct args_memory *m, uint64_t addr, struct args *a)
{
	cleanup_buf struct buf one = {0};
	struct sha256_ctx sum;
	size_t size = 0;
	uint64_t at;
	int r;

	while ((r = pointer_at(m, addr, &at)) == 0 && at != 0) {
		buf_clear(&one);
		r = args_string(m, at, EXEC_STRING_MAX, &one);
		size += one.len + sizeof(at);
		if (r != 0 || size > EXEC_ARGS_MAX)
			return r != 0 ? r : E2BIG;
		if (!a->cut && (a->n == EXEC_ARGC_KEPT || a->text.len + one.len > EXEC_ARGS_KEPT)) {
			const size_t first = strlen(a->text.data) + 1;

			a->cut = true;
			a->rest = a->text.len - first;
			sha256_init(&sum);
			sha256_update(&sum, a->rest, (uint8_t *)a->text.data + first);
		}
		if (a->cut) {
			a->rest += one.len;
			sha256_update(&sum, one.len, (uint8_t *)one.data);
		} else {
			buf_add(&a->text, one.data, one.len);
			a->n++;
		}
		a->argc++;
		addr += sizeof(at);
	}
	if (a->cut)
		sha256_digest(&sum, sizeof(a->hash), a->hash);
	return r;
}

int args_read(struct args_memory *m, uint64_t addr, struct args *out)
{
	struct args a = {0};
	const int r = addr != 0 ? read_strings(m, addr, &a) : 0;
	char *at;

	if (r != 0) {
		args_done(&a);
		return r;
	}
	if (a.argc == 0) {
		a.n = a.argc = 1;
		buf_addc(&a.text, '\0');
	}
	at = a.text.data;
	a.v = mem_resize(NULL, a.n + 1, sizeof(*a.v));
	for (size_t i = 0; i < a.n; i++) {
		a.v[i] = at;
		at += strlen(at) + 1;
	}
	a.v[a.n] = NULL;
	*out = a;
	return 0;
}

/* ---- #! as fs/binfmt_script.c reads it; `last` is inclusive as there ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static const char *next_text(const char *first, const char *last)
{
	for (; first <= last; first++)
		if (!is_blank(*first))
			return first;
	return NULL;
}

static const char *next_end(const char *first, const char *last)
{
	for (; first <= last; first++)
		if (is_blank(*first) || *first == '\0')
			return first;
	return NULL;
}

/* Where the line ends; NULL: it is cut in the middle of the name, or empty. */
static const char *line_end(const char *head)
{
	const char *const last = head + BINPRM_BYTES - 1;
	const char *end = memchr(head, '\n', strnlen(head, BINPRM_BYTES));

	if (end == NULL) {
		end = next_text(head + 2, last);
		if (end == NULL || next_end(end, last) == NULL)
			return NULL;
		end = last;
	}
	while (is_blank(end[-1]))
		end--;
	return end;
}

static void copy_word(char out[BINPRM_BYTES], const char *from, const char *end)
{
	const size_t n = strnlen(from, (size_t)(end - from));

	memcpy(out, from, n);
	out[n] = '\0';
}

int shebang_parse(const char head[BINPRM_BYTES], struct shebang *out)
{
	const char *end, *name, *gap, *arg = NULL;

	if (head[0] != '#' || head[1] != '!')
		return ENOEXEC;
	end = line_end(head);
	if (end == NULL)
		return ENOEXEC;
	name = next_text(head + 2, end);
	if (name == NULL || name == end)
		return ENOEXEC;
	gap = next_end(name, end);
	if (gap != NULL && *gap != '\0')
		arg = next_text(gap, end);
	copy_word(out->name, name, arg != NULL ? gap : end);
	out->has_arg = arg != NULL;
	copy_word(out->arg, arg != NULL ? arg : end, end);
	return 0;
}

/* ---- ld.so ---- */

enum loader_option { LOADER_VALUE, LOADER_PLAIN, LOADER_LAST, LOADER_LOOKS, LOADER_ENDS };
static const struct {
	const char *name;
	enum loader_option kind;
} loader_options[] = {
	{"--library-path", LOADER_VALUE},
	{"--glibc-hwcaps-prepend", LOADER_VALUE},
	{"--glibc-hwcaps-mask", LOADER_VALUE},
	{"--inhibit-rpath", LOADER_VALUE},
	{"--audit", LOADER_VALUE},
	{"--preload", LOADER_VALUE},
	{"--argv0", LOADER_VALUE},
	{"--", LOADER_LAST},
	{"--list", LOADER_LOOKS},
	{"--verify", LOADER_LOOKS},
	{"--list-tunables", LOADER_ENDS},
	{"--list-diagnostics", LOADER_ENDS},
	{"--help", LOADER_ENDS},
	{"--version", LOADER_ENDS},
};

void loader_parse(char *const *argv, size_t argc, struct loader_call *out)
{
	*out = (struct loader_call){NULL, true};
	for (size_t i = 1; i < argc; i++) {
		enum loader_option kind = LOADER_PLAIN; /* also --name=value of other loaders */

		if (strncmp(argv[i], "--", 2) != 0) {
			out->program = argv[i];
			return;
		}
		for (size_t k = 0; k < ARRAY_LEN(loader_options); k++)
			if (strcmp(argv[i], loader_options[k].name) == 0)
				kind = loader_options[k].kind;
		if (kind == LOADER_LAST && i + 1 < argc)
			out->program = argv[i + 1];
		if (kind == LOADER_LAST || kind == LOADER_ENDS)
			return;
		if (kind == LOADER_LOOKS)
			out->runs = false;
		if (kind == LOADER_VALUE)
			i++;
	}
}
