// Loop hints for kernel bodies: iterations are independent although an output may be an input.
#pragma once

#if defined(__clang__)
#define QTAPE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define QTAPE_INDEPENDENT_ROW QTAPE_INDEPENDENT
#elif defined(__GNUC__)
#define QTAPE_INDEPENDENT _Pragma("GCC ivdep")
/// Loop hint for short bodies on a row of few elements, which GCC would otherwise unroll.
#define QTAPE_INDEPENDENT_ROW _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define QTAPE_INDEPENDENT
#define QTAPE_INDEPENDENT_ROW
#endif
