// SPDX-License-Identifier: Apache-2.0
/* session/session.h - the server's side of sessions and commands: registry, state machine, queue,
 * rows.
 *
 * Runs in the API process, on the loop's thread. Uses one link to the launcher (create, remove) and
 * one to each warden. Nothing is sent to a warden and nothing is answered before the rows are safe
 * (store_after). Functions with a `caller` answer "not found" for a session of another agent. */
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

/* The client of a request. Made by api/auth.c, copied where it must live longer. */
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
	struct peer *launcher; /* borrowed; its messages go to sessions_on_launcher */
	int output_dir;	       /* directory descriptor of the output store, borrowed */
	int64_t share_mb;      /* memory that "75%" is a part of; 0: not known */
};
int sessions_new(const struct sessions_deps *deps, struct sessions **out, struct err *err);
void sessions_free(struct sessions *ss);
/* The server ends and the wardens live on: from now on nothing is written or sent, and a command
 * goes on when its observer leaves. */
void sessions_abandon(struct sessions *ss);
/* Handles a message of the launcher (created, refused, found, lost, found_all, gone). The caller
 * frees m. */
int sessions_on_launcher(struct sessions *ss, struct link_msg *m, struct err *err);
/* True once found_all has arrived and every found warden has sent its state. Before that, requests
 * wait or get E_UNAVAILABLE. */
bool sessions_ready(const struct sessions *ss);
void sessions_on_ready(struct sessions *ss, void (*fn)(void *arg), void *arg);
unsigned sessions_live(const struct sessions *ss);
/* Events that living sessions have lost and that no stored event reports yet. */
uint64_t sessions_dropped(const struct sessions *ss);
/* SIGHUP: the configuration has changed in place, and stderr may be another log. Sends both to
 * every warden. */
void sessions_reconfigure(struct sessions *ss);
/* SIGTERM: ends every session in an orderly way, then calls done. */
void sessions_stop(struct sessions *ss, void (*done)(void *arg), void *arg);

/* Either err or s is NULL. */
typedef void session_done_fn(const struct err *err, struct session *s, void *arg);
void session_create(struct sessions *ss, const struct caller *who,
		    const struct session_request *request, session_done_fn *done, void *arg);
/* Finds a living or ended session of the caller (admin: of any agent). E_SESSION_NOT_FOUND. *out is
 * valid until the next turn. */
int session_get(struct sessions *ss, const struct caller *who, const char *id, struct session **out,
		struct err *err);
const char *session_id(const struct session *s);
void session_format(struct session *s, struct jw *w); /* the record of docs/api.md */
/* A page of at most limit sessions behind the cursor, the newest last; `next` is "" at the end. */
int session_list(struct sessions *ss, const struct caller *who, const char *cursor, unsigned limit,
		 struct jw *w, struct err *err);
/* Its policy, and what the session narrowed itself. E_NOT_FOUND: the server does not have it. */
int session_policy_format(struct session *s, struct jw *w, struct err *err);
/* Asks the launcher which policies exist; reload: after it has read those in use again. Calls done
 * once; either err or m is NULL. */
typedef void policies_done_fn(const struct err *err, const struct launcher_policies *m, void *arg);
void policies_ask(struct sessions *ss, bool reload, policies_done_fn *done, void *arg);
void session_patch(struct session *s, const struct caller *who, const struct session_request *patch,
		   session_done_fn *done, void *arg);
#define SESSION_BY_REQUEST "destroyed by request" /* the reason for an end that a client wants */
/* Ends the session. If it has ended, done gets its final record. */
void session_destroy(struct session *s, const struct caller *who, const char *reason,
		     session_done_fn *done, void *arg);
/* A session of the caller that is being destroyed, and then makes room for another; NULL: none. An
 * admin waits for any agent's. */
struct session *session_ending(struct sessions *ss, const struct caller *who);

/* Kept homes, for clients: caches. Writes those that the caller may see, the longest unused first.
 */
int home_list(struct sessions *ss, const struct caller *who, struct jw *w, struct err *err);
/* Removes one. E_NOT_FOUND, E_CONFLICT while a session uses it, E_UNAVAILABLE. Calls done once; err
 * is NULL if it is removed. */
typedef void home_done_fn(const struct err *err, void *arg);
void home_purge(struct sessions *ss, const struct caller *who, const char *id, home_done_fn *done,
		void *arg);

/* The files that a session deleted and that can be restored: a page of at most limit entries behind
 * the one with the number `after`. */
int session_trash_list(struct session *s, uint64_t after, unsigned limit, struct jw *w,
		       struct err *err);
/* Puts one back while the session lives. E_NOT_FOUND, E_CONFLICT, E_POLICY_DENIED,
 * E_SESSION_STOPPED. Calls done once. */
void session_trash_restore(struct session *s, uint64_t entry, session_done_fn *done, void *arg);

/* Functions for the client of exec; each may be NULL. All run on the loop; the command is borrowed.
 * An observer with `output` is a reader: past output.command_quota the command waits for the
 * slowest one. A reader reports its position by command_has_read. */
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
	bool ends_session; /* destroy the session once the command is over, or is refused */
};
/* Submits a command. Calls the observer's done exactly once, maybe before this returns. *out (may
 * be NULL) is for the next functions and valid until done returns or command_unobserve. With
 * request->detach, done is called when the row is safe and the command is sent. */
void command_submit(struct session *s, const struct caller *who, const struct command_ask *ask,
		    const struct command_observer *obs, struct command **out);
/* Removes the observer. gone: its client left; the command gets HUP, a grace and KILL unless it is
 * detached. A command that waits in the queue is dropped. */
void command_unobserve(struct command *c, const void *arg, bool gone);
void command_stdin(struct command *c, const void *p, size_t n, bool eof);
void command_window(struct command *c, int stream, uint64_t allowed);
void command_has_read(struct command *c, const void *arg, int stream, uint64_t position);
int command_signal(struct command *c, int sig, int64_t grace_ms, bool tree, struct err *err);
uint64_t command_bytes(struct command *c, int stream); /* produced so far by stream 1 or 2 */
const char *command_id(const struct command *c);
/* Keeps the command until the last reference is given back. */
struct command *command_ref(struct command *c);
void command_unref(struct command *c);
/* The whole exec answer (docs/api.md) of an ended command. unread: why its output could not be
 * passed on, or NULL. */
void command_format_answer(struct command *c, const struct err *unread, struct jw *w);
/* The id and the policy of its session. */
void command_format_session(struct command *c, struct jw *w);
/* The command record: id, state, times, exit, totals. */
void command_format(struct command *c, struct jw *w);
/* Finds a command of the caller; session NULL: in any of its sessions. E_NOT_FOUND. *out is valid
 * until the next turn. */
int command_get(struct sessions *ss, const struct caller *who, struct session *s, const char *id,
		struct command **out, struct err *err);
int command_list(struct session *s, const char *cursor, unsigned limit, struct jw *w,
		 struct err *err);
/* Writes a page of the kept output, as docs/api.md has it. */
int command_output(struct command *c, int stream, uint64_t offset, uint64_t limit, struct jw *w,
		   struct err *err);
/* The same for a reader that follows the command, also past the quota: appends the bytes to out.
 * *next is the offset behind them. If *next grows and out does not, bytes were dropped. */
int command_follow(struct command *c, int stream, uint64_t offset, size_t limit, struct buf *out,
		   uint64_t *next, struct err *err);
/* The file with bytes at this offset that will not change any more, at the same offset; borrowed.
 * Makes *n smaller if the file has less. -1: read them with command_follow. */
int command_file(struct command *c, int stream, uint64_t offset, size_t *n);
/* POST kill: sends the signal. E_CONFLICT if the command is over. */
int command_kill(struct command *c, const char *signal, int64_t grace_ms, struct err *err);
