// The oneDNN in use: what determines the bits of its floats on a processor.
#pragma once

#include <string>

namespace qtape::kernels {

/// Version of the library, such as "2.6.0".
std::string onednn_version();
/// Instruction set up to which it generates code on this processor, under DNNL_MAX_CPU_ISA: the
/// value of dnnl_cpu_isa_t in hexadecimal.
std::string onednn_isa();

}  // namespace qtape::kernels
