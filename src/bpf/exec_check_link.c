// SPDX-License-Identifier: Apache-2.0
#include "bpf/exec_check_link.h"
#include "base/mem.h"
#include "link/link.h"
#include <poll.h>
#include <sys/prctl.h>

int bpf_caps_check(struct err *err)
{
	static const struct {
		int number;
		const char *name;
	} caps[] = {{CAP_BPF, "CAP_BPF"},
		    {CAP_PERFMON, "CAP_PERFMON"},
		    {CAP_NET_ADMIN, "CAP_NET_ADMIN"}};

	for (size_t i = 0; i < ARRAY_LEN(caps); i++)
		if (prctl(PR_CAPBSET_READ, caps[i].number, 0, 0, 0) != 1)
			return err_set(err, E_ENFORCEMENT, caps[i].name,
				       "this process does not have %s", caps[i].name);
	return 0;
}

int exec_check_send(int link_fd, const struct exec_check *check, const struct err *why)
{
	const int fd[] = {check->sessions, check->link};
	const bool loaded = why->code == E_OK;
	struct bpf_loaded msg = {.error = loaded ? NULL : mem_strdup(why->message)};
	struct link l;
	enum link_status r;

	link_init(&l, link_fd, SIDE_BPF, SIDE_LAUNCHER);
	r = link_send(&l, MSG_bpf_loaded, 0, &msg, fd, loaded ? ARRAY_LEN(fd) : 0, NULL);
	msg_done(MSG_bpf_loaded, &msg);
	return r == LINK_OK ? 0 : -E_UNAVAILABLE;
}

static int take_check(struct link_msg *m, struct exec_check *out, struct err *err)
{
	struct bpf_loaded msg = {0};
	int r = link_unpack(m, &msg, err);

	if (r == 0 && m->nfds != 2)
		r = err_set(err, E_ENFORCEMENT, NULL, "%s",
			    msg.error != NULL ? msg.error : "agentsh-bpf sent no descriptors");
	if (r == 0)
		*out = (struct exec_check){.sessions = take_fd(m->fd[0]),
					   .link = take_fd(m->fd[1])};
	msg_done(MSG_bpf_loaded, &msg);
	return r;
}

int exec_check_receive(int link_fd, int timeout_ms, struct exec_check *out, struct err *err)
{
	struct pollfd pfd = {link_fd, POLLIN, 0};
	enum link_status status;
	struct link_msg m;
	struct link l;
	int r;

	link_init(&l, link_fd, SIDE_LAUNCHER, SIDE_BPF);
	if (poll(&pfd, 1, timeout_ms) != 1) {
		r = err_set(err, E_ENFORCEMENT, NULL, "agentsh-bpf did not answer in time");
	} else if ((status = link_recv(&l, &m, err)) != LINK_OK) {
		r = status == LINK_EOF ? -E_UNAVAILABLE : -E_BAD_REQUEST;
	} else {
		r = take_check(&m, out, err);
		link_msg_done(&m);
	}
	link_done(&l);
	return r;
}
