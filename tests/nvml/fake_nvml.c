/* A stand-in for libnvidia-ml.so.1 with just the calls fabricmon makes.
 *
 * What it plays stands in the text file that $FAKE_NVML names; it is read anew at every call, so a test changes it while
 * the library is in use. Without the variable the driver counts as not loaded. Lines, `*` stands for any number:
 *
 *   class h100 | gb200 | a100     which fields and calls there are; a100 stands for a driver of that age
 *   gpus N   links N
 *   slots N                       numbers below N that no link has answer "inactive", with an unknown far end
 *   value GPU FIELD SCOPE NUMBER  raw value of a field
 *   code GPU FIELD SCOPE CODE     nvmlReturn of a field
 *   state GPU LINK STATE
 *   call NAME GPU CODE            a whole call fails
 *   hang NAME GPU                 a call does not return
 *   xid GPU NUMBER                an event; each line is told once, in order
 *   traffic GPU TX RX             PCIe throughput in MiB/s, on Hopper and later
 *   fabric GPU STATE STATUS CLIQUE CLUSTER-BYTE MASK SUMMARY
 *
 * A counter that no line names is GPU * 1000000 + LINK * 10000 + FIELD.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, TIMEOUT = 10,
       VERSION = 25 };
enum { MOST_LINES = 512, A100 = 1, H100 = 2, GB200 = 3 };

typedef struct { char word[64]; char name[64]; long long at[6]; int told; } line_t;
typedef struct { int klass, gpus, links, slots, count; line_t lines[MOST_LINES]; } plan_t;

typedef struct { uint32_t id, scope; int64_t stamp, latency; uint32_t type, code;
                 union { double d; unsigned u; unsigned long ul; unsigned long long ull; long long ll; int i; } v; } field_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event_t;
typedef struct { unsigned version; uint8_t cluster[16]; unsigned status; uint32_t clique; uint8_t state; uint32_t health;
                 uint8_t summary; } fabric_t;
typedef struct { unsigned version; char guid[16], chassis[16]; unsigned char slot, tray, host, peer, module; } place_t;

static char handles[64];
static int told_events;

static long long number(const char *text) { return strcmp(text, "*") ? strtoll(text, NULL, 0) : -1; }

static int plan(plan_t *p) {
    const char *path = getenv("FAKE_NVML");
    FILE *f = path && *path ? fopen(path, "r") : NULL;
    char text[256];
    if (!f) return DRIVER_NOT_LOADED;
    memset(p, 0, sizeof *p);
    p->klass = H100; p->gpus = 8; p->links = 18;
    while (fgets(text, sizeof text, f) && p->count < MOST_LINES) {
        line_t *l = &p->lines[p->count];
        char *word = strtok(text, " \n"), *next;
        int n = 0;
        if (!word) continue;
        memset(l, 0, sizeof *l);
        snprintf(l->word, sizeof l->word, "%s", word);
        if (!strcmp(word, "call") || !strcmp(word, "hang") || !strcmp(word, "class"))
            if ((next = strtok(NULL, " \n"))) snprintf(l->name, sizeof l->name, "%s", next);
        while (n < 6 && (next = strtok(NULL, " \n"))) l->at[n++] = number(next);
        if (!strcmp(word, "class")) p->klass = !strcmp(l->name, "gb200") ? GB200 : !strcmp(l->name, "a100") ? A100 : H100;
        else if (!strcmp(word, "gpus")) p->gpus = l->at[0];
        else if (!strcmp(word, "links")) p->links = l->at[0];
        else if (!strcmp(word, "slots")) p->slots = l->at[0];
        else p->count++;
    }
    fclose(f);
    return SUCCESS;
}

static int is(long long wanted, long long have) { return wanted < 0 || wanted == have; }

/* The plan, after what a `call` or `hang` line has for this call. */
static int begin(plan_t *p, const char *name, int gpu) {
    int code = plan(p);
    if (code) return code;
    for (int i = 0; i < p->count; i++) {
        line_t *l = &p->lines[i];
        if (strcmp(l->name, name) || !is(l->at[0], gpu)) continue;
        if (!strcmp(l->word, "hang")) for (;;) pause();
        if (!strcmp(l->word, "call")) return (int)l->at[1];
    }
    return SUCCESS;
}

static int gpu_of(void *device) { return (int)((char *)device - handles); }

static int state_of(plan_t *p, int gpu, int link) {
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->lines[i].word, "state") && is(p->lines[i].at[0], gpu) && is(p->lines[i].at[1], link))
            return (int)p->lines[i].at[2];
    return 1;
}

static int between(long long x, int a, int b) { return x >= a && x <= b; }

/* Whether this sort of GPU has a field, and whether its scope is a link. */
static int has(plan_t *p, unsigned id, int *scoped) {
    *scoped = between(id, 138, 141) || between(id, 161, 167) || between(id, 201, 222) || between(id, 235, 250) || id == 293;
    if (id == 91) return 1;
    if (p->klass == A100) return between(id, 32, 58) || between(id, 84, 90) || between(id, 94, 119) || between(id, 132, 141)
                              || between(id, 148, 160);
    if (id == 94 || id == 95 || id == 169 || id == 230 || between(id, 173, 183)) return 1;
    if (p->klass == H100) return between(id, 138, 141) || between(id, 161, 167);
    return between(id, 164, 167) || between(id, 201, 204) || between(id, 206, 215) || between(id, 219, 222)
        || between(id, 235, 250) || id == 293;
}

static void answer(plan_t *p, int gpu, field_t *f) {
    int scoped, link = (int)f->scope;
    unsigned id = f->id;
    f->latency = 1; f->stamp = 0; f->type = 3; f->code = SUCCESS; f->v.ull = 0;
    if (!has(p, id, &scoped)) { f->code = id > 300 ? INVALID_ARGUMENT : NOT_SUPPORTED; }
    else if (scoped && link >= p->links) f->code = INVALID_ARGUMENT;
    else if (scoped && id != 165 && state_of(p, gpu, link) == 0) f->code = NOT_SUPPORTED;
    else if (id == 91) { f->type = 1; f->v.u = p->links; }
    else if (id == 165) { f->type = 1; f->v.u = state_of(p, gpu, link); }
    else if (id == 166) { f->type = 1; f->v.u = p->klass == GB200 ? 7 : 6; }
    else if (id == 167) { f->type = 1; f->v.u = 0; }
    else if (id == 164) { f->type = 1; f->v.u = p->klass == GB200 ? 53125 : 26562; }
    else if (between(id, 84, 90) || between(id, 132, 137)) { f->type = 1; f->v.u = 25781; }
    else if (id == 220 || id == 222 || id == 293) { f->type = 3; f->v.ull = 15 << 8 | 255; }
    else if (id == 230) { f->type = 1; f->v.u = 0; }
    else f->v.ull = gpu * 1000000ULL + (scoped ? link * 10000ULL : 0) + id;
    for (int i = 0; i < p->count; i++) {
        line_t *l = &p->lines[i];
        if (!is(l->at[0], gpu) || !is(l->at[1], id) || !is(l->at[2], f->scope)) continue;
        if (!strcmp(l->word, "value")) { f->type = 3; f->v.ull = (unsigned long long)l->at[3]; f->code = SUCCESS; }
        if (!strcmp(l->word, "code")) f->code = (unsigned)l->at[3];
    }
}

#define START(name, gpu) plan_t p; int code = begin(&p, name, gpu); if (code) return code

int nvmlInitWithFlags(unsigned flags) { (void)flags; START("nvmlInit", -1); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "fake error %d", code); return text; }
int nvmlDeviceGetCount_v2(unsigned *count) { START("nvmlDeviceGetCount", -1); *count = p.gpus; return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    START("nvmlSystemGetDriverVersion", -1); snprintf(text, size, "%s", p.klass == A100 ? "450.80.02" : "580.105.08"); return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    START("nvmlDeviceGetHandleByIndex", (int)index);
    if ((int)index >= p.gpus) return INVALID_ARGUMENT;
    *device = &handles[index];
    return SUCCESS;
}
int nvmlDeviceGetUUID(void *d, char *text, unsigned size) {
    START("nvmlDeviceGetUUID", gpu_of(d)); snprintf(text, size, "GPU-00000000-0000-0000-0000-%012d", gpu_of(d)); return SUCCESS;
}
int nvmlDeviceGetName(void *d, char *text, unsigned size) {
    START("nvmlDeviceGetName", gpu_of(d));
    snprintf(text, size, "%s", p.klass == GB200 ? "NVIDIA GB200" : p.klass == A100 ? "A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3");
    return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(void *d, pci_t *info) {
    START("nvmlDeviceGetPciInfo", gpu_of(d)); memset(info, 0, sizeof *info);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 0x1b + 16 * gpu_of(d)); return SUCCESS;
}
int nvmlDeviceGetPlatformInfo(void *d, place_t *place) {
    START("nvmlDeviceGetPlatformInfo", gpu_of(d));
    if (p.klass != GB200) return NOT_SUPPORTED;
    if (place->version != 0x200002c) return VERSION;
    memcpy(place->chassis, "1820000000001", 14);
    place->slot = 200; place->tray = 4; place->module = gpu_of(d) + 1; place->host = 1; place->peer = 1;
    return SUCCESS;
}
int nvmlDeviceGetFieldValues(void *d, int count, field_t *fields) {
    START("nvmlDeviceGetFieldValues", gpu_of(d));
    for (int i = 0; i < count; i++) answer(&p, gpu_of(d), &fields[i]);
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *state) {
    START("nvmlDeviceGetNvLinkState", gpu_of(d));
    if ((int)link >= p.links && (int)link >= p.slots) return INVALID_ARGUMENT;
    if ((int)link >= p.links) { *state = 0; return SUCCESS; }
    *state = state_of(&p, gpu_of(d), link) != 0;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, unsigned *type) {
    START("nvmlDeviceGetNvLinkRemoteDeviceType", gpu_of(d));
    if (state_of(&p, gpu_of(d), link) == 0) return NOT_SUPPORTED;
    if ((int)link >= p.links) { *type = 255; return SUCCESS; }
    *type = 2;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, pci_t *info) {
    START("nvmlDeviceGetNvLinkRemotePciInfo", gpu_of(d));
    memset(info, 0, sizeof *info);
    if (p.klass == GB200) snprintf(info->bus_id, sizeof info->bus_id, "FFFFFFFF:FF:FF.0"); /* the NVSwitches of the rack */
    else if ((int)link < p.links) snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 5 + link % 4);
    return SUCCESS;
}
int nvmlDeviceGetGpuFabricInfoV(void *d, fabric_t *info) {
    START("nvmlDeviceGetGpuFabricInfoV", gpu_of(d));
    int newest = info->version == 0x3000028;
    if (p.klass == A100) return NOT_SUPPORTED;
    if (info->version != 0x2000024 && !newest) return VERSION;
    info->state = 3; info->status = 0; info->clique = 0; info->health = 0;
    memset(info->cluster, 0, 16);
    if (newest) info->summary = 0;
    if (p.klass == GB200) { info->cluster[15] = 1; info->clique = 2; info->health = 0x11aa; if (newest) info->summary = 1; }
    for (int i = 0; i < p.count; i++) {
        line_t *l = &p.lines[i];
        if (strcmp(l->word, "fabric") || !is(l->at[0], gpu_of(d))) continue;
        info->state = l->at[1]; info->status = l->at[2]; info->clique = l->at[3];
        memset(info->cluster, (int)l->at[4], 16); info->health = l->at[5];
    }
    return SUCCESS;
}
#define PCIE(name, number) \
    int nvmlDeviceGet##name(void *d, unsigned *out) { START("nvmlDeviceGet" #name, gpu_of(d)); *out = number; return SUCCESS; }
PCIE(CurrPcieLinkGeneration, 4)
PCIE(CurrPcieLinkWidth, 8)
PCIE(MaxPcieLinkGeneration, 5)
PCIE(MaxPcieLinkWidth, 16)

/* Samples are counted: one that is used after it was freed, or never freed, shows. */
typedef struct { int gpu, number; } sample_t;
typedef struct { char *name, *longer, *unit; } words_t;
typedef struct { unsigned id, code; double value; words_t words; } metric_t;
typedef struct { unsigned version, count; sample_t *first, *second; metric_t metrics[]; } metrics_t;
static int samples_held;
int fake_samples_held(void) { return samples_held; }

int nvmlGpmQueryDeviceSupport(void *d, unsigned *support) {
    START("nvmlGpmQueryDeviceSupport", gpu_of(d)); support[1] = p.klass != A100; return SUCCESS;
}
int nvmlGpmSampleAlloc(sample_t **sample) { *sample = calloc(1, sizeof **sample); samples_held++; return SUCCESS; }
int nvmlGpmSampleFree(sample_t *sample) { free(sample); samples_held--; return SUCCESS; }
int nvmlGpmSampleGet(void *d, sample_t *sample) {
    static int number;
    START("nvmlGpmSampleGet", gpu_of(d)); sample->gpu = gpu_of(d); sample->number = ++number; return SUCCESS;
}
int nvmlGpmMetricsGet(metrics_t *asked) {
    START("nvmlGpmMetricsGet", asked->first->gpu);
    if (asked->version != 1 || asked->first->gpu != asked->second->gpu || asked->first->number >= asked->second->number)
        return INVALID_ARGUMENT;
    for (unsigned n = 0; n < asked->count; n++) {
        metric_t *m = &asked->metrics[n];
        m->code = between(m->id, 20, 21) ? SUCCESS : NOT_SUPPORTED;
        m->value = 0;
        for (int i = 0; i < p.count; i++)
            if (!strcmp(p.lines[i].word, "traffic") && is(p.lines[i].at[0], asked->first->gpu))
                m->value = (double)p.lines[i].at[m->id == 20 ? 1 : 2];
    }
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { START("nvmlEventSetCreate", -1); *set = handles; told_events = 0; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(void *d, unsigned long long *types) {
    START("nvmlDeviceGetSupportedEventTypes", gpu_of(d)); *types = 0x8 | 0x200; return SUCCESS;
}
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set) {
    (void)types; (void)set; START("nvmlDeviceRegisterEvents", gpu_of(d)); return SUCCESS;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned milliseconds) {
    (void)set;
    for (unsigned waited = 0;; waited += 10) {
        START("nvmlEventSetWait", -1);
        int seen = 0;
        for (int i = 0; i < p.count; i++) {
            if (strcmp(p.lines[i].word, "xid") || seen++ < told_events) continue;
            told_events++;
            event->device = &handles[p.lines[i].at[0]]; event->type = 0x8; event->data = p.lines[i].at[1];
            event->gi = event->ci = 0xffffffff;
            return SUCCESS;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(10000);
    }
}
