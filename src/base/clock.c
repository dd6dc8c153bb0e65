// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include <string.h>
#include <time.h>

#define US 1000000
#define DAY_S 86400
/* The range of a year with four digits: 0000-01-01 to the end of 9999. */
#define FIRST_S (-62167219200)
#define LAST_S 253402300799

const struct clock clock_system = {.system = true};

static int64_t read_clock(const struct clock *c, clockid_t id, int64_t fixed_us)
{
	struct timespec ts;

	if (!c->system)
		return fixed_us;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * US + ts.tv_nsec / 1000;
}

int64_t clock_mono_us(const struct clock *c)
{
	return read_clock(c, CLOCK_MONOTONIC, c->fixed_us);
}

int64_t clock_wall_us(const struct clock *c)
{
	return read_clock(c, CLOCK_REALTIME, c->fixed_us + c->stepped_us);
}

int64_t clock_boot_us(const struct clock *c)
{
	return read_clock(c, CLOCK_BOOTTIME, c->fixed_us);
}

/* Proleptic Gregorian calendar with the year starting in March, in eras of 400 years, one era ahead
 * so that no number is negative. gmtime_r would take a lock for every event. */
#define ERA_DAYS 146097
#define ERA_YEARS 400
#define EPOCH_DAYS (719468 + ERA_DAYS) /* from the start of the era before year 0 to 1970 */

/* Writes value as width digits, then the character after. */
static char *digits(char *p, uint64_t value, unsigned width, char after)
{
	for (unsigned i = width; i-- > 0; value /= 10)
		p[i] = (char)('0' + value % 10);
	p[width] = after;
	return p + width + 1;
}

void clock_format(struct buf *out, int64_t wall_us, bool with_us)
{
	const int64_t us = (wall_us % US + US) % US, exact = wall_us / US - (wall_us % US < 0);
	const int64_t s = exact < FIRST_S ? FIRST_S : exact > LAST_S ? LAST_S : exact;
	const unsigned sod = (unsigned)((s % DAY_S + DAY_S) % DAY_S);
	const int64_t days = (s - sod) / DAY_S + EPOCH_DAYS;
	const unsigned doe = (unsigned)(days % ERA_DAYS);
	const unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	const unsigned mp = (5 * doy + 2) / 153;
	const unsigned month = mp < 10 ? mp + 3 : mp - 9;
	const int64_t year = (int64_t)yoe + (days / ERA_DAYS - 1) * ERA_YEARS + (month <= 2);
	char text[32], *p = text;

	p = digits(p, (uint64_t)year, 4, '-');
	p = digits(p, month, 2, '-');
	p = digits(p, doy - (153 * mp + 2) / 5 + 1, 2, 'T');
	p = digits(p, sod / 3600, 2, ':');
	p = digits(p, sod / 60 % 60, 2, ':');
	p = digits(p, sod % 60, 2, with_us ? '.' : 'Z');
	if (with_us)
		p = digits(p, (uint64_t)us, 6, 'Z');
	buf_add(out, text, (size_t)(p - text));
}

/* Reads exactly width digits at *s and steps over them; -1 if there are fewer. */
static int number(const char **s, unsigned width)
{
	int value = 0;

	for (unsigned i = 0; i < width; i++) {
		const char c = (*s)[i];

		if (c < '0' || c > '9')
			return -1;
		value = value * 10 + (c - '0');
	}
	*s += width;
	return value;
}

static bool skip(const char **s, const char *any)
{
	if (**s == '\0' || strchr(any, **s) == NULL)
		return false;
	(*s)++;
	return true;
}

int clock_parse(const char *s, int64_t *wall_us)
{
	int year, month, day, hour, minute, second, digit;
	int64_t at, us = 0, unit = US / 10;
	struct tm date = {0};

	if ((year = number(&s, 4)) < 0 || !skip(&s, "-") || (month = number(&s, 2)) < 1 ||
	    month > 12 || !skip(&s, "-") || (day = number(&s, 2)) < 1)
		return -1;
	/* A day that the month does not have becomes another day. */
	date.tm_year = year - 1900;
	date.tm_mon = month - 1;
	date.tm_mday = day;
	at = timegm(&date);
	if (date.tm_mday != day)
		return -1;
	/* A leap second (60) counts as the first of the next minute. */
	if (!skip(&s, "Tt") || (hour = number(&s, 2)) < 0 || hour > 23 || !skip(&s, ":") ||
	    (minute = number(&s, 2)) < 0 || minute > 59 || !skip(&s, ":") ||
	    (second = number(&s, 2)) < 0 || second > 60)
		return -1;
	at += hour * 3600 + minute * 60 + second;
	/* ".5" and any more digits; digits below a microsecond are cut. */
	if (skip(&s, ".")) {
		if ((digit = number(&s, 1)) < 0)
			return -1;
		for (; digit >= 0; digit = number(&s, 1), unit /= 10)
			us += digit * unit;
	}
	if (!skip(&s, "Zz")) {
		const bool west = *s == '-';

		if (!skip(&s, "+-") || (hour = number(&s, 2)) < 0 || hour > 23 || !skip(&s, ":") ||
		    (minute = number(&s, 2)) < 0 || minute > 59)
			return -1;
		at -= (hour * 3600 + minute * 60) * (west ? -1 : 1);
	}
	if (*s != '\0')
		return -1;
	*wall_us = at * US + us;
	return 0;
}
