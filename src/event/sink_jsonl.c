// SPDX-License-Identifier: Apache-2.0
/* Lines of a turn are gathered and written at once. A failing write is undone to the last whole
 * line; from then on the store is the queue: nothing is kept in memory, and catching up reads it
 * from there. */
#include "event/sink_jsonl.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#define TAIL (256 * 1024) /* longer than any line: EVENT_MAX bytes, each escaped to six at most */
#define GATHER (256 * 1024)
#define BATCH 1000
#define BATCHES 10 /* in one go, while the loop has other work */
#define RETRY_S 1

struct sink_jsonl {
	struct store *store;
	const struct clock *clock;
	struct sink_jsonl_config config; /* path owned */
	struct watch *retry;		 /* set while behind */
	/* The file: whole lines only. */
	int fd;
	uint64_t size;
	int64_t first_us; /* when its first line was written */
	bool drop_last;	  /* keep is 0: path.1 is needed until this file has a line */
	uint64_t written; /* seq of the last line */
	bool behind, warned;
	int error;	/* errno of what made it fall behind */
	struct buf out; /* gathered lines, up to this seq */
	uint64_t gathered;
};

/* The state of a file. */
struct standing {
	uint64_t size; /* without a torn last line */
	uint64_t last; /* seq of the last line, 0 without lines */
	int64_t first_us;
};

/* {"seq":N, */
static bool line_seq(const char *line, uint64_t *seq)
{
	static const char start[] = "{\"seq\":";
	const size_t n = sizeof(start) - 1;
	char *end;

	if (strncmp(line, start, n) != 0 || line[n] < '0' || line[n] > '9')
		return false;
	*seq = strtoull(line + n, &end, 10);
	return *end == ',';
}

/* The time in the first line, or now. */
static int64_t first_time(int fd, const struct clock *clock)
{
	static const char key[] = "\"timestamp\":\"";
	char start[256] = "", *at, *end;
	int64_t us;

	if (fdio_pread_full(fd, start, sizeof(start) - 1, 0) > 0 &&
	    (at = strstr(start, key)) != NULL &&
	    (end = strchr(at + sizeof(key) - 1, '"')) != NULL) {
		*end = '\0';
		if (clock_parse(at + sizeof(key) - 1, &us) == 0)
			return us;
	}
	return clock_wall_us(clock);
}

/* Reads the end of the file. */
static int inspect(int fd, const char *path, const struct clock *clock, struct standing *out,
		   struct err *err)
{
	cleanup_free char *tail = NULL;
	struct standing s = {0};
	char *end, *start;
	struct stat st;
	uint64_t from; /* where the tail begins */
	size_t n;

	if (fstat(fd, &st) < 0)
		return err_errno(err, err_disk(E_UNAVAILABLE), path, "cannot read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_UNAVAILABLE, path, "'%s' is not a regular file", path);
	from = st.st_size > TAIL ? (uint64_t)st.st_size - TAIL : 0;
	n = (size_t)((uint64_t)st.st_size - from);
	tail = mem_alloc(n + 1);
	if (fdio_pread_full(fd, tail, n, from) != (ssize_t)n)
		return err_errno(err, err_disk(E_UNAVAILABLE), path, "cannot read '%s'", path);
	end = memrchr(tail, '\n', n);
	start = end != NULL ? memrchr(tail, '\n', (size_t)(end - tail)) : NULL;
	if ((start == NULL && from > 0) ||
	    (end != NULL && !line_seq(start != NULL ? start + 1 : tail, &s.last)))
		return err_set(err, E_UNAVAILABLE, path,
			       "'%s' is not a log of events; move it away", path);
	if (end != NULL) {
		s.size = from + (uint64_t)(end + 1 - tail);
		s.first_us = first_time(fd, clock);
	}
	*out = s;
	return 0;
}

static int open_log(const char *path, struct err *err)
{
	const int fd =
		open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

	return fd >= 0 ? fd
		       : err_errno(err, err_disk(E_UNAVAILABLE), path, "cannot open '%s'", path);
}

static char *rotated(const struct sink_jsonl *j, unsigned n)
{
	return mem_printf("%s.%u", j->config.path, n);
}

/* Removes the bytes that a failed or killed write left behind the last whole line. */
static int cut_tail(struct sink_jsonl *j)
{
	struct stat st;

	if (fstat(j->fd, &st) < 0)
		return -1;
	return (uint64_t)st.st_size > j->size ? ftruncate(j->fd, (off_t)j->size) : 0;
}

static void fall_behind(struct sink_jsonl *j, const char *what)
{
	j->error = errno;
	if (!j->warned)
		log_warn("events stay out of the JSONL file for now", "path", j->config.path,
			 "cause", what, "error", strerror(j->error));
	j->behind = j->warned = true;
	buf_clear(&j->out);
	cut_tail(j);
	watch_after(j->retry, RETRY_S * 1000);
}

static void flush(void *arg)
{
	struct sink_jsonl *j = arg;

	if (j->out.len == 0)
		return;
	if (fdio_write_all(j->fd, j->out.data, j->out.len) < 0) {
		fall_behind(j, "write");
		return;
	}
	if (j->size == 0)
		j->first_us = clock_wall_us(j->clock);
	j->size += j->out.len;
	j->written = j->gathered;
	buf_clear(&j->out);
	if (j->drop_last) {
		cleanup_free char *path = rotated(j, 1);

		j->drop_last = false;
		unlink(path);
	}
}

/* path.N goes, path.1 becomes path.2 and so on, path becomes path.1. */
static int rotate(struct sink_jsonl *j)
{
	int fd;

	for (unsigned n = j->config.keep > 0 ? j->config.keep : 1; n > 0; n--) {
		cleanup_free char *to = rotated(j, n);
		cleanup_free char *from = n > 1 ? rotated(j, n - 1) : mem_strdup(j->config.path);

		if (rename(from, to) < 0 && errno != ENOENT)
			return -1;
	}
	fd = open_log(j->config.path, NULL);
	if (fd < 0)
		return -1;
	close(j->fd);
	j->fd = fd;
	j->size = 0;
	j->drop_last = j->config.keep == 0;
	return 0;
}

static bool rotation_due(const struct sink_jsonl *j, size_t more)
{
	const uint64_t size = j->size + j->out.len;
	const int64_t age_us = clock_wall_us(j->clock) - j->first_us;

	if (size == 0)
		return false;
	if (j->config.max_bytes > 0 && size + more > j->config.max_bytes)
		return true;
	return j->config.max_age_ms > 0 && j->size > 0 && age_us > j->config.max_age_ms * 1000;
}

static void add_line(struct sink_jsonl *j, uint64_t seq, const char *json, size_t len)
{
	if (rotation_due(j, len + 1)) {
		flush(j);
		if (!j->behind && rotate(j) < 0)
			fall_behind(j, "rotation");
	} else if (j->out.len > GATHER) {
		flush(j);
	}
	if (j->behind)
		return;
	buf_add(&j->out, json, len);
	buf_addc(&j->out, '\n');
	j->gathered = seq;
}

static void on_sink(const struct stored_event *e, void *arg)
{
	struct sink_jsonl *j = arg;

	if (!j->behind)
		add_line(j, e->seq, e->json, e->len);
}

/* Safe events only: the sink gets those of the open turn at its end. */
static void on_row(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct sink_jsonl *j = arg;

	if (!j->behind && seq <= store_last_seq(j->store))
		add_line(j, seq, json, len);
}

/* Writes the events that the file lacks, so many batches at most; the timer does the rest. */
static int catch_up(struct sink_jsonl *j, unsigned batches, struct err *err)
{
	j->behind = false;
	if (cut_tail(j) < 0)
		fall_behind(j, "truncate");
	while (!j->behind && j->written < store_last_seq(j->store)) {
		const struct event_query q = {.after_seq = j->written, .limit = BATCH};
		bool failed;

		if (batches-- == 0) {
			j->behind = true;
			watch_after(j->retry, 0);
			return 0;
		}
		failed = store_query(j->store, &q, on_row, j, NULL, NULL) < 0;
		flush(j);
		if (j->behind || j->written > q.after_seq)
			continue;
		/* Events that the store has lost are skipped; events that it cannot bring into the
		 * database now are waited for. */
		if (failed || store_failing(j->store, NULL) < 0) {
			errno = EIO;
			fall_behind(j, "database");
		} else {
			j->written = store_last_seq(j->store);
		}
	}
	if (j->behind)
		return err_set(err, E_UNAVAILABLE, j->config.path, "cannot write '%s': %s",
			       j->config.path, strerror(j->error));
	if (j->warned)
		log_info("the JSONL file is up to date again", "path", j->config.path);
	j->warned = false;
	watch_stop(j->retry);
	return 0;
}

static void on_retry(void *arg)
{
	catch_up(arg, BATCHES, NULL);
}

static int start(struct sink_jsonl *j, struct err *err)
{
	cleanup_free char *path = rotated(j, 1);
	cleanup_fd int before = -1;
	struct standing s = {0}, last;
	int rc;

	j->fd = open_log(j->config.path, err);
	if (j->fd < 0)
		return j->fd;
	rc = inspect(j->fd, j->config.path, j->clock, &s, err);
	last = s;
	/* The log ends in the file before, if this one is empty. */
	if (rc == 0 && s.size == 0)
		before = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (before >= 0)
		rc = inspect(before, path, j->clock, &last, err);
	if (rc < 0)
		return rc;
	j->written = last.last;
	j->size = s.size;
	j->first_us = s.first_us;
	j->drop_last = j->config.keep == 0 && (j->config.max_bytes > 0 || j->config.max_age_ms > 0);
	if (cut_tail(j) < 0)
		return err_errno(err, E_UNAVAILABLE, j->config.path, "cannot write '%s'",
				 j->config.path);
	/* Numbers that were given out are not given out again. */
	if (j->written > store_last_seq(j->store) && store_last_seq(j->store) > 0)
		store_skip_to(j->store, j->written);
	if (j->written <= store_last_seq(j->store))
		return 0;
	log_warn("the JSONL file is ahead of the database; a new one is begun", "path",
		 j->config.path);
	j->written = store_last_seq(j->store);
	if (j->size > 0 && rotate(j) < 0)
		return err_errno(err, err_disk(E_UNAVAILABLE), j->config.path, "cannot rotate '%s'",
				 j->config.path);
	j->drop_last = false;
	return 0;
}

int sink_jsonl_open(struct store *store, const struct clock *clock,
		    const struct sink_jsonl_config *config, struct sink_jsonl **out,
		    struct err *err)
{
	struct sink_jsonl *j = mem_new(struct sink_jsonl);
	int rc;

	j->store = store;
	j->clock = clock;
	j->config = *config;
	j->config.path = mem_strdup(config->path);
	j->retry = watch_timer(store_loop(store), on_retry, j);
	rc = start(j, err);
	if (rc < 0) {
		sink_jsonl_close(j);
		return rc;
	}
	store_add_sink(store, on_sink, flush, j);
	/* The server also serves with a full disk: if this fails, retries are running. */
	catch_up(j, UINT_MAX, NULL);
	*out = j;
	return 0;
}

void sink_jsonl_finish(struct sink_jsonl *j)
{
	store_commit(j->store, NULL);
	if (sink_jsonl_behind(j) > 0)
		catch_up(j, UINT_MAX, NULL);
}

void sink_jsonl_close(struct sink_jsonl *j)
{
	if (j == NULL)
		return;
	store_remove_sink(j->store, on_sink, flush, j);
	watch_free(j->retry);
	if (j->fd >= 0)
		close(j->fd);
	buf_done(&j->out);
	free((void *)(uintptr_t)j->config.path);
	free(j);
}

void sink_jsonl_limits(struct sink_jsonl *j, const struct sink_jsonl_config *config)
{
	const char *path = j->config.path;

	j->config = *config;
	j->config.path = path;
}

int sink_jsonl_reopen(struct sink_jsonl *j, struct err *err)
{
	cleanup_fd int fd = open_log(j->config.path, err);
	struct standing s;
	int rc;

	if (fd < 0)
		return fd;
	/* It may be the same file: lines that do not count yet must not be counted now. */
	if (cut_tail(j) < 0)
		return err_errno(err, E_UNAVAILABLE, j->config.path, "cannot truncate '%s'",
				 j->config.path);
	rc = inspect(fd, j->config.path, j->clock, &s, err);
	if (rc < 0)
		return rc;
	close(j->fd);
	j->fd = take_fd(fd);
	j->size = s.size;
	j->first_us = s.first_us;
	return catch_up(j, BATCHES, err);
}

uint64_t sink_jsonl_behind(const struct sink_jsonl *j)
{
	return store_last_seq(j->store) - j->written;
}
