// Reading a recipe: the file and what it extends, --set on top, then the typed reader.
#include "load.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"
#include "file_text.h"
#include "keys.h"
#include "merge.h"
#include "read_recipe.h"
#include "secrets.h"

namespace attune {
namespace {

constexpr std::string_view kSchemaPrefix = "attune/recipe/";

class Loader {
 public:
  Loader(const LoadOptions& options) : options_(options) { merged_.kind = Node::Kind::kMap; }

  Result<LoadedTree> Run(std::string_view text, const std::string& path) {
    ATTUNE_RETURN_IF_ERROR(AddFile(text, path, Normal(AbsolutePath(path))));
    merged_.where = {0, 1, 1};
    for (const std::string& option : options_.set) {
      ATTUNE_TRY(const Node set, ParseSet(option, sources_));
      ATTUNE_RETURN_IF_ERROR(AddSet(set));
    }
    for (const std::string& option : options_.set_file) {
      ATTUNE_TRY(const Node set, ParseSetFile(option, sources_));
      ATTUNE_RETURN_IF_ERROR(AddSet(set));
    }
    return LoadedTree{std::move(merged_), std::move(sources_), std::move(folders_)};
  }

 private:
  // `path` as shown, `absolute` to tell a cycle and to find what it extends.
  Status AddFile(std::string_view text, const std::string& path, const std::string& absolute) {
    const int source = sources_.Add(path);
    folders_.push_back({FolderOf(path), FolderOf(absolute)});
    ATTUNE_TRY(Node tree, ParseYaml(text, source, sources_));
    if (!tree.IsMap()) {
      return FailAt(sources_, {source, 1, 1},
                    fmt::format("a recipe must be a map, not {}", KindWord(tree.kind)),
                    "its first line is 'schema: attune/recipe/1'");
    }
    ATTUNE_RETURN_IF_ERROR(RefuseSecrets(tree, options_.allow_env, sources_));
    ATTUNE_RETURN_IF_ERROR(CheckSchema(tree));
    open_.push_back(absolute);
    ATTUNE_RETURN_IF_ERROR(AddExtended(tree, path, absolute));
    open_.pop_back();
    std::erase_if(tree.entries, [](const Entry& entry) { return entry.key == "extends"; });
    return MergeOver(merged_, tree, sources_);
  }

  Status CheckSchema(const Node& tree) const {
    const Entry& first = tree.entries.empty() ? Entry{"", tree.where, {}} : tree.entries.front();
    if (first.key != "schema") {
      return FailAt(sources_, first.where, "the first key of a recipe is schema",
                    "begin with the line 'schema: attune/recipe/1'");
    }
    const std::string& schema = first.value.text;
    if (schema == fmt::format("{}1", kSchemaPrefix)) {
      return {};
    }
    const auto version = schema.starts_with(kSchemaPrefix)
                             ? ParseInt(std::string_view(schema).substr(kSchemaPrefix.size()))
                             : std::nullopt;
    if (version && *version > 1) {
      return Fail(ErrorCode::kNewerFormat,
                  fmt::format("{}: {} is newer than this attune reads",
                              sources_.Show(first.value.where), EscapeForDisplay(schema, 40)),
                  "update attune");
    }
    return FailAt(sources_, first.value.where,
                  fmt::format("schema cannot be '{}'", EscapeForDisplay(schema, 40)),
                  "write 'schema: attune/recipe/1'");
  }

  Status AddExtended(const Node& tree, const std::string& path, const std::string& absolute) {
    const Node* extends = tree.Find("extends");
    if (extends == nullptr) {
      return {};
    }
    const std::vector<Node> files =
        extends->IsList() ? extends->items : std::vector<Node>{*extends};
    for (const Node& file : files) {
      if (!file.IsScalar() || file.text.empty()) {
        return FailAt(sources_, file.where, "extends takes a path or a list of paths");
      }
      if (file.text.find("${") != std::string::npos) {
        return FailAt(sources_, file.where, "${ENV:} is not expanded in extends");
      }
      const std::string below = Normal(JoinPath(FolderOf(absolute), file.text));
      if (std::find(open_.begin(), open_.end(), below) != open_.end()) {
        return FailAt(sources_, file.where,
                      fmt::format("extends makes a circle: {} extends itself",
                                  EscapeForDisplay(file.text, 200)));
      }
      if (static_cast<int>(open_.size()) >= kMaxExtendsDepth) {
        return FailAt(sources_, file.where,
                      fmt::format("extends is more than {} files deep", kMaxExtendsDepth));
      }
      if (++files_ > kMaxFiles) {
        return FailAt(sources_, file.where, fmt::format("extends more than {} files", kMaxFiles));
      }
      const std::string shown = JoinPath(FolderOf(path), file.text);
      const Result<std::string> text = ReadText(below, kMaxRecipeText, shown);
      if (!text) {
        return Fail(text.error().code,
                    fmt::format("{}: extends {}", sources_.Show(file.where), text.error().message));
      }
      ATTUNE_RETURN_IF_ERROR(AddFile(*text, shown, below));
    }
    return {};
  }

  Status AddSet(const Node& set) {
    folders_.push_back(folders_.front());
    ATTUNE_RETURN_IF_ERROR(RefuseSecrets(set, options_.allow_env, sources_));
    for (const std::string_view fixed : {"schema", "extends"}) {
      if (set.Find(fixed) != nullptr) {
        return FailAt(sources_, set.where, fmt::format("{} cannot be set", fixed));
      }
    }
    ATTUNE_RETURN_IF_ERROR(KnownKey(set));
    return MergeOver(merged_, set, sources_);
  }

  // Before the merge, so that a misspelt key is named and not "nothing to remove".
  Status KnownKey(const Node& set) const {
    std::span<const Key> keys = RecipeKeys();
    std::string path;
    for (const Node* node = &set; node->IsMap() && !keys.empty();) {
      const Entry& entry = node->entries.front();
      const auto key =
          std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == entry.key; });
      if (key == keys.end()) {
        std::vector<std::string> names;
        for (const Key& k : keys) {
          names.emplace_back(k.name);
        }
        const std::string near = Nearest(entry.key, names);
        return FailAt(sources_, entry.where,
                      fmt::format("unknown key '{}' in {}", EscapeForDisplay(entry.key, 80),
                                  path.empty() ? "the recipe" : path),
                      near.empty() ? "" : fmt::format("did you mean '{}'?", near));
      }
      path += path.empty() ? entry.key : "." + entry.key;
      keys = key->kind == KeyKind::kSection ? key->keys : std::span<const Key>();
      node = &entry.value;
    }
    return {};
  }

  static constexpr int kMaxFiles = 64;

  const LoadOptions& options_;
  Sources sources_;
  std::vector<SourceFolder> folders_;
  Node merged_;
  std::vector<std::string> open_;  // files whose extends are being read
  int files_ = 0;
};

// Leaves of the tree; arguments report themselves, by flag.
void CollectOrigins(const Node& node, const std::string& path, const Sources& sources,
                    std::vector<Origin>& out) {
  if (path == "args" || path == "schema") {
    return;
  }
  if (node.IsScalar()) {
    out.push_back({path, node.text, sources.Show(node.where)});
    return;
  }
  if (node.IsList()) {
    std::vector<std::string> texts;
    for (const Node& item : node.items) {
      if (item.IsScalar()) {
        texts.push_back(item.text);
      }
    }
    if (texts.size() == node.items.size()) {
      out.push_back({path, fmt::format("[{}]", Join(texts, ", ")), sources.Show(node.where)});
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      CollectOrigins(node.items[i], fmt::format("{}.{}", path, i), sources, out);
    }
    return;
  }
  for (const Entry& entry : node.entries) {
    CollectOrigins(entry.value, path.empty() ? entry.key : fmt::format("{}.{}", path, entry.key),
                   sources, out);
  }
}

}  // namespace

Result<LoadedTree> LoadTree(std::string_view text, const std::string& path,
                            const LoadOptions& options) {
  return Loader(options).Run(text, path);
}

Result<LoadedRecipe> LoadRecipeText(std::string_view text, const std::string& path,
                                    const LoadOptions& options) {
  if (!IsValidUtf8(AbsolutePath(path))) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: the path is not UTF-8 text", EscapeForDisplay(path)),
                "the campaign's record can hold no other");
  }
  ATTUNE_TRY(LoadedTree tree, LoadTree(text, path, options));
  LoadedRecipe out;
  out.path = path;
  ReadContext context{std::move(tree.root), tree.sources, std::move(tree.folders), options};
  std::vector<Origin> origins;
  CollectOrigins(context.root, "", context.sources, origins);
  ATTUNE_RETURN_IF_ERROR(ReadRecipe(context, out));
  out.origins.insert(out.origins.begin(), origins.begin(), origins.end());
  out.canonical_json = RecipeToJson(out.recipe);
  out.hash = RecipeHash(out.recipe);
  for (const std::string& name : context.sources.names()) {
    if (!name.starts_with("--set")) {
      out.sources.push_back(name);
    }
  }
  return out;
}

Result<LoadedRecipe> LoadRecipe(const std::string& path, const LoadOptions& options) {
  ATTUNE_TRY(const std::string text, ReadText(path, kMaxRecipeText));
  return LoadRecipeText(text, path, options);
}

}  // namespace attune
