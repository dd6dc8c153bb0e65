// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>

const char launcher_usage[] =
	"usage: agentsh server [--config FILE] [--log-level debug|info|warn|error] [--auto]\n"
	"                      [--ready-fd N] [--set KEY=VALUE]... [--accept-loss]\n"
	"\n"
	"  --config FILE    configuration; else $AGENTSH_CONFIG, else the default place if it "
	"exists\n"
	"  --log-level L    same as --set logging.level=L\n"
	"  --auto           end when idle; if a server is there already, wait for it and say so\n"
	"  --ready-fd N     write \"ready SOCKET\" to descriptor N when ready, and close it\n"
	"  --set KEY=VALUE  overrides one key of the configuration\n"
	"  --accept-loss    go on without the last events and rows if the file that held them "
	"is damaged\n"
	"  --help, --version\n"
	"\n"
	"A server that runs: agentsh server stop | status | reload | logs\n";

enum option_kind { ON, CONFIG_FILE, LEVEL, READY_FD, OVERRIDE };
#define AT(member) offsetof(struct launcher_options, member)
static const struct flag {
	const char *name;
	enum option_kind kind;
	size_t at; /* of a bool, for ON */
} flags[] = {
	{"--config", CONFIG_FILE, 0},	{"--log-level", LEVEL, 0},
	{"--ready-fd", READY_FD, 0},	{"--set", OVERRIDE, 0},
	{"--auto", ON, AT(auto_start)}, {"--accept-loss", ON, AT(accept_loss)},
	{"--help", ON, AT(help)},	{"--version", ON, AT(version)},
};

static int apply(struct launcher_options *o, const struct flag *f, const char *value,
		 struct err *err)
{
	cleanup_free char *level = NULL;
	enum log_level ignored;
	char *end;
	long n;

	switch (f->kind) {
	case ON:
		*(bool *)((char *)o + f->at) = true;
		return 0;
	case CONFIG_FILE:
		if (value[0] == '\0')
			return err_set(err, E_BAD_REQUEST, f->name, "--config needs a file name");
		free(o->config_path);
		o->config_path = mem_strdup(value);
		return 0;
	case LEVEL:
		if (log_level_parse(value, &ignored) < 0)
			return err_set(err, E_BAD_REQUEST, f->name,
				       "--log-level is debug, info, warn or error, not '%s'",
				       value);
		level = mem_printf("logging.level=%s", value);
		strv_add(&o->overrides, level);
		return 0;
	case READY_FD:
		errno = 0;
		n = strtol(value, &end, 10);
		/* Not stdio: closing the descriptor later would close one of ours. */
		if (end == value || *end != '\0' || errno != 0 || n <= STDERR_FILENO || n > INT_MAX)
			return err_set(err, E_BAD_REQUEST, f->name,
				       "--ready-fd is a descriptor's number above 2, not '%s'",
				       value);
		if (fcntl((int)n, F_GETFD) < 0)
			return err_set(err, E_BAD_REQUEST, f->name,
				       "--ready-fd %ld is not an open descriptor", n);
		o->ready_fd = (int)n;
		return 0;
	case OVERRIDE:
		if (strchr(value, '=') == NULL || value[0] == '=')
			return err_set(err, E_BAD_REQUEST, f->name,
				       "--set takes KEY=VALUE, not '%s'", value);
		strv_add(&o->overrides, value);
	}
	return 0;
}

static int parse_flags(int argc, char *const argv[], struct launcher_options *o, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		const size_t n = strcspn(argv[i], "=");
		const char *value = argv[i][n] == '=' ? argv[i] + n + 1 : NULL; /* "--flag=value" */
		const struct flag *f = NULL;
		int r;

		for (size_t k = 0; k < ARRAY_LEN(flags); k++)
			if (strlen(flags[k].name) == n && memcmp(flags[k].name, argv[i], n) == 0)
				f = &flags[k];
		if (f == NULL)
			return err_set(err, E_BAD_REQUEST, argv[i], "unknown argument '%s'",
				       argv[i]);
		if (f->kind == ON && value != NULL)
			return err_set(err, E_BAD_REQUEST, f->name, "%s takes no value", f->name);
		if (f->kind != ON && value == NULL && i + 1 == argc)
			return err_set(err, E_BAD_REQUEST, f->name, "%s needs a value", f->name);
		if (f->kind != ON && value == NULL)
			value = argv[++i];
		r = apply(o, f, value, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int launcher_options_parse(int argc, char *const argv[], struct launcher_options *out,
			   struct err *err)
{
	struct launcher_options o = {.ready_fd = -1};
	const char *env = getenv("AGENTSH_CONFIG");
	const int r = parse_flags(argc, argv, &o, err);

	if (r < 0) {
		launcher_options_done(&o);
		return r;
	}
	if (o.config_path == NULL && env != NULL && env[0] != '\0')
		o.config_path = mem_strdup(env);
	*out = o;
	return 0;
}

void launcher_options_done(struct launcher_options *o)
{
	free(o->config_path);
	strv_done(&o->overrides);
	*o = (struct launcher_options){.ready_fd = -1};
}
