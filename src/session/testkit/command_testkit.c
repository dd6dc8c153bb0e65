// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/command_testkit.h"

static void kit_started(struct command *c, void *arg)
{
	((struct seen_by *)arg)->started++;
}

static void kit_output(struct command *c, void *arg)
{
	((struct seen_by *)arg)->output++;
}

static void kit_taken(struct command *c, uint64_t total, void *arg)
{
	((struct seen_by *)arg)->taken = total;
}

static void kit_done(const struct err *err, struct command *c, void *arg)
{
	struct seen_by *o = arg;

	o->done++;
	if (err != NULL) {
		o->err = *err;
		assert_null(c);
		return;
	}
	memcpy(o->id, command_id(c), strlen(command_id(c)) + 1);
	buf_clear(&o->answer);
	buf_clear(&o->record);
	command_format(c, &JW(&o->record));
	if (command_is_over(c))
		command_format_answer(c, NULL, &JW(&o->answer));
}

struct command_observer kit_observer(struct seen_by *o)
{
	return (struct command_observer){.started = kit_started,
					 .output = kit_output,
					 .stdin_taken = kit_taken,
					 .done = kit_done,
					 .arg = o};
}

void kit_seen_done(struct seen_by *o)
{
	buf_done(&o->answer);
	buf_done(&o->record);
	*o = (struct seen_by){0};
}

struct exec_request kit_request(const char *command)
{
	return (struct exec_request){
		.command = (char *)command, .max_output_bytes = 10000, .queue = true};
}

struct command *kit_submit(struct kit *k, const char *session, const struct exec_request *request,
			   struct seen_by *o)
{
	const struct command_observer obs = kit_observer(o);
	struct command *c;

	command_submit(kit_get(k, session), &k->who, &(struct command_ask){.request = request},
		       &obs, &c);
	kit_turn(k);
	return c;
}

void kit_submit_id(struct kit *k, const char *session, const char *id, struct seen_by *o)
{
	struct exec_request request = kit_request("true");

	request.command_id = kit_text(id);
	kit_submit(k, session, &request, o);
}

struct command *kit_submit_key(struct kit *k, const char *session, const char *key,
			       const uint8_t *hash, struct seen_by *o)
{
	const struct exec_request request = kit_request("true");
	const struct command_observer obs = kit_observer(o);
	struct command *c;

	command_submit(kit_get(k, session), &k->who,
		       &(struct command_ask){
			       .request = &request, .idempotency_key = key, .body_hash = hash},
		       &obs, &c);
	kit_turn(k);
	return c;
}
