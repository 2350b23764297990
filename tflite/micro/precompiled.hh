// Headers that most sources of TensorFlow Lite Micro include: parsed once.
#include "tensorflow/lite/kernels/internal/common.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/schema/schema_generated.h"
