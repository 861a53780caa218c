// Turns coefficients.tsv, networks.tsv and stacks.tsv into constexpr rows: `attune_embed_sim FOLDER
// OUT.cc`. Runs at build time; a wrong column, number or word fails the build by file and line. A
// coefficient that the struct lacks does not compile, one that the table lacks fails a
// static_assert.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Row {
  std::string file;
  int line = 0;
  std::vector<std::string> fields;
};

[[noreturn]] void Stop(const Row& row, const std::string& why) {
  std::fprintf(stderr, "%s:%d: %s\n", row.file.c_str(), row.line, why.c_str());
  std::exit(1);
}

std::vector<std::string> Split(const std::string& s, char by) {
  std::vector<std::string> out(1);
  for (const char c : s) {
    if (c == by) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::vector<Row> Read(const std::string& path, const std::string& columns) {
  std::ifstream in(path, std::ios::binary);
  Row at{path, 0, {}};
  if (!in) Stop(at, "cannot be opened");
  std::vector<Row> rows;
  std::string line;
  bool header = false;
  while (std::getline(in, line)) {
    ++at.line;
    if (line.empty() || line[0] == '#') continue;
    at.fields = Split(line, '\t');
    if (at.fields.size() != Split(columns, ' ').size()) Stop(at, "wrong number of columns");
    for (const std::string& f : at.fields) {
      if (f.empty()) Stop(at, "an empty field is written -");
      for (const char c : f) {
        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') Stop(at, "printable ASCII, no quotes");
      }
    }
    if (header) {
      rows.push_back(at);
      continue;
    }
    std::string joined;
    for (const std::string& f : at.fields) joined += (joined.empty() ? "" : " ") + f;
    if (joined != columns) Stop(at, "the header must be: " + columns);
    header = true;
  }
  if (rows.empty()) Stop(at, "no rows");
  return rows;
}

std::string Quote(const std::string& s) { return "\"" + s + "\""; }

double Number(const Row& row, const std::string& text) {
  char* end = nullptr;
  const double x = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') Stop(row, "\"" + text + "\" is no number");
  return x;
}

void Coefficients(const std::string& folder, std::ostream& out) {
  const std::vector<Row> rows =
      Read(folder + "/coefficients.tsv", "name value low high use source");
  std::set<std::string> names;
  out << "constexpr std::array kCoefficients = {\n";
  std::ostringstream values;
  for (const Row& row : rows) {
    const std::vector<std::string>& f = row.fields;
    if (!names.insert(f[0]).second) Stop(row, "stands twice");
    const double value = Number(row, f[1]), low = Number(row, f[2]), high = Number(row, f[3]);
    if (!(low <= value && value <= high)) Stop(row, "the value is outside its bounds");
    if (f[4] != "fitted" && f[4] != "given") Stop(row, "use is fitted or given");
    out << "    CoefficientRow{" << Quote(f[0]) << ", &Coefficients::" << f[0] << ", " << f[2]
        << ", " << f[3] << ", " << (f[4] == "fitted" ? "true" : "false") << ", " << Quote(f[5])
        << "},\n";
    values << "  c." << f[0] << " = " << f[1] << ";\n";
  }
  out << "};\nstatic_assert(sizeof(Coefficients) == kCoefficients.size() * sizeof(double),\n"
         "              \"coefficients.tsv and struct Coefficients differ\");\n\n"
         "}  // namespace\n\n"
         "std::span<const CoefficientRow> CoefficientRows() { return kCoefficients; }\n\n"
         "Coefficients BuiltInCoefficients() {\n  Coefficients c;\n"
      << values.str() << "  return c;\n}\n\n";
}

void Networks(const std::string& folder, std::ostream& out) {
  out << "namespace {\nconstexpr std::array kNetworks = {\n";
  for (const Row& row :
       Read(folder + "/networks.tsv", "name efficiency alltoall gpu_initiated source")) {
    const std::vector<std::string>& f = row.fields;
    if (f[3] != "yes" && f[3] != "no") Stop(row, "gpu_initiated is yes or no");
    Number(row, f[1]);
    Number(row, f[2]);
    out << "    NetworkRow{" << Quote(f[0]) << ", " << f[1] << ", " << f[2] << ", "
        << (f[3] == "yes" ? "true" : "false") << "},\n";
  }
  out << "};\n}  // namespace\nstd::span<const NetworkRow> NetworkRows() { return kNetworks; }\n\n";
}

void Stacks(const std::string& folder, std::ostream& out) {
  out << "namespace {\nconstexpr std::array kStacks = {\n";
  std::set<std::string> keys;
  for (const Row& row :
       Read(folder + "/stacks.tsv", "framework version factor network flags rows source")) {
    const std::vector<std::string>& f = row.fields;
    if (!keys.insert(f[0] + "\t" + f[1]).second) Stop(row, "stands twice");
    Number(row, f[2]);
    std::string attention = "kHopper";
    bool flash = true, fused = false, early = false, compiled = false, segments = false, mtp = true;
    std::string hang = "0", slow = "0", seconds = "0";
    for (const std::string& flag : Split(f[4], ',')) {
      if (flag == "noflash") {
        flash = false;
      } else if (flag == "flash2") {
        attention = "kFlash2";
      } else if (flag == "triton") {
        attention = "kTriton";
      } else if (flag == "fused_experts") {
        fused = true;
      } else if (flag == "early_probs") {
        early = true;
      } else if (flag == "compiled") {
        compiled = true;
      } else if (flag == "segments") {
        segments = true;
      } else if (flag == "nomtp") {
        mtp = false;
      } else if (flag.rfind("hang_cp_virtual=", 0) == 0) {
        hang = flag.substr(16);
      } else if (flag.rfind("slow_cp_above=", 0) == 0) {
        const std::vector<std::string> parts = Split(flag.substr(14), ':');
        if (parts.size() != 2) Stop(row, "slow_cp_above=N:SECONDS");
        slow = parts[0];
        seconds = parts[1];
      } else if (flag != "-") {
        Stop(row, "unknown flag \"" + flag + "\"");
      }
    }
    Number(row, hang);
    Number(row, slow);
    Number(row, seconds);
    const auto word = [](bool b) { return b ? "true" : "false"; };
    out << "    StackRow{" << Quote(f[0]) << ", " << Quote(f[1]) << ", " << f[2] << ", "
        << Quote(f[3]) << ", " << word(flash) << ", "
        << "StackProfile::Attention::" << attention << ", " << word(fused) << ", " << word(early)
        << ", " << word(compiled) << ", " << word(segments) << ", " << word(mtp) << ", " << hang
        << ", " << slow << ", " << seconds << "},\n";
  }
  out << "};\n}  // namespace\nstd::span<const StackRow> StackRows() { return kStacks; }\n\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: attune_embed_sim FOLDER OUT.cc\n");
    return 2;
  }
  std::ostringstream out;
  out << "// Made from src/sim/data/*.tsv by attune_embed_sim.\n"
         "#include <array>\n\n#include \"tables.h\"\n\nnamespace attune::sim {\nnamespace {\n\n";
  Coefficients(argv[1], out);
  Networks(argv[1], out);
  Stacks(argv[1], out);
  out << "}  // namespace attune::sim\n";
  std::ofstream file(argv[2], std::ios::binary | std::ios::trunc);
  file << out.str();
  file.close();
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", argv[2]);
    return 1;
  }
  return 0;
}
