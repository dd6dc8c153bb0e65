// SPDX-License-Identifier: Apache-2.0
/* session/internal.h - what the files of this folder share; nobody else includes it.
 *
 * Objects are counted: the registry holds a session until its end is in the store, a session holds
 * a command until its end is in the store, a command holds its session. Finders hand out objects
 * that live at least until the next turn. A change is made in memory, written as rows and events,
 * and shown (link, observers, done functions) by a store_after function, when no SIGKILL can undo
 * it. While the database cannot be written nothing new is begun. `busy` is not in the rows: a
 * session is busy while a command of it runs, and a command runs (a row says `queued` until its
 * end) when its warden says so. */
#pragma once
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "event/journal.h"
#include "link/peer.h"
#include "model/wall.h"
#include "session/session.h"
#include "terminal/stream.h"
#include <sys/queue.h>

#define CREATE_MS 30000 /* the launcher's answer */
#define HELLO_MS 30000	/* a warden's first state */
#define QUIET_MS 3000	/* found wardens of which nothing is heard: the others are served */
#define STOP_MS 25000	/* a warden's orderly end: its own deadlines are shorter */
#define GONE_MS 250	/* the launcher's reason for an end that the link shows first */
#define BELL_MS 5	/* records that come together are stored together */
#define GONE_GRACE_MS 2000
#define SESSION_BUCKETS 256

enum session_state {
	SESSION_CREATING,
	SESSION_READY,
	SESSION_BUSY,
	SESSION_STOPPING,
	SESSION_STOPPED,
	SESSION_FAILED,
};
enum command_state {
	COMMAND_QUEUED,
	COMMAND_RUNNING,
	COMMAND_FINISHED,
	COMMAND_KILLED,
	COMMAND_LOST,
};
/* Lists of operations in an answer. */
#define LISTED_MAX 100		  /* events of one list in an answer */
#define LISTED_BYTES (256 * 1024) /* of them that are kept in memory */
enum seen { SEEN_FILE, SEEN_NETWORK, SEEN_EXEC, SEEN_BLOCKED, SEEN_KINDS };

struct totals {
	int64_t command_count, file_ops, net_ops, bytes_read, bytes_written;
};

TAILQ_HEAD(command_list, command);
TAILQ_HEAD(session_list, session);
TAILQ_HEAD(pinned_list, pinned);

/* Who waits for a session's end. */
struct end_waiter {
	STAILQ_ENTRY(end_waiter) next;
	session_done_fn *done;
	void *arg;
};

/* A PATCH under way; the working directory is tried first, alone, so that a bad one changes
 * nothing. */
struct patch {
	STAILQ_ENTRY(patch) next; /* while the launcher is asked */
	struct session_request request;
	uint64_t optional;   /* 1 << WALL_…: of limits that were given as a share */
	struct strv walls;   /* of the limits that the launcher has changed */
	struct strv capped;  /* fields that were to be wider than they are */
	char *old_cwd;	     /* before this patch changed it; NULL: it did not */
	struct err *refusal; /* the launcher's */
	char request_id[ID_MAX + 1];
	session_done_fn *done;
	void *arg;
};

/* What the next warden_state answers. */
enum expect_kind { EXPECT_HELLO, EXPECT_SETTLED, EXPECT_CWD, EXPECT_PATCH, EXPECT_UNDO };
struct expect {
	STAILQ_ENTRY(expect) next;
	enum expect_kind kind;
	struct patch *patch; /* owned; CWD and PATCH */
};

/* Where a command's output goes. */
struct output_file {
	char name[ID_MAX + 1];
	int fd; /* for writing; -1: none, or not ours any more */
};
#define NO_FILE ((struct output_file){.fd = -1})

/* One of a session's rings, and how far it was read. */
struct session_ring {
	char *id; /* owned; by which the store knows it: ID of the warden's, ID/NAME of another */
	struct journal_reader *reader; /* NULL: it is broken */
	uint64_t end;		       /* up to where it is in the store */
	uint64_t acked;		       /* up to where its producer knows that */
	uint64_t number;	       /* of the last write of end */
};

struct session {
	TAILQ_ENTRY(session) all;   /* registry or borrowed */
	LIST_ENTRY(session) bucket; /* registry */
	struct sessions *ss;
	unsigned refs;
	/* the row */
	char id[ID_MAX + 1], agent_id[ID_MAX + 1];
	enum session_state state;
	uint32_t owner_uid;
	int64_t created_us, last_activity_us, ended_us;
	int64_t created_boot_us, active_boot_us; /* the same by CLOCK_BOOTTIME, for time-outs */
	char *workspace, *policy_name, *policy_version, *cwd, *failure; /* failure NULL: none */
	struct strv env;
	struct session_request config; /* as asked, narrowed */
	struct strv capped;	       /* what was asked for and lowered: "timeout" */
	struct wall_report walls;
	struct totals totals;
	struct totals saved_totals; /* as the row has them */
	uint64_t save_number;	    /* of the last such write */
	int64_t next_n;		    /* of its next command */
	/* while it lives */
	bool registered;
	bool settled;	/* its warden has told all that it knows */
	bool unclaimed; /* a warden without a row: only to be ended */
	bool over;	/* its end is decided */
	bool saved;	/* its end is in the store */
	bool lent;	/* to the turn */
	bool env_dirty;
	bool settings_due; /* they changed before its warden could be told */
	bool bell_pending;
	bool ack_due;	    /* of its rings, with the next commit */
	char *hint;	    /* why its warden ends, as far as known */
	char *end_reason;   /* of a destroy; also one that came while it was made */
	struct peer warden; /* closed: none */
	struct watch *timer, *bell;
	watch_fn *timer_fn;
	struct session_ring *ring; /* the warden's is the first */
	size_t nrings;
	bool events_dropped;	      /* its journal has gaps */
	uint64_t oom_kills;	      /* that its warden told of; UINT64_MAX: not known */
	struct strv acks;	      /* results that its warden may forget, not told yet */
	struct command_list commands; /* running and queued in order, and those whose end is not yet
					 in the store */
	struct command *running;      /* in the list */
	STAILQ_HEAD(, expect) expects;
	STAILQ_HEAD(, patch) limiting; /* the launcher changes their limits, in this order */
	STAILQ_HEAD(, end_waiter) waiters;
	struct exec_counts execs;    /* as far as they are in the metrics */
	struct output_file spare[3]; /* by stream, 1 and 2 */
	/* while it is made */
	session_done_fn *create_done;
	void *create_arg;
	int proof_fd;
	char *proof_key;
	struct err *refusal; /* the launcher's */
	uint64_t required;   /* 1 << WALL_…: limits that it may not be made without */
	struct limits asked; /* by the client */
	char request_id[ID_MAX + 1];
};

struct observer {
	TAILQ_ENTRY(observer) next;
	struct command_observer o;
	uint64_t read[3]; /* by stream, 1 and 2 */
};

/* What the events of a command say about the network. */
struct network_summary {
	int64_t connections, dns_queries, sent, received, blocked;
	struct strv destinations; /* different ones, a bounded number */
};

/* What a finished command left; the row's `result`. */
struct outcome {
	bool refused; /* never started: the error is the answer */
	char *error_code, *error_message, *error_path;
	char *error_policy;  /* a denial as a JSON object */
	char *request_id;    /* of an error: that of the request that the command came with */
	struct strv similar; /* of a program that was not found: what is there instead */
	char *working_dir;   /* of the session afterwards */
	char *capture;
	struct strv env_changed, background, warnings;
	int64_t duration_us, cpu_us, maxrss_kb, read_bytes, write_bytes;
	int64_t stdout_kept, stderr_kept;
	int64_t file, network, exec, blocked; /* events, by list */
	struct network_summary net;
};

struct command {
	TAILQ_ENTRY(command) next; /* session's list or borrowed */
	struct session *s;	   /* counted */
	unsigned refs;
	/* the row */
	enum command_state state;
	char *idempotency_key; /* NULL: none */
	char *request;	       /* JSON, as answers show it */
	int64_t created_us, started_us, finished_us;
	int64_t exit_code;	     /* -1: none */
	uint64_t bytes[3], lines[3]; /* by stream, 1 and 2 */
	int64_t max_output, n;
	struct outcome out;
	uint8_t body_hash[32];
	int signal; /* 0: none */
	char id[ID_MAX + 1];
	bool detach;
	/* while it lives */
	uint64_t insert_number; /* of the write of its row */
	bool listed;		/* in its session's list */
	bool lent;		/* to the turn */
	bool recovered;		/* from a row: what came before this server is not in memory */
	bool committed;		/* its row is in the store */
	bool sent;
	bool over;	/* its end is decided */
	bool ack;	/* its warden waits for an acknowledgement */
	bool end_event; /* its end is in the journal */
	bool ends_busy; /* its end makes the session ready */
	bool early_eof;
	bool open_line[3];
	char request_id[ID_MAX + 1];
	struct output_file file[3]; /* by stream, 1 and 2 */
	int read_fd[3];
	/* What the request says, for errors and events: known from the start to a command that
	 * this server was asked for, else read from the row (command_read_request). */
	char *line; /* for people */
	char *cwd;
	bool is_script;
	struct err *refusal;	 /* what observers get instead of an answer */
	struct warden_exec exec; /* until it is sent */
	struct buf early_stdin;	 /* what came before it was sent */
	uint64_t window[3];
	uint64_t told_read[3];		/* the slowest reader's position, as its warden knows it */
	struct stream_extent extent[3]; /* as its warden says; it counts past the quota */
	uint64_t counted[3], counted_lines[3]; /* of its files, as far as somebody asked */
	int64_t seen[SEEN_KINDS];
	struct network_summary net;
	struct {
		struct buf policy, message, path; /* of the last denial; message empty: none */
	} denial;
	/* The first of them as the answer lists them: complete while n is seen, up to LISTED_MAX.
	 */
	struct {
		struct buf json; /* separated by commas */
		unsigned n;
	} listed_events[SEEN_KINDS];
	TAILQ_HEAD(, observer) observers;
};

struct sessions {
	struct sessions_deps deps;
	struct session_list all;
	LIST_HEAD(, session) bucket[SESSION_BUCKETS];
	unsigned live; /* registered, not unclaimed, end not decided */
	bool found_all, ready, stopping, freeing;
	void (*on_ready)(void *arg);
	void *on_ready_arg;
	void (*on_stopped)(void *arg);
	void *on_stopped_arg;
	struct watch *reaper, *sweep, *quiet;
	struct session_list borrowed_sessions;
	struct command_list borrowed_commands;
	struct pinned_list policies; /* opened */
	unsigned open_policies;
	STAILQ_HEAD(, policies_waiter) policy_waiters;
	uint32_t last_ticket;
	/* The wall clock has been this much ahead of CLOCK_BOOTTIME, to a minute, since then. */
	int64_t wall_ahead_us, steady_since_us;
};

/* sessions.c */
struct session *sessions_find(struct sessions *ss, const char *id); /* registered; NULL */
void sessions_add(struct sessions *ss, struct session *s);	    /* keeps a reference */
void sessions_drop(struct session *s);				    /* gives it back */
void sessions_check_ready(struct sessions *ss);
void sessions_serve_rest(void *sessions); /* QUIET_MS have passed */
void sessions_check_stopped(struct sessions *ss);
void sessions_count(struct sessions *ss); /* live and its metric */
/* Gives the caller's reference to the turn: the object lives until the next one. */
struct session *session_lend(struct session *s);
struct command *command_lend(struct command *c);
void command_release(struct command *c); /* the same, if nothing else keeps it that long */
bool session_visible(const struct caller *who, const char *agent_id);
static inline int64_t sessions_now(const struct sessions *ss)
{
	return clock_wall_us(ss->deps.clock);
}
static inline int64_t sessions_boot(const struct sessions *ss)
{
	return clock_boot_us(ss->deps.clock);
}

/* session.c */
const char *session_state_name(enum session_state state);
int session_state_by_name(const char *name); /* -1 if unknown */
struct session *session_new(struct sessions *ss, const char *id, const char *agent_id);
struct session *session_ref(struct session *s);
void session_unref(struct session *s);
bool session_ended(const struct session *s);
/* Changes the state, with its event; the row is the caller's to write. */
void session_set_state(struct session *s, enum session_state to, const char *reason);
void session_is_active(struct session *s); /* its idle time begins anew */
/* Its warden is dead, and its group has counted so many OOM kills. If that is more than the warden
 * told of, it was one of them: that is the reason, and an event. */
void session_out_of_memory(struct session *s, uint64_t oom_kills);
void session_state_event(struct session *s, enum session_state from, enum session_state to,
			 const char *reason);
void session_event(struct session *s, enum event_type type, const char *reason);
void session_after(struct session *s, uint64_t ms, watch_fn *fn); /* its one timer */
void session_after_none(struct session *s);
/* Decides the end: stopped if it was being stopped, else failed with hint, else why. */
void session_over(struct session *s, const char *why);
void session_send_end(struct session *s);
void session_tell_waiters(struct session *s, const struct err *err);
void session_begin_stop(struct session *s, const char *reason, const char *request_id);

/* create.c */
/* fd: link, rings, policy */
void session_on_created(struct session *s, struct launcher_created *m, int *fd, size_t nfds);
void session_on_refused(struct session *s, const struct launcher_refused *m);
void session_on_ready(struct session *s); /* the first state of a fresh warden */
/* Before its end is saved: tells of a wall that was missing; afterwards: tells who asked. */
void session_create_ends(struct session *s, const char *why);
void session_create_failed(struct session *s, const char *why);
/* Takes the walls that a process of ours raised, then adds the ones of this folder. */
void session_take_walls(struct session *s, const struct strv *walls);

/* policies.c */
struct policy;
/* The one that it began with, until the next call; NULL if it is not known. */
const struct policy *session_policy(struct session *s);
int session_policy_take(struct session *s, int fd, struct err *err); /* from the launcher */
void session_policy_save(struct session *s);
/* Whether these variables may be given. E_POLICY_DENIED, with its event. */
int session_policy_env(struct session *s, const struct strv *env, const char *request_id,
		       struct err *err);
/* Somebody asked for more than the policy gives; a session that is not made yet has no id. */
void policy_violation(struct session *s, const char *request_id, const struct err *why);
void denial_take(struct err *err, const char *json); /* NULL and what does not fit: none */
void policies_on_launcher(struct sessions *ss, const struct launcher_policies *m);
void policies_forget_waiters(struct sessions *ss);
void policies_close(struct sessions *ss);

/* patch.c */
void session_patched(struct session *s, struct expect *x, const char *old_cwd);
void session_patches_fail(struct session *s);
/* The launcher's answer to the first of those that wait for it. */
void session_on_limited(struct session *s, struct launcher_limited *m);

/* warden_link.c */
static inline bool session_is_linked(const struct session *s)
{
	return s->warden.link.fd != -1;
}
/* Takes link and rings; says hello. */
int warden_attach(struct session *s, const struct strv *rings, int *fd, size_t nfds,
		  struct err *err);
void warden_detach(struct session *s);
void warden_tell_settings(struct session *s); /* with our stderr as its log */
void warden_read(struct session *s);	      /* handles what has arrived */
void warden_expect(struct session *s, enum expect_kind kind, struct patch *p);
void warden_send_acks(struct session *s); /* what of s->acks no command took along */
void warden_send(struct session *s, enum msg_type type,
		 const void *obj); /* a lost link shows itself to the reader */
void warden_send_fds(struct session *s, enum msg_type type, const void *obj, const int *fds,
		     size_t nfds); /* borrowed */

/* drain.c */
/* What an event says about a command. */
typedef void command_note_fn(struct command *c, const struct event *e);
command_note_fn command_note_life, command_note_network, command_note_denial;
size_t session_ring_fds(const struct strv *names); /* descriptors that these rings have */
/* Takes ring and ack of each. */
int session_open_rings(struct session *s, const struct strv *names, int *fd, size_t nfds,
		       struct err *err);
void session_close_rings(struct session *s);
uint32_t session_dropped(const struct session *s); /* events lost that no event tells of yet */
/* Reads the rings into the store: up to the end of a command, or all that is there (NULL). The
 * acknowledgement follows the commit. */
void session_drain(struct session *s, const struct warden_result *result);
void session_bell(struct session *s);
void session_ack_later(struct session *s); /* of the rings and of results, after the commit */

/* command.c */
const char *command_state_name(enum command_state state);
int command_state_by_name(const char *name);
struct command *command_new(struct session *s, const char *id);
struct command *command_find(struct session *s, const char *id); /* in its list; NULL */
void command_list_add(struct command *c);			 /* keeps a reference */
void command_list_drop(struct command *c);
bool command_is_over(const struct command *c);
void command_event(struct command *c, enum event_type type, const char *reason);
char *command_directory(const struct session *s, const char *asked);
void command_request_format(struct command *c); /* c->request from c->exec */
void command_read_request(struct command *c);	/* line, cwd and is_script from c->request */
void command_add_observer(struct command *c, const struct command_observer *obs);

/* submit.c */
void command_send(struct command *c);
unsigned session_waiting(const struct session *s); /* commands that wait for their turn */
void command_promote(struct session *s);	   /* gives the free place to the next one */

/* signal_command.c */
void command_send_early(struct command *c);   /* what was asked of it while it waited */
void command_tell_readers(struct command *c); /* to its warden: how far they are, if that matters */

/* spare_files.c */
int spare_take(struct session *s, struct command *c, struct err *err); /* c->file */
void spare_give(struct command *c); /* the files that it did not need; it is over */
void spare_fill(struct session *s);
void spare_drop(struct session *s);    /* with its files */
void spares_drop(struct sessions *ss); /* of all sessions, for want of descriptors */

/* command_end.c */
void command_tell_done(struct command *c);
void command_tell_done_one(struct command *c, const void *arg);
void command_refusal_from_row(struct command *c);
void command_on_started(struct command *c, uint64_t time_us);
void command_on_output(struct command *c, const struct warden_output *m);
void command_on_taken(struct command *c, uint64_t total);
void command_on_refused(struct session *s, const struct warden_refused *m);
void command_on_result(struct session *s, struct warden_result *m);
/* Ends it without a result. refusal NULL: observers get an answer with the error in it. */
void command_end(struct command *c, enum command_state state, const struct err *why, bool refuse);
/* session.c: it was sent to its warden, and no result will come. Killed if the journal shows its
 * start (or cannot be read), else lost: it was never handed to a leader. */
void command_end_unknown(struct command *c, const char *why);

/* output.c */
void command_measure(
	struct command *c); /* what its files hold is its output: nobody else counted */
uint64_t command_lines(struct command *c, int stream); /* so far, as the next one */
uint64_t command_kept(struct command *c, int stream);
/* Up to limit bytes of what is kept, from the start. An output that was swept is empty. */
int command_read_first(struct command *c, int stream, size_t limit, struct buf *out, uint64_t *next,
		       struct err *err);

/* outcome.c */
void outcome_done(struct outcome *o);
void outcome_format(const struct outcome *o, struct buf *out);
int outcome_parse(const char *json, struct outcome *o, struct err *err);

/* answer_error.c */
/* A command that failed, and to which something was denied: the last denial is its error. */
void answer_blame(struct command *c);
/* The value of `error`: what the command met, and what could not be read for this answer (or NULL).
 */
void answer_error(struct command *c, const struct err *unread, struct jw *w);

/* answer_events.c */
void network_summary_done(struct network_summary *sum);
void answer_network(const struct network_summary *sum, struct jw *w); /* `network_summary` */
void answer_events(struct command *c, struct jw *w);		      /* the value of `events` */
struct event_query answer_list_query(enum seen kind);		      /* for one of its lists */

/* recall.c */
void command_query(struct command *c, struct event_query *q, store_row_fn *fn, void *arg,
		   uint64_t *total);			 /* among its events; a failure is logged */
void command_recall_life(struct command *c);		 /* start and end */
void command_recall_operations(struct command *c);	 /* c->seen, c->net and c->denial */
void denial_lend(const json_t *policy, struct event *e); /* alternatives are owned by e */

/* rows.c */
void rows_session_insert(struct session *s);
/* create.c: E_CONFLICT, the same for every cause, with a free id. */
int session_id_taken(const char *id, struct err *err);
int rows_session_free(struct sessions *ss, const char *id, struct err *err); /* E_CONFLICT */
void rows_session_save(struct session *s); /* state, times, cwd, totals, failure */
void rows_session_save_env(struct session *s);
void rows_session_save_config(struct session *s); /* config, walls, policy, workspace, owner */
void rows_session_delete(struct session *s);
int rows_session_load(struct sessions *ss, const char *id, struct session **out, struct err *err);
typedef void rows_session_fn(struct session *s, int64_t rowid, void *arg); /* s: a reference */
int rows_sessions_live(struct sessions *ss, rows_session_fn *fn, void *arg, struct err *err);
struct rows_page {
	const char *agent_id; /* NULL: any */
	int64_t after;
	unsigned limit;
};
int rows_sessions_page(struct sessions *ss, const struct rows_page *p, rows_session_fn *fn,
		       void *arg, struct err *err);
int rows_cursor_parse(const char *cursor, int64_t *after,
		      struct err *err); /* NULL and "": the start */

/* rows_command.c */
void rows_command_insert(struct command *c);
int rows_command_free(struct session *s, const char *id, struct err *err); /* E_CONFLICT */
void rows_command_finish(struct command *c);
void rows_command_save_request(struct command *c);
/* E_NOT_FOUND. *out is a reference: the living command, or one made from its row. agent_id NULL:
 * any agent's. */
int rows_command_load(struct sessions *ss, const char *agent_id, const char *id,
		      struct command **out, struct err *err);
/* The same by an Idempotency-Key of the session's agent. One past its age is taken from its row and
 * not found. */
int rows_command_by_key(struct session *s, const char *key, struct command **out, struct err *err);
typedef void rows_command_fn(struct command *c, void *arg); /* c: a reference */
int rows_commands_open(struct session *s, rows_command_fn *fn, void *arg, struct err *err);
int rows_commands_page(struct session *s, int64_t after, unsigned limit, rows_command_fn *fn,
		       void *arg, struct err *err);
int rows_last_n(struct session *s, int64_t *out, struct err *err); /* 0: it has had no command */

/* reaper.c */
void sessions_reap(struct sessions *ss); /* one round; the timer calls it */
void sessions_sweep_output(struct sessions *ss);
/* Whether the wall clock has agreed with CLOCK_BOOTTIME for the last hour: only then is anything
 * forgotten by an age that the wall clock tells. */
bool sessions_wall_is_steady(struct sessions *ss);
int reaper_start(struct sessions *ss, struct err *err);
void reaper_again(struct sessions *ss); /* the interval has changed */
void reaper_stop(struct sessions *ss);

/* env.c */
/* A new session's environment: the allowed defaults, the configuration's, the client's, nothing
 * dangerous. */
void session_env(const struct config *config, const struct strv *asked, struct strv *out);
void env_format(const struct strv *env, struct jw *w); /* an object */
int env_parse(const char *json, struct strv *out, struct err *err);
