// SPDX-License-Identifier: Apache-2.0
/* Whose connection was accepted: real sockets in network namespaces of the test's own. The client
 * is a process of a PID namespace of its own, as in a session. */
#include "base/mem.h"
#include "base/proc.h"
#include "bpf/bpf_map.h"
#include "bpf/net_layout.h"
#include "bpf/testkit/programs_testkit.h"
#include <arpa/inet.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ORIGINAL_DST_6 80 /* IP6T_SO_ORIGINAL_DST */
#define PROXY_PORT 4040
#define NS_PER_S 1000000000ULL

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct rig {
	struct bpf_programs p;
	uint64_t netns;
	int owners;
};

static void rig_start(struct rig *rig)
{
	struct err err = {0};

	programs_kit_load(&net_owner_image, &rig->p);
	rig->netns = programs_kit_network();
	if (session_map_add(&session_owners, rig->p.map[0], &rig->netns, &rig->owners, &err) < 0)
		fail_msg("%s", err.message);
}

static void rig_end(struct rig *rig)
{
	close(rig->owners);
	bpf_programs_close(&rig->p);
}

static union address address(const char *text, uint16_t port)
{
	union address a = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};

	if (inet_pton(AF_INET, text, &a.v4.sin_addr) == 1)
		return a;
	a = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
	assert_int_equal(inet_pton(AF_INET6, text, &a.v6.sin6_addr), 1);
	return a;
}

static socklen_t length(const union address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static int listener(const char *text, uint16_t port, union address *at)
{
	const int fd = socket(strchr(text, ':') != NULL ? AF_INET6 : AF_INET,
			      SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len;

	*at = address(text, port);
	len = length(at);
	assert_int_equal(bind(fd, &at->any, len), 0);
	assert_int_equal(listen(fd, SOMAXCONN), 0);
	assert_int_equal(getsockname(fd, &at->any, &len), 0);
	return fd;
}

/* What the client says of itself. */
struct report {
	uint64_t cookie;
	pid_t pid, tid; /* in its own PID namespace */
};

static void *connect_and_report(void *arg)
{
	const union address *to = arg;
	const int fd = socket(to->any.sa_family, SOCK_STREAM, 0);
	struct report r = {.pid = getpid(), .tid = gettid()};
	socklen_t len = sizeof(r.cookie);

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &r.cookie, &len);
	if (connect(fd, &to->any, length(to)) == 0 && write(fd, &r, sizeof(r)) == sizeof(r))
		close(fd);
	return NULL;
}

/* Starts a client in a PID namespace of its own. It connects from a second thread if threaded. */
static pid_t client(union address *to, bool threaded)
{
	const pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	pthread_t t;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!threaded)
		connect_and_report(to);
	else if (pthread_create(&t, NULL, connect_and_report, to) == 0)
		pthread_join(t, NULL);
	pause(); /* the test compares the process, then kills it */
	_exit(0);
}

static void end_client(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static struct net_address mapped(const union address *a)
{
	struct net_address out = {0};

	if (a->any.sa_family == AF_INET) {
		out.word[2] = htonl(0xffff);
		out.word[3] = a->v4.sin_addr.s_addr;
	} else {
		memcpy(&out, &a->v6.sin6_addr, sizeof(out));
	}
	return out;
}

/* Accepts, and gives the tuple as agentsh-net would make it. */
static void accept_one(int from, bool redirected, struct net_tuple *tuple, struct report *r)
{
	union address peer, asked;
	socklen_t len = sizeof(peer), asked_len = sizeof(asked);
	const int fd = accept4(from, &peer.any, &len, SOCK_CLOEXEC);
	const bool v4 = peer.any.sa_family == AF_INET;

	assert_true(fd >= 0);
	if (redirected)
		assert_int_equal(getsockopt(fd, v4 ? SOL_IP : SOL_IPV6,
					    v4 ? SO_ORIGINAL_DST : ORIGINAL_DST_6, &asked,
					    &asked_len),
				 0);
	else
		assert_int_equal(getsockname(fd, &asked.any, &asked_len), 0);
	*tuple = (struct net_tuple){.source = mapped(&peer),
				    .destination = mapped(&asked),
				    .source_port = peer.v4.sin_port,
				    .destination_port = asked.v4.sin_port};
	if (r != NULL)
		assert_int_equal(recv(fd, r, sizeof(*r), MSG_WAITALL), sizeof(*r));
	close(fd);
}

static void expect_owner(struct rig *rig, int from, union address *to, bool redirected)
{
	const pid_t pid = client(to, false);
	struct net_owner owner, again;
	struct proc_origin origin;
	struct net_tuple tuple;
	struct report r;

	accept_one(from, redirected, &tuple, &r);
	assert_int_equal(bpf_map_take(rig->owners, &tuple, &owner), 0);
	assert_int_equal(owner.pid, pid);
	assert_int_equal(owner.tid, pid);
	assert_int_equal(r.pid, 1); /* the client is in a namespace of its own */
	assert_true(owner.cookie == r.cookie);
	assert_int_equal(proc_origin(pid, &origin), 0);
	assert_true(owner.start / (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK)) == origin.start);
	assert_true(owner.time >= owner.start);
	assert_int_equal(bpf_map_take(rig->owners, &tuple, &again), -ENOENT);
	end_client(pid);
}

static void net_8_an_accepted_connection_has_a_process(void **state)
{
	static const struct {
		const char *listener, *connect;
	} rows[] = {
		{"127.0.0.1", "127.0.0.1"},
		{"::1", "::1"},
		{"0.0.0.0", "::ffff:127.0.0.1"}, /* IPv4 through an IPv6 socket */
		{"::", "127.0.0.1"},		 /* and accepted by one */
		{"::", "::1"},
		{"::", "::ffff:127.0.0.7"},
	};
	struct rig rig;

	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		union address at, to;
		cleanup_fd int from = listener(rows[i].listener, 0, &at);

		to = address(rows[i].connect, ntohs(at.v4.sin_port));
		expect_owner(&rig, from, &to, false);
	}
	rig_end(&rig);
}

static void net_8_a_redirected_connection_has_the_address_that_was_asked_for(void **state)
{
	static const char *const to[] = {"192.0.2.7", "2001:db8::7", "::ffff:198.51.100.9"};
	struct rig rig;
	union address at;

	rig_start(&rig);
	if (system("ip route add local default dev lo && ip -6 route add local default dev lo && "
		   "nft 'table inet t { chain c { type nat hook output priority -100; "
		   "tcp dport 443 redirect to :4040; }; }'") != 0) {
		print_message("# skipped: no nft program, or a kernel without nf_tables\n");
		rig_end(&rig);
		skip();
	}
	cleanup_fd int v4 = listener("127.0.0.1", PROXY_PORT, &at);
	cleanup_fd int v6 = listener("::1", PROXY_PORT, &at);
	for (size_t i = 0; i < ARRAY_LEN(to); i++) {
		union address asked = address(to[i], 443);

		expect_owner(&rig, i == 1 ? v6 : v4, &asked, true);
	}
	rig_end(&rig);
}

static void net_8_a_client_that_has_closed_and_gone_is_still_known(void **state)
{
	struct net_tuple tuple;
	struct net_owner owner;
	struct rig rig;
	union address at;
	pid_t pid;

	rig_start(&rig);
	cleanup_fd int from = listener("127.0.0.1", 0, &at);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		connect_and_report(&at);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	accept_one(from, false, &tuple, NULL);
	assert_int_equal(bpf_map_take(rig.owners, &tuple, &owner), 0);
	assert_int_equal(owner.pid, pid);
	rig_end(&rig);
}

static void net_8_a_thread_is_told_from_its_process(void **state)
{
	struct net_tuple tuple;
	struct net_owner owner;
	struct report r;
	struct rig rig;
	union address at;
	pid_t pid;

	rig_start(&rig);
	cleanup_fd int from = listener("127.0.0.1", 0, &at);
	pid = client(&at, true);
	accept_one(from, false, &tuple, &r);
	assert_int_equal(bpf_map_take(rig.owners, &tuple, &owner), 0);
	assert_int_equal(owner.pid, pid);
	assert_int_not_equal(owner.tid, pid);
	assert_int_not_equal(r.tid, r.pid);
	end_client(pid);
	rig_end(&rig);
}

static void net_8_other_namespaces_and_ended_sessions_are_not_noted(void **state)
{
	struct net_tuple tuple, none;
	struct net_owner owner;
	struct rig rig;
	union address at;

	rig_start(&rig);
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			assert_int_equal(bpf_map_drop(rig.p.map[0], &rig.netns), 0);
		else
			programs_kit_network();
		cleanup_fd int from = listener("127.0.0.1", 0, &at);
		const pid_t pid = client(&at, false);
		accept_one(from, false, &tuple, NULL);

		assert_int_equal(bpf_map_take(rig.owners, &tuple, &owner), -ENOENT);
		assert_int_equal(bpf_map_next(rig.owners, NULL, &none), -ENOENT);
		end_client(pid);
	}
	rig_end(&rig);
}

/* Connections that no process accepts must not take the place of new ones. */
static void net_8_a_full_map_forgets_the_oldest(void **state)
{
	struct net_tuple tuple;
	struct net_owner owner;
	struct rig rig;
	union address at, closed = address("127.0.0.1", 9);
	pid_t pid;

	rig_start(&rig);
	cleanup_fd int from = listener("127.0.0.1", 0, &at);
	for (int i = 0; i < 4 * NET_OWNERS_MAX; i++) {
		cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, &closed.any, length(&closed)), -1);
		assert_int_equal(errno, ECONNREFUSED);
	}
	pid = client(&at, false);
	accept_one(from, false, &tuple, NULL);
	assert_int_equal(bpf_map_take(rig.owners, &tuple, &owner), 0);
	assert_int_equal(owner.pid, pid);
	end_client(pid);
	rig_end(&rig);
}

static void net_8_a_damaged_object_is_refused(void **state)
{
	programs_kit_damage(&net_owner_image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net_8_an_accepted_connection_has_a_process),
		cmocka_unit_test(net_8_a_redirected_connection_has_the_address_that_was_asked_for),
		cmocka_unit_test(net_8_a_client_that_has_closed_and_gone_is_still_known),
		cmocka_unit_test(net_8_a_thread_is_told_from_its_process),
		cmocka_unit_test(net_8_other_namespaces_and_ended_sessions_are_not_noted),
		cmocka_unit_test(net_8_a_full_map_forgets_the_oldest),
		cmocka_unit_test(net_8_a_damaged_object_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
