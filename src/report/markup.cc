#include "markup.h"

#include "attune/base/text.h"

namespace attune::report {

std::string ForHtml(std::string_view s) {
  std::string out;
  for (const char c : EscapeForDisplay(s, kMaxField)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string ForMarkdown(std::string_view s) {
  constexpr std::string_view kMarks = "\\`*_[]|~#!$";
  const std::string shown = EscapeForDisplay(s, kMaxField);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    const std::string_view rest = std::string_view(shown).substr(i);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '@') {
      out += "&#64;";  // no mention
    } else if (rest.starts_with("://")) {
      out += "&#58;";  // no link
    } else if (rest.starts_with("www.") || rest.starts_with("WWW.")) {
      out += std::string(rest.substr(0, 3)) + "&#46;";
      i += 3;
    } else {
      if (kMarks.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace attune::report
