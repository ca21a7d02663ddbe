/* Every parameter that a decision may hold. The table is made of scr_config/parameters.json (levers_table.py). */
#include "scrtune.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const lever levers[] = {
#include "levers.inc"
};

const size_t lever_count = sizeof levers / sizeof levers[0];
_Static_assert(sizeof levers / sizeof levers[0] <= LEVER_LIMIT, "make LEVER_LIMIT larger");

const lever *lever_named(const char *name)
{
    for (size_t i = 0; i < lever_count; i++) {
        if (strcmp(levers[i].name, name) == 0) {
            return &levers[i];
        }
    }
    return NULL;
}

long long lever_integer(const char *value)
{
    return strtoll(value, NULL, 10);
}

/* The application may have set a locale with another decimal point. */
static double float_until(const char *value, char **end)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return NAN;
    }
    const double number = strtod_l(value, end, c_locale);
    freelocale(c_locale);
    return number;
}

double lever_float(const char *value)
{
    return float_until(value, NULL);
}

static bool is_integer(const char *value)
{
    const char *digits = value + (value[0] == '-');
    const size_t length = strlen(digits);
    return length >= 1 && length <= 18 && strspn(digits, "0123456789") == length;
}

/* As Python writes a float: 0.5, 1e-05, 12.0. */
static bool is_float(const char *value)
{
    char *end = NULL;
    const size_t length = strspn(value, "0123456789.eE+-");
    return length > 0 && value[0] != '+' && isfinite(float_until(value, &end)) && end == value + length && *end == '\0';
}

/* `choices` begins and ends with a space. */
static bool is_choice(const char *choices, const char *value)
{
    char word[64];
    const int length = snprintf(word, sizeof word, " %s ", value);
    return length > 2 && (size_t)length < sizeof word && strchr(value, ' ') == NULL && strstr(choices, word) != NULL;
}

bool lever_accepts(const lever *given, const char *value)
{
    switch (given->type) {
    case TYPE_BOOL:
        return strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
    case TYPE_INT:
    case TYPE_BYTES:
        return is_integer(value) && lever_integer(value) >= given->minimum && lever_integer(value) <= given->maximum;
    case TYPE_FLOAT:
        return is_float(value);
    case TYPE_ENUM:
        return is_choice(given->choices, value);
    case TYPE_CPUS: {
        cpus set;
        return cpus_of(value, &set);
    }
    case TYPE_TEXT:
    case TYPE_PATH:
        return true;
    }
    return false;
}

/* One to four digits at `*text`, or -1. */
static long cpu_number(const char **text)
{
    const size_t length = strspn(*text, "0123456789");
    if (length < 1 || length > 4) {
        return -1;
    }
    const long number = strtol(*text, NULL, 10);
    *text += length;
    return number;
}

bool cpus_of(const char *text, cpus *set)
{
    memset(set, 0, sizeof *set);
    while (*text != '\0') {
        const long first = cpu_number(&text);
        long last = first;
        if (first >= 0 && *text == '-') {
            text++;
            last = cpu_number(&text);
        }
        if (first < 0 || last < first || last >= CPU_LIMIT) {
            return false;
        }
        for (long cpu = first; cpu <= last; cpu++) {
            CPU_SET_S((size_t)cpu, sizeof *set, set->words);
        }
        if (*text == ',' && text[1] != '\0') {
            text++;
        } else if (*text != '\0') {
            return false;
        }
    }
    return true;
}
