// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/json/document.h"

namespace llmtrain {

// Where the document has usable classes, an encoder's in `data.labels` and those of a model of images in `data.images`,
// or an encoder's questions in `data.spans`, and its model section says nothing of a classifier, puts the one that
// tells these there. Before model.from is read, whose classifier may be of other classes.
void fill_classifier(Document& document);

}  // namespace llmtrain
