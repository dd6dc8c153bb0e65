// SPDX-License-Identifier: Apache-2.0
/* Commands as objects: their list, observers, events and requests. submit.c sends them, and
 * command_end.c ends them. */
#include "base/line.h"
#include "session/command_state.h"
#include "session/rows.h"
#include "session/sessions.h"

const char *const command_state_names[] = {
	[COMMAND_QUEUED] = "queued", [COMMAND_RUNNING] = "running", [COMMAND_FINISHED] = "finished",
	[COMMAND_KILLED] = "killed", [COMMAND_LOST] = "lost",
};

bool command_is_over(const struct command *c)
{
	return c->phase == COMMAND_OVER ||
	       (c->state != COMMAND_QUEUED && c->state != COMMAND_RUNNING);
}

const char *command_id(const struct command *c)
{
	return c->id;
}

/* ---- objects ---- */

struct command *command_new(struct session *s, const char *id)
{
	struct command *c = mem_new(struct command);

	c->s = session_ref(s);
	c->refs = 1;
	memcpy(c->id, id, strnlen(id, ID_MAX));
	c->exit_code = -1;
	c->file[1] = c->file[2] = NO_FILE;
	c->read_fd[1] = c->read_fd[2] = -1;
	c->told_read[1] = c->told_read[2] = UINT64_MAX;
	TAILQ_INIT(&c->observers);
	return c;
}

struct command *command_ref(struct command *c)
{
	c->refs++;
	return c;
}

void command_unref(struct command *c)
{
	struct observer *o;

	if (--c->refs > 0)
		return;
	while ((o = TAILQ_FIRST(&c->observers)) != NULL) {
		TAILQ_REMOVE(&c->observers, o, next);
		free(o);
	}
	for (int i = 1; i <= 2; i++) {
		if (c->file[i].fd != -1)
			close(c->file[i].fd);
		if (c->read_fd[i] != -1)
			close(c->read_fd[i]);
	}
	msg_done(MSG_warden_exec, &c->exec);
	outcome_done(&c->out);
	buf_done(&c->early_stdin);
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		buf_done(&c->listed_events[kind].json);
	free(c->idempotency_key);
	free(c->request);
	free(c->line);
	free(c->cwd);
	free(c->denial);
	free(c->failed_path);
	free(c->refusal);
	session_unref(c->s);
	free(c);
}

struct command *command_find(struct session *s, const char *id)
{
	struct command *c;

	if (id == NULL)
		return NULL;
	TAILQ_FOREACH (c, &s->commands, next)
		if (strcmp(c->id, id) == 0)
			return c;
	return NULL;
}

void command_list_add(struct command *c)
{
	command_ref(c);
	c->listed = true;
	TAILQ_INSERT_TAIL(&c->s->commands, c, next);
}

/* Its observers may still look at it until the turn ends. */
void command_list_drop(struct command *c)
{
	if (!c->listed)
		return;
	c->listed = false;
	TAILQ_REMOVE(&c->s->commands, c, next);
	command_lend(c);
}

void command_add_observer(struct command *c, const struct command_observer *obs)
{
	struct observer *o = mem_new(struct observer);

	o->o = *obs;
	TAILQ_INSERT_TAIL(&c->observers, o, next);
}

struct observer *command_observer_of(struct command *c, const void *arg)
{
	struct observer *o;

	TAILQ_FOREACH (o, &c->observers, next)
		if (o->o.arg == arg)
			break;
	return o;
}

void command_event(struct command *c, enum event_type type, const char *reason)
{
	struct event e = {
		.type = type,
		.session_id = c->s->id,
		.command_id = c->id,
		.agent_id = c->s->agent_id,
		.request_id = c->request_id[0] != '\0' ? c->request_id : NULL,
		.count = 1,
		.reason = (char *)reason,
		.command_line = c->line,
	};

	store_event(c->s->ss->deps.store, &e, NULL, 0);
}

/* ---- its request ---- */

void command_read_request(struct command *c)
{
	json_t *doc = NULL, *item;
	struct strv argv = {0};
	const char *word, *script;
	size_t i;

	if (c->line != NULL)
		return;
	json_parse(c->request, strlen(c->request), &doc, NULL);
	word = json_string_value(json_object_get(doc, "command"));
	if (word != NULL)
		strv_add(&argv, word);
	json_array_foreach(json_object_get(doc, "args"), i, item)
		strv_add(&argv, json_string_value(item));
	script = json_string_value(json_object_get(doc, "script"));
	c->line = line_of(&argv, script);
	c->cwd = mem_strdup(json_string_value(json_object_get(doc, "working_dir")));
	c->is_script = script != NULL;
	strv_done(&argv);
	json_decref(doc);
}

char *command_directory(const struct session *s, const char *asked)
{
	if (asked == NULL)
		return mem_strdup(s->cwd);
	return asked[0] == '/' ? mem_strdup(asked) : mem_printf("%s/%s", s->cwd, asked);
}

void command_request_format(struct command *c)
{
	const struct warden_exec *x = &c->exec;
	struct buf b = {0};
	struct jw w = JW(&b);

	mem_replace(&c->cwd, command_directory(c->s, x->cwd));
	c->is_script = x->script != NULL;
	jw_obj(&w);
	jw_kstr(&w, "command", x->argv.n > 0 ? x->argv.v[0] : NULL);
	jw_karr(&w, "args");
	for (size_t i = 1; i < x->argv.n; i++)
		jw_str(&w, x->argv.v[i]);
	jw_arr_end(&w);
	jw_kstr(&w, "script", x->script);
	jw_kstr(&w, "argv0", x->argv0);
	jw_kstr(&w, "working_dir", c->cwd);
	jw_key(&w, "timeout");
	if (x->timeout_ms > 0)
		jw_duration_ms(&w, (int64_t)x->timeout_ms);
	else
		jw_null(&w);
	jw_obj_end(&w);
	mem_replace(&c->request, buf_take(&b));
}

int command_get(struct sessions *ss, const struct caller *who, struct session *s, const char *id,
		struct command **out, struct err *err)
{
	const char *agent = s != NULL ? s->agent_id : who->agent_id;
	struct command *c = s != NULL ? command_find(s, id) : NULL;
	int r = 0;

	if (c != NULL) {
		command_ref(c);
	} else {
		r = id_valid(id) ? rows_command_load(ss, agent, id, &c, err) : -E_NOT_FOUND;
		if (r == -E_NOT_FOUND && s == NULL && who->role == ROLE_ADMIN && id_valid(id))
			r = rows_command_load(ss, NULL, id, &c, err);
	}
	if (r < 0 && r != -E_NOT_FOUND)
		return r;
	if (r == 0 && (!session_visible(who, c->s->agent_id) ||
		       (s != NULL && strcmp(c->s->id, s->id) != 0))) {
		command_unref(c);
		r = -E_NOT_FOUND;
	}
	if (r < 0)
		return err_set(err, E_NOT_FOUND, id, "no command '%.64s'", id);
	*out = c;
	command_lend(c);
	return 0;
}
