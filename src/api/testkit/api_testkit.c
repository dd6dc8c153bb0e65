// SPDX-License-Identifier: Apache-2.0
#include "api/testkit/api_testkit.h"
#include "base/hash.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

static int rig_listen(const struct sockaddr *a, socklen_t len)
{
	const int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int little = 65536; /* connections inherit it: a slow reader is noticed early */

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	assert_int_equal(bind(fd, a, len), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

/* One key per role, and a second agent; the secret of each is its name: "agent-1". */
static void rig_keys(struct rig *r)
{
	static const char *const rows[][2] = {{"agent-1", "agent"},
					      {"agent-2", "agent"},
					      {"approver-1", "approver"},
					      {"admin-1", "admin"}};
	cleanup_buf struct buf text = {0};

	buf_adds(&text, "keys:\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t sum[HASH_LEN];
		char hex[HASH_HEX];

		hash_sha256(sum, rows[i][0], strlen(rows[i][0]), NULL, 0);
		hash_hex(hex, sum);
		buf_addf(&text, "- {id: k%zu, agent_id: %s, role: %s, uid: 1000, sha256: %s}\n", i,
			 rows[i][0], rows[i][1], hex);
	}
	assert_int_equal(api_keys_parse("keys", text.data, text.len, &r->api.keys, NULL, NULL), 0);
}

void rig_serve(struct rig *r, http_request_fn *on_request)
{
	r->api.http =
		http_server_new(r->api.loop, &http_limits_default, on_request, api_on_bad, &r->api);
	for (size_t i = 0; i < r->api.nlisteners; i++)
		assert_int_equal(http_server_listen(r->api.http, r->api.listener[i], (int)i,
						    transport_plain, NULL),
				 0);
}

int rig_setup(void **state)
{
	const struct sockaddr_in in = {.sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct rig *r = mem_new(struct rig);
	void *kit = NULL;

	kit_setup(&kit);
	r->k = kit;
	r->api = (struct api){.loop = r->k->loop,
			      .config = r->k->config, /* borrowed */
			      .store = r->k->store,
			      .metrics = r->k->metrics,
			      .sessions = r->k->ss,
			      .output_dir = r->k->output_dir,
			      .nlisteners = 2,
			      .listener_kind = {LISTENER_UNIX, LISTENER_TCP},
			      .methods = api_methods,
			      .nmethods = api_nmethods,
			      .owner_uid = 4242};
	/* An address of the family alone lets the kernel choose an abstract name. */
	r->api.listener[ON_UNIX] = rig_listen((const struct sockaddr *)&un, sizeof(sa_family_t));
	r->api.listener[ON_TCP] = rig_listen((const struct sockaddr *)&in, sizeof(in));
	rig_keys(r);
	rig_serve(r, api_on_request);
	*state = r;
	return 0;
}

int rig_teardown(void **state)
{
	struct rig *r = *state;
	void *kit = r->k;

	sessions_abandon(r->k->ss);
	http_server_free(r->api.http);
	close(r->api.listener[ON_UNIX]);
	close(r->api.listener[ON_TCP]);
	api_keys_done(&r->api.keys);
	kit_teardown(&kit);
	call_resume_all(&r->api);
	free(r);
	return 0;
}

struct got rig_connect(struct rig *r, enum rig_listener on)
{
	struct got g = {0};
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	const int now = 1;

	assert_int_equal(getsockname(r->api.listener[on], (struct sockaddr *)&a, &len), 0);
	g.fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(g.fd >= 0);
	assert_int_equal(connect(g.fd, (struct sockaddr *)&a, len), 0);
	if (on == ON_TCP) /* what is sent is there at once */
		setsockopt(g.fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
	return g;
}

void got_done(struct got *g)
{
	if (g->fd >= 0)
		close(g->fd);
	buf_done(&g->raw);
	buf_done(&g->body);
	*g = (struct got){.fd = -1};
}

void rig_put(struct got *g, const void *p, size_t n)
{
	assert_int_equal(send(g->fd, p, n, MSG_NOSIGNAL), n);
}

void rig_ask(struct got *g, const char *what, const char *headers, const char *body)
{
	cleanup_buf struct buf out = {0};

	buf_addf(&out, "%s HTTP/1.1\r\n%s%s", what,
		 headers != NULL && strncmp(headers, "Host:", 5) == 0 ? "" : "Host: localhost\r\n",
		 headers != NULL ? headers : "");
	if (body != NULL)
		buf_addf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			 strlen(body));
	buf_addf(&out, "\r\n%s", body != NULL ? body : "");
	rig_put(g, out.data, out.len);
	buf_clear(&g->raw);
	buf_clear(&g->body);
	g->status = 0;
	g->whole = false;
}

/* Everything that is there is read and taken apart. */
static void rig_unchunk(struct got *g, const char *p)
{
	buf_clear(&g->body);
	buf_adds(&g->body, "");
	for (;;) {
		char *rest;
		const size_t n = strtoul(p, &rest, 16);

		if (rest == p || strncmp(rest, "\r\n", 2) != 0)
			return;
		if (n == 0) {
			g->whole = true;
			return;
		}
		if ((size_t)(g->raw.data + g->raw.len - (rest + 2)) < n + 2)
			return;
		buf_add(&g->body, rest + 2, n);
		p = rest + 2 + n + 2;
	}
}

const char *got_header(const struct got *g, const char *name, char out[256])
{
	cleanup_free char *line = mem_printf("\r\n%s: ", name);
	const char *end = strstr(g->raw.data, "\r\n\r\n"), *at = strstr(g->raw.data, line);

	if (at == NULL || at > end)
		return NULL;
	at += strlen(line);
	snprintf(out, 256, "%.*s", (int)strcspn(at, "\r"), at);
	return out;
}

void rig_read(struct got *g)
{
	const size_t before = g->raw.len;
	char chunk[65536], value[256];
	const char *head;
	ssize_t n;

	while ((n = recv(g->fd, chunk, sizeof(chunk), MSG_DONTWAIT)) > 0)
		buf_add(&g->raw, chunk, (size_t)n);
	g->closed = n == 0 || errno != EAGAIN;
	if (g->raw.len == before)
		return;
	head = g->raw.len > 0 ? strstr(g->raw.data, "\r\n\r\n") : NULL;
	if (head == NULL)
		return;
	g->status = atoi(g->raw.data + strlen("HTTP/1.1 "));
	head += 4;
	if (got_header(g, "Transfer-Encoding", value) != NULL) {
		rig_unchunk(g, head);
		return;
	}
	buf_clear(&g->body);
	buf_add(&g->body, head, (size_t)(g->raw.data + g->raw.len - head));
	buf_adds(&g->body, "");
	if (got_header(g, "Content-Length", value) != NULL)
		g->whole = g->body.len >= (size_t)atoll(value);
}

void rig_turn(struct rig *r, struct got *g)
{
	kit_turn(r->k);
	rig_read(g);
}

void rig_moment(struct rig *r, struct got *g)
{
	loop_run_ms(r->api.loop, 5);
	rig_turn(r, g);
}

void rig_finish(struct rig *r, struct got *g)
{
	rig_turn(r, g);
	for (int i = 0; i < RIG_MOMENTS && !g->whole; i++)
		rig_moment(r, g);
	if (!g->whole)
		fail_msg("no whole answer: %s", g->raw.len > 0 ? g->raw.data : "(nothing)");
}

void rig_expect(struct rig *r, struct got *g, const char *text)
{
	rig_turn(r, g);
	for (int i = 0; i < RIG_MOMENTS; i++) {
		if (g->body.len > 0 && strstr(g->body.data, text) != NULL)
			return;
		rig_moment(r, g);
	}
	fail_msg("no %s in: %s", text, g->raw.len > 0 ? g->raw.data : "(nothing)");
}

struct got rig_call(struct rig *r, const char *who, const char *what, const char *body)
{
	struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *key = who != NULL && *who != '\0'
					 ? mem_printf("Authorization: Bearer %s\r\n", who)
					 : NULL;

	rig_ask(&g, what, key, body);
	if (strncmp(what, "HEAD ", 5) != 0) {
		rig_finish(r, &g);
		return g;
	}
	for (int i = 0; i < RIG_MOMENTS && g.status == 0; i++)
		rig_moment(r, &g);
	return g;
}

long rig_metric(struct rig *r, const char *name)
{
	cleanup_buf struct buf text = {0};
	cleanup_free char *line = mem_printf("\n%s ", name);
	const char *at;

	metrics_format(r->api.metrics, &text);
	at = strstr(text.data, line);
	assert_non_null(at);
	return atol(at + strlen(line));
}
