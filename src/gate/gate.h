// SPDX-License-Identifier: Apache-2.0
/* gate/gate.h - the only place where an operation meets the policy at run time.
 *
 * An interceptor (exec control today) asks about an operation, waits if an approver must allow it,
 * does or refuses it, and settles it: the gate writes one event. A process has one gate; all its
 * threads may call it. An operation that waits is resumed on the thread that asked. */
#pragma once
#include "base/err.h"
#include "gate/actor.h"
#include "model/event.h"
#include "policy/policy.h"
#include <sys/queue.h>

#define GATE_REQUESTS_MAX 32 /* questions that an approver has at a time; more are refused */
#define GATE_PENDING_MAX 256 /* operations that wait for them; the same */

struct gate;
struct gate_case;
struct gate_report;

/* Takes the event of an operation that is settled, on the thread that settles it. Everything is
 * borrowed for the call. */
typedef void gate_sink_fn(void *arg, const struct gate_case *k, const struct gate_report *r,
			  const struct event *e);
struct gate_setup {
	int policy_fd;		/* a sealed snapshot; borrowed */
	const char *session_id; /* borrowed; may be NULL */
	gate_sink_fn *sink;
	/* Any thread, with the gate's lock held: gate_expire is to be called, because the next
	 * deadline may have changed. NULL without an approver. */
	void (*deadline)(void *arg);
	void *arg;
};
int gate_open(const struct gate_setup *s, struct gate **out, struct err *err);
void gate_close(struct gate *g); /* nothing may wait any more; NULL is fine */
const struct policy *gate_policy(const struct gate *g);
/* The workspace's path on the host, by which rules that restrict match too. Before anything is
 * asked.
 */
void gate_name_workspace(struct gate *g, const char *real);

/* ---- asking ---- */

enum gate_answer { GATE_ALLOW, GATE_DENY, GATE_PENDING };

/* Why the gate itself refuses an operation. */
enum gate_why {
	GATE_WHY_POLICY,     /* it does not refuse: the policy decided */
	GATE_WHY_UNREADABLE, /* the program or its arguments cannot be read */
	GATE_WHY_UNREADABLE_FILE,
	GATE_WHY_UNVERIFIABLE, /* the decision cannot be enforced */
	GATE_WHY_REPLACEABLE,  /* ld.so would load a file that can be replaced */
	GATE_WHY_MISMATCHED,   /* another program was loaded */
	GATE_WHY_OTHER_ARGS,   /* it was loaded with other arguments */
	GATE_WHY_FULL,	       /* too many wait: GATE_REQUESTS_MAX, GATE_PENDING_MAX */
	GATE_WHY_LOADING,      /* the kernel's map of execs under way is full */
	GATE_WHY_NO_ANSWER,    /* the program's file system does not answer */
	GATE_WHY_DISAPPROVED,  /* the approver said no */
	GATE_WHY_LATE,	       /* the approver did not answer in time */
	GATE_WHY_GONE,	       /* the command ended while it waited */
	GATE_WHY_INTERRUPTED,  /* a signal ended the call while it waited */
	GATE_WHY_UNASKED,      /* it needs an approver, and cannot wait for one any more */
};
#define GATE_WHYS (GATE_WHY_UNASKED + 1)

/* A thread that asks. wake is called by any thread, with the gate's lock held, when gate_resume
 * has something to do. */
struct gate_asker {
	void (*wake)(void *arg);
	void *arg;
};
struct gate_waiter {
	const struct gate_asker *asker; /* borrowed while the operation waits */
	/* Runs in gate_resume. The verdict allows or denies. */
	void (*resume)(struct gate_case *k, void *arg);
	void *arg;
};

/* One operation, from the question to its event. */
struct gate_case {
	/* filled in by the interceptor */
	const struct op *op;	/* borrowed, like its strings */
	struct actor actor;	/* the process that asks */
	const char *request_id; /* borrowed; may be NULL */
	bool initial;		/* the initial exec of a command */
	/* of a file operation that waits */
	const char *to; /* the other path of a rename or link; borrowed; may be NULL */
	bool at_to;	/* the operation is about that one */
	unsigned also;	/* further operations (1 << OP_FILE_…) that the same answer decides */
	/* filled in by the gate */
	struct verdict verdict;
	enum gate_why why;
	uint64_t id;		      /* of its question while it waits, else 0 */
	char approval_id[ID_MAX + 1]; /* of the question, for ever; "": none was asked */
	/* private, while it waits */
	TAILQ_ENTRY(gate_case) next;
	struct gate_waiter waiter;
	int64_t deadline_us;
	bool answered; /* to be resumed by its asker */
};
/* Decides. GATE_PENDING: k stays where it is until it is resumed, or gate_gone. waiter NULL: the
 * operation cannot wait, and an approve is denied. */
enum gate_answer gate_ask(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter);
/* gate_ask of a file operation for which policy_decide_file has found the rules. GATE_PENDING: the
 * approver has to be asked, by gate_hold. Any thread; takes no lock. */
enum gate_answer gate_ask_file(struct gate *g, struct gate_case *k, const struct file_rules *f);
/* Asks the approver about an operation that the policy leaves to it. Operations of one command that
 * are equal share a question. GATE_PENDING as above, or GATE_DENY. */
enum gate_answer gate_hold(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter);
/* The approver has allowed it. */
void gate_approve(struct gate_case *k);
/* The error of an operation that was refused for this reason. */
enum err_code gate_error(enum gate_why why);
/* Refuses an operation that must not happen although the policy may allow it. */
void gate_refuse(struct gate_case *k, enum gate_why why);
/* Decides an operation that is not done: no approver is asked, and no event is written. */
void gate_decide(struct gate *g, const struct op *op, struct verdict *v);

/* ---- waiting ---- */

/* The approver. Both are called with the gate's lock held and must not call the gate. */
struct gate_approver {
	/* The operation is borrowed for the call. The answer is given by gate_answer. */
	void (*ask)(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
		    int64_t deadline_us);
	/* The answer is not wanted any more. */
	void (*cancel)(void *arg, uint64_t id);
	void *arg;
	int64_t timeout_ms;
	/* It passes every operation on to another process, whose gate lets equal ones share a
	 * question. */
	bool passes_on;
};
/* Copied; any thread. */
void gate_set_approver(struct gate *g, const struct gate_approver *a);
bool gate_has_approver(const struct gate *g);
/* Any thread. An id that does not wait any more is ignored. */
void gate_answer(struct gate *g, uint64_t id, bool allow);
/* The same of an approver that passes on; GATE_WHY_POLICY allows. */
void gate_answer_why(struct gate *g, uint64_t id, enum gate_why why, const char *approval_id);
/* The asker's thread: resumes its operations that were answered. */
void gate_resume(struct gate *g, const struct gate_asker *asker);
/* The operation is given up. True: it waited, and is not resumed. One that does not wait is left
 * alone. On another thread than the asker's, one that is being resumed does not wait any more. */
bool gate_gone(struct gate *g, struct gate_case *k);
/* Any thread: the command is over. What waits for it is denied. */
void gate_command_over(struct gate *g, const char *command_id);
/* Denies the operations that are late. Returns when the next one will be, on the monotonic clock;
 * -1 if nothing waits. */
int64_t gate_expire(struct gate *g, int64_t now_us);

/* ---- settling ---- */

enum gate_outcome {
	GATE_DONE,	 /* happened as it was decided; an exec was compared */
	GATE_REFUSED,	 /* never happened */
	GATE_MISMATCHED, /* something else than was decided; ended before its first instruction */
	GATE_FAILED,	 /* let go, and failed in the kernel or its caller died */
};
#define GATE_OUTCOMES (GATE_FAILED + 1)

/* What became of an operation; strings are borrowed. */
struct gate_report {
	enum gate_outcome outcome;
	uint64_t latency_us; /* from the call to the answer */
	/* of an exec */
	const char *cwd;
	const char *const *argv; /* as the caller gave it */
	size_t argc;
	const char *verified; /* "bpf", "stop" or "initial"; NULL: execs are not watched */
	const char *loaded;   /* GATE_MISMATCHED: the program that the kernel loaded, if known */
	bool same_program;    /* GATE_MISMATCHED: only its arguments were others */
	/* of a file operation */
	uint32_t type;			    /* enum event_type; 0: the usual one of the operation */
	const char *real_path, *to, *flags; /* as in struct event */
	int error;			    /* errno that the caller got; 0: none */
	bool has_bytes, has_offset, has_sizes, mapped;
	bool argument; /* the path is as the caller gave it: links are not resolved */
	uint64_t bytes, offset;
	const char *file_type;
	uint64_t size_before, size_after;
	uint32_t count; /* folded repeats; 0: 1 */
};
/* Hands the event to the sink; once per operation. */
void gate_settle(struct gate *g, const struct gate_case *k, const struct gate_report *r);
/* The packed denial that fits into size bytes, for struct err. */
void gate_pack_denial(struct gate *g, const struct gate_case *k, char *out, size_t size);
