// Everything: graphs, tapes, files, optimizers, calibration and integer arithmetic.
#pragma once

#include "qtape/calibrate/calibration.h"
#include "qtape/calibrate/report.h"
#include "qtape/calibrate/sensitivity.h"
#include "qtape/deploy/requantize.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/insert_quantizers.h"
#include "qtape/engine/layers.h"
#include "qtape/engine/parameters.h"
#include "qtape/engine/presets.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"
#include "qtape/optim/clip.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"
