// SPDX-License-Identifier: Apache-2.0
/* Reads hosts of package registries from the configuration of package managers. The formats of apt,
 * pip, npm, Go and cargo differ, but all of them name their servers by URL. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/policy.h"

/* Reads the host of a URL; p is behind its "//". False if the URL has no host name. */
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

void policy_registry_hosts(const char *text, size_t len, struct strv *hosts)
{
	const char *end = text + len, *next;
	char host[DOMAIN_ROOM];
	struct op_address literal;

	for (const char *p = text; p < end; p = next) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *stop = newline != NULL ? newline : end;

		next = stop + 1;
		while (p < stop && (*p == ' ' || *p == '\t'))
			p++;
		if (p < stop && (*p == '#' || *p == ';'))
			continue;
		for (const char *c = p + 1; c < stop; c++)
			if (*c == '#' && (c[-1] == ' ' || c[-1] == '\t'))
				stop = c; /* a comment */
		while ((p = memmem(p, (size_t)(stop - p), "://", 3)) != NULL) {
			p += 3;
			if (read_host(p, stop, host) && strcmp(host, "localhost") != 0 &&
			    !op_address_parse(host, &literal))
				strv_add_new(hosts, host);
		}
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
