// ${ENV:NAME}: the only interpolation there is. It stands in paths and in launcher.env; a lever or
// an argument that depended on the caller's environment would make the campaign's record a lie.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "attune/base/text.h"
#include "read_recipe.h"

namespace attune {
namespace {

constexpr std::string_view kOpen = "${ENV:";

constexpr std::array<std::string_view, 7> kPathKeys = {"args_file",         "files",
                                                       "workload.caches",   "workload.reads",
                                                       "launcher.workdir",  "launcher.script.file",
                                                       "measure.start_from"};

bool MayExpand(std::string_view path) {
  return path.starts_with("launcher.env.") ||
         std::find(kPathKeys.begin(), kPathKeys.end(), path) != kPathKeys.end();
}

class Expander {
 public:
  explicit Expander(ReadContext& context) : context_(context) {}

  Status Walk(Node& node, const std::string& path) {
    if (node.IsScalar() && node.text.find("${ENV") != std::string::npos) {
      ATTUNE_RETURN_IF_ERROR(Expand(node, path));
    }
    for (Node& item : node.items) {
      ATTUNE_RETURN_IF_ERROR(Walk(item, path));
    }
    for (Entry& entry : node.entries) {
      ATTUNE_RETURN_IF_ERROR(
          Walk(entry.value, path.empty() ? entry.key : fmt::format("{}.{}", path, entry.key)));
    }
    return {};
  }

 private:
  tl::unexpected<Error> At(const Where& where, std::string_view what, std::string help = {}) const {
    return FailAt(context_.sources, where, what, std::move(help));
  }

  Status Expand(Node& node, const std::string& path) {
    if (!MayExpand(path)) {
      return At(node.where,
                fmt::format("${{ENV:}} is not expanded in {}", EscapeForDisplay(path, 80)),
                "it may stand in launcher.env and in paths only");
    }
    std::string out;
    std::string_view rest = node.text;
    for (;;) {
      const std::size_t open = rest.find("${ENV");
      out += rest.substr(0, open);
      if (open == std::string_view::npos) {
        break;
      }
      rest.remove_prefix(open);
      const std::size_t close = rest.find('}');
      if (!rest.starts_with(kOpen) || close == std::string_view::npos) {
        return At(node.where, "write it as ${ENV:NAME}");
      }
      const std::string name(rest.substr(kOpen.size(), close - kOpen.size()));
      Problems problems(context_.sources);
      CheckEnvName(name, node.where, context_.options, problems);
      ATTUNE_RETURN_IF_ERROR(problems.Take());
      const std::optional<std::string> value = Get(name);
      if (!value) {
        return At(node.where, fmt::format("{} is not set in the environment", name));
      }
      if (!IsValidUtf8(*value) || value->find('\n') != std::string::npos) {
        return At(node.where, fmt::format("the value of {} is not one line of UTF-8 text", name));
      }
      out += *value;
      rest.remove_prefix(close + 1);
    }
    node.text = std::move(out);
    node.plain = false;
    return {};
  }

  std::optional<std::string> Get(const std::string& name) const {
    if (context_.options.getenv) {
      return context_.options.getenv(name);
    }
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  ReadContext& context_;
};

bool IsEnvName(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

void CheckEnvName(const std::string& name, const Where& where, const LoadOptions& options,
                  Problems& problems) {
  if (!IsEnvName(name)) {
    problems.At(where, fmt::format("'{}' is no name of a variable", EscapeForDisplay(name, 80)));
    return;
  }
  if (name.starts_with("ATTUNE_") && !name.starts_with("ATTUNE_LLM_")) {
    problems.At(where, fmt::format("{} belongs to attune", name));
    return;
  }
  if (IsSecretEnvName(name) && std::find(options.allow_env.begin(), options.allow_env.end(),
                                         name) == options.allow_env.end()) {
    problems.At(where, fmt::format("{} may hold a secret", name),
                "if the job must have it, name it under allow_env in your own config");
  }
}

Status ExpandEnvironment(ReadContext& context) { return Expander(context).Walk(context.root, ""); }

}  // namespace attune
