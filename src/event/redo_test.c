// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/redo.h"
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

/* The file as it lies on the disk. */
#define HEAD 4096	/* bytes before the records */
#define AT_GENERATION 8 /* in the head: magic, generation, end */
#define AT_END 16
#define RECORD 8 /* bytes before a record's own: length, checksum */

struct world {
	char dir[64], path[80];
	struct redo *redo;
	struct buf got;
	int log_fd;
};

static void reopen(struct world *w)
{
	struct err err = {0};

	redo_close(w->redo);
	w->redo = NULL;
	assert_int_equal(redo_open(w->path, &w->redo, &err), 0);
}

static int setup(void **state)
{
	struct world *w = mem_new(struct world);

	snprintf(w->dir, sizeof(w->dir), "/tmp/redo_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/redo", w->dir);
	w->log_fd = memfd_create("log", MFD_CLOEXEC);
	log_init("test", LOG_DEBUG, LOG_TEXT, w->log_fd);
	reopen(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	redo_close(w->redo);
	log_init("test", LOG_DEBUG, LOG_TEXT, 2);
	close(w->log_fd);
	unlink(w->path);
	assert_int_equal(rmdir(w->dir), 0);
	buf_done(&w->got);
	free(w);
	return 0;
}

static void add(struct world *w, const char *text)
{
	assert_true(redo_add(w->redo, text, strlen(text)));
}

static int on_record(const void *p, size_t n, void *arg, struct err *err)
{
	buf_add(arg, p, n);
	buf_adds(arg, "|");
	return 0;
}

static const char *records(struct world *w)
{
	struct err err = {0};

	buf_clear(&w->got);
	buf_adds(&w->got, "");
	assert_int_equal(redo_each(w->redo, on_record, &w->got, &err), 0);
	return w->got.data;
}

static bool complained(struct world *w)
{
	const bool any = lseek(w->log_fd, 0, SEEK_END) > 0;

	assert_int_equal(ftruncate(w->log_fd, 0), 0);
	lseek(w->log_fd, 0, SEEK_SET);
	return any;
}

static void patch(struct world *w, const void *p, size_t n, off_t at)
{
	cleanup_fd int fd = open(w->path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, p, n, at), n);
}

static void ses_8_records_come_back_in_order_once_they_are_published(void **state)
{
	struct world *w = *state;

	assert_int_equal(redo_generation(w->redo), 0);
	assert_string_equal(records(w), "");
	redo_begin(w->redo, 7);
	assert_int_equal(redo_generation(w->redo), 7);
	add(w, "one");
	add(w, "the second");
	assert_string_equal(records(w), "");
	redo_publish(w->redo);
	assert_string_equal(records(w), "one|the second|");
	add(w, "3");
	assert_string_equal(records(w), "one|the second|");
	redo_publish(w->redo);
	redo_publish(w->redo);
	assert_string_equal(records(w), "one|the second|3|");
	add(w, "not published");
	reopen(w);
	assert_int_equal(redo_generation(w->redo), 7);
	assert_string_equal(records(w), "one|the second|3|");
	/* What is added now follows what counts. */
	add(w, "4");
	redo_publish(w->redo);
	assert_string_equal(records(w), "one|the second|3|4|");
	assert_false(complained(w));
}

/* Lengths around the alignment, none at all, and bytes that are not text. */
static void ses_8_records_have_any_length(void **state)
{
	struct world *w = *state;
	static const char text[] = "0123456789abcdefg";

	redo_begin(w->redo, 1);
	for (size_t n = 0; n <= 17; n++) {
		redo_begin(w->redo, n);
		assert_true(redo_add(w->redo, text, n));
		assert_true(redo_add(w->redo, "\0x", 2));
		assert_true(redo_add(w->redo, text, n));
		redo_publish(w->redo);
		records(w);
		assert_int_equal(w->got.len, 2 * n + 2 + 3);
		assert_memory_equal(w->got.data, text, n);
		assert_memory_equal(w->got.data + n, "|\0x|", 4);
		assert_memory_equal(w->got.data + n + 4, text, n);
	}
	assert_false(complained(w));
}

static void ses_8_a_generation_begins_empty(void **state)
{
	struct world *w = *state;

	redo_begin(w->redo, 1);
	add(w, "old");
	redo_publish(w->redo);
	add(w, "never published");
	redo_begin(w->redo, 2);
	assert_int_equal(redo_generation(w->redo), 2);
	assert_string_equal(records(w), "");
	redo_publish(w->redo);
	assert_string_equal(records(w), "");
	add(w, "new");
	redo_publish(w->redo);
	reopen(w);
	assert_int_equal(redo_generation(w->redo), 2);
	assert_string_equal(records(w), "new|");
	assert_false(complained(w));
}

static int on_stop(const void *p, size_t n, void *arg, struct err *err)
{
	return ++*(int *)arg == 2 ? err_set(err, E_CONFLICT, NULL, "enough") : 0;
}

static void ses_8_the_first_refusal_ends_the_reading(void **state)
{
	struct world *w = *state;
	struct err err = {0};
	int n = 0;

	for (int i = 0; i < 4; i++)
		add(w, "x");
	redo_publish(w->redo);
	assert_int_equal(redo_each(w->redo, on_stop, &n, &err), -E_CONFLICT);
	assert_int_equal(n, 2);
	assert_string_equal(err.message, "enough");
}

static void ses_8_it_is_full_to_the_byte(void **state)
{
	static char big[REDO_SIZE + 1];
	static const struct {
		size_t n;
		bool fits;
	} row[] = {
		{REDO_SIZE - RECORD, true}, {REDO_SIZE - RECORD + 1, false}, {REDO_SIZE, false},
		{REDO_SIZE + 1, false},	    {SIZE_MAX - RECORD + 1, false},  {SIZE_MAX, false},
	};
	struct world *w = *state;

	memset(big, 'b', sizeof(big));
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		redo_begin(w->redo, i);
		assert_int_equal(redo_add(w->redo, big, row[i].n), row[i].fits);
		redo_publish(w->redo);
		reopen(w);
		records(w);
		assert_int_equal(w->got.len, row[i].fits ? row[i].n + 1 : 0);
		/* Not even an empty one behind it; and what had no room left no trace. */
		assert_int_equal(redo_add(w->redo, "", 0), !row[i].fits);
	}
	redo_begin(w->redo, 9);
	assert_true(redo_add(w->redo, big, REDO_SIZE - 3 * RECORD));
	assert_false(redo_add(w->redo, big, RECORD + 1));
	assert_true(redo_add(w->redo, big, RECORD));
	assert_false(redo_add(w->redo, "", 0));
	redo_publish(w->redo);
	reopen(w);
	records(w);
	assert_int_equal(w->got.len, REDO_SIZE - 2 * RECORD + 2);
	assert_false(complained(w));
}

static _Noreturn void write_and_die(const char *path)
{
	struct redo *r = NULL;
	struct err err = {0};

	if (redo_open(path, &r, &err) < 0)
		_exit(1);
	redo_begin(r, 3);
	redo_add(r, "told", 4);
	redo_publish(r);
	redo_add(r, "not told", 8);
	raise(SIGKILL);
	_exit(1);
}

static void ses_8_what_is_published_survives_sigkill(void **state)
{
	struct world *w = *state;
	int status = 0;
	pid_t pid;

	redo_close(w->redo);
	w->redo = NULL;
	pid = fork();
	if (pid == 0)
		write_and_die(w->path);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	reopen(w);
	assert_int_equal(redo_generation(w->redo), 3);
	assert_string_equal(records(w), "told|");
	assert_false(complained(w));
}

/* The first store was made, the second not: nothing is there, for the old one. */
static void ses_8_killed_while_a_generation_begins_it_is_empty(void **state)
{
	struct world *w = *state;
	const uint64_t none = 0;

	redo_begin(w->redo, 5);
	add(w, "taken in already");
	redo_publish(w->redo);
	redo_close(w->redo);
	w->redo = NULL;
	patch(w, &none, sizeof(none), AT_END);
	reopen(w);
	assert_int_equal(redo_generation(w->redo), 5);
	assert_string_equal(records(w), "");
	assert_false(complained(w));
}

/* Records at 0, 16 and 32; the last has no bytes. */
static void three(struct world *w)
{
	redo_begin(w->redo, 2);
	add(w, "one");
	add(w, "two");
	add(w, "");
	redo_publish(w->redo);
	assert_string_equal(records(w), "one|two||");
	assert_false(complained(w));
}

static void ses_8_a_damaged_record_is_told(void **state)
{
	static const struct {
		uint64_t value;
		size_t n;
		off_t at;
		const char *want;
	} row[] = {
		{'x', 1, HEAD + RECORD, ""},		   /* its bytes */
		{'x', 1, HEAD + 4, ""},			   /* its checksum */
		{2, 4, HEAD, ""},			   /* its length */
		{'x', 1, HEAD + 16 + RECORD, "one|"},	   /* the second's */
		{UINT32_MAX, 4, HEAD + 16, "one|"},	   /* longer than the file */
		{17, 4, HEAD + 16, "one|"},		   /* than what is published */
		{1, 1, HEAD + 32 + 4, "one|two|"},	   /* the last one's */
		{3, 8, AT_GENERATION, ""},		   /* of another generation */
		{32 + RECORD - 1, 8, AT_END, "one|two|"},  /* cut in a record's head */
		{32 + RECORD + 1, 8, AT_END, "one|two||"}, /* something behind it */
		{16 + RECORD + 2, 8, AT_END, "one|"},	   /* in its bytes */
		{48, 8, AT_END, "one|two||"},		   /* zeros are not a record */
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		three(w);
		patch(w, &row[i].value, row[i].n, row[i].at);
		buf_clear(&w->got);
		buf_adds(&w->got, "");
		assert_int_equal(redo_each(w->redo, on_record, &w->got, NULL), -E_CONFLICT);
		assert_string_equal(w->got.data, row[i].want);
		patch(w, (char[64]){0}, 64, HEAD);
	}
}

static void assert_refused_as(enum err_code code, const char *path, const char *why)
{
	struct redo *other = NULL;
	struct err err = {0};

	assert_int_equal(redo_open(path, &other, &err), -(int)code);
	assert_null(other);
	assert_string_equal(err.subject, path);
	assert_non_null(strstr(err.message, path));
	assert_non_null(strstr(err.message, why));
}

static void assert_refused(struct world *w, const char *path, const char *why)
{
	assert_refused_as(E_UNAVAILABLE, path, why);
}

static void cfg_1_what_is_no_redo_file_is_refused_with_a_remedy(void **state)
{
	static const off_t sizes[] = {1, 24, HEAD + REDO_SIZE - 1, HEAD + REDO_SIZE + 1};
	static const uint64_t ends[] = {REDO_SIZE, REDO_SIZE + 1, UINT64_MAX};
	static const off_t at[] = {0, AT_GENERATION, AT_END};
	struct world *w = *state;
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		patch(w, &ends[i], sizeof(ends[i]), AT_END);
		if (i == 0)
			reopen(w);
		else
			assert_refused_as(E_CONFLICT, w->path, "is not a redo file: to go on");
	}
	patch(w, (char[8]){0}, 8, AT_END);
	patch(w, "AGSREDO2", 8, 0);
	assert_refused_as(E_CONFLICT, w->path, "is not a redo file: to go on");
	/* Any byte of the head that is not zero makes it another kind of file. */
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		patch(w, (char[24]){0}, 24, 0);
		patch(w, "\1", 1, at[i]);
		assert_refused_as(E_CONFLICT, w->path, "is not a redo file: to go on");
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		assert_int_equal(truncate(w->path, sizes[i]), 0);
		assert_refused_as(E_CONFLICT, w->path,
				  "has another size than a redo file: to go on");
		assert_int_equal(stat(w->path, &st), 0);
		assert_int_equal(st.st_size, sizes[i]);
	}
	assert_int_equal(truncate(w->path, HEAD + REDO_SIZE), 0);
}

static void cfg_1_what_cannot_be_opened_is_named(void **state)
{
	struct world *w = *state;
	char path[96];

	snprintf(path, sizeof(path), "%s/no/redo", w->dir);
	assert_refused(w, path, "cannot open");
	/* A link could lead anywhere. */
	snprintf(path, sizeof(path), "%s/link", w->dir);
	assert_int_equal(symlink(w->path, path), 0);
	assert_refused(w, path, "cannot open");
	assert_int_equal(unlink(path), 0);
}

/* Calls redo_open in another process; the exit status is the error's code. */
static int opened_elsewhere(const char *path, char *message, size_t n)
{
	int pipe_fd[2], status = -1;
	pid_t pid;

	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct redo *r = NULL;
		struct err err = {0};
		const int rc = redo_open(path, &r, &err);

		_exit(write(pipe_fd[1], err.message, strlen(err.message) + 1) > 0 ? -rc : 99);
	}
	close(pipe_fd[1]);
	assert_true(read(pipe_fd[0], message, n) > 0);
	close(pipe_fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void ses_8_two_processes_do_not_write_one_database(void **state)
{
	struct world *w = *state;
	char message[512] = "", holder[32];

	snprintf(holder, sizeof(holder), "(process %d)", (int)getpid());
	assert_int_equal(opened_elsewhere(w->path, message, sizeof(message)), E_UNAVAILABLE);
	assert_non_null(strstr(message, w->path));
	assert_non_null(strstr(message, holder));
	assert_non_null(strstr(message, "sessions.base_dir"));
	redo_close(w->redo);
	w->redo = NULL;
	assert_int_equal(opened_elsewhere(w->path, message, sizeof(message)), 0);
	reopen(w); /* the other has ended */
}

static void ses_8_killed_while_it_was_made_it_is_made_anew(void **state)
{
	struct world *w = *state;

	/* The room was there, the head not yet. */
	patch(w, (char[HEAD]){0}, HEAD, 0);
	reopen(w);
	assert_int_equal(redo_generation(w->redo), 0);
	redo_begin(w->redo, 1);
	add(w, "x");
	redo_publish(w->redo);
	reopen(w);
	assert_string_equal(records(w), "x|");
}

static void ses_8_it_is_private_and_has_its_room(void **state)
{
	struct world *w = *state;
	struct stat st;

	assert_int_equal(stat(w->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, HEAD + REDO_SIZE);
	assert_true(st.st_blocks * 512 >= st.st_size);
	/* Holes are filled at the next start. */
	redo_close(w->redo);
	w->redo = NULL;
	assert_int_equal(truncate(w->path, HEAD), 0);
	assert_int_equal(truncate(w->path, HEAD + REDO_SIZE), 0);
	assert_int_equal(stat(w->path, &st), 0);
	assert_true(st.st_blocks * 512 < st.st_size);
	reopen(w);
	assert_int_equal(stat(w->path, &st), 0);
	assert_true(st.st_blocks * 512 >= st.st_size);
}

static void ses_8_without_room_no_file_is_left(void **state)
{
	struct world *w = *state;
	struct rlimit old, tight;
	char path[96];

	snprintf(path, sizeof(path), "%s/other", w->dir);
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = HEAD + REDO_SIZE - 1;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	assert_refused(w, path, "cannot write");
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(access(path, F_OK), -1);
}

static void ses_8_closing_nothing_is_fine(void **state)
{
	redo_close(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_8_records_come_back_in_order_once_they_are_published),
		TEST(ses_8_records_have_any_length),
		TEST(ses_8_a_generation_begins_empty),
		TEST(ses_8_the_first_refusal_ends_the_reading),
		TEST(ses_8_it_is_full_to_the_byte),
		TEST(ses_8_what_is_published_survives_sigkill),
		TEST(ses_8_killed_while_a_generation_begins_it_is_empty),
		TEST(ses_8_a_damaged_record_is_told),
		TEST(cfg_1_what_is_no_redo_file_is_refused_with_a_remedy),
		TEST(cfg_1_what_cannot_be_opened_is_named),
		TEST(ses_8_two_processes_do_not_write_one_database),
		TEST(ses_8_killed_while_it_was_made_it_is_made_anew),
		TEST(ses_8_it_is_private_and_has_its_room),
		TEST(ses_8_without_room_no_file_is_left),
		cmocka_unit_test(ses_8_closing_nothing_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
