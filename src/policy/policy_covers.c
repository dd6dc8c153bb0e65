// SPDX-License-Identifier: Apache-2.0
/* What a client asks for can only narrow the policy. Every connection is decided by the policy in
 * any case; what could never be allowed is refused here, so that nobody believes to have it. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/snapshot.h"

#define VARIABLES_SHOWN 20
#define WHAT_SHOWN 100

/* What was asked for and is beyond the policy. */
struct coverage_refusal {
	const char *rule;  /* the part of the policy */
	const char *field; /* of the request */
	const char *what;
};

/* How a rule's domains stand to a pattern. */
static void compare(const struct policy *p, const struct snapshot_rule *r, const char *domain,
		    bool *covers, bool *meets)
{
	*covers = *meets = (r->conditions & COND_DOMAINS) == 0;
	for (uint32_t i = 0; i < r->subject.n; i++) {
		const char *pattern = snapshot_pattern(p, r->subject.at + i);

		*covers |= domain_covers(pattern, domain);
		*meets |= domain_overlaps(pattern, domain);
	}
}

/* Whether some connection to every name of the pattern can be allowed: rules in their order, a
 * refusal counts where it asks for nothing but the name, as for a lookup. */
static bool domain_within(const struct policy *p, const char *domain)
{
	const struct snapshot_class *c = &p->head->class[OP_NET];

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_NET, i);
		const bool lets = policy_permits(p, (enum decision)r->decision);
		bool covers, meets;

		if (!(r->conditions & COND_DOMAINS) && (r->conditions & COND_CIDRS))
			continue; /* about addresses, not names */
		compare(p, r, domain, &covers, &meets);
		if (lets && covers)
			return true;
		if (!lets && meets && !(r->conditions & (COND_CIDRS | COND_PORTS | COND_PROTOCOLS)))
			return false;
	}
	return policy_permits(p, (enum decision)c->fallback);
}

static bool port_within(const struct policy *p, uint16_t port)
{
	const struct snapshot_class *c = &p->head->class[OP_NET];

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_NET, i);
		bool has = (r->conditions & COND_PORTS) == 0;

		for (uint32_t k = 0; k < r->ports.n; k++)
			has |= p->ports[r->ports.at + k].low <= port &&
			       port <= p->ports[r->ports.at + k].high;
		if (!has)
			continue;
		if (policy_permits(p, (enum decision)r->decision))
			return true;
		if (r->conditions == COND_PORTS)
			return false;
	}
	return policy_permits(p, (enum decision)c->fallback);
}

static bool name_matches(const char *pattern, const char *name, size_t len)
{
	const size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return len >= n - 1 && memcmp(pattern, name, n - 1) == 0;
	return len == n && memcmp(pattern, name, n) == 0;
}

static bool in_list(const struct policy *p, const struct snapshot_span *list, const char *name,
		    size_t len)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (name_matches(snapshot_pattern(p, list->at + i), name, len))
			return true;
	return false;
}

/* What may be given instead, a sentence. */
static void format_variables(const struct policy *p, struct strv *out)
{
	const struct snapshot_span *allow = &p->head->env_allow;
	cleanup_buf struct buf text = {0};

	if (allow->n == 0)
		return;
	buf_adds(&text, "variables ");
	for (uint32_t i = 0; i < allow->n && i < VARIABLES_SHOWN; i++)
		buf_addf(&text, "%s%s", i > 0 ? ", " : "", snapshot_pattern(p, allow->at + i));
	if (allow->n > VARIABLES_SHOWN)
		buf_addf(&text, " and %u more", allow->n - VARIABLES_SHOWN);
	strv_add(out, text.data);
}

/* False: it does not fit. */
static bool format_denial(const struct coverage_refusal *r, const struct strv *alternatives,
			  struct err *err)
{
	static char reason[] = "beyond the policy: what a session asks for only narrows it";
	const struct denial d = {.rule = r->rule,
				 .reason = reason,
				 .operation = (char *)r->field,
				 .target = (char *)r->what,
				 .alternatives =
					 alternatives != NULL ? *alternatives : (struct strv){0}};
	cleanup_buf struct buf b = {0};

	denial_format(&d, &JW(&b));
	if (b.len >= sizeof(err->policy))
		return false;
	memcpy(err->policy, b.data, b.len + 1);
	return true;
}

static int refuse(const struct policy *p, struct err *err, struct coverage_refusal r)
{
	const struct op op = {.class = OP_NET};
	char what[WHAT_SHOWN + 1] = "";
	struct strv alternatives = {0};

	strncat(what, r.what, WHAT_SHOWN);
	if (err == NULL)
		return -E_POLICY_DENIED;
	r.what = what;
	if (strcmp(r.rule, "environment") == 0)
		format_variables(p, &alternatives);
	else
		policy_alternatives(p, &op, &alternatives);
	if (!format_denial(&r, &alternatives, err))
		format_denial(&r, NULL, err);
	strv_done(&alternatives);
	err_detail(err, r.field, "'%s' is beyond the policy", what);
	return err_set(err, E_POLICY_DENIED, what, "%s: '%s' is beyond the policy '%s'", r.field,
		       what, policy_name(p));
}

int policy_narrow_env(const struct policy *p, const struct strv *env, struct err *err)
{
	for (size_t i = 0; i < env->n; i++) {
		const size_t len = strcspn(env->v[i], "=");
		cleanup_free char *name = mem_strndup(env->v[i], len);

		if (in_list(p, &p->head->env_deny, name, len) ||
		    (p->head->has_env_allow && !in_list(p, &p->head->env_allow, name, len)))
			return refuse(
				p, err,
				(struct coverage_refusal){"environment", "environment", name});
	}
	return 0;
}

bool policy_drops_env(const struct policy *p, const char *name, size_t len)
{
	return !policy_permits(p, (enum decision)p->head->class[OP_EXEC].fallback) &&
	       request_env_loads_code(name, len) && !in_list(p, &p->head->env_allow, name, len);
}

static int check_domains(const struct policy *p, const struct strv *domains, struct err *err)
{
	char normal[DOMAIN_ROOM];

	for (size_t i = 0; i < domains->n; i++) {
		const char *wrong = domain_check(domains->v[i], normal);

		if (wrong != NULL)
			return err_set(err, E_BAD_REQUEST, domains->v[i],
				       "network.allowed_domains: '%.100s': %s", domains->v[i],
				       wrong);
		if (!domain_within(p, normal))
			return refuse(p, err,
				      (struct coverage_refusal){"network_rules",
								"network.allowed_domains",
								domains->v[i]});
	}
	return 0;
}

static int check_ports(const struct policy *p, const struct strv *ports, struct err *err)
{
	for (size_t i = 0; i < ports->n; i++)
		if (!port_within(p, (uint16_t)strtoul(ports->v[i], NULL, 10)))
			return refuse(p, err,
				      (struct coverage_refusal){"network_rules",
								"network.allowed_ports",
								ports->v[i]});
	return 0;
}

int policy_covers(const struct policy *p, const struct session_request *w, struct err *err)
{
	int rc = check_domains(p, &w->allowed_domains, err);

	if (rc == 0)
		rc = check_ports(p, &w->allowed_ports, err);
	return rc < 0 ? rc : policy_narrow_env(p, &w->environment, err);
}
