// Turns models.tsv into constexpr rows: `attune_embed_models models.tsv OUT.cc`. Runs at build
// time; a row with a wrong column count, or no number where one belongs, fails the build by file
// and line.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

// Names of the columns: the members of ModelRow (src/model/model_table.h), in its order.
const char* const kColumns[] = {
    "name",       "hf_id",        "layers",      "hidden",        "heads",        "kv_groups",
    "head_dim",   "ffn",          "vocab",       "gated_mlp",     "tied",         "linear_bias",
    "experts",    "topk",         "expert_ffn",  "shared_ffn",    "dense_layers", "router_groups",
    "group_topk", "mla",          "q_lora_rank", "kv_lora_rank",  "qk_head_dim",  "qk_rope_dim",
    "v_head_dim", "mtp_layers",   "window",      "window_layers", "moe_latent",   "hybrid_pattern",
    "ssm_heads",  "ssm_head_dim", "ssm_state",   "ssm_groups",    "delta_layers", "source"};

[[noreturn]] void Stop(const std::string& path, int line, const std::string& why) {
  std::fprintf(stderr, "%s:%d: %s\n", path.c_str(), line, why.c_str());
  std::exit(1);
}

bool IsText(const std::string& column) {
  return column == "name" || column == "hf_id" || column == "hybrid_pattern" || column == "source";
}

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> out(1);
  for (const char c : line) {
    if (c == '\t') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::string Cell(const std::string& column, const std::string& value) {
  if (!IsText(column)) {
    if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos) return "";
    return value;
  }
  if (value.empty()) return "";
  if (value == "-") return "\"\"";
  for (const char c : value) {
    if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') return "";
  }
  return "\"" + value + "\"";
}

int Run(const std::string& path, const std::string& target) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Stop(path, 0, "cannot be opened");
  const std::vector<std::string> columns(std::begin(kColumns), std::end(kColumns));
  std::ostringstream out;
  out << "// Made from skill/models.tsv by attune_embed_models.\n"
         "#include \"model_table.h\"\n\n#include <array>\n\nnamespace attune {\n"
         "namespace {\n\nconstexpr std::array kModels = {\n";
  std::set<std::string> names;
  std::string line;
  int number = 0;
  bool header = false;
  while (std::getline(in, line)) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = Fields(line);
    if (!header) {
      if (fields != columns) Stop(path, number, "the header is not the list of columns");
      header = true;
      continue;
    }
    if (fields.size() != columns.size()) Stop(path, number, "wrong number of columns");
    if (!names.insert(fields[0]).second) Stop(path, number, "a model stands twice");
    out << "    ModelRow{";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string cell = Cell(columns[i], fields[i]);
      if (cell.empty()) Stop(path, number, "bad " + columns[i] + ": \"" + fields[i] + "\"");
      out << (i == 0 ? "" : ", ") << cell;
    }
    out << "},\n";
  }
  if (names.empty()) Stop(path, number, "no rows");
  out << "};\n\n}  // namespace\n\n"
         "std::span<const ModelRow> KnownModels() { return kModels; }\n\n}  // namespace attune\n";
  std::ofstream file(target, std::ios::binary | std::ios::trunc);
  file << out.str();
  file.close();
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", target.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: attune_embed_models models.tsv OUT.cc\n");
    return 2;
  }
  return Run(argv[1], argv[2]);
}
