// SPDX-License-Identifier: Apache-2.0
/* session/session.h - the server's side of sessions and commands: registry, state machine, queue,
 * rows.
 *
 * API child, loop thread. Talks to the launcher (create, remove) and to each warden by link. Rows
 * are written in the store's transaction of the turn; nothing is sent to a warden and nothing is
 * answered before the commit (store_after). Ownership is checked here by `caller`: what is not the
 * caller's is "not found". */
#pragma once
#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"
#include "event/metrics.h"
#include "event/store.h"
#include "link/peer.h"
#include "model/request.h"

struct loop;
struct sessions;
struct session;
struct command;

/* Who asks. Made by api/auth.c, copied where it must live longer. */
struct caller {
	char agent_id[ID_MAX + 1];
	enum role role;
	uint32_t uid;
	int conn_fd;   /* unix connection as the proof, or -1 */
	char key[129]; /* API key as the proof, or "" */
	char request_id[ID_MAX + 1];
};

struct sessions_deps {
	struct loop *loop;
	const struct clock *clock;
	const struct config *config; /* borrowed */
	struct store *store;
	struct metrics *metrics;
	struct peer *launcher; /* borrowed; sessions_on_launcher is fed with what arrives */
	int output_dir;	       /* directory descriptor of the output store, borrowed */
	int64_t share_mb;      /* memory that "75%" is a part of; 0: not known */
};
int sessions_new(const struct sessions_deps *deps, struct sessions **out, struct err *err);
void sessions_free(struct sessions *ss);
/* The server goes and the wardens live on: from now on nothing is written, sent or told, and an
 * observer that leaves is no client that went away. */
void sessions_abandon(struct sessions *ss);
/* Feeds a message of the launcher's link (created, refused, found, lost, found_all, gone); m stays
 * the caller's. */
int sessions_on_launcher(struct sessions *ss, struct link_msg *m, struct err *err);
/* True once found_all arrived and every found warden has told its state: before, requests wait or
 * get E_UNAVAILABLE. */
bool sessions_ready(const struct sessions *ss);
void sessions_on_ready(struct sessions *ss, void (*fn)(void *arg), void *arg);
unsigned sessions_live(const struct sessions *ss);
/* Events that living sessions have lost and no stored event tells of yet. */
uint64_t sessions_dropped(const struct sessions *ss);
/* SIGHUP: the configuration has changed in place, and stderr may be another log; every warden is
 * told. */
void sessions_reconfigure(struct sessions *ss);
/* SIGTERM: ends every session in order, then calls done. */
void sessions_stop(struct sessions *ss, void (*done)(void *arg), void *arg);

/* Answers exactly one of: err, session. */
typedef void session_done_fn(const struct err *err, struct session *s, void *arg);
void session_create(struct sessions *ss, const struct caller *who,
		    const struct session_request *request, session_done_fn *done, void *arg);
/* Finds a session of the caller's (admin: any), live or ended. E_SESSION_NOT_FOUND. Borrowed until
 * the next turn. */
int session_get(struct sessions *ss, const struct caller *who, const char *id, struct session **out,
		struct err *err);
const char *session_id(const struct session *s);
void session_format(struct session *s, struct jw *w); /* the record of docs/api.md */
/* List with cursor: newest last, at most limit; next is "" at the end. */
int session_list(struct sessions *ss, const struct caller *who, const char *cursor, unsigned limit,
		 struct jw *w, struct err *err);
/* The policy that holds for it, with what it narrowed itself. E_NOT_FOUND if it is not known. */
int session_policy_format(struct session *s, struct jw *w, struct err *err);
/* Which policies there are; reload: after those in use were read again. Answers exactly once with
 * one of: err, m. */
typedef void policies_done_fn(const struct err *err, const struct launcher_policies *m, void *arg);
void policies_ask(struct sessions *ss, bool reload, policies_done_fn *done, void *arg);
void session_patch(struct session *s, const struct caller *who, const struct session_request *patch,
		   session_done_fn *done, void *arg);
/* Ends it (idempotent: an ended one answers its final record). */
void session_destroy(struct session *s, const struct caller *who, const char *reason,
		     session_done_fn *done, void *arg);

/* What a caller of exec sees; each may be NULL. All run on the loop; `command` is borrowed. An
 * observer with `output` is a reader: past output.command_quota the slowest one holds the command,
 * and it says by command_has_read how far it is. */
struct command_observer {
	void (*started)(struct command *c, void *arg);
	void (*output)(struct command *c, void *arg); /* totals grew: command_output */
	void (*stdin_taken)(struct command *c, uint64_t total, void *arg);
	void (*done)(const struct err *err, struct command *c,
		     void *arg); /* last call. err: refused before start */
	void *arg;
};
struct command_ask {
	const struct exec_request *request;
	const char *idempotency_key; /* NULL or the header */
	const uint8_t *body_hash;    /* 32 bytes of the body, with a key */
	bool stdin_open, flow;	     /* stdio stream */
};
/* Submits; the observer's done is called exactly once, maybe before this returns. *out (may be
 * NULL) is the handle for the next functions, valid until done returns or command_unobserve. With
 * request->detach, done comes when the row is committed and the command sent. */
void command_submit(struct session *s, const struct caller *who, const struct command_ask *ask,
		    const struct command_observer *obs, struct command **out);
/* The observer leaves. gone: the client went away: HUP, grace, KILL unless detached; a queued
 * command is dropped (killed). */
void command_unobserve(struct command *c, const void *arg, bool gone);
void command_stdin(struct command *c, const void *p, size_t n, bool eof);
void command_window(struct command *c, int stream, uint64_t allowed);
void command_has_read(struct command *c, const void *arg, int stream, uint64_t position);
int command_signal(struct command *c, int sig, int64_t grace_ms, bool tree, struct err *err);
uint64_t command_bytes(struct command *c, int stream); /* produced so far by stream 1 or 2 */
const char *command_id(const struct command *c);
/* Keeps it beyond its time, until the last reference is given back. */
struct command *command_ref(struct command *c);
void command_unref(struct command *c);
/* The whole exec answer (docs/api.md), from the row; only when finished. unread: why its output
 * could not be passed on, or NULL. */
void command_format_answer(struct command *c, const struct err *unread, struct jw *w);
/* The command record: id, state, times, exit, totals. */
void command_format(struct command *c, struct jw *w);
/* Finds a command of the caller's; session NULL: any of the caller's sessions. E_NOT_FOUND.
 * Borrowed until the next turn. */
int command_get(struct sessions *ss, const struct caller *who, struct session *s, const char *id,
		struct command **out, struct err *err);
int command_list(struct session *s, const char *cursor, unsigned limit, struct jw *w,
		 struct err *err);
/* Reads what is kept by offset: fills the JSON object of docs/api.md. */
int command_output(struct command *c, int stream, uint64_t offset, uint64_t limit, struct jw *w,
		   struct err *err);
/* The same for a reader that follows the command: appends the bytes to out, past the quota too.
 * *next is the offset behind them; behind bytes that were dropped, if *next grows and out does not.
 */
int command_follow(struct command *c, int stream, uint64_t offset, size_t limit, struct buf *out,
		   uint64_t *next, struct err *err);
/* POST kill. Answers when the signal has been sent: E_CONFLICT if it is over. */
int command_kill(struct command *c, const char *signal, int64_t grace_ms, struct err *err);
