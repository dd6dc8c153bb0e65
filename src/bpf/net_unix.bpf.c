// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Records connect() and sendmsg() of a session to unix sockets, and lets them fail by path;
 * net_layout.h has the maps. Needs Linux 6.7 (attach types 49 and 50). The kernel has copied the
 * address before it calls the program. */
#include "bpf/net_call.bpf.h"
#include "bpf/net_layout.h"

#define AF_UNIX 1
#define FAMILY_LEN 2 /* sun_family before sun_path */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_sock_addr_kern {
	void *uaddr;
	__u32 uaddrlen;
};
#pragma clang attribute pop
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;

struct session_paths {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NET_PATHS_MAX);
	__uint(key_size, sizeof(struct net_path));
	__uint(value_size, sizeof(struct net_rule));
};
SESSION_MAPS(paths, NET_SESSIONS_MAX, __u64, struct session_paths);

static void record(const struct net_path *path, __u16 len, __u64 netns, void *session, __u8 hook,
		   __s32 error)
{
	struct net_path zeros = {0};
	struct net_call *call = net_call_new(netns, session, &zeros);

	if (call == NULL)
		return;
	call->error = error;
	call->family = AF_UNIX;
	call->hook = hook;
	call->path_len = len;
	__builtin_memcpy(call->path, path, sizeof(*path));
	bpf_ringbuf_submit(call, 0);
}

static __always_inline int decide(struct bpf_sock_addr *ctx, __u8 hook)
{
	const __u64 netns = bpf_get_netns_cookie(ctx);
	void *session = bpf_map_lookup_elem(&paths, &netns);
	const struct bpf_sock_addr_kern *kern;
	struct {
		struct net_path path;
		char end[4]; /* for the zero byte after the longest path */
	} path = {0};
	struct net_rule *rule;
	__u64 len;

	if (session == NULL)
		return 1;
	kern = bpf_cast_to_kern_ctx(ctx);
	len = kern->uaddrlen;
	if (len <= FAMILY_LEN)
		return 1; /* a socket without a name */
	len -= FAMILY_LEN;
	barrier_var(len); /* the verifier wants both bounds on the same value */
	if (len > sizeof(path.path) ||
	    bpf_probe_read_kernel(&path, len, (const char *)kern->uaddr + FAMILY_LEN) != 0)
		return 1;
	/* A path ends at its first zero byte, whatever length the caller gave. */
	if (path.path.text[0] != '\0') {
		__builtin_memset(&path, 0, sizeof(path));
		len = bpf_probe_read_kernel_str(&path, len + 1,
						(const char *)kern->uaddr + FAMILY_LEN) -
		      1;
	}
	rule = bpf_map_lookup_elem(session, &path.path);
	if (rule != NULL && rule->error != 0)
		__sync_fetch_and_add(&rule->count, 1);
	record(&path.path, len, netns, session, hook, rule != NULL ? rule->error : 0);
	if (rule == NULL || rule->error == 0)
		return 1;
	bpf_set_retval(-rule->error); /* any other number than an errno becomes EPERM */
	return 0;
}

SEC("cgroup/connect_unix")
int net_connect_unix(struct bpf_sock_addr *ctx)
{
	return decide(ctx, NET_CONNECT);
}

SEC("cgroup/sendmsg_unix")
int net_sendmsg_unix(struct bpf_sock_addr *ctx)
{
	return decide(ctx, NET_SENDMSG);
}
