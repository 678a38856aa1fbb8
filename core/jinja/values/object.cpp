// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/object.h"

#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

std::string Object::repr() const { return "<" + type() + " object>"; }

Value Object::call(const Arguments&) { throw Refused("'" + type() + "' object is not callable"); }

}  // namespace llmtrain::jinja
