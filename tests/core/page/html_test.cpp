// SPDX-License-Identifier: Apache-2.0
#include "core/page/html_page.h"

#include <array>
#include <catch2/catch.hpp>
#include <concepts>
#include <string>

namespace llmtrain {
namespace {

// What does not compile.
template <class Text>
concept BecomesHtml = std::constructible_from<Html, Text> || std::assignable_from<Html&, Text> ||
    requires(Html html, Text text) {
  html += text;
} || requires(Html html, Text text) {
  html + text;
} || requires(Text text) {
  MarkupLiteral(text);
};
static_assert(!BecomesHtml<std::string>);
static_assert(!BecomesHtml<std::string_view>);
static_assert(!BecomesHtml<char>);
static_assert(!std::convertible_to<std::string, MarkupLiteral>);

TEST_CASE("text in a page is escaped between tags and in attributes") {
  const std::string text = "<b title=\"x\">'&";
  CHECK(html("<p>{}</p>", text).text() == "<p>&lt;b title=&quot;x&quot;&gt;&#39;&amp;</p>");
  CHECK(html("<p title=\"{}\">{}</p>", text, 1.5).text() ==
        "<p title=\"&lt;b title=&quot;x&quot;&gt;&#39;&amp;\">1.5</p>");
  CHECK(html("{}", '<').text() == "&lt;");
  CHECK(html("{}", "\x1b[31m\x80").text() == "\uFFFD[31m\uFFFD");
  CHECK(html("{}", "día — 日本 \U0001F600").text() == "día — 日本 \U0001F600");
}

TEST_CASE("markup stays markup") {
  const Html inner = html("<b>{}</b>", "<");
  CHECK(html("<p>{0}{0}</p>", inner).text() == "<p><b>&lt;</b><b>&lt;</b></p>");
  CHECK(("<i>" + inner + "</i>").text() == "<i><b>&lt;</b></i>");
  CHECK(html("<i style=\"color:{}\">{{}}</i>", MarkupLiteral("red")).text() == "<i style=\"color:red\">{}</i>");
}

TEST_CASE("a part of a page may stand only where it means what it should") {
  using enum HtmlPart;
  const auto check = [](std::string_view format, HtmlPart part) {
    check_html_format(format, std::array<HtmlPart, 1>{part});
  };
  for (const HtmlPart part : {text, number, literal, markup}) {
    CHECK_NOTHROW(check("<p>{}</p>", part));
    CHECK_THROWS(check("<p {}>", part));
    CHECK_THROWS(check("<{}>", part));
    CHECK_THROWS(check("<p title={}>", part));
    CHECK_THROWS(check("<p title='{}'>", part));
    CHECK_THROWS(check("<script>{}</script>", part));
    CHECK_THROWS(check("<style>{}</style>", part));
    CHECK_THROWS(check("<p title=\"{}", part));
  }
  for (const char* const attribute : {"title", "d", "aria-label"}) {
    const std::string format = std::string("<p class=\"x\" ") + attribute + "=\"{:.2f}\">";
    for (const HtmlPart part : {text, number, literal}) CHECK_NOTHROW(check(format, part));
    CHECK_THROWS(check(format, markup));
  }
  for (const char* const attribute : {"style", "href", "src", "onclick"}) {
    const std::string format = std::string("<p class=\"x\" ") + attribute + "=\"a{}\">";
    for (const HtmlPart part : {number, literal}) CHECK_NOTHROW(check(format, part));
    for (const HtmlPart part : {text, markup}) CHECK_THROWS(check(format, part));
  }
  CHECK_THROWS(check_markup("<p title=\"x"));
  CHECK_NOTHROW(check_markup("</p><p title=\"x\">"));
}

TEST_CASE("JSON for a page's script cannot end it") {
  const std::string json = R"({"a":"</script><!--<script>"})";
  CHECK(json_data("x", json).text() ==
        "<script type=\"application/json\" id=\"x\">"
        "{\"a\":\"\\u003c/script>\\u003c!--\\u003cscript>\"}</script>");
}

TEST_CASE("all texts of a page are escaped") {
  const std::string page = html_page({.title = "<1>",
                                      .sections = html_card("<2>", "<3>", "<4>") + recipe_details("<5>") +
                                                  html_table(1, text_cells({"<6>"}), {text_cells({"<7>"})}),
                                      .footer = "<8>"});
  for (char digit = '1'; digit <= '8'; ++digit) {
    CHECK(page.find(std::string("<") + digit) == std::string::npos);
    CHECK(page.find(std::string("&lt;") + digit + "&gt;") != std::string::npos);
  }
}

}  // namespace
}  // namespace llmtrain
