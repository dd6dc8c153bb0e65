// SPDX-License-Identifier: Apache-2.0
/* session/session_state.h - struct session, its states and its end.
 *
 * Sessions and commands are counted: the registry holds a session until the store has its end, a
 * session holds a command until the store has its end, a command holds its session. A change is
 * made in memory, written as rows and events, and shown (link, observers, done functions) by a
 * store_after function, when no SIGKILL can undo it. While the database cannot be written nothing
 * new begins. The rows do not say `busy`: a session is busy while one of its commands runs. */
#pragma once
#include "base/loop.h"
#include "base/mem.h"
#include "link/peer.h"
#include "model/wall.h"
#include "session/session.h"
#include "session/spare_files.h"
#include <sys/queue.h>

#define STOP_MS 25000 /* for a warden's orderly end; the warden's own deadlines are shorter */

enum session_state {
	SESSION_CREATING,
	SESSION_READY,
	SESSION_BUSY,
	SESSION_STOPPING,
	SESSION_STOPPED,
	SESSION_FAILED,
};

/* How far this API process is with a session. */
enum session_phase {
	SESSION_UNLISTED,  /* not in the registry: just made, or read from its row */
	SESSION_UNSETTLED, /* in the registry; its warden has not sent its whole state */
	SESSION_SETTLED,
	SESSION_OVER, /* its end is decided, but not in the store yet */
	SESSION_GONE, /* out of the registry again */
};

/* What the next state of its warden answers. */
enum session_expects { EXPECT_NOTHING, EXPECT_HELLO, EXPECT_SETTLED, EXPECT_PATCH };

struct totals {
	int64_t command_count, file_ops, net_ops, bytes_read, bytes_written;
};

TAILQ_HEAD(command_list, command);

struct session {
	TAILQ_ENTRY(session) all;   /* registry */
	LIST_ENTRY(session) bucket; /* registry */
	struct sessions *ss;
	unsigned refs;
	/* the row */
	char id[ID_MAX + 1], agent_id[ID_MAX + 1];
	enum session_state state;
	int64_t rowid, owner_uid, created_us, last_activity_us, ended_us;
	int64_t created_boot_us, active_boot_us; /* the same by CLOCK_BOOTTIME, for time-outs */
	char *workspace, *policy_name, *policy_version, *cwd, *failure; /* failure may be NULL */
	char *home; /* name of its kept home; NULL: none */
	struct strv env;
	struct session_request config; /* as asked, narrowed */
	struct strv capped;	       /* what was asked for and lowered: "timeout" */
	struct wall_report walls;
	struct totals totals;
	struct totals saved_totals; /* as the row has them */
	uint64_t save_number;	    /* of the last such write */
	int64_t next_n;		    /* of its next command */
	/* while it lives */
	enum session_phase phase;
	bool unclaimed; /* a warden without a row: the server only ends it */
	bool env_dirty;
	bool settings_due;  /* they changed before its warden could receive them */
	bool ack_due;	    /* of its rings, with the next commit */
	char *hint;	    /* why its warden ends, as far as known */
	char *end_reason;   /* of a destroy, also one that came during the creation */
	struct peer warden; /* closed: it has no link */
	struct watch *timer, *bell;
	struct session_ring *ring; /* the warden's comes first */
	size_t nrings;
	bool events_dropped;	      /* its journal has gaps */
	uint64_t oom_kills;	      /* that its warden reported; UINT64_MAX: not known */
	struct strv acks;	      /* results that its warden may forget, not sent yet */
	struct command_list commands; /* running and queued in order, and ended ones until the store
					 has their end */
	struct command *running;      /* in the list */
	enum session_expects expects;
	STAILQ_HEAD(, patch) patches; /* the first one is under way */
	STAILQ_HEAD(, end_waiter) waiters;
	STAILQ_HEAD(, restore_waiter) restores; /* that its file server has been asked for */
	uint32_t last_restore;
	struct exec_counts execs;    /* that the metrics have counted */
	struct fuse_counts fuse;     /* the same */
	struct output_file spare[3]; /* by stream, 1 and 2 */
	/* while it is made */
	session_done_fn *create_done;
	void *create_arg;
	int proof_fd;
	char *proof_key;
	bool asked_again;    /* the launcher */
	struct err *refusal; /* the launcher's */
	uint64_t required;   /* 1 << WALL_…: it is not made without these limits */
	struct limits asked; /* by the client */
	char request_id[ID_MAX + 1];
};

static inline bool session_is_registered(const struct session *s)
{
	return s->phase > SESSION_UNLISTED && s->phase < SESSION_GONE;
}
static inline bool session_is_over(const struct session *s)
{
	return s->phase >= SESSION_OVER;
}

/* session.c */
extern const char *const session_state_names[];
struct session *session_new(struct sessions *ss, const char *id, const char *agent_id);
struct session *session_ref(struct session *s);
void session_unref(struct session *s);
bool session_ended(const struct session *s);
bool session_is_idle(const struct session *s); /* no command runs or waits */
/* Why it must end because of what it has had (and err is E_RESOURCE_LIMIT; may be NULL); NULL: it
 * may go on. */
const char *session_used_up(const struct session *s, struct err *err);
/* Whether its warden can be asked. E_SESSION_STOPPED, E_UNAVAILABLE. */
int session_within_reach(const struct session *s, struct err *err);
/* Both are one directory, by whichever path of the workspace. */
bool session_same_dir(const struct session *s, const char *a, const char *b);
/* Changes the state and writes its event; the caller writes the row. */
void session_set_state(struct session *s, enum session_state to, const char *reason);
void session_is_active(struct session *s); /* its idle time begins anew */
/* The warden is dead, and its control group has counted so many OOM kills. If the warden reported
 * fewer, the kernel killed it by one: that becomes the reason of the end, and an event. */
void session_out_of_memory(struct session *s, uint64_t oom_kills);
void session_event(struct session *s, enum event_type type, const char *reason);
void session_after(struct session *s, uint64_t ms, watch_fn *fn); /* its one timer */
/* Calls fn when all that was written so far is safe (store_after), unless the server ends first. */
typedef void session_fn(struct session *s);
void session_when_safe(struct session *s, session_fn *fn);
/* Decides the end: stopped if it was being stopped, else failed with hint or why as the reason. */
void session_over(struct session *s, const char *why);
void session_send_end(struct session *s);
void session_tell_waiters(struct session *s, const struct err *err);
void session_begin_stop(struct session *s, const char *reason, const char *request_id);

/* create.c */
peer_fn session_on_created, session_on_refused; /* of the launcher; ctx: sessions */
void session_on_ready(struct session *s);	/* the first state of a fresh warden */
void session_forget_proof(struct session *s);
/* Before the end is saved: writes the event of a missing wall. */
void session_create_ends(struct session *s, const char *why);
/* After the end is saved: answers the caller of session_create. */
void session_create_failed(struct session *s, const char *why);
/* Takes the walls that another process of agentsh raised, then adds the ones of the server. */
void session_take_walls(struct session *s, const struct strv *walls);
/* E_CONFLICT with a free id; the same for every cause. */
int session_id_taken(const char *id, struct err *err);

/* patch.c */
peer_fn session_on_limited;				      /* of the launcher; ctx: sessions */
void session_patched(struct session *s, const char *old_cwd); /* the warden answers EXPECT_PATCH */
void session_patches_fail(struct session *s);

/* warden_link.c */
static inline bool session_is_linked(const struct session *s)
{
	return s->warden.link.fd != -1;
}
/* Takes the link and the rings, and sends the hello. */
int warden_attach(struct session *s, const struct strv *rings, int *fd, size_t nfds,
		  struct err *err);
void warden_tell_settings(struct session *s); /* with the server's stderr as the warden's log */
void warden_read(struct session *s);	      /* handles the messages that have arrived */
void warden_send_acks(struct session *s);     /* those of s->acks that no command carried */
/* A lost link is not an error here: the reader of the link notices it. */
void warden_send(struct session *s, enum msg_type type, const void *obj);
