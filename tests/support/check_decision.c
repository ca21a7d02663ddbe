/* For tests of the reader of decisions: built into their libscrtune.so. */
#include "../../native/scrtune.h"

#include <stdlib.h>
#include <string.h>

SCRTUNE_API int scrtune_check_decision(const char *text, size_t length);

/* Whether `text` is a decision: 0, or the number of a decision_fault. */
int scrtune_check_decision(const char *text, size_t length)
{
    char why[WHY_LIMIT] = "";
    decision found;
    char *copy = malloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    const decision_fault fault = decision_read(copy, length, &found, why);
    free(copy);
    return (int)fault;
}
