// SPDX-License-Identifier: Apache-2.0
/* session/sessions.h - struct sessions, the registry of all sessions.
 *
 * Finders return objects that live at least until the next turn of the loop. */
#pragma once
#include "session/session_state.h"

#define SESSION_BUCKETS 256
#define OPEN_POLICIES 16

TAILQ_HEAD(session_list, session);

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
	bool trim_due; /* a session has ended since the reaper gave memory back */
	STAILQ_HEAD(, borrowed) borrowed;
	struct pinned
		*policy[OPEN_POLICIES]; /* opened; the next one replaces policy[next_policy] */
	unsigned next_policy;
	STAILQ_HEAD(, policies_waiter) policy_waiters;
	uint32_t last_ticket;
	STAILQ_HEAD(, home_waiter) home_waiters;
	/* Since steady_since_us the wall clock is this far ahead of CLOCK_BOOTTIME, to a minute. */
	int64_t wall_ahead_us, steady_since_us;
};

/* sessions.c */
struct session *sessions_find(struct sessions *ss, const char *id); /* registered; NULL */
void sessions_add(struct sessions *ss, struct session *s);	    /* keeps a reference */
void sessions_drop(struct session *s);				    /* gives it back */
void sessions_check_ready(struct sessions *ss);
void sessions_serve_rest(void *sessions); /* does not wait for silent wardens any longer */
void sessions_check_stopped(struct sessions *ss);
void sessions_count(struct sessions *ss); /* sets live and its metric */
void command_lend(struct command *c);	  /* takes a reference, and gives it back after this turn */
bool session_visible(const struct caller *who, const char *agent_id);
static inline int64_t sessions_now(const struct sessions *ss)
{
	return clock_wall_us(ss->deps.clock);
}
static inline int64_t sessions_boot(const struct sessions *ss)
{
	return clock_boot_us(ss->deps.clock);
}

/* reaper.c */
void sessions_reap(struct sessions *ss); /* one round; the timer calls it */
void sessions_sweep_output(struct sessions *ss);
/* Whether the wall clock has agreed with CLOCK_BOOTTIME for the last hour. Only then does the
 * server remove things by an age that the wall clock shows. */
bool sessions_wall_is_steady(struct sessions *ss);
int reaper_start(struct sessions *ss, struct err *err);
void reaper_again(struct sessions *ss); /* the interval has changed */
