/* SPDX-License-Identifier: Apache-2.0
 *
 * calendar.c -- days are counted from 0000-03-01, so that the leap day is the last
 * of its year and months follow one formula: the months from March on have
 * 31 30 31 30 31 days, over and over, which is what 153 days in five months says. */
#include "calendar.h"

enum { DAYS_TO_1970 = 719468 };

int64_t days_of_date(int64_t year, int month, int64_t day)
{
    assert(month >= 1 && month <= 12);
    int64_t from_march = month > 2 ? month - 3 : month + 9;
    int64_t y = month > 2 ? year : year - 1;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * from_march + 2) / 5 + day - 1;
    assert(year_of_era >= 0 && year_of_era < 400);

    return era * DAYS_IN_400_YEARS + year_of_era * 365 + year_of_era / 4 -
           year_of_era / 100 + day_of_year - DAYS_TO_1970;
}

struct date date_of_days(int64_t days)
{
    int64_t z = days + DAYS_TO_1970;
    int64_t era = (z >= 0 ? z : z - (DAYS_IN_400_YEARS - 1)) / DAYS_IN_400_YEARS;
    int64_t day_of_era = z - era * DAYS_IN_400_YEARS;
    assert(day_of_era >= 0 && day_of_era < DAYS_IN_400_YEARS);

    /* Take the leap days out, then years have 365 days each. */
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;
    int month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);

    return (struct date){ .year = era * 400 + year_of_era + (month <= 2),
                          .month = month,
                          .day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1) };
}

int days_in_month(int64_t year, int month)
{
    static const uint8_t days[] = { 0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    assert(month >= 1 && month <= 12);
    return days[month] + (month == 2 && is_leap);
}

int weekday_of_days(int64_t days)
{
    enum { THURSDAY = 4 }; /* what 1970-01-01 was */
    int64_t weekday = (days + THURSDAY) % 7;

    return (int)(weekday < 0 ? weekday + 7 : weekday);
}
