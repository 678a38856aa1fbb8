// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/filters/filters.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/jinja/filters/filter_functions.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

Value unsupported(const Value&, const Arguments&) {
  throw Refused(
      "the filters filesizeformat, pprint, random, striptags, urlencode, urlize, wordwrap and xmlattr are not "
      "supported");
}

constexpr std::pair<std::string_view, Filter> filters[] = {{"abs", filter::abs},
                                                           {"attr", filter::attr},
                                                           {"batch", filter::batch},
                                                           {"capitalize", filter::capitalize},
                                                           {"center", filter::center},
                                                           {"count", filter::length},
                                                           {"d", filter::default_},
                                                           {"default", filter::default_},
                                                           {"dictsort", filter::dictsort},
                                                           {"e", filter::escape},
                                                           {"escape", filter::escape},
                                                           {"filesizeformat", unsupported},
                                                           {"first", filter::first},
                                                           {"float", filter::float_},
                                                           {"forceescape", filter::forceescape},
                                                           {"format", filter::format},
                                                           {"groupby", filter::groupby},
                                                           {"indent", filter::indent},
                                                           {"int", filter::int_},
                                                           {"items", filter::items},
                                                           {"join", filter::join},
                                                           {"last", filter::last},
                                                           {"length", filter::length},
                                                           {"list", filter::list},
                                                           {"lower", filter::lower},
                                                           {"map", filter::map},
                                                           {"max", filter::max},
                                                           {"min", filter::min},
                                                           {"pprint", unsupported},
                                                           {"random", unsupported},
                                                           {"reject", filter::reject},
                                                           {"rejectattr", filter::rejectattr},
                                                           {"replace", filter::replace},
                                                           {"reverse", filter::reverse},
                                                           {"round", filter::round},
                                                           {"safe", filter::safe},
                                                           {"select", filter::select},
                                                           {"selectattr", filter::selectattr},
                                                           {"slice", filter::slice},
                                                           {"sort", filter::sort},
                                                           {"string", filter::string},
                                                           {"striptags", unsupported},
                                                           {"sum", filter::sum},
                                                           {"title", filter::title},
                                                           {"tojson", filter::tojson},
                                                           {"trim", filter::trim},
                                                           {"truncate", filter::truncate},
                                                           {"unique", filter::unique},
                                                           {"upper", filter::upper},
                                                           {"urlencode", unsupported},
                                                           {"urlize", unsupported},
                                                           {"wordcount", filter::wordcount},
                                                           {"wordwrap", unsupported},
                                                           {"xmlattr", unsupported}};

}  // namespace

Filter find_filter(std::string_view name) {
  const auto* found = std::ranges::find(filters, name, [](const auto& each) { return each.first; });
  return found == std::end(filters) ? nullptr : found->second;
}

}  // namespace llmtrain::jinja
