// JSON schemas of tools while a body is rendered.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "attune/llm/client.h"

namespace attune::llm {

// Keys in their order. The schema has been checked (RenderBody): it is an object.
nlohmann::ordered_json SchemaOf(const Tool& tool);
// Every object in it says additionalProperties: false.
bool IsClosed(const nlohmann::ordered_json& schema);
// Every object in it lists all its properties as required.
bool AllRequired(const nlohmann::ordered_json& schema);
// The schema of one answer: of one tool its arguments, of several {"tool": name, "arguments": ...}.
nlohmann::ordered_json OneOfTools(std::span<const Tool> tools);
// Compact; bad UTF-8 becomes U+FFFD.
std::string Text(const nlohmann::ordered_json& json);

}  // namespace attune::llm
