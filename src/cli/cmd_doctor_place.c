// SPDX-License-Identifier: Apache-2.0
/* A session that is made to be attacked, and agentsh-probe in it. */
#include "base/mem.h"
#include "cli/cmd_doctor.h"

#define PROGRAM "agentsh-probe" /* in the workspace */
#define OUTPUT_BYTES 65536

/* Little, so that to overrun it costs little. */
const struct doctor_limit doctor_limits[DOCTOR_LIMITS] = {
	{WALL_memory_limit, "max_memory_mb", "memory", 64},
	{WALL_cpu_limit, "max_cpu_percent", "cpu", 10},
	{WALL_pids_limit, "pids_max", "pids", 64},
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

static void read_walls(struct doctor_place *p)
{
	size_t i;
	json_t *e;

	json_array_foreach(json_object_get(p->doc, "enforcement"), i, e)
	{
		const char *name = text_of(e, "wall"), *state = text_of(e, "state");
		const int w = doctor_wall_by_name(name, strlen(name));

		if (w < 0)
			continue;
		p->wall[w].known = true;
		p->wall[w].detail = text_of(e, "detail");
		for (int s = WALL_ABSENT; s <= WALL_UNAVAILABLE; s++)
			if (strcmp(wall_state_name((enum wall_state)s), state) == 0)
				p->wall[w].state = (enum wall_state)s;
	}
}

int doctor_place_open(struct cli *cli, const struct doctor_place_ask *ask, struct doctor_place *p,
		      struct err *err)
{
	cleanup_buf struct buf body = {0};
	cleanup_buf struct buf answer = {0};
	struct jw w = JW(&body);
	int r;

	*p = (struct doctor_place){.cli = cli};
	jw_obj(&w);
	jw_kstr(&w, "workspace", ask->workspace);
	jw_kstr(&w, "idle_timeout", "1m"); /* goes away by itself if we are killed */
	if (ask->policy != NULL)
		jw_kstr(&w, "policy", ask->policy);
	jw_kobj(&w, "resource_limits");
	for (size_t i = 0; i < DOCTOR_LIMITS; i++)
		if ((ask->limits & 1U << i) != 0)
			jw_kint(&w, doctor_limits[i].key, doctor_limits[i].value);
	jw_obj_end(&w);
	jw_obj_end(&w);
	r = cli_call(cli, "POST", "/api/v1/sessions", &body, &answer, err);
	if (r == 0)
		r = json_parse(answer.data, answer.len, &p->doc, err);
	if (r < 0)
		return r;
	p->id = mem_strdup(text_of(p->doc, "id"));
	p->path = mem_printf("/api/v1/sessions/%s", p->id);
	p->policy = mem_strdup(text_of(json_object_get(p->doc, "policy"), "name"));
	read_walls(p);
	return 0;
}

void doctor_place_close(struct doctor_place *p)
{
	cleanup_buf struct buf ignored = {0};

	if (p->path != NULL)
		cli_call(p->cli, "DELETE", p->path, NULL, &ignored, NULL);
	free(p->path);
	free(p->id);
	free(p->policy);
	json_decref(p->doc);
	*p = (struct doctor_place){0};
}

/* A session begins in its workspace, wherever it sees that. */
static void probe_body(const struct doctor_place *p, const char *group, const struct strv *args,
		       struct buf *body)
{
	cleanup_free char *program = mem_printf("%s/%s", text_of(p->doc, "working_dir"), PROGRAM);
	struct jw w = JW(body);

	jw_obj(&w);
	jw_kstr(&w, "command", program);
	jw_karr(&w, "args");
	jw_str(&w, group);
	for (size_t i = 0; i < args->n; i++)
		jw_str(&w, args->v[i]);
	jw_arr_end(&w);
	if (strcmp(group, "environment") == 0) {
		jw_kobj(&w, "env");
		jw_kstr(&w, "LD_PRELOAD", "/dev/null");
		jw_kstr(&w, "BASH_ENV", "/dev/null");
		jw_obj_end(&w);
	}
	jw_kint(&w, "max_output_bytes", OUTPUT_BYTES);
	jw_kstr(&w, "timeout", "60s");
	jw_obj_end(&w);
}

int doctor_place_run(const struct doctor_place *p, const char *group, const struct strv *args,
		     struct buf *out, struct err *err)
{
	cleanup_free char *path = mem_printf("%s/exec", p->path);
	cleanup_buf struct buf body = {0};
	cleanup_buf struct buf answer = {0};
	json_t *doc = NULL;
	const json_t *result;
	int r;

	probe_body(p, group, args, &body);
	r = cli_call(p->cli, "POST", path, &body, &answer, err);
	if (r == 0)
		r = json_parse(answer.data, answer.len, &doc, err);
	if (r < 0)
		return r;
	result = json_object_get(doc, "result");
	buf_adds(out, text_of(result, "stdout"));
	if (json_integer_value(json_object_get(result, "exit_code")) != 0)
		r = err_set(err, E_INTERNAL, group, "agentsh-probe %s ended with %lld: %s", group,
			    (long long)json_integer_value(json_object_get(result, "exit_code")),
			    text_of(json_object_get(result, "error"), "message"));
	json_decref(doc);
	return r;
}
