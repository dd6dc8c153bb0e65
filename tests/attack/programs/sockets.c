// SPDX-License-Identifier: Apache-2.0
/* Sockets that reach the host or the wire, and families that nobody needs inside. */
#include "attack.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static int new_socket(int family, int type, int protocol)
{
	return outcome(socket(family, type | SOCK_CLOEXEC, protocol));
}

static int connect_unix(const char *name, int type, bool abstract)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return BROKEN;
	snprintf(to.sun_path + abstract, sizeof(to.sun_path) - abstract, "%s", name);
	return outcome(connect(
		fd, (struct sockaddr *)&to,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name))));
}

static int host_path_socket(void)
{
	return connect_unix(place("HOST_SOCKET"), SOCK_STREAM, false);
}

static int host_abstract_socket(void)
{
	return connect_unix(place("HOST_ABSTRACT"), SOCK_STREAM, true);
}

static int server_socket(void)
{
	return connect_unix(place("SERVER_SOCKET"), SOCK_STREAM, false);
}

static int warden_socket(void)
{
	return connect_unix(place("WARDEN_SOCKET"), SOCK_SEQPACKET, false);
}

static int host_tcp(void)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)place_number("HOST_PORT")),
				       .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return BROKEN;
	return outcome(connect(fd, (const struct sockaddr *)&to, sizeof(to)));
}

static int vsock(void)
{
	return new_socket(AF_VSOCK, SOCK_STREAM, 0);
}

static int packet(void)
{
	return new_socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
}

static int old_packet(void)
{
	return new_socket(AF_INET, SOCK_PACKET, htons(ETH_P_ALL));
}

static int raw(void)
{
	return new_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static int raw6(void)
{
	return new_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
}

static int netlink_netfilter(void)
{
	return new_socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}

static int netlink_uevent(void)
{
	return new_socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT);
}

static int netlink_diag(void)
{
	return new_socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
}

static int netlink_generic(void)
{
	return new_socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
}

static int crypto(void)
{
	return new_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static int key_socket(void)
{
	return new_socket(AF_KEY, SOCK_RAW, 2);
}

static int xdp(void)
{
	return new_socket(AF_XDP, SOCK_RAW, 0);
}

/* Turns an interface off. */
static int interface(void)
{
	struct ifreq request = {.ifr_flags = IFF_UP};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(request.ifr_name, "lo");
	return outcome(ioctl(fd, SIOCSIFFLAGS, &request));
}

/* Adds an address by route netlink, which may be opened. */
static int route(void)
{
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg address;
		struct rtattr attr;
		uint32_t ip;
	} ask = {{sizeof(ask), RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0},
		 {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1},
		 {RTA_LENGTH(4), IFA_LOCAL},
		 htonl(0xc0000263)};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[256];
	} answer;
	const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd == -1 || send(fd, &ask, sizeof(ask), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < 0)
		return BROKEN;
	return -answer.error.error;
}

const struct attack socket_attacks[] = {
	{"host_path_socket", host_path_socket},
	{"host_abstract_socket", host_abstract_socket},
	{"server_socket", server_socket},
	{"warden_socket", warden_socket},
	{"host_tcp", host_tcp},
	{"vsock", vsock},
	{"packet", packet},
	{"old_packet", old_packet},
	{"raw", raw},
	{"raw6", raw6},
	{"netlink_netfilter", netlink_netfilter},
	{"netlink_uevent", netlink_uevent},
	{"netlink_diag", netlink_diag},
	{"netlink_generic", netlink_generic},
	{"alg", crypto},
	{"key_socket", key_socket},
	{"xdp", xdp},
	{"interface", interface},
	{"route", route},
	{0},
};
