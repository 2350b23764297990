// A loop hint for kernel bodies: iterations are independent although an output may be an input.
#pragma once

#if defined(__clang__)
#define QTAPE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define QTAPE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define QTAPE_INDEPENDENT
#endif
