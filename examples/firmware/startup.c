/* Vector table and startup code of a Cortex-M: initializes memory and enables the
 * floating-point unit before main runs. */
#include <stdint.h>

extern uint32_t stack_end, data_start, data_end, data_load, bss_start, bss_end;
int main(void);
void leave(int code);
void reset(void);

static void fault(void) { leave(2); }

void reset(void) {
  uint32_t *to;
  const uint32_t *from = &data_load;
#if defined(__ARM_FP) || (defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE)
  *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to CP10 and CP11 */
  __asm volatile("dsb\n\tisb");
#endif
  for (to = &data_start; to < &data_end; ++to) *to = *from++;
  for (to = &bss_start; to < &bss_end; ++to) *to = 0;
  leave(main());
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))&stack_end, reset, fault, fault, fault, fault, fault};
