/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transition.h"

#define TO(state)                                                                        \
    {                                                                                    \
        JOB_##state, 0                                                                   \
    }
#define NO                                                                               \
    {                                                                                    \
        0, -HF_CONFLICT                                                                  \
    }
#define LATE                                                                             \
    {                                                                                    \
        0, -HF_LATE                                                                      \
    }

/* clang-format off */
static const struct transition table[JOB_EVENTS][JOB_STATE_MAX] = {
/*                  scheduled      queued         running         cancelling      completed      failed       cancelled    */
[ON_DUE]       = { TO(QUEUED),    TO(QUEUED),    NO,             NO,             NO,            NO,          NO            },
[ON_CLAIM]     = { NO,            TO(RUNNING),   NO,             NO,             NO,            NO,          NO            },
[ON_COMPLETE]  = { LATE,          LATE,          TO(COMPLETED),  TO(COMPLETED),  LATE,          LATE,        LATE          },
[ON_FAIL]      = { LATE,          LATE,          TO(FAILED),     TO(CANCELLED),  LATE,          LATE,        LATE          },
[ON_TIMEOUT]   = { LATE,          LATE,          TO(FAILED),     TO(CANCELLED),  LATE,          LATE,        LATE          },
[ON_INTERRUPT] = { LATE,          LATE,          TO(FAILED),     TO(CANCELLED),  LATE,          LATE,        LATE          },
[ON_CRASH]     = { LATE,          LATE,          TO(FAILED),     TO(FAILED),     LATE,          LATE,        LATE          },
[ON_CANCEL]    = { TO(CANCELLED), TO(CANCELLED), TO(CANCELLING), TO(CANCELLING), NO,            NO,          TO(CANCELLED) },
[ON_EXPIRE]    = { TO(CANCELLED), TO(CANCELLED), NO,             NO,             NO,            NO,          NO            },
[ON_CHANGE]    = { TO(SCHEDULED), TO(QUEUED),    NO,             NO,             NO,            NO,          NO            },
[ON_RETRY]     = { TO(QUEUED),    TO(QUEUED),    TO(RUNNING),    TO(CANCELLING), TO(COMPLETED), TO(FAILED),  TO(CANCELLED) },
};
/* clang-format on */

struct transition transition(int state, enum job_event event)
{
    assert(state >= JOB_SCHEDULED && state <= JOB_STATE_MAX);
    assert(event >= 0 && event < JOB_EVENTS);
    struct transition cell = table[event][state - 1];
    assert((cell.next != 0) != (cell.refusal != 0)); /* every cell is filled */
    return cell;
}

const char *job_event_name(enum job_event event)
{
    static const char *const names[JOB_EVENTS] = {
        "due",   "claim",  "complete", "fail",   "timeout", "interrupt",
        "crash", "cancel", "expire",   "change", "retry",
    };
    assert(event >= 0 && event < JOB_EVENTS);
    return names[event];
}
