// Includes the rules of all ops that have an integer form, and the queries of the rule of an
// op.
#pragma once

#include "qtape/integer/rules/add_bias.h"
#include "qtape/integer/rules/codes.h"
#include "qtape/integer/rules/concat.h"
#include "qtape/integer/rules/conv.h"
#include "qtape/integer/rules/indices.h"
#include "qtape/integer/rules/leaves.h"
#include "qtape/integer/rules/matmul.h"
#include "qtape/integer/rules/norms.h"
#include "qtape/integer/rules/pairs.h"
#include "qtape/integer/rules/pointwise.h"
#include "qtape/integer/rules/prelu.h"
#include "qtape/integer/rules/rule.h"
#include "qtape/integer/rules/sums.h"
#include "qtape/integer/rules/views.h"
