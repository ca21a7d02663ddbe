/* What the application set by SCR_Config, which SCR forgets when it is initialized again. */
#include "scrtune.h"

#include <stdlib.h>
#include <string.h>

static struct {
    char **lines;
    size_t count;
    bool is_lost;
} configs;

/* What only asks may be asked again. */
void configs_record(const char *config)
{
    if (config == NULL || strchr(config, '=') == NULL) {
        return;
    }
    char **lines = realloc(configs.lines, (configs.count + 1) * sizeof *lines);
    char *line = strdup(config);
    configs.lines = lines != NULL ? lines : configs.lines;
    if (lines == NULL || line == NULL) {
        configs.is_lost = true;
        free(line);
        return;
    }
    configs.lines[configs.count++] = line;
}

void configs_forget(void)
{
    for (size_t i = 0; i < configs.count; i++) {
        free(configs.lines[i]);
    }
    free(configs.lines);
    configs.lines = NULL;
    configs.count = 0;
    configs.is_lost = false;
}

bool configs_are_lost(void)
{
    return configs.is_lost;
}

void configs_replay(void)
{
    const char *(*config)(const char *);
    RESOLVE(config, real_function("SCR_Config"));
    for (size_t i = 0; config != NULL && i < configs.count; i++) {
        config(configs.lines[i]);
    }
}
