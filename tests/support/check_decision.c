/* For tests of the reader of decisions: built into their libscrtune.so. */
#include "../../native/scrtune.h"

#include <stdlib.h>
#include <string.h>

SCRTUNE_API int scrtune_check_decision(const char *text, size_t length);

static const char *const faults[] = {"holds no whole decision", "the checksum", "not sorted", "there is no parameter",
                                     "the value of"};

/* Whether `text` is a decision: 0, or the place of the fault among `faults`, from 1 on. */
int scrtune_check_decision(const char *text, size_t length)
{
    char why[WHY_LIMIT] = "";
    decision found;
    char *copy = malloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    const bool is_good = decision_read(copy, length, &found, why);
    int number = 0;
    free(copy);
    while (!is_good && strstr(why, faults[number++]) == NULL) {
    }
    return number;
}
