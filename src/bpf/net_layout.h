// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/net_layout.h - what the network programs and the processes of a server share.
 *
 * Three objects, each loaded once for all sessions of a server: net_owner tells whose connection
 * was accepted, net_refuse lets connect() and sendmsg() fail with an errno, net_unix does that for
 * unix sockets and records them. They are help and attribution, not the wall: a session without an
 * entry, and an address without a rule, pass.
 *
 * Every outer map (type HASH_OF_MAPS) has the session's network namespace cookie as its key
 * (SO_NETNS_COOKIE; the kernel never gives a cookie twice, so an old entry is harmless). Its value
 * is a map of the session's own, which net_eyes.h makes. A process that holds only its session's
 * maps can neither see nor change another session.
 *
 * object      outer map  the session's map                      who writes       who reads
 * net_owner   owners     LRU_HASH net_tuple -> net_owner        the program      agentsh-net
 * net_refuse  rules      LPM_TRIE net_rule_key -> net_rule      agentsh-net      the program
 * net_refuse  calls      RINGBUF of net_call                    the program      agentsh-net
 * net_unix    paths      HASH net_path -> net_rule              agentsh-net      the program
 * net_unix    calls      RINGBUF of net_call                    the program      agentsh-net
 * One ring may be entered in both maps `calls`. Without a ring nothing is recorded.
 *
 * Whose command: the programs know the process, not the command. `pid` is the process id as the
 * warden sees it; the actor table finds the command by it. `start` tells the process apart from
 * a later one with the same id.
 *
 * Full maps: owners forgets its oldest entry; a connection without an entry has no known owner. A
 * rule that does not fit is refused to its writer (ENOSPC). A record that does not fit into the
 * ring is counted: see NET_DROPPED. */
#pragma once
#include <linux/types.h>

#define NET_SESSIONS_MAX 8192
#define NET_OWNERS_MAX 256 /* connections that were begun and not yet accepted */
#define NET_RULES_MAX 4096
#define NET_PATHS_MAX 256
#define NET_CALLS_BYTES 16384

/* An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d; in network order, as in a sockaddr. */
struct net_address {
	__u32 word[4];
};
#define NET_MAPPED_BITS 96 /* IPv4 /8 is a prefix of NET_MAPPED_BITS + 8 bits */
#define NET_ADDRESS_BITS 128

/* A connection as the accepting side sees it: source is the peer that accept() gives. destination
 * is the address that the client asked for: SO_ORIGINAL_DST behind a redirect, else the accepted
 * socket's own address. Ports are in network order. */
struct net_tuple {
	struct net_address source, destination;
	__u16 source_port, destination_port;
};

/* The entry is written before the SYN leaves, so it is there when accept() returns. agentsh-net
 * takes it with BPF_MAP_LOOKUP_AND_DELETE_ELEM. The end of a connection does not remove it: a
 * client may have sent its request and closed before accept(). A later connection with the same
 * tuple writes its own entry. */
struct net_owner {
	__u64 cookie;	/* SO_COOKIE of the client's socket */
	__u64 start;	/* of the process: ns since boot; /proc/PID/stat has it in clock ticks */
	__u64 time;	/* of the connect: CLOCK_BOOTTIME, ns */
	__u32 pid, tid; /* process and thread that called connect() */
};

/* The rule of an address: first the one with this protocol and port, then the one with port 0. Of
 * several prefixes the longest counts. */
struct net_rule_key {
	__u32 bits;    /* NET_RULE_BITS + bits of the address */
	__u8 protocol; /* IPPROTO_TCP, IPPROTO_UDP, … */
	__u8 unused;   /* 0 */
	__u16 port;    /* network order; 0: any port */
	struct net_address address;
};
#define NET_RULE_BITS 32 /* protocol, unused, port */

struct net_rule {
	__s32 error; /* errno that the call fails with, 0: the call passes */
	__u32 unused;
	__u64 count; /* calls that this rule has refused; of NET_DROPPED: records that were lost */
};
/* The key of the count of lost records: in rules protocol NET_DROPPED, all else 0 and all bits; in
 * paths the path of zeros. net_eyes_session makes these entries. */
#define NET_DROPPED 255

/* sun_path as the caller gave it, filled with zeros: relative paths and symbolic links are not
 * resolved. An abstract name begins with a zero byte. */
#define NET_PATH_LEN 108
struct net_path {
	char text[NET_PATH_LEN];
};

enum net_hook { NET_CONNECT = 1, NET_SENDMSG };

/* net_refuse records each refused call, net_unix each call. */
struct net_call {
	__u64 time; /* CLOCK_BOOTTIME, ns */
	__u64 start;
	__u32 pid, tid;
	__s32 error; /* errno, 0: the call passed */
	__u16 family;
	__u8 hook;     /* enum net_hook */
	__u8 protocol; /* 0 for AF_UNIX */
	struct net_address address;
	__u16 port;
	__u16 path_len; /* of AF_UNIX; an abstract name may have zero bytes */
	char path[NET_PATH_LEN];
};
