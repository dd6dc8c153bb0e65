// SPDX-License-Identifier: Apache-2.0
/* Reads an operation from words: `file OP PATH`, `exec CMD ARG…`, `net HOST:PORT`, `dns NAME`.
 *
 * Paths are those of a session: a relative path begins in the workspace. A command is searched in
 * the system's directories, which a session has too, and examined like a command of a session. */
#include "base/mem.h"
#include "base/path.h"
#include "base/yaml.h"
#include "cli/cmd_policy.h"
#include <fcntl.h>
#include <unistd.h>

#define WORKSPACE "/workspace"

static int read_file_words(int argc, char **argv, struct cli_operation *o, struct err *err)
{
	static const char *const known[] = {
#define X(name) #name,
		OP_FILE_LIST(X)
#undef X
			NULL};
	const char *near;

	if (argc != 2 || argv[1][0] == '\0')
		return err_set(err, E_BAD_REQUEST, NULL,
			       "file: an operation and a path are needed");
	if (!op_file_parse(argv[0], &o->op.file.op)) {
		near = yaml_suggest(argv[0], known);
		return err_set(err, E_BAD_REQUEST, argv[0], "no file operation '%s'%s%s%s", argv[0],
			       near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
			       near != NULL ? "'?)" : "");
	}
	o->op.file.path = o->text[0] = path_clean(WORKSPACE, argv[1]);
	return 0;
}

/* Finds the file of a bare name. */
static char *find_command(const char *name)
{
	static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					   "/usr/bin",	      "/sbin",		"/bin"};

	if (strchr(name, '/') != NULL)
		return path_clean(WORKSPACE, name);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		cleanup_free char *path = mem_printf("%s/%s", dirs[i], name);

		if (access(path, X_OK) == 0)
			return take(path);
	}
	return mem_printf("/usr/bin/%s", name);
}

static int read_exec_words(int argc, char **argv, struct cli_operation *o, struct err *err)
{
	struct exec_initial_ask ask = {.cwd = WORKSPACE, .exact = true, .argv = &o->argv};
	char *real;

	if (argc < 1 || argv[0][0] == '\0')
		return err_set(err, E_BAD_REQUEST, NULL, "exec: a command is needed");
	ask.path = o->text[0] = find_command(argv[0]);
	for (int i = 0; i < argc; i++)
		strv_add(&o->argv, argv[i]);
	o->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	o->looker = exec_looker_new(o->root, NULL);
	if (exec_initial_find(o->looker, &ask, &o->initial) == 0) {
		o->op = *exec_initial_op(o->initial);
		return 0;
	}
	/* this machine does not have the program */

	real = realpath(o->text[0], NULL);
	o->op.exec.called = o->text[0];
	o->op.exec.path = o->text[1] = real != NULL ? real : mem_strdup(o->text[0]);
	o->op.exec.argv = (const char *const *)o->argv.v;
	o->op.exec.argc = (size_t)argc;
	return 0;
}

/* HOST:PORT, ADDRESS:PORT or [ADDRESS]:PORT. */
static int read_net_words(int argc, char **argv, struct cli_operation *o, struct err *err)
{
	const char *colon = argc == 1 ? strrchr(argv[0], ':') : NULL,
		   *host = argc == 1 ? argv[0] : "";
	char *end = NULL;
	unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
	size_t len = colon != NULL ? (size_t)(colon - host) : 0;

	if (colon == NULL || colon[1] < '0' || colon[1] > '9' || port == 0 || port > UINT16_MAX ||
	    *end != '\0' || len == 0)
		return err_set(err, E_BAD_REQUEST, NULL, "net: HOST:PORT is needed");
	if (host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	o->text[0] = mem_strndup(host, len);
	o->op.net.port = (uint16_t)port;
	if (op_address_parse(o->text[0], &o->op.net.address))
		return 0;
	o->op.net.host = o->text[0];
	return host == argv[0] ? 0
			       : err_set(err, E_BAD_REQUEST, argv[0],
					 "net: only an address can be in brackets");
}

static int read_dns_words(int argc, char **argv, struct cli_operation *o, struct err *err)
{
	if (argc != 1 || argv[0][0] == '\0')
		return err_set(err, E_BAD_REQUEST, NULL, "dns: a name is needed");
	o->op.dns.name = argv[0];
	o->op.dns.type = 1;
	return 0;
}

int cli_operation_read(int argc, char **argv, struct cli_operation *out, struct err *err)
{
	static const struct {
		const char *word;
		enum op_class class;
		int (*read)(int argc, char **argv, struct cli_operation *o, struct err *err);
	} classes[] = {
		{"file", OP_FILE, read_file_words},
		{"exec", OP_EXEC, read_exec_words},
		{"net", OP_NET, read_net_words},
		{"dns", OP_DNS, read_dns_words},
	};

	*out = (struct cli_operation){0};
	for (size_t i = 0; argc > 0 && i < ARRAY_LEN(classes); i++)
		if (strcmp(argv[0], classes[i].word) == 0) {
			const int skip = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;

			out->op.class = classes[i].class;
			return classes[i].read(argc - skip, argv + skip, out, err);
		}
	return err_set(err, E_BAD_REQUEST, argc > 0 ? argv[0] : NULL,
		       "policy test: file OP PATH, exec CMD [ARG...], net HOST:PORT or dns NAME");
}

void cli_operation_done(struct cli_operation *o)
{
	exec_initial_free(o->initial);
	if (o->looker != NULL)
		close(o->root);
	exec_looker_free(o->looker);
	strv_done(&o->argv);
	for (size_t i = 0; i < ARRAY_LEN(o->text); i++)
		free(o->text[i]);
}
