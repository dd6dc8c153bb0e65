// SPDX-License-Identifier: Apache-2.0
/* Hosts of package registries, read from what package managers are configured with. Apt's lists,
 * pip's, npm's, Go's and cargo's settings differ, but all name their servers by URL. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/policy.h"

/* The host of a URL whose "//" ended before p; false if it has none. */
static bool read_host(const char *p, const char *end, char out[DOMAIN_ROOM])
{
	const char *stop = p, *at, *colon;
	char text[DOMAIN_ROOM];
	size_t len;

	while (stop < end && strchr("/ \t\r\"',;|)<>]}?#", *stop) == NULL && *stop != '\0')
		stop++;
	at = memrchr(p, '@', (size_t)(stop - p));
	if (at != NULL)
		p = at + 1;
	colon = memchr(p, ':', (size_t)(stop - p));
	len = (size_t)((colon != NULL ? colon : stop) - p);
	if (len == 0 || len >= sizeof(text))
		return false;
	memcpy(text, p, len);
	text[len] = '\0';
	return domain_normal(text, out);
}

static void read_line(const char *p, const char *end, struct strv *hosts)
{
	char host[DOMAIN_ROOM];
	struct op_address literal;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (p < end && (*p == '#' || *p == ';'))
		return;
	for (const char *c = p + 1; c < end; c++)
		if (*c == '#' && (c[-1] == ' ' || c[-1] == '\t'))
			end = c; /* a comment */
	while ((p = memmem(p, (size_t)(end - p), "://", 3)) != NULL) {
		p += 3;
		if (read_host(p, end, host) && strcmp(host, "localhost") != 0 &&
		    !op_address_parse(host, &literal))
			strv_add_new(hosts, host);
	}
}

void policy_registry_hosts(const char *text, size_t len, struct strv *hosts)
{
	const char *p = text, *end = text + len;

	while (p < end) {
		const char *line = memchr(p, '\n', (size_t)(end - p));

		if (line == NULL)
			line = end;
		read_line(p, line, hosts);
		p = line + 1;
	}
}

void policy_set_format(const char *name, const char *kind, const char *description,
		       const struct strv *items, struct buf *out)
{
	buf_addf(out, "version: 1\nname: %s\ndescription: ", name);
	struct jw w = JW(out);
	jw_str(&w, description);
	buf_addf(out, "\nkind: %s\nitems:%s\n", kind, items->n == 0 ? " []" : "");
	for (size_t i = 0; i < items->n; i++) {
		struct jw item = JW(out);

		buf_adds(out, "  - ");
		jw_str(&item, items->v[i]);
		buf_addc(out, '\n');
	}
}
