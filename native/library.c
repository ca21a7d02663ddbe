/* Where SCR is in this process. */
#include "scrtune.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

/* The object that has SCR, with what it depends on; kept for the life of the process. */
static void *scr_object(void)
{
    static void *object;
    if (object == NULL) {
        Dl_info info;
        void *init = real_function("SCR_Init");
        if (init != NULL && dladdr(init, &info) != 0 && info.dli_fname != NULL) {
            object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        }
    }
    return object;
}

static bool is_ours(void *address)
{
    Dl_info theirs, ours;
    return dladdr(address, &theirs) != 0 && dladdr((void *)&levers, &ours) != 0 && theirs.dli_fbase == ours.dli_fbase;
}

/* A plugin that was loaded with RTLD_LOCAL brings a libscr that no global look-up finds. */
static void *in_any_object(const char *name)
{
    void *process = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    struct link_map *map = NULL;
    void *found = NULL;
    if (process == NULL || dlinfo(process, RTLD_DI_LINKMAP, &map) != 0) {
        map = NULL;
    }
    for (; map != NULL && found == NULL; map = map->l_next) {
        void *object = map->l_name[0] != '\0' ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (object != NULL) {
            found = dlsym(object, name);
            if (found != NULL && is_ours(found)) {
                found = NULL;
            }
            dlclose(object);
        }
    }
    if (process != NULL) {
        dlclose(process);
    }
    return found;
}

void restore_errno(const int *before)
{
    errno = *before;
}

void *real_function(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    return next != NULL ? next : in_any_object(name);
}

/* First as libscr itself binds the name, which is globally, then in libscr and what it depends on. */
void *scr_symbol(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    if (address == NULL && scr_object() != NULL) {
        address = dlsym(scr_object(), name);
    }
    return address;
}

void *scr_variable(const char *name, size_t size)
{
    Dl_info info;
    void *extra = NULL;
    void *address = scr_symbol(name);
    if (address == NULL || dladdr1(address, &info, &extra, RTLD_DL_SYMENT) == 0 || extra == NULL) {
        return NULL;
    }
    const ElfW(Sym) *symbol = extra;
    const bool is_variable = ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
    return is_variable && info.dli_saddr == address && symbol->st_size == size ? address : NULL;
}

int scr_int(const char *name, int otherwise)
{
    const int *variable = scr_variable(name, sizeof *variable);
    return variable != NULL ? *variable : otherwise;
}

void scr_set_int(const char *name, int value)
{
    int *variable = scr_variable(name, sizeof *variable);
    if (variable != NULL) {
        *variable = value;
    }
}

const char *scr_text(const char *name)
{
    char *const *variable = scr_variable(name, sizeof *variable);
    return variable != NULL ? *variable : NULL;
}

bool communicator_named(const char *name, communicator *found)
{
    const int32_t *number = scr_variable(name, sizeof *number);
    const communicator *pointer = scr_variable(name, sizeof *pointer);
    if (number != NULL) {
        *found = *number;
    } else if (pointer != NULL) {
        *found = *pointer;
    }
    return number != NULL || pointer != NULL;
}
