// SPDX-License-Identifier: Apache-2.0
/* Each text is one line, because a line break would change the line numbers in messages. The texts
 * use neither programs nor variables of the script; every name begins with __agentsh, and every
 * expansion is quoted or safe under `set -eu` and any IFS. */
#include "shell/shell.h"
#include "base/buf.h"
#include "base/mem.h"
#include "shell/session_root.h"

// clang-format off

/* If the user has set no handler: one capture. Its status and output do not matter. */
#define ENDS_PLAIN "{ __agentsh_cap; } </dev/null >/dev/null 2>&1 || :"

/* If the user has set one: a capture before, because the handler may call exit, and one after. The
 * branches of `if` give the handler the right $? without a failing command, which would end the
 * shell under `set -e`. */
#define ENDS_WITH_HANDLER \
	"if { __agentsh_r=$?; __agentsh_cap; __agentsh_rc \"$__agentsh_r\"; } " \
	"</dev/null >/dev/null 2>&1; " \
	"then eval \"$__agentsh_h\"; else eval \"$__agentsh_h\"; fi; " ENDS_PLAIN

/* __agentsh_state is the program; __agentsh_rc sets $?. */
#define SETS_STATUS "__agentsh_rc() { return \"$1\"; }; "
#define BASIS \
	SETS_STATUS "__agentsh_cap() { \"$__agentsh_state\"; }; " \
	"__agentsh_0='" ENDS_PLAIN "'; "

/* bash runs its EXIT trap also when a signal ends it, and says nothing of that to the trap. So the
 * program takes the shell's place only if the last command was an exit: the script's, or ours after
 * its last line. A signal may have come while an argument was computed. An exec that fails (a large
 * environment) leaves the status as it is. */
static const char bash_brief[] =
	"trap -- '__agentsh_s=$?; case ${BASH_COMMAND-} in *[\\`\\(]*) ;; "
	"exit|exit\\ *|builtin\\ exit) builtin shopt -s execfail; "
	"builtin exec \"$__agentsh_state\" \"$__agentsh_s\" 2>&- ;; esac; "
	"{ \"$__agentsh_state\"; } </dev/null >/dev/null 2>&1 || :' EXIT; ";
#define BRIEF_END "\nbuiltin exit"

static const char bash_full[] = "export -n __agentsh_lib; " BASIS
	"trap() { { local -; set +eux; } 2>/dev/null; eval \"$__agentsh_lib\"; trap \"$@\"; }; "
	"builtin trap -- \"$__agentsh_0\" EXIT; ";

/* __agentsh_h, _e, _dh, _uh: the user's handlers of EXIT, ERR, DEBUG, RETURN; unset: none. */
static const char bash_lib[] =
	"__agentsh_1='" ENDS_WITH_HANDLER "'; "
	/* Not for our own commands. */
	"__agentsh_d='case ${FUNCNAME-}\\ $BASH_COMMAND in trap\\ *|*__agentsh_*) ;; "
	"*) eval \"$__agentsh_dh\" ;; esac'; "
	"__agentsh_u='case ${FUNCNAME-} in trap|__agentsh_*) ;; "
	"*) eval \"$__agentsh_uh\" ;; esac'; "

	/* __agentsh_swap OURS SIGNAL HANDLER SET: replaces our line in __agentsh_o, or removes it. */
	"__agentsh_swap() { "
	"local __agentsh_a __agentsh_b=; "
	"printf -v __agentsh_a \"trap -- '%s' %s\\n\" \"$1\" \"$2\"; "
	"[[ ! $4 ]] || "
	"printf -v __agentsh_b \"trap -- '%s' %s\\n\" \"${3//\\'/\"'\\''\"}\" \"$2\"; "
	"__agentsh_o=${__agentsh_o/\"$__agentsh_a\"/\"$__agentsh_b\"}; "
	"}; "

	/* trap -p as if we were not there. ERR is not visible inside a function. */
	"__agentsh_list() { "
	"local __agentsh_o IFS=' '; "
	"__agentsh_o=$(builtin trap -p \"$@\" && echo x) || return; "
	"__agentsh_o=${__agentsh_o%x}; "
	"case \" $* \" in *\" ERR \"*|\"  \") "
	"[[ ! ${__agentsh_e+x} || $__agentsh_o == *\" ERR\"$'\\n'* ]] || "
	"__agentsh_o+=\"trap -- '' ERR\"$'\\n'; "
	"__agentsh_swap \"\" ERR \"${__agentsh_e-}\" \"${__agentsh_e+x}\" ;; esac; "
	"__agentsh_swap \"$__agentsh_0\" EXIT \"${__agentsh_h-}\" \"${__agentsh_h+x}\"; "
	"__agentsh_swap \"$__agentsh_1\" EXIT \"${__agentsh_h-}\" x; "
	"__agentsh_swap \"$__agentsh_d\" DEBUG \"${__agentsh_dh-}\" x; "
	"__agentsh_swap \"$__agentsh_u\" RETURN \"${__agentsh_uh-}\" x; "
	"printf %s \"$__agentsh_o\"; "
	"}; "

	/* __agentsh_set SIGNAL ACTION. bash restores ERR after a function that leaves it unset. */
	"__agentsh_set() { "
	"case $1:$2 in "
	"EXIT:-) unset __agentsh_h; builtin trap -- \"$__agentsh_0\" EXIT ;; "
	"EXIT:) __agentsh_h=; builtin trap -- \"$__agentsh_0\" EXIT ;; "
	"EXIT:*) __agentsh_h=$2; builtin trap -- \"$__agentsh_1\" EXIT ;; "
	"ERR:-) unset __agentsh_e; "
	"if [[ ${#FUNCNAME[@]} == 2 ]]; then builtin trap '' ERR; else builtin trap - ERR; fi ;; "
	"ERR:*) __agentsh_e=$2; builtin trap -- \"$2\" ERR ;; "
	"*:-|*:) builtin trap -- \"$2\" \"$1\" ;; "
	"DEBUG:*) __agentsh_dh=$2; builtin trap -- \"$__agentsh_d\" DEBUG ;; "
	"RETURN:*) __agentsh_uh=$2; builtin trap -- \"$__agentsh_u\" RETURN ;; "
	"esac; "
	"}; "

	/* A subshell's EXIT is its own. */
	"trap() { "
	"{ local -; set +eux; } 2>/dev/null; "
	"case ${1-} in -p) shift; __agentsh_list \"$@\"; return ;; --) shift ;; "
	"-?*) builtin trap \"$@\"; return ;; esac; "
	"if [[ $# == 0 ]]; then __agentsh_list; return; fi; "
	"local __agentsh_a=- __agentsh_s __agentsh_x=0; "
	"if [[ $# == 1 ]]; then "
	"case ${1^^} in 0|EXIT|ERR|DEBUG|RETURN) ;; *) builtin trap \"$1\"; return ;; esac; "
	"elif [[ $1 != +([0-9]) ]]; then __agentsh_a=$1; shift; fi; "
	"for __agentsh_s; do "
	"__agentsh_s=${__agentsh_s^^}; "
	"case $__agentsh_s:${BASHPID-$$} in "
	"0:$$|EXIT:$$) __agentsh_set EXIT \"$__agentsh_a\" ;; "
	"ERR:*|DEBUG:*|RETURN:*) __agentsh_set \"$__agentsh_s\" \"$__agentsh_a\" ;; "
	"*) builtin trap -- \"$__agentsh_a\" \"$__agentsh_s\" || __agentsh_x=$? ;; "
	"esac; done; "
	"return \"$__agentsh_x\"; "
	"}; "
	"declare -ft trap __agentsh_list __agentsh_set";

/* Here the program is a child: dash loses its status when an exec fails. */
static const char sh_plain[] = BASIS "trap -- \"$__agentsh_0\" EXIT; ";

static const char sh_traps[] = BASIS
	"__agentsh_1='" ENDS_WITH_HANDLER "'; "

	"__agentsh_set() { "
	"case $1 in "
	"-) unset __agentsh_h; trap -- \"$__agentsh_0\" EXIT ;; "
	"\"\") __agentsh_h=; trap -- \"$__agentsh_0\" EXIT ;; "
	"*) __agentsh_h=$1; trap -- \"$__agentsh_1\" EXIT ;; "
	"esac; "
	"}; "

	/* True outside subshells, which have the same $$. */
	"__agentsh_main() { "
	"__agentsh_p=$$; { IFS=' ' read -r __agentsh_p __agentsh_x </proc/self/stat; } "
	"2>/dev/null; "
	"[ \"$__agentsh_p\" = \"$$\" ]; "
	"}; "

	/* What trap lists is not to be had as text where a subshell forgets the traps (dash). */
	"__agentsh_list() { "
	"if ! __agentsh_main; then trap \"$@\"; return; fi; "
	"if [ \"${__agentsh_h+x}\" ]; then trap -- \"$__agentsh_h\" EXIT; else trap - EXIT; fi; "
	"trap \"$@\"; "
	"if [ \"${__agentsh_h:+x}\" ]; then trap -- \"$__agentsh_1\" EXIT; "
	"else trap -- \"$__agentsh_0\" EXIT; fi; "
	"}; "

	"__agentsh_do() { "
	"case ${1-}${BASH_VERSION:+x} in --|--x) shift ;; "
	"-px) __agentsh_list \"$@\"; return ;; esac; "
	"case ${1-} in -?*) trap \"$@\"; return ;; esac; "
	"if [ $# = 0 ]; then __agentsh_list; return; fi; "
	"__agentsh_a=-; __agentsh_y=0; "
	"case $#:$1 in "
	"1:0|1:EXIT|1:exit|1:SIGEXIT) ;; "
	"1:*) trap \"$1\"; return ;; "
	"*:*[!0-9]*|*:) __agentsh_a=$1; shift ;; "
	"esac; "
	"for __agentsh_s; do "
	"case $__agentsh_s in "
	"0|EXIT|exit|SIGEXIT) "
	"if __agentsh_main; then __agentsh_set \"$__agentsh_a\"; "
	"else trap -- \"$__agentsh_a\" EXIT; fi ;; "
	"*) trap -- \"$__agentsh_a\" \"$__agentsh_s\" || __agentsh_y=$? ;; "
	"esac; done; "
	"return \"$__agentsh_y\"; "
	"}; "

	"__agentsh_trap() { "
	"case $- in "
	"*x*) { set +x; __agentsh_do \"$@\"; __agentsh_y=$?; set -x; } 2>/dev/null; "
	"return \"$__agentsh_y\" ;; "
	"*) __agentsh_do \"$@\" ;; "
	"esac; "
	"}; "
	"alias trap=__agentsh_trap; "
	"command trap -- \"$__agentsh_0\" EXIT; "
	"__agentsh_s=$1; shift; "
	"eval \"unset __agentsh_s;";
// clang-format on

static bool is_one_of(const char *word, size_t n, const char *const words[])
{
	for (; *words != NULL; words++)
		if (strlen(*words) == n && strncmp(word, *words, n) == 0)
			return true;
	return false;
}

/* True if the first n bytes end with an operator, or a name, that goes on in the next line. */
static bool goes_on(const char *script, size_t n)
{
	char last[2] = {0}; /* not blank; the newest first */

	for (size_t i = 0; n > 0 && i < ARRAY_LEN(last); n--)
		if (strchr(" \t\n", script[n - 1]) == NULL)
			last[i++] = script[n - 1];
	return last[0] == '|' || last[0] == '\\' ||
	       (last[0] == '&' && (last[1] == '&' || last[1] == '|')) ||
	       (last[0] == ')' && last[1] == '(');
}

/* True if a line after the script is a command of its own: the script does not end inside a
 * here-document, or with an operator (and maybe comments) that would go on there. */
static bool is_complete(const char *script)
{
	for (const char *at = strchr(script, '#'); at != NULL; at = strchr(at + 1, '#'))
		if (goes_on(script, (size_t)(at - script)))
			return false;
	return strstr(script, "<<") == NULL && !goes_on(script, strlen(script));
}

/* True if no command of the script may set a trap, trace, or read other commands: nothing sees our
 * command after it. A command whose name is quoted or expanded, or comes after a redirection, may
 * be any of these. A wrong "false" costs some time; after a wrong "true" a handler of EXIT replaces
 * ours, and the session keeps its old state. */
static bool is_plain(const char *script)
{
	static const char *const wary[] = {"trap", "eval", "source", ".", NULL};
	static const char *const options[] = {"set", "shopt", NULL};
	static const char *const before[] = {"if", "then", "elif", "else",    "while",	 "until",
					     "do", "time", "!",	   "builtin", "command", NULL};
	bool first = true;

	for (size_t n; *script != '\0'; script += n) {
		n = strcspn(script, " \t\n;&|(){}`");
		if (n == 0) {
			first |= strchr(" \t", *script) == NULL;
			n = 1;
		} else if (first) {
			const bool assigns = memchr(script, '=', n) != NULL;

			if (is_one_of(script, n, wary) ||
			    (!assigns && strcspn(script, "$\\'\"<>") < n))
				return false;
			if (is_one_of(script, n, options) &&
			    strcspn(script + n, "xv$`\\'\"") < strcspn(script + n, ";&|\n"))
				return false;
			first = assigns || is_one_of(script, n, before);
		}
	}
	return true;
}

void shell_argv(const struct shell_ask *ask, struct strv *argv, struct strv *env)
{
	const char *slash = strrchr(ask->shell, '/');
	const char *name = slash != NULL ? slash + 1 : ask->shell;
	const bool bash = strcmp(name, "bash") == 0,
		   brief = bash && is_complete(ask->script) && is_plain(ask->script);
	/* Other shells replace trap by an alias, which only an eval of the script sees. Messages of
	 * dash then begin with "eval:", so a script without that word is run as it is. */
	const bool traps = !bash && strstr(ask->script, "trap") != NULL;
	const char *first = ask->script + strspn(ask->script, " \t\n");
	cleanup_buf struct buf ours = {0};
	cleanup_free char *text = NULL;
	uint32_t last;

	while (*first == '#') {
		first += strcspn(first, "\n");
		first += strspn(first, " \t\n");
	}
	/* A script of white space and comments alone ends with the status that it starts with. That
	 * must not be an older command's failure. */
	last = *first != '\0' ? ask->last_exit : 0;
	buf_addf(&ours, "unset __agentsh; __agentsh_state=%s; %s", ask->capture,
		 brief	 ? bash_brief
		 : bash	 ? bash_full
		 : traps ? sh_traps
			 : sh_plain);
	if (!brief || last != 0)
		buf_addf(&ours, "%s__agentsh_rc %u", brief ? SETS_STATUS : "", last);
	if (traps)
		buf_adds(&ours, ";$__agentsh_s\"");
	text = mem_printf("eval \"$__agentsh\"%s%s%s", traps ? "" : ";", traps ? "" : ask->script,
			  brief ? BRIEF_END : "");
	strv_env_set(env, "__agentsh", ours.data);
	if (bash && !brief)
		strv_env_set(env, "__agentsh_lib", bash_lib);
	strv_add(argv, ask->argv0 != NULL ? ask->argv0 : name);
	strv_add(argv, "-c");
	strv_add(argv, text);
	if (traps) {
		strv_add(argv, argv->v[0]);
		strv_add(argv, ask->script);
	}
}

char *shell_find(int root_fd, const char *asked)
{
	static const char *const places[] = {"/bin", "/usr/bin", "/usr/local/bin"};
	const char *name = asked != NULL && asked[0] != '\0' ? asked : "bash";

	if (name[0] == '/')
		return mem_strdup(name);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *path = mem_printf("%s/%s", places[i], name);

		if (root_executable(root_fd, path))
			return take(path);
	}
	/* Only bash has a substitute. Running another shell that is missing gives an error. */
	return strcmp(name, "bash") == 0 ? mem_strdup("/bin/sh") : mem_printf("/bin/%s", name);
}
