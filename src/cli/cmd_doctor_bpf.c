// SPDX-License-Identifier: Apache-2.0
/* The doctor's report on BPF programs. They are not walls: where one cannot be had, a session uses
 * the other way, so only a program that is loaded and does not work is a failure. */
#include "base/mem.h"
#include "base/proc.h"
#include "cli/cmd_doctor.h"

#define COLUMNS 4

enum verdict_of { PROGRAM_OK, PROGRAM_UNAVAILABLE, PROGRAM_LIE };
static const char *const verdicts[] = {
	[PROGRAM_OK] = "ok", [PROGRAM_UNAVAILABLE] = "unavailable", [PROGRAM_LIE] = "lie"};
struct doctor_program {
	char *name, *what, *answer; /* owned */
	enum verdict_of verdict;
};

void doctor_bpf_done(struct doctor_report *r)
{
	for (size_t i = 0; i < r->nprograms; i++) {
		free(r->program[i].name);
		free(r->program[i].what);
		free(r->program[i].answer);
	}
	free(r->program);
	free(r->no_bpf);
}

/* A line is "object\toutcome\twhat\tanswer"; other lines are skipped. */
void doctor_bpf_read(struct doctor_report *r, const char *text)
{
	cleanup_free char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *name = strsep(&line, "\t"), *outcome = strsep(&line, "\t"),
			   *what = strsep(&line, "\t");

		if (line == NULL)
			continue;
		r->program = mem_resize(r->program, r->nprograms + 1, sizeof(*r->program));
		r->program[r->nprograms++] = (struct doctor_program){
			.name = mem_strdup(name),
			.what = mem_strdup(what),
			.answer = mem_strdup(line),
			.verdict = strcmp(outcome, "refused") == 0 ? PROGRAM_OK
				   : strcmp(outcome, "done") == 0  ? PROGRAM_LIE
								   : PROGRAM_UNAVAILABLE,
		};
	}
}

void doctor_bpf_run(struct doctor_report *r, bool root_server, const char *dir)
{
	char *argv[] = {NULL, NULL};
	cleanup_free char *program = NULL;
	cleanup_buf struct buf text = {0};
	struct err err = {0};

	if (geteuid() != 0) {
		r->no_bpf = mem_strdup(
			root_server
				? "only root can try them: run `agentsh doctor` as root"
				: "BPF needs root: this server verifies execs by the exec stop");
		return;
	}
	if (proc_sibling(DOCTOR_BPF_PROGRAM, &program, &err) < 0) {
		r->no_bpf = mem_strdup(err.message);
		return;
	}
	argv[0] = program;
	cli_program_output(argv, dir, environ, &text);
	if (text.len > 0)
		doctor_bpf_read(r, text.data);
	if (r->nprograms == 0)
		r->no_bpf = mem_printf("%s said nothing", program);
}

bool doctor_bpf_failed(const struct doctor_report *r)
{
	for (size_t i = 0; i < r->nprograms; i++)
		if (r->program[i].verdict == PROGRAM_LIE)
			return true;
	return false;
}

void doctor_bpf_print(const struct doctor_report *r, struct buf *out)
{
	static const char *const head[COLUMNS] = {"BPF PROGRAM", "VERDICT", "TRIED", "CAME BACK"};
	cleanup_strv struct strv cells = {0};

	if (r->no_bpf != NULL)
		buf_addf(out, "\nBPF programs: %s\n", r->no_bpf);
	if (r->nprograms == 0)
		return;
	for (size_t i = 0; i < COLUMNS; i++)
		strv_add(&cells, head[i]);
	for (size_t i = 0; i < r->nprograms; i++) {
		const struct doctor_program *p = &r->program[i];
		const bool first = i == 0 || strcmp(p->name, p[-1].name) != 0;

		strv_add(&cells, first ? p->name : "");
		strv_add(&cells, p->verdict == PROGRAM_LIE ? "LIE" : verdicts[p->verdict]);
		strv_add(&cells, p->what);
		strv_add(&cells, p->answer);
	}
	buf_addc(out, '\n');
	cli_columns((const char *const *)cells.v, COLUMNS, cells.n / COLUMNS, out);
}

void doctor_bpf_json(const struct doctor_report *r, struct jw *w)
{
	jw_kobj(w, "bpf");
	jw_kstr(w, "reason", r->no_bpf);
	jw_karr(w, "programs");
	for (size_t i = 0; i < r->nprograms; i++) {
		const struct doctor_program *p = &r->program[i];

		jw_obj(w);
		jw_kstr(w, "program", p->name);
		jw_kstr(w, "verdict", verdicts[p->verdict]);
		jw_kstr(w, "what", p->what);
		jw_kstr(w, "answer", p->answer);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}
