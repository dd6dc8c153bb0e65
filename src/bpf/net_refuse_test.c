// SPDX-License-Identifier: Apache-2.0
/* connect() and sendmsg() that fail by address: real sockets in a network namespace of the test's
 * own, where every address is local. */
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/net_layout.h"
#include "bpf/testkit/programs_testkit.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

/* "10.0.0.0" or "2001:db8::"; an IPv4 address becomes a mapped one. */
static struct net_address address(const char *text)
{
	struct net_address a = {{0, 0, htonl(0xffff), 0}};

	if (inet_pton(AF_INET, text, &a.word[3]) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static int put_rule(struct net_kit *kit, uint8_t protocol, const char *text, uint32_t bits,
		    uint16_t port, int32_t error)
{
	const bool v4 = strchr(text, ':') == NULL;
	const struct net_rule_key key = {.bits = NET_RULE_BITS + bits + (v4 ? NET_MAPPED_BITS : 0),
					 .protocol = protocol,
					 .port = htons(port),
					 .address = address(text)};
	const struct net_rule rule = {.error = error};

	return bpf_map_put(kit->rules, &key, &rule);
}

static void rule(struct net_kit *kit, uint8_t protocol, const char *text, uint32_t bits,
		 uint16_t port, int32_t error)
{
	assert_int_equal(put_rule(kit, protocol, text, bits, port, error), 0);
}

enum act { CONNECT, SENDTO };

/* Tries on a new socket; returns errno or 0. */
static int act(enum act what, int type, const char *text, uint16_t port)
{
	const bool v6 = strchr(text, ':') != NULL;
	cleanup_fd int fd = socket(v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to = {.v4 = {.sin_family = v6 ? AF_INET6 : AF_INET, .sin_port = htons(port)}};
	const socklen_t len = v6 ? sizeof(to.v6) : sizeof(to.v4);

	assert_int_equal(inet_pton(to.any.sa_family, text,
				   v6 ? (void *)&to.v6.sin6_addr : (void *)&to.v4.sin_addr),
			 1);
	if (what == CONNECT)
		return kid_errno(connect(fd, &to.any, len));
	return kid_errno(sendto(fd, "x", 1, 0, &to.any, len));
}

static void net_8_calls_fail_with_the_errno_of_their_rule(void **state)
{
	static const struct {
		enum act act;
		int type;
		const char *to;
		uint16_t port;
		int error;
	} rows[] = {
		{CONNECT, SOCK_STREAM, "10.1.2.3", 80, ENETUNREACH},
		{CONNECT, SOCK_STREAM, "::ffff:10.1.2.3", 80, ENETUNREACH},
		/* the longer prefix, the exact port, and neighbours of both */
		{CONNECT, SOCK_STREAM, "10.9.0.1", 80, EHOSTUNREACH},
		{CONNECT, SOCK_STREAM, "10.1.2.3", 443, ECONNREFUSED}, /* it passes */
		{CONNECT, SOCK_STREAM, "10.1.2.4", 443, ENETUNREACH},
		{CONNECT, SOCK_STREAM, "11.0.0.1", 80, ECONNREFUSED},
		{CONNECT, SOCK_STREAM, "2001:db8:1::5", 80, EACCES},
		{CONNECT, SOCK_STREAM, "2001:db9::5", 80, ECONNREFUSED},
		/* a rule for one protocol says nothing of the other */
		{SENDTO, SOCK_DGRAM, "10.1.2.3", 80, 0},
		{SENDTO, SOCK_DGRAM, "192.0.2.1", 53, EPERM},
		{SENDTO, SOCK_DGRAM, "192.0.2.1", 54, 0},
		{CONNECT, SOCK_DGRAM, "192.0.2.1", 53, EPERM},
		{SENDTO, SOCK_DGRAM, "2001:db8:1::5", 5, EHWPOISON},
		{SENDTO, SOCK_DGRAM, "::ffff:192.0.2.1", 53, EPERM},
		/* numbers that are not an errno */
		{CONNECT, SOCK_STREAM, "172.16.0.1", 1, EPERM},
		{CONNECT, SOCK_STREAM, "172.16.0.2", 1, EPERM},
	};
	struct net_kit kit;

	net_kit_start(&kit, &net_refuse_image, &session_rules);
	assert_int_equal(system("ip route add local default dev lo && "
				"ip -6 route add local default dev lo"),
			 0);
	rule(&kit, IPPROTO_TCP, "10.0.0.0", 8, 0, ENETUNREACH);
	rule(&kit, IPPROTO_TCP, "10.9.0.0", 16, 0, EHOSTUNREACH);
	rule(&kit, IPPROTO_TCP, "10.1.2.3", 32, 443, 0);
	rule(&kit, IPPROTO_TCP, "2001:db8::", 32, 0, EACCES);
	rule(&kit, IPPROTO_UDP, "0.0.0.0", 0, 53, EPERM);
	rule(&kit, IPPROTO_UDP, "2001:db8::", 32, 0, EHWPOISON);
	rule(&kit, IPPROTO_TCP, "172.16.0.1", 32, 0, 99999);
	rule(&kit, IPPROTO_TCP, "172.16.0.2", 32, 0, -5);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const int e = act(rows[i].act, rows[i].type, rows[i].to, rows[i].port);

		if (e != rows[i].error)
			fail_msg("row %zu: %s", i, strerrorname_np(e));
	}
	net_kit_end(&kit);
}

static void net_8_each_refused_call_is_counted_and_recorded(void **state)
{
	const struct net_rule_key key = {.bits = NET_RULE_BITS + NET_ADDRESS_BITS,
					 .protocol = IPPROTO_TCP,
					 .address = address("127.0.0.9")};
	struct net_rule value;
	struct net_call seen;
	struct net_kit kit;

	net_kit_start(&kit, &net_refuse_image, &session_rules);
	rule(&kit, IPPROTO_TCP, "127.0.0.9", 32, 0, EACCES);
	rule(&kit, IPPROTO_UDP, "127.0.0.9", 32, 0, EACCES);
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.8", 80), ECONNREFUSED);
	assert_int_equal(net_kit_read(&kit, &seen), 0);
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.9", 80), EACCES);
	assert_int_equal(net_kit_read(&kit, &seen), 1);
	assert_int_equal(seen.hook, NET_CONNECT);
	assert_int_equal(seen.protocol, IPPROTO_TCP);
	assert_int_equal(seen.family, AF_INET);
	assert_int_equal(seen.port, htons(80));
	assert_int_equal(seen.error, EACCES);
	assert_int_equal(seen.pid, getpid());
	assert_int_equal(seen.tid, gettid());
	assert_memory_equal(&seen.address, &key.address, sizeof(key.address));
	assert_int_equal(bpf_map_get(kit.rules, &key, &value), 0);
	assert_int_equal(value.count, 1);
	assert_int_equal(act(SENDTO, SOCK_DGRAM, "::ffff:127.0.0.9", 7), EACCES);
	assert_int_equal(net_kit_read(&kit, &seen), 1);
	assert_int_equal(seen.hook, NET_SENDMSG);
	assert_int_equal(seen.family, AF_INET); /* the kernel sends it as IPv4 */
	assert_memory_equal(&seen.address, &key.address, sizeof(key.address));
	net_kit_end(&kit);
}

static void net_8_other_namespaces_pass(void **state)
{
	struct net_kit kit;

	net_kit_start(&kit, &net_refuse_image, &session_rules);
	rule(&kit, IPPROTO_TCP, "127.0.0.0", 8, 0, EACCES);
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.1", 9), EACCES);
	assert_int_equal(bpf_map_drop(kit.p.map[0], &kit.netns), 0);
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.1", 9), ECONNREFUSED);
	assert_int_equal(bpf_map_put(kit.p.map[0], &kit.netns, &kit.rules), 0);
	programs_kit_network();
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.1", 9), ECONNREFUSED);
	net_kit_end(&kit);
}

static void net_8_a_rule_too_many_is_refused_to_its_writer(void **state)
{
	struct net_kit kit;
	uint32_t n = 1; /* the count of lost records is an entry */

	net_kit_start(&kit, &net_refuse_image, &session_rules);
	rule(&kit, IPPROTO_TCP, "127.0.0.9", 32, 0, EACCES);
	for (n++; n < NET_RULES_MAX; n++) {
		char text[32];

		snprintf(text, sizeof(text), "10.1.%u.%u", n / 256, n % 256);
		rule(&kit, IPPROTO_TCP, text, 32, 0, EACCES);
	}
	assert_int_equal(put_rule(&kit, IPPROTO_TCP, "127.0.0.8", 32, 0, EACCES), -ENOSPC);
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.9", 9), EACCES);
	assert_int_equal(act(CONNECT, SOCK_STREAM, "127.0.0.8", 9), ECONNREFUSED);
	net_kit_end(&kit);
}

static void net_8_records_that_do_not_fit_are_counted(void **state)
{
	const struct net_rule_key lost = {.bits = NET_RULE_BITS + NET_ADDRESS_BITS,
					  .protocol = NET_DROPPED};
	const int tries = 4 * NET_CALLS_BYTES / (int)sizeof(struct net_call);
	struct net_rule dropped;
	int n;
	struct net_call seen;
	struct net_kit kit;

	net_kit_start(&kit, &net_refuse_image, &session_rules);
	rule(&kit, IPPROTO_UDP, "127.0.0.9", 32, 0, EACCES);
	for (int i = 0; i < tries; i++)
		assert_int_equal(act(SENDTO, SOCK_DGRAM, "127.0.0.9", 7), EACCES);
	assert_int_equal(bpf_map_get(kit.rules, &lost, &dropped), 0);
	n = net_kit_read(&kit, &seen);
	assert_in_range(n, 1, tries - 1);
	assert_int_equal(n + (int)dropped.count, tries);
	net_kit_end(&kit);
}

static void net_8_a_damaged_object_is_refused(void **state)
{
	programs_kit_damage(&net_refuse_image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net_8_calls_fail_with_the_errno_of_their_rule),
		cmocka_unit_test(net_8_each_refused_call_is_counted_and_recorded),
		cmocka_unit_test(net_8_other_namespaces_pass),
		cmocka_unit_test(net_8_a_rule_too_many_is_refused_to_its_writer),
		cmocka_unit_test(net_8_records_that_do_not_fit_are_counted),
		cmocka_unit_test(net_8_a_damaged_object_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
