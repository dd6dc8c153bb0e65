// SPDX-License-Identifier: Apache-2.0
#include "event/metrics.h"
#include "base/mem.h"
#include <inttypes.h>
#include <math.h>

#define BUCKETS 14

static const struct {
	const char *name, *kind, *help;
} metric_rows[METRICS] = {
#define X(name, kind, text, help) [METRIC_##name] = {text, #kind, help},
	METRIC_LIST(X)
#undef X
};

static const char *const exec_outcomes[METRIC_EXEC_OUTCOMES] = {
	[METRIC_EXEC_VERIFIED] = "verified",
	[METRIC_EXEC_REFUSED] = "refused",
	[METRIC_EXEC_MISMATCHED] = "mismatched",
	[METRIC_EXEC_FAILED] = "failed",
};

/* Upper bounds in seconds; +Inf is implied. */
static const struct {
	const char *name, *help;
	double bound[BUCKETS];
} histogram_rows[METRIC_HISTOGRAMS] = {
	[METRIC_SESSION_DURATION] = {"agentsh_session_duration_seconds",
				     "life of a session",
				     {1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200,
				      86400, 604800}},
	[METRIC_COMMAND_LATENCY] = {"agentsh_command_latency_seconds",
				    "from request to result",
				    {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5,
				     30, 120, 600}},
};

struct histogram {
	uint64_t bucket[BUCKETS + 1]; /* the last one is beyond every bound */
	uint64_t count;
	double sum;
};

struct metrics {
	int64_t value[METRICS];
	struct histogram histogram[METRIC_HISTOGRAMS];
	uint64_t events[EVENT_TYPE_COUNT];
	uint64_t operations[EVENT_TYPE_COUNT][2]; /* of files; [1]: denied */
	uint64_t execs[METRIC_EXEC_OUTCOMES];
};

struct metrics *metrics_new(void)
{
	struct metrics *m = mem_new(struct metrics);

	m->value[METRIC_UP] = 1;
	return m;
}

void metrics_free(struct metrics *m)
{
	free(m);
}

void metrics_add(struct metrics *m, enum metric id, uint64_t n)
{
	m->value[id] += (int64_t)n;
}

void metrics_set(struct metrics *m, enum metric id, int64_t v)
{
	m->value[id] = v;
}

void metrics_raise(struct metrics *m, enum metric id, int64_t v)
{
	if (v > m->value[id])
		m->value[id] = v;
}

void metrics_observe(struct metrics *m, enum metric_histogram id, double seconds)
{
	struct histogram *h = &m->histogram[id];
	size_t i = 0;

	/* After a clock was set back the time counts as 0. */
	if (!isfinite(seconds) || seconds < 0)
		seconds = 0;
	while (i < BUCKETS && seconds > histogram_rows[id].bound[i])
		i++;
	h->bucket[i]++;
	h->count++;
	h->sum += seconds;
}

void metrics_event(struct metrics *m, enum event_type type, uint32_t count, bool denied)
{
	m->value[METRIC_EVENTS]++;
	m->events[type]++;
	if (event_class(type) != EVENT_CLASS_OTHER && count > 1)
		m->value[METRIC_EVENTS_FOLDED] += count - 1;
	m->operations[type][denied] += count;
}

void metrics_execs(struct metrics *m, enum metric_exec outcome, uint64_t n)
{
	m->execs[outcome] += n;
}

static void format_head(struct buf *out, const char *name, const char *kind, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

void metrics_format(const struct metrics *m, struct buf *out)
{
	static const char by_type[] = "agentsh_events_by_type_total";
	static const char file_operations[] = "agentsh_file_operations_total";
	static const char execs[] = "agentsh_execs_total";

	for (size_t i = 0; i < METRICS; i++) {
		format_head(out, metric_rows[i].name, metric_rows[i].kind, metric_rows[i].help);
		buf_addf(out, "%s %" PRId64 "\n", metric_rows[i].name, m->value[i]);
	}
	format_head(out, by_type, "counter", "events stored, by type");
	for (size_t t = 0; t < EVENT_TYPE_COUNT; t++)
		buf_addf(out, "%s{type=\"%s\"} %" PRIu64 "\n", by_type,
			 event_type_name((enum event_type)t), m->events[t]);
	format_head(out, file_operations, "counter", "operations on files, by kind and decision");
	for (size_t t = 0; t < EVENT_TYPE_COUNT; t++)
		for (size_t d = 0; event_class((enum event_type)t) == EVENT_CLASS_FILE && d < 2;
		     d++)
			buf_addf(out, "%s{kind=\"%s\",decision=\"%s\"} %" PRIu64 "\n",
				 file_operations, event_type_name((enum event_type)t),
				 d == 0 ? "allow" : "deny", m->operations[t][d]);
	format_head(out, execs, "counter", "execs inside sessions, by what became of them");
	for (size_t i = 0; i < METRIC_EXEC_OUTCOMES; i++)
		buf_addf(out, "%s{outcome=\"%s\"} %" PRIu64 "\n", execs, exec_outcomes[i],
			 m->execs[i]);
	for (size_t id = 0; id < METRIC_HISTOGRAMS; id++) {
		const struct histogram *h = &m->histogram[id];
		const char *name = histogram_rows[id].name;
		uint64_t below = 0;

		format_head(out, name, "histogram", histogram_rows[id].help);
		for (size_t i = 0; i < BUCKETS; i++) {
			below += h->bucket[i];
			buf_addf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
				 histogram_rows[id].bound[i], below);
		}
		buf_addf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->count);
		buf_addf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, h->sum, name, h->count);
	}
}
