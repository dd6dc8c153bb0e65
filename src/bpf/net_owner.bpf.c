// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Notes which process opens a TCP connection; net_layout.h has the maps.
 *
 * The kernel calls the program from tcp_connect(), in the process that called connect() (or sent
 * the first data with TCP_FASTOPEN), when both addresses and ports are known and before the SYN is
 * sent. A redirect changes the packet later, so the tuple has the destination that the client
 * asked for. */
#include "bpf/net_layout.h"
#include "bpf/task_ids.bpf.h"
#include <bpf/bpf_endian.h>

#define AF_INET 2
#define AF_INET6 10

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct session_owners {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, NET_OWNERS_MAX);
	__uint(key_size, sizeof(struct net_tuple));
	__uint(value_size, sizeof(struct net_owner));
};
SESSION_MAPS(owners, NET_SESSIONS_MAX, __u64, struct session_owners);

SEC("sockops")
int net_owner(struct bpf_sock_ops *ops)
{
	struct net_owner owner = {0};
	struct net_tuple tuple = {0};
	struct task_ids ids;
	void *session;
	__u64 netns;

	if (ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB)
		return 1;
	netns = bpf_get_netns_cookie(ops);
	session = bpf_map_lookup_elem(&owners, &netns);
	if (session == NULL)
		return 1;
	if (ops->family == AF_INET6) {
		tuple.source.word[0] = ops->local_ip6[0];
		tuple.source.word[1] = ops->local_ip6[1];
		tuple.source.word[2] = ops->local_ip6[2];
		tuple.source.word[3] = ops->local_ip6[3];
		tuple.destination.word[0] = ops->remote_ip6[0];
		tuple.destination.word[1] = ops->remote_ip6[1];
		tuple.destination.word[2] = ops->remote_ip6[2];
		tuple.destination.word[3] = ops->remote_ip6[3];
	}
	/* The compiler must not merge the two cases: the verifier wants fixed offsets into ops. */
	barrier();
	if (ops->family == AF_INET) {
		tuple.source.word[2] = tuple.destination.word[2] = bpf_htonl(0xffff);
		tuple.source.word[3] = ops->local_ip4;
		tuple.destination.word[3] = ops->remote_ip4;
	}
	tuple.source_port = bpf_htons(ops->local_port);
	tuple.destination_port = bpf_htons(bpf_ntohl(ops->remote_port));
	current_ids(&ids);
	owner.cookie = bpf_get_socket_cookie(ops);
	owner.start = ids.start;
	owner.time = bpf_ktime_get_boot_ns();
	owner.pid = ids.pid;
	owner.tid = ids.tid;
	bpf_map_update_elem(session, &tuple, &owner, BPF_ANY);
	return 1;
}
