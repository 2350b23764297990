// Includes the public API: networks, data, training, files, calibration and integer programs,
// and the underlying graphs and tapes. Nodes of integer programs, xtensor and ONNX have headers
// of their own.
#pragma once

#include "qtape/c99/export_c.h"
#include "qtape/c99/levels.h"
#include "qtape/calibrate/calibration.h"
#include "qtape/calibrate/observer.h"
#include "qtape/calibrate/report.h"
#include "qtape/calibrate/sensitivity.h"
#include "qtape/core/requantization.h"
#include "qtape/data/files.h"
#include "qtape/deploy/convert.h"
#include "qtape/deploy/lint.h"
#include "qtape/deploy/verify.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/model/attention.h"
#include "qtape/model/bit_search.h"
#include "qtape/model/fit.h"
#include "qtape/model/layers.h"
#include "qtape/model/norms.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/model/passes/weights.h"
#include "qtape/model/presets.h"
#include "qtape/model/quantization.h"
#include "qtape/model/recipe.h"
#include "qtape/model/recurrent.h"
#include "qtape/optim/clip.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"
#include "qtape/programs/console/program.h"
#include "qtape/programs/report/page.h"

/// @namespace qtape
/// Public names of the library. Data sets, the console, initializers, losses and the ops of
/// integer programs have their own namespaces.
