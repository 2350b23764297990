// A loop hint for kernel bodies: iterations are independent although an output may be an input.
//
// Not for a loop of constant length inside another one: GCC 12 unrolls it and then takes the
// hint for granted about what the outer loop carries, too.
#pragma once

#if defined(__clang__)
#define QTAPE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define QTAPE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define QTAPE_INDEPENDENT
#endif
