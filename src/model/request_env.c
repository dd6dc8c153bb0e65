// SPDX-License-Identifier: Apache-2.0
/* Which variables may cross into a command. No JSON here: static programs link it. */
#include "base/log.h"
#include "base/mem.h"
#include "model/request.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* STA-4, and what else makes a shell or the linker run something: a name that ends in '*' is a
 * beginning. */
static const char *const dangerous[] = {
	"BASH_ENV", "ENV",	 "PROMPT_COMMAND", "EDITOR", "VISUAL",
	"PAGER",    "GIT_PAGER", "MANPAGER",	   "LD_*",   "SHELLOPTS",
	"BASHOPTS", "CDPATH",	 "BASH_FUNC_*",	   "PS4",    "BASH_XTRACEFD",
};

#define GIT "git*"
#define JAVA "java*"
#define NODE "node* npm npx pnpm yarn"
#define PERL "perl*"
#define PYTHON "python* pip*"
#define RUBY "ruby* gem"
const struct request_env_loader request_env_loaders[] = {
	{"GCONV_PATH", NULL},	    {"LOCPATH", NULL},		{"GLIBC_TUNABLES", NULL},
	{"OPENSSL_CONF", NULL},	    {"OPENSSL_MODULES", NULL},	{"OPENSSL_ENGINES", NULL},
	{"PYTHONPATH", PYTHON},	    {"PYTHONHOME", PYTHON},	{"PYTHONSTARTUP", PYTHON},
	{"PYTHONINSPECT", PYTHON},  {"PYTHONUSERBASE", PYTHON}, {"PERL5*", PERL},
	{"PERLLIB", PERL},	    {"NODE_OPTIONS", NODE},	{"NODE_PATH", NODE},
	{"RUBYOPT", RUBY},	    {"RUBYLIB", RUBY},		{"JAVA_TOOL_OPTIONS", JAVA},
	{"JDK_JAVA_OPTIONS", JAVA}, {"_JAVA_OPTIONS", JAVA},	{"GIT_SSH*", GIT},
	{"GIT_EXEC_PATH", GIT},	    {"GIT_EXTERNAL_DIFF", GIT}, {"GIT_CONFIG_*", GIT},
	{"GIT_ASKPASS", GIT},	    {"LESSOPEN", "less"},	{NULL, NULL},
};

static bool matches(const char *pattern, const char *name, size_t len)
{
	const size_t n = strlen(pattern);

	if (pattern[n - 1] == '*')
		return len >= n - 1 && memcmp(name, pattern, n - 1) == 0;
	return len == n && memcmp(name, pattern, n) == 0;
}

bool request_env_dangerous(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(dangerous); i++)
		if (matches(dangerous[i], name, len))
			return true;
	return false;
}

bool request_env_loads_code(const char *name, size_t len)
{
	for (const struct request_env_loader *v = request_env_loaders; v->name != NULL; v++)
		if (matches(v->name, name, len))
			return true;
	return false;
}

bool request_env_name(const char *name, size_t len)
{
	return len > 0 && strspn(name, NAME_CHARS) >= len && (name[0] < '0' || name[0] > '9');
}

size_t request_env_strip(struct strv *env)
{
	size_t kept = 0, before = env->n;

	for (size_t i = 0; i < before; i++) {
		char *pair = env->v[i];
		const size_t len = strcspn(pair, "=");

		if (pair[len] == '=' && request_env_name(pair, len) &&
		    !request_env_dangerous(pair, len)) {
			env->v[kept++] = pair;
			continue;
		}
		pair[len] = '\0';
		log_debug("variable stripped", "name", pair);
		free(pair);
	}
	if (before > 0)
		env->v[kept] = NULL;
	env->n = kept;
	return before - kept;
}
