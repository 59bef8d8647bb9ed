/* A tuner plug-in for NCCL: the choices of one model on one cluster, everything else left to NCCL.
 *
 * @HEAD@
 *
 * Build:  cc -O2 -fPIC -shared -o libnccl-tuner-nhalf.so nccl_tuner.c
 * Use:    NCCL_TUNER_PLUGIN=/path/to/libnccl-tuner-nhalf.so, the same file on all ranks
 * Proof:  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING names it; NHALF_TUNER_OFF=1 turns every choice off.
 *
 * It exports the tuner ABI of NCCL v2 (2.21) to v6 (2.30). It sets one entry of the cost table to 0, and only one that
 * NCCL left usable; it answers 0 channels (NCCL's own count) and changes no constant of the model.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE };
enum { TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT };
enum { LL, LL128, SIMPLE };
enum { SUCCESS = 0, SYSTEM_ERROR = 2 };

struct choice {
  int op;
  uint64_t from, to; /* bytes, both ends in it; all-gather and reduce-scatter: the total over ranks */
  int algorithm, protocol;
  size_t ranks, nodes;
};

static const struct choice table[] = {
@TABLE@
  {-1, 0, 0, 0, 0, 0, 0},
};

struct communicator {
  size_t ranks, nodes;
  int off;
};

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

static int begin(size_t ranks, size_t nodes, void **context) {
  struct communicator *found = malloc(sizeof *found);
  const char *off = getenv("NHALF_TUNER_OFF");
  if (found == NULL) return SYSTEM_ERROR;
  found->ranks = ranks;
  found->nodes = nodes;
  found->off = off != NULL && off[0] != '\0' && off[0] != '0';
  *context = found;
  return SUCCESS;
}

static int end(void *context) {
  free(context);
  return SUCCESS;
}

static const struct choice *chosen(const struct communicator *where, int op, size_t bytes, const struct choice *after) {
  const struct choice *each = after == NULL ? table : after + 1;
  if (where == NULL || where->off) return NULL;
  for (; each->op >= 0; each++)
    if (each->op == op && each->ranks == where->ranks && each->nodes == where->nodes && each->from <= bytes &&
        bytes <= each->to)
      return each;
  return NULL;
}

/* v2 gives back one algorithm and protocol, or neither; nothing says here which are usable but NVLS and CollNet. */
static int choose_v2(void *context, int op, size_t bytes, int collnet, int nvls, int pipelined, int *algorithm,
                     int *protocol, int *channels) {
  const struct choice *found = chosen(context, op, bytes, NULL);
  (void)pipelined;
  if (channels != NULL) *channels = 0;
  if (found == NULL || found->algorithm == PAT) return SUCCESS;
  if (!nvls && (found->algorithm == NVLS || found->algorithm == NVLS_TREE)) return SUCCESS;
  if (!collnet && (found->algorithm == COLLNET_DIRECT || found->algorithm == COLLNET_CHAIN)) return SUCCESS;
  *algorithm = found->algorithm;
  *protocol = found->protocol;
  return SUCCESS;
}

/* The table is one block of floats, algorithms by protocols, although the type says otherwise. */
static int choose(void *context, int op, size_t bytes, float **costs, int algorithms, int protocols) {
  const struct choice *found = NULL;
  while ((found = chosen(context, op, bytes, found)) != NULL) {
    float *cost;
    if (costs == NULL || found->algorithm >= algorithms || found->protocol >= protocols) continue;
    cost = (float *)costs + found->algorithm * protocols + found->protocol;
    if (*cost < 0) continue; /* NCCL cannot run it here */
    *cost = 0;
    return SUCCESS;
  }
  return SUCCESS;
}

static int choose_v3(void *context, int op, size_t bytes, int pipelined, float **costs, int algorithms, int protocols,
                     int *channels) {
  (void)pipelined;
  if (channels != NULL) *channels = 0;
  return choose(context, op, bytes, costs, algorithms, protocols);
}

static int choose_v4(void *context, int op, size_t bytes, int pipelined, float **costs, int algorithms, int protocols,
                     int registered, int *channels) {
  (void)pipelined;
  (void)registered;
  if (channels != NULL) *channels = 0;
  return choose(context, op, bytes, costs, algorithms, protocols);
}

static int begin_v2(size_t ranks, size_t nodes, logger log, void **context) {
  (void)log;
  return begin(ranks, nodes, context);
}

static int begin_v5(void **context, uint64_t communicator, size_t ranks, size_t nodes, logger log, void *domains,
                    void *constants) {
  (void)communicator;
  (void)log;
  (void)domains;
  (void)constants;
  return begin(ranks, nodes, context);
}

/* The size of chunks stays NCCL's: the pointer comes with its value in it. */
static int chunk(void *context, int op, size_t bytes, int algorithm, int protocol, int channels, size_t *size) {
  (void)context;
  (void)op;
  (void)bytes;
  (void)algorithm;
  (void)protocol;
  (void)channels;
  (void)size;
  return SUCCESS;
}

typedef int (*init_v2)(size_t, size_t, logger, void **);
typedef int (*init_v5)(void **, uint64_t, size_t, size_t, logger, void *, void *);
typedef int (*info_v2)(void *, int, size_t, int, int, int, int *, int *, int *);
typedef int (*info_v3)(void *, int, size_t, int, float **, int, int, int *);
typedef int (*info_v4)(void *, int, size_t, int, float **, int, int, int, int *);
typedef int (*finish)(void *);
typedef int (*chunk_v6)(void *, int, size_t, int, int, int, size_t *);

const struct { const char *name; init_v2 init; info_v2 info; finish destroy; } ncclTunerPlugin_v2 = {
  "nhalf", begin_v2, choose_v2, end};
const struct { const char *name; init_v2 init; info_v3 info; finish destroy; } ncclTunerPlugin_v3 = {
  "nhalf", begin_v2, choose_v3, end};
const struct { const char *name; init_v2 init; info_v4 info; finish destroy; } ncclTunerPlugin_v4 = {
  "nhalf", begin_v2, choose_v4, end};
const struct { const char *name; init_v5 init; info_v4 info; finish finalize; } ncclTunerPlugin_v5 = {
  "nhalf", begin_v5, choose_v4, end};
const struct { const char *name; init_v5 init; info_v4 info; finish finalize; chunk_v6 chunk; } ncclTunerPlugin_v6 = {
  "nhalf", begin_v5, choose_v4, end, chunk};
