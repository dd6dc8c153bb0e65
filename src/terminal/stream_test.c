// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "terminal/stream.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static int memory_file(const char *text, size_t n)
{
	const int fd = memfd_create("stream", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	return fd;
}

/* EXE-3: bytes, lines and the open last line are counted over any cutting into pieces. */
static void exe_3_totals_count_bytes_and_lines(void **state)
{
	struct stream s;

	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 100);
	assert_int_equal(stream_lines(&s), 0);
	stream_append(&s, "", 0);
	assert_false(s.open_line);
	stream_append(&s, "a\nb", 3);
	assert_int_equal(s.lines, 1);
	assert_int_equal(stream_lines(&s), 2);
	stream_append(&s, "", 0);
	assert_true(s.open_line);
	stream_append(&s, "c\n\n", 3);
	assert_int_equal(stream_lines(&s), 3);
	assert_int_equal(s.bytes, 6);
	assert_int_equal(s.kept, 6);
	stream_done(&s);
	assert_int_equal(s.fd, -1);
	stream_done(&s);
}

/* EXE-3: each newline counts once, wherever it stands, and no other byte does. */
static void exe_3_every_newline_is_counted(void **state)
{
	static unsigned char text[3 * 255 * 16 + 100];
	uint64_t want = 0;

	memset(text, '\n', sizeof(text));
	for (size_t n = 0; n < 100; n++)
		for (size_t from = 0; from < 17; from++)
			assert_int_equal(stream_newlines(text + from, n), n);
	assert_int_equal(stream_newlines(text, sizeof(text)), sizeof(text));
	for (size_t i = 0; i < sizeof(text); i++) {
		text[i] = (unsigned char)(i * 2654435761U >> 13);
		want += text[i] == '\n';
	}
	assert_true(want > 10);
	assert_int_equal(stream_newlines(text, sizeof(text)), want);
}

/* EXE-3: exactly the quota is kept; what is past it is counted. */
static void exe_3_the_quota_is_exact(void **state)
{
	char back[16];
	struct stream s;

	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 5);
	stream_append(&s, "abcd", 4);
	assert_int_equal(s.kept, 4);
	stream_append(&s, "e", 1);
	assert_int_equal(s.kept, 5);
	stream_append(&s, "f\n", 2);
	assert_int_equal(s.kept, 5);
	assert_int_equal(s.bytes, 7);
	assert_int_equal(s.lines, 1);
	assert_int_equal(s.failed, 0);
	assert_int_equal(pread(s.fd, back, sizeof(back), 0), 5);
	assert_memory_equal(back, "abcde", 5);
	stream_done(&s);

	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 5);
	stream_append(&s, "abcdefgh", 8);
	assert_int_equal(s.kept, 5);
	assert_int_equal(s.bytes, 8);
	stream_done(&s);
}

static int fill_to_the_limit(void)
{
	const struct rlimit limit = {10, 10};
	struct stream s;

	signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
		return 1;
	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 100);
	stream_append(&s, "12345678", 8);
	if (s.failed != 0 || s.kept != 8)
		return 2;
	stream_append(&s, "abcdef", 6); /* two fit */
	if (s.failed != EFBIG || s.kept != 10 || s.bytes != 14)
		return 3;
	stream_append(&s, "x\n", 2);
	return s.kept == 10 && s.bytes == 16 && s.lines == 1 && s.failed == EFBIG ? 0 : 4;
}

/* EXE-3: a full disk is remembered by its errno; the bytes are still counted. */
static void exe_3_a_failed_write_is_remembered(void **state)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fill_to_the_limit());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static struct stream_page page_of(int fd, uint64_t offset, size_t limit, unsigned how, char *out)
{
	struct stream_extent x = {0};
	struct stream_page page;
	struct err err = {0};
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	x.bytes = x.kept = x.from = (uint64_t)st.st_size;
	assert_int_equal(stream_read(fd, &x, offset, limit, how, out, &page, &err), 0);
	assert_int_equal(page.offset, offset);
	assert_int_equal(page.next, offset + page.len);
	return page;
}

/* EXE-3: pages join without gap or overlap and end; what is beyond the end is empty. */
static void exe_3_paging_ends(void **state)
{
	cleanup_fd int fd = memory_file("0123456789", 10);
	char out[16];
	struct stream_page p;

	p = page_of(fd, 0, 4, true, out);
	assert_int_equal(p.len, 4);
	assert_memory_equal(out, "0123", 4);
	assert_int_equal(p.total, 10);
	assert_true(p.has_more);
	p = page_of(fd, 6, 4, true, out);
	assert_int_equal(p.len, 4);
	assert_memory_equal(out, "6789", 4);
	assert_false(p.has_more);
	assert_true(page_of(fd, 6, 4, false, out).has_more);
	assert_true(page_of(fd, 6, 3, true, out).has_more);
	p = page_of(fd, 9, 16, true, out);
	assert_int_equal(p.len, 1);
	assert_false(p.has_more);
	for (uint64_t offset = 10; offset < 13; offset++) {
		p = page_of(fd, offset, 4, true, out);
		assert_int_equal(p.len, 0);
		assert_false(p.has_more);
	}
	p = page_of(fd, UINT64_MAX - 1, 4, true, out);
	assert_int_equal(p.len, 0);
	assert_false(p.has_more);
	p = page_of(fd, 3, 0, true, out);
	assert_int_equal(p.len, 0);
	assert_true(p.has_more);
}

/* EXE-3: a page of text ends at a character's boundary, but is never empty; bytes are cut anywhere.
 */
static void exe_3_text_is_cut_at_characters(void **state)
{
	static const char text[] = "a\xe2\x82\xac"
				   "b\xe2\x82\xac"; /* a€b€ */
	cleanup_fd int fd = memory_file(text, 8);
	cleanup_fd int torn = memory_file(text, 7);
	cleanup_fd int binary = memory_file("a\0b\xe2\x82\xac", 6);
	char out[16];

	assert_int_equal(page_of(fd, 0, 3, true, out).len, 1);
	assert_int_equal(page_of(fd, 0, 4, true, out).len, 4);
	assert_int_equal(page_of(fd, 0, 6, true, out).len, 5);
	assert_int_equal(page_of(fd, 0, 8, true, out).len, 8);
	/* A limit smaller than the character still moves on. */
	assert_int_equal(page_of(fd, 1, 2, true, out).len, 2);
	/* The rest of the character may still come, or never. */
	assert_int_equal(page_of(torn, 0, 16, false, out).len, 5);
	assert_int_equal(page_of(torn, 0, 16, true, out).len, 7);
	assert_int_equal(page_of(torn, 5, 16, false, out).len, 2);
	assert_int_equal(page_of(binary, 0, 4, true, out).len, 4);
	assert_int_equal(page_of(fd, 0, 3, STREAM_RAW, out).len, 3);
	assert_int_equal(page_of(torn, 0, 16, STREAM_RAW, out).len, 7);
}

static void exe_3_a_broken_descriptor_is_an_error(void **state)
{
	struct stream_page page = {.len = 77};
	struct err err = {0};
	const struct stream_extent x = {10, 10, 10};
	cleanup_fd int dir = open("/", O_RDONLY | O_CLOEXEC);
	cleanup_fd int torn = memory_file("1234567", 7);
	char out[10];

	assert_int_equal(stream_read(-1, &x, 0, 1, true, out, &page, &err), -E_INTERNAL);
	assert_int_equal(page.len, 77);
	assert_int_equal(stream_read(dir, &x, 0, 1, true, out, &page, &err), -E_INTERNAL);
	assert_int_equal(stream_read(torn, &x, 0, 7, true, out, &page, &err), 0);
	assert_int_equal(page.len, 7);
	assert_int_equal(stream_read(torn, &x, 0, 8, true, out, &page, &err), -E_INTERNAL);
	assert_string_equal(err.message, "the output's file is damaged: it ends at byte 7, and 10 "
					 "bytes were written to it");
}

/* Bytes that differ by their offset. */
static void produce(struct stream *s, uint64_t n)
{
	unsigned char part[1000];

	for (uint64_t done = 0; done < n;) {
		const size_t m = n - done < sizeof(part) ? (size_t)(n - done) : sizeof(part);

		for (size_t i = 0; i < m; i++)
			part[i] = (unsigned char)((s->bytes + i) % 251);
		stream_append(s, part, m);
		done += m;
	}
}

static struct stream_page check(const struct stream *s, uint64_t offset, size_t limit)
{
	const struct stream_extent x = {s->bytes, s->kept, s->from};
	cleanup_free unsigned char *out = mem_alloc(limit);
	struct stream_page page;
	struct err err = {0};

	assert_int_equal(stream_read(s->fd, &x, offset, limit, true, out, &page, &err), 0);
	for (size_t i = 0; i < page.len; i++)
		assert_int_equal(out[i], (offset + i) % 251);
	return page;
}

/* EXE-6: behind the quota the ring has the last bytes at their offsets, over every wrap and across
 * the end of the part that is kept; the file does not grow with them. */
static void exe_6_a_window_behind_the_quota(void **state)
{
	struct stream s;
	struct stat st;
	struct stream_page p;

	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 5000);
	s.window = true;
	produce(&s, 4990);
	produce(&s, 1000);
	p = check(&s, 4000, 1500);
	assert_int_equal(p.len, 1500);
	assert_true(p.has_more);
	for (int i = 0; i < 7; i++) {
		produce(&s, STREAM_WINDOW + 1234);
		p = check(&s, s.bytes - STREAM_RING / 2, STREAM_RING);
		assert_int_equal(p.len, STREAM_RING / 2);
		assert_false(p.has_more);
	}
	assert_int_equal(s.kept, 5000);
	assert_int_equal(s.from, 5000);
	assert_int_equal(fstat(s.fd, &st), 0);
	assert_int_equal(st.st_size, 5000 + STREAM_RING);
	/* One that is too late stops at what is kept, and goes on behind the gap. */
	p = check(&s, 4990, 100);
	assert_int_equal(p.len, 10);
	assert_true(p.has_more);
	p = check(&s, 5000, 100);
	assert_int_equal(p.len, 0);
	assert_int_equal(p.next, s.bytes - STREAM_RING);
	p = check(&s, p.next, 100);
	assert_int_equal(p.len, 100);
	stream_done(&s);
}

/* EXE-6: what comes while there is no reader is counted, and never taken for what the ring had. */
static void exe_6_without_a_reader_the_ring_is_empty(void **state)
{
	struct stream s;
	struct stream_page p;

	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 5000);
	s.window = true;
	produce(&s, 6000);
	s.window = false;
	produce(&s, 100);
	assert_int_equal(s.bytes, 6100);
	p = check(&s, 5500, 100);
	assert_int_equal(p.len, 0);
	assert_int_equal(p.next, 6100);
	assert_false(p.has_more);
	s.window = true;
	produce(&s, 10);
	p = check(&s, 5000, 100);
	assert_int_equal(p.next, 6100);
	p = check(&s, 6100, 100);
	assert_int_equal(p.len, 10);
	stream_done(&s);
}

/* EXE-3: descriptor 0 is as good as any: it is closed too. */
static void exe_3_descriptor_0_is_closed(void **state)
{
	const int saved = dup(STDIN_FILENO);
	struct stream s;

	close(STDIN_FILENO);
	stream_init(&s, memfd_create("stream", MFD_CLOEXEC), 5);
	assert_int_equal(s.fd, STDIN_FILENO);
	stream_done(&s);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	dup2(saved, STDIN_FILENO);
	close(saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_3_totals_count_bytes_and_lines),
		cmocka_unit_test(exe_3_every_newline_is_counted),
		cmocka_unit_test(exe_3_the_quota_is_exact),
		cmocka_unit_test(exe_3_a_failed_write_is_remembered),
		cmocka_unit_test(exe_3_paging_ends),
		cmocka_unit_test(exe_3_text_is_cut_at_characters),
		cmocka_unit_test(exe_3_a_broken_descriptor_is_an_error),
		cmocka_unit_test(exe_3_descriptor_0_is_closed),
		cmocka_unit_test(exe_6_a_window_behind_the_quota),
		cmocka_unit_test(exe_6_without_a_reader_the_ring_is_empty),
	};

	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
