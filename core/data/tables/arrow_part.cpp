// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/arrow_rows.h"

// The entry point that table_records.cpp looks up by name. A raw pointer, because C linkage cannot return a unique_ptr.
extern "C" llmtrain::RecordReader* llmtrain_open_table(const char* file) { return new llmtrain::ArrowRows(file); }
