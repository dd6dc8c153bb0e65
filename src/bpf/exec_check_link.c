// SPDX-License-Identifier: Apache-2.0
#include "bpf/exec_check_link.h"
#include "base/fdio.h"
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

void exec_check_ask(int link_fd, const struct check_wanted *wanted)
{
	(void)!fdio_send(link_fd, wanted, sizeof(*wanted), NULL, 0);
}

bool exec_check_asked(int link_fd, struct check_wanted *out)
{
	return fdio_recv(link_fd, out, sizeof(*out), NULL, NULL, NULL) == sizeof(*out);
}

int exec_check_send(int link_fd, const struct exec_check *check, const struct err *why)
{
	struct bpf_loaded msg = {.error = why->code == E_OK ? NULL : mem_strdup(why->message)};
	enum link_status r;
	struct link l;
	size_t n = 0;

	while (n < CHECK_FDS && check->fd[n] != -1)
		n++;

	link_init(&l, link_fd, SIDE_BPF, SIDE_LAUNCHER);
	r = link_send(&l, MSG_bpf_loaded, 0, &msg, check->fd, n, NULL);
	msg_done(MSG_bpf_loaded, &msg);
	return r == LINK_OK ? 0 : -E_UNAVAILABLE;
}

static int take_check(struct link_msg *m, struct exec_check *out, struct err *err)
{
	struct bpf_loaded msg = {0};
	int r = link_unpack(m, &msg, err);

	for (size_t i = 0; i < m->nfds && r == 0; i++)
		out->fd[i] = take_fd(m->fd[i]);
	if (r == 0 && (msg.error != NULL || m->nfds < CHECK_EXECS))
		r = err_set(err, E_ENFORCEMENT, NULL, "%s",
			    msg.error != NULL ? msg.error : "agentsh-bpf sent no descriptors");
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
