// SPDX-License-Identifier: Apache-2.0
/* Makes a throwaway session and runs agentsh-probe in it. */
#include "base/mem.h"
#include "cli/cmd_doctor.h"

#define PROGRAM "agentsh-probe" /* in the workspace */
#define OUTPUT_BYTES 65536

/* The limits are low, so that exceeding them costs little. */
const struct doctor_limit doctor_limits[DOCTOR_LIMITS] = {
	{WALL_memory_limit, "max_memory_mb", "memory", 64},
	{WALL_cpu_limit, "max_cpu_percent", "cpu", 10},
	{WALL_pids_limit, "pids_max", "pids", 64},
};

int doctor_place_open(struct cli *cli, const struct doctor_place_ask *ask, struct doctor_place *p,
		      struct err *err)
{
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);
	json_t *e;
	size_t i;
	int r;

	*p = (struct doctor_place){.cli = cli};
	jw_obj(&w);
	jw_kstr(&w, "workspace", ask->workspace);
	jw_kstr(&w, "idle_timeout", "1m"); /* the session ends if this process is killed */
	if (ask->policy != NULL)
		jw_kstr(&w, "policy", ask->policy);
	jw_kobj(&w, "resource_limits");
	for (i = 0; i < DOCTOR_LIMITS; i++)
		if ((ask->limits & 1U << i) != 0)
			jw_kint(&w, doctor_limits[i].key, doctor_limits[i].value);
	jw_obj_end(&w);
	jw_obj_end(&w);
	r = cli_call_json(cli, "POST", "/api/v1/sessions", &body, NULL, &p->doc, err);
	if (r < 0)
		return r;
	p->id = mem_strdup(cli_string(p->doc, "id"));
	p->path = mem_printf("/api/v1/sessions/%s", p->id);
	p->policy = mem_strdup(cli_string(json_object_get(p->doc, "policy"), "name"));
	json_array_foreach(json_object_get(p->doc, "enforcement"), i, e)
	{
		const char *name = cli_string(e, "wall"), *state = cli_string(e, "state");
		const int wall = doctor_wall_by_name(name, strlen(name));

		if (wall < 0)
			continue;
		p->wall[wall].known = true;
		p->wall[wall].detail = cli_string(e, "detail");
		for (int s = WALL_ABSENT; s <= WALL_UNAVAILABLE; s++)
			if (strcmp(wall_state_name((enum wall_state)s), state) == 0)
				p->wall[wall].state = (enum wall_state)s;
	}
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

int doctor_place_run(const struct doctor_place *p, const char *group, const struct strv *args,
		     struct buf *out, struct err *err)
{
	/* a session begins in its workspace */
	cleanup_free char *program =
		mem_printf("%s/%s", cli_string(p->doc, "working_dir"), PROGRAM);
	cleanup_free char *path = mem_printf("%s/exec", p->path);
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);
	json_t *doc = NULL;
	const json_t *result;
	int r;

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
	r = cli_call_json(p->cli, "POST", path, &body, NULL, &doc, err);
	if (r < 0)
		return r;
	result = json_object_get(doc, "result");
	buf_adds(out, cli_string(result, "stdout"));
	if (json_integer_value(json_object_get(result, "exit_code")) != 0)
		r = err_set(err, E_INTERNAL, group, "agentsh-probe %s ended with %lld: %s", group,
			    (long long)json_integer_value(json_object_get(result, "exit_code")),
			    cli_string(json_object_get(result, "error"), "message"));
	json_decref(doc);
	return r;
}
