// Everything: graphs, tapes, files and optimizers.
#pragma once

#include "qtape/engine/graph.h"
#include "qtape/engine/layers.h"
#include "qtape/engine/parameters.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"
#include "qtape/optim/clip.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"
