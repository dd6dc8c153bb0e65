// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Lets connect() and sendmsg() of a session fail with an errno, by address; net_layout.h has the
 * maps. The kernel has copied the address before it calls the program, so a thread that changes it
 * meanwhile changes nothing. */
#include "bpf/net_call.bpf.h"
#include "bpf/net_layout.h"
#include <bpf/bpf_endian.h>

#define AF_INET 2
#define AF_INET6 10

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct session_rules {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NET_RULES_MAX);
	__uint(key_size, sizeof(struct net_rule_key));
	__uint(value_size, sizeof(struct net_rule));
};
SESSION_MAPS(rules, NET_SESSIONS_MAX, __u64, struct session_rules);

static void record(const struct net_rule_key *key, __u64 netns, void *session, __u16 family,
		   __u8 hook, __s32 error)
{
	const struct net_rule_key lost = {.bits = NET_RULE_BITS + NET_ADDRESS_BITS,
					  .protocol = NET_DROPPED};
	struct net_call *call = net_call_new(netns, session, &lost);

	if (call == NULL)
		return;
	call->error = error;
	call->family = family;
	call->hook = hook;
	call->protocol = key->protocol;
	call->address = key->address;
	call->port = key->port;
	bpf_ringbuf_submit(call, 0);
}

/* Returns 1 to let the call go. */
static __always_inline int decide(struct bpf_sock_addr *ctx, __u16 family, __u8 hook)
{
	const __u64 netns = bpf_get_netns_cookie(ctx);
	void *session = bpf_map_lookup_elem(&rules, &netns);
	struct net_rule_key key = {.bits = NET_RULE_BITS + NET_ADDRESS_BITS};
	struct net_rule *rule;

	if (session == NULL)
		return 1;
	key.protocol = ctx->protocol;
	key.port = ctx->user_port;
	if (family == AF_INET) {
		key.address.word[2] = bpf_htonl(0xffff);
		key.address.word[3] = ctx->user_ip4;
	} else {
		key.address.word[0] = ctx->user_ip6[0];
		key.address.word[1] = ctx->user_ip6[1];
		key.address.word[2] = ctx->user_ip6[2];
		key.address.word[3] = ctx->user_ip6[3];
	}
	rule = bpf_map_lookup_elem(session, &key);
	if (rule == NULL) {
		key.port = 0;
		rule = bpf_map_lookup_elem(session, &key);
		key.port = ctx->user_port;
	}
	if (rule == NULL || rule->error == 0)
		return 1;
	__sync_fetch_and_add(&rule->count, 1);
	record(&key, netns, session, family, hook, rule->error);
	bpf_set_retval(-rule->error); /* any other number than an errno becomes EPERM */
	return 0;
}

SEC("cgroup/connect4")
int net_connect4(struct bpf_sock_addr *ctx)
{
	return decide(ctx, AF_INET, NET_CONNECT);
}

SEC("cgroup/connect6")
int net_connect6(struct bpf_sock_addr *ctx)
{
	return decide(ctx, AF_INET6, NET_CONNECT);
}

SEC("cgroup/sendmsg4")
int net_sendmsg4(struct bpf_sock_addr *ctx)
{
	return decide(ctx, AF_INET, NET_SENDMSG);
}

SEC("cgroup/sendmsg6")
int net_sendmsg6(struct bpf_sock_addr *ctx)
{
	return decide(ctx, AF_INET6, NET_SENDMSG);
}
