// How many threads: the part of threads.h that public headers need.
#pragma once

namespace qtape {

/// Processors that a program may use unless told otherwise.
int default_threads();

/// Makes parallel regions that the calling thread opens, oneDNN's included, use `threads`.
void use_threads(int threads);

}  // namespace qtape
