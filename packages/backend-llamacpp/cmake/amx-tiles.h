// GCC before 12.4 and 13.3 takes only eight bytes of the configuration of AMX's tiles as read and drops the
// stores to the others (GCC bug 114098): the first matrix then ends the process. This says that all are read.
#ifdef __AMX_TILE__
#include <immintrin.h>
#define _tile_loadconfig(config) \
  __asm__ volatile("ldtilecfg\t%0" ::"m"(*(const char(*)[64])(config)))
#endif
