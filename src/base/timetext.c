/* RFC 3339. The calendar is computed here: libc's needs locks, a locale and a time zone. */
#include "base/text.h"

#include <string.h>

#define DAY_MS ((int64_t)86400000)
#define YEAR_0_MS ((int64_t)-62167219200000)      /* 0000-01-01T00:00:00.000Z */
#define YEAR_9999_MS ((int64_t)253402300799999)   /* 9999-12-31T23:59:59.999Z */

/* Days since 1970-01-01 of a date of the Gregorian calendar; years of 400 years from March on (H. Hinnant). */
static int64_t days_of(int64_t y, int m, int d)
{
	y -= m <= 2;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t yoe = y - era * 400;
	int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void date_of(int64_t days, int *year, int *month, int *day)
{
	days += 719468;
	int64_t era = (days >= 0 ? days : days - 146096) / 146097;
	int64_t doe = days - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;
	*day = (int)(doy - (153 * mp + 2) / 5 + 1);
	*month = (int)(mp < 10 ? mp + 3 : mp - 9);
	*year = (int)(yoe + era * 400 + (*month <= 2));
}

static void digits(char *out, int width, int v)
{
	for (int i = width - 1; i >= 0; i--, v /= 10)
		out[i] = (char)('0' + v % 10);
}

void time_format(int64_t unix_ms, char out[TIME_LEN + 1])
{
	/* Four digits of year are all the form has: what lies beyond is shown as its end. */
	if (unix_ms < YEAR_0_MS)
		unix_ms = YEAR_0_MS;
	if (unix_ms > YEAR_9999_MS)
		unix_ms = YEAR_9999_MS;
	int64_t days = unix_ms / DAY_MS, rest = unix_ms % DAY_MS;
	if (rest < 0) {
		rest += DAY_MS;
		days--;
	}
	int year, month, day;
	date_of(days, &year, &month, &day);
	memcpy(out, "0000-00-00T00:00:00.000Z", TIME_LEN + 1);
	digits(out, 4, year);
	digits(out + 5, 2, month);
	digits(out + 8, 2, day);
	digits(out + 11, 2, (int)(rest / 3600000));
	digits(out + 14, 2, (int)(rest / 60000 % 60));
	digits(out + 17, 2, (int)(rest / 1000 % 60));
	digits(out + 20, 3, (int)(rest % 1000));
}

static bool take_char(struct str *s, const char *any_of)
{
	if (s->n == 0 || s->p[0] == '\0' || !strchr(any_of, s->p[0]))
		return false;
	s->p++;
	s->n--;
	return true;
}

static bool take_digits(struct str *s, int width, int max, int *out)
{
	int v = 0;
	if (s->n < (size_t)width)
		return false;
	for (int i = 0; i < width; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		v = v * 10 + (s->p[i] - '0');
	}
	s->p += width;
	s->n -= (size_t)width;
	*out = v;
	return v <= max;
}

static int days_in_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return days[month - 1] + (month == 2 && leap);
}

/* ".123456789" cut to milliseconds, or nothing. */
static bool take_fraction(struct str *s, int *ms)
{
	*ms = 0;
	if (!take_char(s, "."))
		return true;
	int n = 0, digit;
	for (; n < 9 && take_digits(s, 1, 9, &digit); n++)
		if (n < 3)
			*ms = *ms * 10 + digit;
	for (int i = n; i < 3; i++)
		*ms *= 10;
	return n > 0;
}

static bool take_offset(struct str *s, int *minutes)
{
	*minutes = 0;
	if (take_char(s, "Zz"))
		return true;
	bool west = s->n > 0 && s->p[0] == '-';
	int h, m;
	if (!take_char(s, "+-") || !take_digits(s, 2, 23, &h) || !take_char(s, ":") || !take_digits(s, 2, 59, &m))
		return false;
	*minutes = (west ? -1 : 1) * (h * 60 + m);
	return true;
}

bool time_parse(struct str s, int64_t *unix_ms)
{
	int year, month, day, hour, minute, second, ms, offset;
	if (!take_digits(&s, 4, 9999, &year) || !take_char(&s, "-") || !take_digits(&s, 2, 12, &month) || month < 1 ||
	    !take_char(&s, "-") || !take_digits(&s, 2, 31, &day) || day < 1 || day > days_in_month(year, month))
		return false;
	/* Second 60 is a leap second: it runs into the next minute. */
	if (!take_char(&s, "Tt ") || !take_digits(&s, 2, 23, &hour) || !take_char(&s, ":") ||
	    !take_digits(&s, 2, 59, &minute) || !take_char(&s, ":") || !take_digits(&s, 2, 60, &second))
		return false;
	if (!take_fraction(&s, &ms) || !take_offset(&s, &offset) || s.n != 0)
		return false;
	int64_t seconds = days_of(year, month, day) * 86400 + hour * 3600 + (minute - offset) * 60 + second;
	*unix_ms = seconds * 1000 + ms;
	return true;
}
