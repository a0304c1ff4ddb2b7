/* SPDX-License-Identifier: Apache-2.0
 *
 * The calendar against the C library's, and against itself both ways. */
#include <time.h>

#include "base/calendar.h"
#include "test.h"

TEST(every_day_of_400_years_is_the_c_librarys_and_is_found_again)
{
    const int64_t first = days_of_date(1800, 1, 1);

    for (int64_t day = first; day < first + DAYS_IN_400_YEARS; day++) {
        time_t seconds = (time_t)(day * SECONDS_PER_DAY);
        struct date date = date_of_days(day);
        struct tm tm;
        check(gmtime_r(&seconds, &tm));
        check(date.year == tm.tm_year + 1900 && date.month == tm.tm_mon + 1 &&
              date.day == tm.tm_mday);
        check(weekday_of_days(day) == tm.tm_wday);
        check(days_of_date(date.year, date.month, date.day) == day);
        check(date.day <= days_in_month(date.year, date.month));
        check(days_of_seconds(seconds) == day && days_of_seconds(seconds - 1) == day - 1);
    }
}

TEST(months_end_where_the_next_begins)
{
    for (int64_t year = -10; year < 2410; year++)
        for (int month = 1; month <= 12; month++) {
            int64_t next = days_of_date(year + month / 12, month % 12 + 1, 1);
            check_int(days_of_date(year, month, 1) + days_in_month(year, month), next);
        }
    check_int(days_in_month(2100, 2), 28);
    check_int(days_in_month(2000, 2), 29);
    check_int(days_in_month(0, 2), 29);
}
