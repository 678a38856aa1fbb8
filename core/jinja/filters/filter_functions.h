// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/jinja/filters/filters.h"

// The filters by their names in a template, for the table in filters.cpp.
namespace llmtrain::jinja::filter {

// Texts.
Value capitalize(const Value& input, const Arguments& arguments);
Value center(const Value& input, const Arguments& arguments);
Value escape(const Value& input, const Arguments& arguments);
Value forceescape(const Value& input, const Arguments& arguments);
Value format(const Value& input, const Arguments& arguments);
Value indent(const Value& input, const Arguments& arguments);
Value lower(const Value& input, const Arguments& arguments);
Value replace(const Value& input, const Arguments& arguments);
Value safe(const Value& input, const Arguments& arguments);
Value string(const Value& input, const Arguments& arguments);
Value title(const Value& input, const Arguments& arguments);
Value tojson(const Value& input, const Arguments& arguments);
Value trim(const Value& input, const Arguments& arguments);
Value truncate(const Value& input, const Arguments& arguments);
Value upper(const Value& input, const Arguments& arguments);
Value wordcount(const Value& input, const Arguments& arguments);

// Numbers.
Value abs(const Value& input, const Arguments& arguments);
Value float_(const Value& input, const Arguments& arguments);
Value int_(const Value& input, const Arguments& arguments);
Value round(const Value& input, const Arguments& arguments);

// Sequences.
Value attr(const Value& input, const Arguments& arguments);
Value batch(const Value& input, const Arguments& arguments);
Value default_(const Value& input, const Arguments& arguments);
Value first(const Value& input, const Arguments& arguments);
Value items(const Value& input, const Arguments& arguments);
Value join(const Value& input, const Arguments& arguments);
Value last(const Value& input, const Arguments& arguments);
Value length(const Value& input, const Arguments& arguments);
Value list(const Value& input, const Arguments& arguments);
Value reverse(const Value& input, const Arguments& arguments);
Value slice(const Value& input, const Arguments& arguments);
Value sum(const Value& input, const Arguments& arguments);

// What puts in order or chooses.
Value dictsort(const Value& input, const Arguments& arguments);
Value groupby(const Value& input, const Arguments& arguments);
Value map(const Value& input, const Arguments& arguments);
Value max(const Value& input, const Arguments& arguments);
Value min(const Value& input, const Arguments& arguments);
Value reject(const Value& input, const Arguments& arguments);
Value rejectattr(const Value& input, const Arguments& arguments);
Value select(const Value& input, const Arguments& arguments);
Value selectattr(const Value& input, const Arguments& arguments);
Value sort(const Value& input, const Arguments& arguments);
Value unique(const Value& input, const Arguments& arguments);

}  // namespace llmtrain::jinja::filter
