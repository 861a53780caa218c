// Foreign text made harmless for one format. Each begins with EscapeForDisplay, so that controls
// and bidirectional marks are gone and the length is bounded.
#pragma once

#include <string>
#include <string_view>

namespace attune::report {

inline constexpr std::size_t kMaxField = 1'000;  // bytes of one value in a report

// For element content and quoted attributes.
std::string ForHtml(std::string_view s);
// For one table cell or list line of GitHub's Markdown: no markup, no HTML, no link, no mention.
std::string ForMarkdown(std::string_view s);

}  // namespace attune::report
