// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "launcher/launcher.h"
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

/* A flag sets a bool, or its value becomes an override of the configuration, or else take_value has
 * it. */
static const struct flag {
	const char *name;
	size_t at;	    /* of the bool; 0: the flag has a value */
	const char *prefix; /* of the override; NULL: none */
} flags[] = {
	{"--auto", offsetof(struct launcher_options, auto_start)},
	{"--accept-loss", offsetof(struct launcher_options, accept_loss)},
	{"--help", offsetof(struct launcher_options, help)},
	{"--version", offsetof(struct launcher_options, version)},
	{"--log-level", 0, "logging.level="},
	{"--set", 0, ""},
	{"--config"},
	{"--ready-fd"},
};

static int take_value(struct launcher_options *o, const struct flag *f, const char *value,
		      struct err *err)
{
	cleanup_free char *override = NULL;
	char *end;
	long n;

	if (value == NULL || value[0] == '\0')
		return err_set(err, E_BAD_REQUEST, f->name, "%s needs a value", f->name);
	if (f->prefix != NULL) {
		override = mem_printf("%s%s", f->prefix, value);
		strv_add(&o->overrides, override);
		return 0;
	}
	if (strcmp(f->name, "--config") == 0) {
		free(o->config_path);
		o->config_path = mem_strdup(value);
		return 0;
	}
	n = strtol(value, &end, 10);
	/* Not stdio: the launcher closes the descriptor later. */
	if (*end != '\0' || n <= STDERR_FILENO || n > INT_MAX || fcntl((int)n, F_GETFD) < 0)
		return err_set(err, E_BAD_REQUEST, f->name,
			       "--ready-fd needs the number of an open descriptor above 2, not "
			       "'%s'",
			       value);
	o->ready_fd = (int)n;
	return 0;
}

/* Reads argv[*i], and the argument after it if that is its value. */
static int parse_flag(char *const argv[], int *i, struct launcher_options *o, struct err *err)
{
	const char *arg = argv[*i];
	const size_t n = strcspn(arg, "=");

	for (const struct flag *f = flags; f < flags + ARRAY_LEN(flags); f++) {
		if (strlen(f->name) != n || memcmp(f->name, arg, n) != 0)
			continue;
		if (f->at == 0)
			return take_value(o, f, arg[n] == '=' ? arg + n + 1 : argv[++*i], err);
		if (arg[n] == '=')
			return err_set(err, E_BAD_REQUEST, f->name, "%s takes no value", f->name);
		*(bool *)((char *)o + f->at) = true;
		return 0;
	}
	return err_set(err, E_BAD_REQUEST, arg, "unknown argument '%s'", arg);
}

int launcher_options_parse(int argc, char *const argv[], struct launcher_options *out,
			   struct err *err)
{
	struct launcher_options o = {.ready_fd = -1};
	const char *env = getenv("AGENTSH_CONFIG");
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++)
		r = parse_flag(argv, &i, &o, err);
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
