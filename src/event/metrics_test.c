// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "event/metrics.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static int setup(void **state)
{
	*state = metrics_new();
	return 0;
}

static int teardown(void **state)
{
	metrics_free(*state);
	return 0;
}

static void assert_line(const struct metrics *m, const char *line)
{
	struct buf out = {0}, whole = {0};

	buf_adds(&out, "\n");
	metrics_format(m, &out);
	buf_addf(&whole, "\n%s\n", line);
	if (strstr(out.data, whole.data) == NULL)
		fail_msg("no line '%s'", line);
	buf_done(&out);
	buf_done(&whole);
}

static void obs_1_counters_and_gauges(void **state)
{
	struct metrics *m = *state;

	assert_line(m, "agentsh_up 1");
	assert_line(m, "agentsh_sessions_active 0");
	metrics_set(m, METRIC_SESSIONS_ACTIVE, 5);
	metrics_set(m, METRIC_SESSIONS_ACTIVE, 3);
	metrics_add(m, METRIC_OUTPUT_BYTES, 10);
	metrics_add(m, METRIC_OUTPUT_BYTES, 5000000000);
	metrics_set(m, METRIC_EVENTS_JSONL_BEHIND, -1);
	assert_line(m, "agentsh_sessions_active 3");
	assert_line(m, "agentsh_output_throughput_bytes_total 5000000010");
	assert_line(m, "agentsh_events_jsonl_behind -1");
	assert_line(m, "# HELP agentsh_up 1 while the server answers\n# TYPE agentsh_up gauge\n"
		       "agentsh_up 1");
	assert_line(m, "# TYPE agentsh_output_throughput_bytes_total counter");
}

static void obs_1_events_by_type_and_in_total(void **state)
{
	struct metrics *m = *state;

	metrics_event(m, EVENT_session_created, 1, false);
	metrics_event(m, EVENT_exec, 1, false);
	metrics_event(m, EVENT_exec, 1, false);
	metrics_event(m, EVENT_enforcement_failed, 1, false);
	assert_line(m, "agentsh_events_total 4");
	assert_line(m, "# TYPE agentsh_events_by_type_total counter");
	assert_line(m, "agentsh_events_by_type_total{type=\"exec\"} 2");
	assert_line(m, "agentsh_events_by_type_total{type=\"session_created\"} 1");
	assert_line(m, "agentsh_events_by_type_total{type=\"enforcement_failed\"} 1");
	assert_line(m, "agentsh_events_by_type_total{type=\"dns_query\"} 0");
}

static void obs_1_file_operations_by_kind_and_decision(void **state)
{
	struct metrics *m = *state;

	metrics_event(m, EVENT_file_delete, 5000, false);
	metrics_event(m, EVENT_file_delete, 1, false);
	metrics_event(m, EVENT_file_delete, 3, true);
	metrics_event(m, EVENT_resource_limit, 7, false); /* not repeats of an operation */
	assert_line(m,
		    "agentsh_file_operations_total{kind=\"file_delete\",decision=\"allow\"} 5001");
	assert_line(m, "agentsh_file_operations_total{kind=\"file_delete\",decision=\"deny\"} 3");
	assert_line(m, "agentsh_file_operations_total{kind=\"symlink_read\",decision=\"deny\"} 0");
	assert_line(m, "agentsh_events_folded_total 5001");
	assert_line(m, "agentsh_events_total 4");
}

static void pol_4_execs_by_outcome(void **state)
{
	struct metrics *m = *state;

	assert_line(m, "# TYPE agentsh_execs_total counter\n"
		       "agentsh_execs_total{outcome=\"verified\"} 0");
	metrics_execs(m, METRIC_EXEC_VERIFIED, 5000000000);
	metrics_execs(m, METRIC_EXEC_VERIFIED, 2);
	metrics_execs(m, METRIC_EXEC_REFUSED, 4);
	metrics_execs(m, METRIC_EXEC_MISMATCHED, 5);
	metrics_execs(m, METRIC_EXEC_FAILED, 6);
	assert_line(m, "agentsh_execs_total{outcome=\"verified\"} 5000000002");
	assert_line(m, "agentsh_execs_total{outcome=\"refused\"} 4");
	assert_line(m, "agentsh_execs_total{outcome=\"mismatched\"} 5");
	assert_line(m, "agentsh_execs_total{outcome=\"failed\"} 6");
}

static void obs_1_a_bucket_counts_what_is_at_most_its_bound(void **state)
{
	struct metrics *m = *state;

	assert_line(m, "agentsh_command_latency_seconds_bucket{le=\"+Inf\"} 0");
	metrics_observe(m, METRIC_COMMAND_LATENCY, 0.001);
	metrics_observe(m, METRIC_COMMAND_LATENCY, 0.0011);
	metrics_observe(m, METRIC_COMMAND_LATENCY, 600);
	metrics_observe(m, METRIC_COMMAND_LATENCY, 601);
	assert_line(m, "# TYPE agentsh_command_latency_seconds histogram");
	assert_line(m, "agentsh_command_latency_seconds_bucket{le=\"0.001\"} 1");
	assert_line(m, "agentsh_command_latency_seconds_bucket{le=\"0.0025\"} 2");
	assert_line(m, "agentsh_command_latency_seconds_bucket{le=\"120\"} 2");
	assert_line(m, "agentsh_command_latency_seconds_bucket{le=\"600\"} 3");
	assert_line(m, "agentsh_command_latency_seconds_bucket{le=\"+Inf\"} 4");
	assert_line(m, "agentsh_command_latency_seconds_sum 1201.002100");
	assert_line(m, "agentsh_command_latency_seconds_count 4");
	assert_line(m, "agentsh_session_duration_seconds_count 0");
}

static void obs_1_no_time_is_the_least(void **state)
{
	struct metrics *m = *state;

	metrics_observe(m, METRIC_SESSION_DURATION, -1);
	metrics_observe(m, METRIC_SESSION_DURATION, NAN);
	metrics_observe(m, METRIC_SESSION_DURATION, INFINITY);
	metrics_observe(m, METRIC_SESSION_DURATION, 0);
	assert_line(m, "agentsh_session_duration_seconds_bucket{le=\"1\"} 4");
	assert_line(m, "agentsh_session_duration_seconds_sum 0.000000");
	assert_line(m, "agentsh_session_duration_seconds_bucket{le=\"604800\"} 4");
}

/* Every line is a comment or a sample, bounds rise, and each family is described once, before its
 * samples. */
static void obs_1_the_text_is_well_formed(void **state)
{
	struct buf out = {0};
	char family[128] = "", *save = NULL;
	unsigned families = 0, types = 0, outcomes = 0;
	double last = -1;

	metrics_event(*state, EVENT_exec, 1, false);
	metrics_format(*state, &out);
	assert_int_equal(out.data[out.len - 1], '\n');
	for (char *line = strtok_r(out.data, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *le;

		if (sscanf(line, "# HELP %127s", family) == 1) {
			families++;
			last = -1;
			continue;
		}
		assert_non_null(strstr(line, family));
		types += strstr(line, "{type=") != NULL;
		outcomes += strstr(line, "{outcome=") != NULL;
		le = strstr(line, "le=\"");
		if (le != NULL && strstr(line, "+Inf") == NULL) {
			assert_true(strtod(le + 4, NULL) > last);
			last = strtod(le + 4, NULL);
		}
	}
	assert_int_equal(types, EVENT_TYPE_COUNT);
	assert_int_equal(outcomes, METRIC_EXEC_OUTCOMES);
	assert_int_equal(families, METRICS + 3 + METRIC_HISTOGRAMS);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(obs_1_counters_and_gauges, setup, teardown),
		cmocka_unit_test_setup_teardown(obs_1_file_operations_by_kind_and_decision, setup,
						teardown),
		cmocka_unit_test_setup_teardown(obs_1_events_by_type_and_in_total, setup, teardown),
		cmocka_unit_test_setup_teardown(pol_4_execs_by_outcome, setup, teardown),
		cmocka_unit_test_setup_teardown(obs_1_a_bucket_counts_what_is_at_most_its_bound,
						setup, teardown),
		cmocka_unit_test_setup_teardown(obs_1_no_time_is_the_least, setup, teardown),
		cmocka_unit_test_setup_teardown(obs_1_the_text_is_well_formed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
