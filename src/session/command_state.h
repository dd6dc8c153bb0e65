// SPDX-License-Identifier: Apache-2.0
/* session/command_state.h - struct command, from its submission to its end. */
#pragma once
#include "session/outcome.h"
#include "session/session.h"
#include "session/spare_files.h"
#include <sys/queue.h>

/* A row has `queued` until the end: only the warden reports that a command runs. */
enum command_state {
	COMMAND_QUEUED,
	COMMAND_RUNNING,
	COMMAND_FINISHED,
	COMMAND_KILLED,
	COMMAND_LOST,
};

/* How far this server is with a command. Its warden has those that are SENT. */
enum command_phase {
	COMMAND_SUBMITTED,
	COMMAND_COMMITTED, /* its row is in the store */
	COMMAND_UNKNOWN,   /* an earlier server wrote the row: perhaps its warden has it */
	COMMAND_SENT,
	COMMAND_OVER, /* its end is decided */
};

#define LISTED_MAX 100 /* events of one list in an answer */

struct observer {
	TAILQ_ENTRY(observer) next;
	struct command_observer o;
	uint64_t read[3]; /* by stream, 1 and 2 */
};

struct command {
	TAILQ_ENTRY(command) next; /* session's list */
	struct session *s;	   /* counted */
	unsigned refs;
	/* the row */
	enum command_state state;
	char *idempotency_key; /* may be NULL */
	char *request;	       /* JSON, as answers show it */
	int64_t created_us, started_us, finished_us;
	int64_t exit_code; /* -1: not known */
	uint64_t lines[3]; /* by stream, 1 and 2 */
	int64_t max_output, n;
	int64_t detach; /* 0 or 1 */
	struct outcome out;
	uint8_t body_hash[32];
	int signal; /* that killed it, or 0 */
	char id[ID_MAX + 1];
	/* while it lives */
	uint64_t insert_number; /* of the write of its row */
	enum command_phase phase;
	bool listed;	/* in its session's list */
	bool recovered; /* from a row: memory lacks what happened before this server */
	bool ack;	/* its warden waits for an acknowledgement */
	bool end_event; /* its end is in the journal */
	bool early_eof;
	bool ends_session; /* its session is destroyed once it is over */
	bool open_line[3];
	char request_id[ID_MAX + 1];
	struct output_file file[3]; /* by stream, 1 and 2 */
	int read_fd[3];
	/* Parts of the request for errors and events. command_read_request reads them from the row
	 * if an earlier API process submitted the command. */
	char *line; /* for people */
	char *cwd;
	bool is_script;
	struct err *refusal;	 /* what observers get instead of an answer */
	struct warden_exec exec; /* until it is sent */
	struct buf early_stdin;	 /* input that came before it was sent */
	uint64_t window[3];
	uint64_t told_read[3]; /* the slowest reader's position, as sent to its warden */
	uint64_t counted[3], counted_lines[3]; /* the part of its files that was counted */
	char *denial;			       /* the last one, packed; NULL or "": none */
	int failed_errno;		       /* of the last file operation that failed */
	char *failed_path;		       /* NULL: none did */
	/* The first events as the answer lists them, at most LISTED_MAX. */
	struct listed_events {
		struct buf json; /* separated by commas */
		unsigned n;
		int64_t operations; /* folded repeats count */
	} listed_events[SEEN_KINDS];
	TAILQ_HEAD(, observer) observers;
};

/* command.c */
extern const char *const command_state_names[];
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
struct observer *command_observer_of(struct command *c, const void *arg); /* NULL */

/* submit.c */
unsigned session_waiting(const struct session *s); /* commands that wait for their turn */
void command_promote(struct session *s);	   /* gives the free place to the next one */

/* signal_command.c */
void command_send_early(struct command *c);   /* what clients asked of it while it waited */
void command_tell_readers(struct command *c); /* sends its readers' positions, if that matters */

/* command_end.c */
void command_tell_done(struct command *c);
void command_tell_done_one(struct command *c, const void *arg);
void command_refusal_from_row(struct command *c);
peer_fn command_on_started, command_on_output, command_on_taken, command_on_refused;
void command_on_result(struct session *s, struct warden_result *m);
/* Ends it without a result. refuse: observers get the error instead of an answer with it. */
void command_end(struct command *c, enum command_state state, const struct err *why, bool refuse);
/* session.c: ends a command that was sent to its warden and has no result. It is killed if the
 * journal shows its start (or has gaps), else lost: no leader got it. */
void command_end_unknown(struct command *c, const char *why);

/* output_reader.c */
/* Counts the output by its files, when no warden has counted it. */
void command_measure(struct command *c);
uint64_t command_lines(struct command *c, int stream); /* so far */
uint64_t command_kept(struct command *c, int stream);  /* so far */
/* Up to limit bytes of what is kept, from the start. An output that was swept is empty. */
int command_read_first(struct command *c, int stream, size_t limit, struct buf *out, uint64_t *next,
		       struct err *err);

/* answer.c */
/* Gives a command that failed without an error of its own one: its last denial, else its last file
 * operation that failed. */
void answer_blame(struct command *c);
