// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/json/document.h"

namespace llmtrain {

// Where an encoder's document has usable `data.labels` and its model section says nothing of a classifier, puts the one
// that tells these labels there. Before model.from is read, whose classifier may be of other classes.
void fill_classifier(Document& document);

}  // namespace llmtrain
