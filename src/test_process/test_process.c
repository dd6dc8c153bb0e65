// SPDX-License-Identifier: Apache-2.0
#include "test_process/test_process.h"
#include "base/clock.h"
#include "base/log.h"
#include "event/recorder.h"
#include "gate/actor.h"
#include "link/link.h"

/* What it needs is in the greeting of the warden. */
static int greeted(struct link *l, struct actor_reader **actors, struct err *err)
{
	struct link_msg m;
	int r;

	if (link_recv(l, &m, err) != LINK_OK)
		return -E_UNAVAILABLE;
	r = actor_reader_open(m.fd[0], actors, err);
	link_msg_done(&m);
	return r;
}

static void record(const struct process_args *args, struct recorder *r)
{
	const struct event e = {.type = EVENT_file_stat,
				.time_us = (uint64_t)clock_wall_us(&clock_system),
				.session_id = event_lend(args->session_id),
				.path = event_lend("/test-process"),
				.decision = event_lend("allow")};

	recorder_event(r, &e, NULL, NULL);
}

int test_process_main(const struct process_args *args)
{
	const struct msg_empty empty = {0};
	struct actor_reader *actors = NULL;
	struct recorder recorder;
	struct err err = {0};
	struct link_msg m;
	struct link l;

	link_init(&l, args->link_fd, SIDE_PROCESS, SIDE_WARDEN);
	if (recorder_open(&recorder, args->ring_fd, args->ack_fd, &err) < 0 ||
	    greeted(&l, &actors, &err) < 0) {
		link_send(&l, MSG_process_failed, 0, &(struct process_failed){err.message}, NULL, 0,
			  NULL);
		link_done(&l);
		return 1;
	}
	record(args, &recorder);
	link_send(&l, MSG_process_ready, 0, &empty, NULL, 0, NULL);
	link_send(&l, MSG_process_bell, 0, &empty, NULL, 0, NULL);
	while (link_recv(&l, &m, NULL) == LINK_OK)
		link_msg_done(&m);
	actor_reader_free(actors);
	recorder_close(&recorder);
	link_done(&l);
	return 0;
}
